//go:build linux

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// ExitOver is the watchdog's exit code when nothing is left to watch: systemd restarts it after any other code.
const ExitOver = 77

// stopBudget bounds the undo of a watchdog that is ordered to stop. During a shutdown no unit can be started: the
// reaper handles the rest at the next boot.
const stopBudget = 3 * time.Second

// ErrOver means that the drill is over.
var ErrOver = errors.New("the drill is over")

// Watch is the watchdog. It reads the journal first, makes requested steps, undoes everything when its time has
// come, and returns ErrOver. Only the end of the drill ends it: after an error it retries.
func (r *Run) Watch(ctx context.Context, log func(string, ...any)) error {
	alive, err := lock(context.WithoutCancel(ctx), r.path("watch"), time.Second)
	if err != nil {
		return fmt.Errorf("another watchdog: %w", err)
	}
	defer alive()
	k := r.keeper(step.ByWatchdog)
	system, _ := k.Machine.(*System)
	if err := r.locked(ctx, func() error { return k.Start(ctx) }); err != nil {
		return err
	}
	notify("READY=1")
	var stopAt time.Time // when it was ordered to stop
	for last := ""; ; {
		over, err := r.turn(ctx, k)
		if over {
			return errors.Join(ErrOver, r.forget())
		}
		err = errors.Join(err, system.TopUp(ctx))
		if err != nil && err.Error() != last {
			last = err.Error()
			log("%s", last)
		}
		if ctx.Err() != nil && stopAt.IsZero() {
			stopAt = time.Now()
		}
		if !stopAt.IsZero() && time.Since(stopAt) > stopBudget {
			return fmt.Errorf("ordered to stop before everything was undone: %w", err)
		}
		notify("WATCHDOG=1")
		r.rest(ctx, err)
	}
}

// turn does what is due.
func (r *Run) turn(ctx context.Context, k *Keeper) (over bool, err error) {
	err = r.locked(context.WithoutCancel(ctx), func() (err error) {
		if ctx.Err() != nil && r.Journal.Ledger.Why == "" {
			return k.Revert(ctx, step.WhyStopped)
		}
		over, err = k.Tick(ctx)
		return err
	})
	return over, err
}

// The interval between turns, and after an error; a request in the journal is noticed within poll.
const (
	turnEvery  = 100 * time.Millisecond
	turnFailed = 500 * time.Millisecond
)

// rest waits until the next turn is due. Waiting costs next to nothing.
func (r *Run) rest(ctx context.Context, failed error) {
	if failed != nil {
		time.Sleep(turnFailed)
		return
	}
	for until := time.Now().Add(turnEvery); time.Now().Before(until); {
		time.Sleep(poll)
		if ctx.Err() != nil || r.Journal.Stale() {
			return
		}
	}
}

// notify sends a notification to systemd, if systemd started this process.
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if strings.HasPrefix(path, "@") {
		path = "\x00" + path[1:]
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	// best effort: if systemd misses it, it restarts the watchdog, which continues
	_ = unix.Sendto(fd, []byte(state), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: path})
}

// lease is a block on the disk that is overwritten in place with the time of the last renewal. It need not survive
// a crash of the machine, which ends the drill anyway, so it is not synced. An unreadable lease counts as never
// renewed.
type lease struct {
	path string
	boot string
}

func (l lease) sum(text string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
}

func (l lease) renew(now int64) error {
	text := fmt.Sprintf("gpuaas-lease 1 boot=%s ns=%d", l.boot, now)
	b := bytes.Repeat([]byte{' '}, step.BlockSize)
	copy(b, text+" "+l.sum(text))
	b[len(b)-1] = '\n'
	f, err := os.OpenFile(l.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b, 0)
	return err
}

// Renewed implements Lease.
func (l lease) Renewed() int64 {
	b, err := os.ReadFile(l.path)
	if err != nil {
		return 0
	}
	line := strings.TrimSpace(string(b))
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || l.sum(line[:i]) != line[i+1:] {
		return 0
	}
	_, text, ok := strings.Cut(line[:i], "boot="+l.boot+" ns=")
	ns, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return ns
}
