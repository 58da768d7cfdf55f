package cmdutil

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// TestTerminalClosed: the end of a terminal, which comes twice, interrupts, and ends no process that has something to
// revert.
func TestTerminalClosed(t *testing.T) {
	heard := make(chan os.Signal, 1) // also where the caller of the tests ignores it, as nohup does
	signal.Notify(heard, syscall.SIGHUP)
	ctx, stop := Interruptible()
	defer stop()
	signal.Stop(heard)
	Outlive()
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("not interrupted")
		}
		time.Sleep(20 * time.Millisecond) // in which what would be ended is
	}
}
