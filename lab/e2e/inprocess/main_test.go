//go:build linux

// Package inprocess walks the whole chain without root, without machines and without a network beyond loopback:
// the reference platform on its own ports, the real agent, a real SSH server that runs the real probe code, and a
// small workload. Only the host is fake: its systemctl and its user database (see host_test.go).
//
// The walk knows all of it only from a profile's values, like an operator's. The lab suite, in the parent folder,
// covers what only a real machine can show.
package inprocess

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
)

// worldsAtOnce bounds concurrent worlds: most of them wait for a timeout. With the race detector (-short), each
// needs more CPU time.
const worldsAtOnce, worldsInRace = "6", "3"

// brief returns all rows of a table or, under -short (the race detector's run), about most of them, spread over
// the table. The plain run walks all of them, with the same code.
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
