//go:build linux

package node

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNeverMainThread: the main thread never enters another namespace. The machine's threads are kept busy, so
// that the main one is as likely to be chosen as any other.
func TestNeverMainThread(t *testing.T) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 200 {
		for range runtime.GOMAXPROCS(0) {
			wg.Go(runtime.Gosched)
		}
		err := onThread(func() error { return nil }, func() error {
			if unix.Gettid() == os.Getpid() {
				t.Error("on the main thread")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
