//go:build linux

// Package inprocess walks the whole chain without root, without machines and without a network beyond loopback: the
// reference platform on ports of its own, the real agent, a real SSH server that runs the real probe code, and a small
// workload. What is made up is the host: its systemctl and its user database (see host_test.go).
//
// The walk sees all of it through a profile's values only, as an operator's would. The lab's suite, one folder up, is
// for what only a real machine can show.
package inprocess

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpuaas/gpuaasctl/internal/leaktest"
)

// worldsAtOnce is how many worlds may run at once: most of them wait for a silence to be noticed. The race detector's
// run (-short) needs more of a processor for each.
const worldsAtOnce, worldsInRace = "6", "3"

// brief is all rows of a table; under -short, which the race detector's run is, about most of them, from all over it.
// The plain run walks them all, and their code is the same.
func brief[T any](rows []T, most int) []T {
	if !testing.Short() || len(rows) <= most {
		return rows
	}
	var some []T
	for i := range most {
		some = append(some, rows[i*len(rows)/most])
	}
	return some
}

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == flag.Lookup("test.parallel").DefValue {
		worlds := worldsAtOnce
		if testing.Short() {
			worlds = worldsInRace
		}
		_ = flag.Set("test.parallel", worlds)
	}
	dir, err := makeHost()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaktest.Main(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}
