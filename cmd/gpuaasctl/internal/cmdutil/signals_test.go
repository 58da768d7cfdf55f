package cmdutil

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestTerminalClosed: closing a terminal, which sends two SIGHUPs, interrupts, but does not end a process that has
// something to revert.
func TestTerminalClosed(t *testing.T) {
	tier.NeedsHost(t)
	heard := make(chan os.Signal, 1) // even if the tests' caller ignores it, as nohup does
	signal.Notify(heard, syscall.SIGHUP)
	ctx, stop := Interruptible()
	defer stop()
	signal.Stop(heard)
	IgnoreHangup()
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

// TestInterruptSentTwice: timeout(1) sends a signal to its command and to its process group. The command gets it twice,
// and must still write its partial report.
func TestInterruptSentTwice(t *testing.T) {
	tier.NeedsHost(t)
	heard := make(chan os.Signal, 1) // even if the tests' caller ignores it
	signal.Notify(heard, syscall.SIGTERM)
	ctx, stop := Interruptible()
	defer stop()
	signal.Stop(heard)
	left := make(chan struct{})
	end := OnSecondInterrupt(ctx, func() { close(left) })
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("not interrupted")
		}
		time.Sleep(20 * time.Millisecond) // time in which a process without protection would end
	}
	time.Sleep(sameInterrupt)
	end()
	select {
	case <-left:
		t.Error("one interrupt that was sent twice counts as two")
	default:
	}
}
