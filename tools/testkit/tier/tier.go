// Package tier says how much of the tests runs: go test -short, make test, make race or make test-deep. CONTRIBUTING.md
// has the rule for where a thing is tested.
package tier

import (
	"os"
	"testing"
)

// Variable makes a run deep if it is "deep": every row of every table.
const Variable = "GPUAASCTL_TESTS"

// Deep reports whether every row of every table runs, as in make test-deep.
func Deep() bool { return os.Getenv(Variable) == "deep" }

// Short reports whether only tests run that need no host: no loopback, no programs, no waiting (go test -short without
// the race detector, whose run is -short as well to leave rows out). A benchmark outside of go test is no such run.
func Short() bool { return testing.Testing() && testing.Short() && !raced }

// NeedsHost skips a test of a short run that needs more than this process: loopback, a program, root, or real time.
func NeedsHost(t testing.TB) {
	t.Helper()
	if Short() {
		t.Skip("-short: needs more than this process")
	}
}
