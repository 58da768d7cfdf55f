// Package wait waits in real time for what no call reports to a test: the state of a process, of the kernel, or of a
// server. A test that has virtual time calls synctest.Wait instead. A short run has no time to wait, and skips the
// test.
package wait

import (
	"runtime"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// patience is much longer than anything takes on a busy machine: it passes only where a test fails.
const patience = 2 * time.Minute

// every is how often a condition is tried: short beside what a test takes, long beside what trying costs.
const every = 5 * time.Millisecond

// For returns once ok is true, and fails the test, saying what was waited for, if that takes too long.
func For(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Until(t, ok) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}

// Until is For for a caller that has more to say: it reports whether ok became true in time.
func Until(t testing.TB, ok func() bool) bool {
	t.Helper()
	tier.NeedsHost(t)
	return Within(ok)
}

// Within is Until for a caller that has no testing.TB, such as a property's test: it skips nothing.
func Within(ok func() bool) bool {
	for end := time.Now().Add(patience); !ok(); time.Sleep(every) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// NextMillisecond returns when a time that is kept in milliseconds is later than one that was kept before, which takes
// less than one.
func NextMillisecond() {
	for began := time.Now().UnixMilli(); time.Now().UnixMilli() == began; {
		runtime.Gosched()
	}
}
