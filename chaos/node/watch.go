//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// ExitOver is the watchdog's exit code when nothing is left to be watched: systemd starts it anew after any other.
const ExitOver = 77

// stopBudget is how long a watchdog that is told to stop tries to undo everything. On a machine that goes down no unit can
// be started any more: the reaper finds what is left at the next boot.
const stopBudget = 3 * time.Second

// ErrOver says so.
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
	var told time.Time // when it was told to stop
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
			return fmt.Errorf("told to stop before everything was undone: %w", err)
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

// notify tells systemd, if it was systemd that started this process.
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
	// best effort: a watchdog that systemd does not hear of is started anew, and goes on
	_ = unix.Sendto(fd, []byte(state), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: path})
}
