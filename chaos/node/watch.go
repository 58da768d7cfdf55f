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

// ExitOver is the watchdog's exit code when nothing is left to be watched: systemd starts it again after any other.
const ExitOver = 77

// stopBudget is how long a watchdog that is ordered to stop tries to undo everything. On a machine that goes down no
// unit can be started any more: the reaper finds what is left at the next boot.
const stopBudget = 3 * time.Second

// ErrOver means that the drill is over.
var ErrOver = errors.New("the drill is over")

// Watch is the watchdog. It reads the journal before anything else, makes what is asked for, undoes everything when its
// time has come, and ends with ErrOver. Only the end of the drill ends it: an error is tried again.
func (r *Run) Watch(ctx context.Context, log func(string, ...any)) error {
	alive, err := lock(context.WithoutCancel(ctx), r.path("watch"), time.Second)
	if err != nil {
		return fmt.Errorf("another watchdog: %w", err)
	}
	defer alive()
	k := r.keeper(step.ByWatchdog)
	system, _ := k.Machine.(*System)
	if err := r.locked(ctx, func() error { return k.Take(ctx) }); err != nil {
		return err
	}
	notify("READY=1")
	var told time.Time // when it was ordered to stop
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
		if ctx.Err() != nil && told.IsZero() {
			told = time.Now()
		}
		if !told.IsZero() && time.Since(told) > stopBudget {
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

// A turn comes this often, and after an error; what is asked for in the journal is seen within a poll.
const (
	turnEvery  = 100 * time.Millisecond
	turnFailed = 500 * time.Millisecond
)

// rest waits until the next turn is due. It costs the machine next to nothing.
func (r *Run) rest(ctx context.Context, failed error) {
	if failed != nil {
		time.Sleep(turnFailed)
		return
	}
	for until := time.Now().Add(turnEvery); time.Now().Before(until); {
		time.Sleep(poll)
		if ctx.Err() != nil || r.Journal.News() {
			return
		}
	}
}

// notify notifies systemd, if it was systemd that started this process.
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
	// best effort: a watchdog that systemd is not notified of is started again, and goes on
	_ = unix.Sendto(fd, []byte(state), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: path})
}

// lease is one block on the disk, written in place: when the lease was last renewed. It need not
// outlive a crash of the machine, which ends the drill anyway, so it is not synced. One that cannot be read was never
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

// Renewed is Lease's.
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
