// Package heaptest measures the memory that code needs, for tests of readers of foreign bytes.
package heaptest

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// every is how often the size of the heap is read.
const every = 2 * time.Millisecond

// Peak runs f and returns the maximum growth of the heap, in bytes. The collector runs often meanwhile, so that garbage
// counts for little. Tests that run in parallel count as well.
func Peak(t testing.TB, f func()) uint64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-tick.C:
		}
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}
	return peak - before
}

// Under fails if f needs more than most bytes of heap at once.
func Under(t testing.TB, most uint64, f func()) {
	t.Helper()
	if got := Peak(t, f); got > most {
		t.Errorf("%d MiB of heap at once, want at most %d", got>>20, most>>20)
	} else {
		t.Logf("%d KiB of heap at once, of %d", got>>10, most>>10)
	}
}
