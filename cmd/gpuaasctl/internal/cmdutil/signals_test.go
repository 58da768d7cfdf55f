package cmdutil

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// TestTerminalClosed: closing a terminal, which sends two SIGHUPs, interrupts, but does not end a process that has
// something to revert.
func TestTerminalClosed(t *testing.T) {
	heard := make(chan os.Signal, 1) // even if the tests' caller ignores it, as nohup does
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
		time.Sleep(20 * time.Millisecond) // time in which a process without protection would end
	}
}
