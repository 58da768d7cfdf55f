package cmdutil

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Interruptible returns a context that is cancelled by the first SIGINT or SIGTERM, or by SIGHUP unless nohup ignores
// it, so that a walk can still write its partial report; a second signal, more than sameInterrupt later, ends the
// process at once.
func Interruptible() (context.Context, context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, func() { time.AfterFunc(sameInterrupt, stop) })
	return ctx, stop
}

// sameInterrupt is how long after the first signal another one counts as the same interrupt: timeout(1), for one, sends
// a signal to its command and then to its process group, so the command gets it twice.
const sameInterrupt = 300 * time.Millisecond

// IgnoreHangup keeps this process alive when its terminal is closed, which may send SIGHUP several times, and when the
// reader of its output exits: a fault may be in place that must be reverted, and the report and the exit code are still
// to come.
func IgnoreHangup() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE) }

// OnSecondInterrupt calls leave at the operator's second interrupt; a third one ends the process. It listens until stop
// is called.
func OnSecondInterrupt(ctx context.Context, leave func()) (stop func()) {
	again, ended := make(chan os.Signal, 1), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(again)
		select {
		case <-ended:
			return
		case <-time.After(sameInterrupt):
		}
		select { // what came until now is the first interrupt, sent twice
		case <-again:
		default:
		}
		select {
		case <-ended:
		case <-again:
			leave()
			signal.Stop(again)
			<-ended
		}
	})
	return func() { close(ended); wg.Wait() }
}
