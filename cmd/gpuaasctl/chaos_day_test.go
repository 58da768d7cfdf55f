package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// TestTerminalClosed: the end of a terminal, which comes twice, interrupts, and ends no process that has something to put
// back.
func TestTerminalClosed(t *testing.T) {
	heard := make(chan os.Signal, 1) // also where whoever runs the tests ignores it, as nohup does
	signal.Notify(heard, syscall.SIGHUP)
	ctx, stop := interruptible()
	defer stop()
	signal.Stop(heard)
	outlive()
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("not interrupted")
		}
		time.Sleep(20 * time.Millisecond) // in which what would be ended is
	}
}
