//go:build linux

// Package inprocess walks the whole chain without root, without machines and without a network beyond loopback:
// the reference platform on its own ports, the real agent, a real SSH server that runs the real probe code, and a
// small workload. Only the host is fake: its systemctl and its user database (see host_test.go).
//
// The walk knows all of it only from a profile's values, like an operator's. The lab suite, in the parent folder,
// covers what only a real machine can show. What a silent peer does to a verdict is tested in package preflight, in
// virtual time.
//
// Without GPUAASCTL_TESTS=deep and -run, the worlds and tests of worlds_test.go run.
package inprocess

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// worldsAtOnce bounds concurrent worlds: most of them wait for a timeout. With the race detector, each needs more CPU
// time.
const worldsAtOnce, worldsInRace = "6", "3"

func TestMain(m *testing.M) {
	flag.Parse()
	if tier.Short() {
		fmt.Println("inprocess: -short runs none of these tests, which all start servers on loopback")
		os.Exit(0)
	}
	race := testing.Short()
	if flag.Lookup("test.parallel").Value.String() == flag.Lookup("test.parallel").DefValue {
		atOnce := worldsAtOnce
		if race {
			atOnce = worldsInRace
		}
		_ = flag.Set("test.parallel", atOnce)
	}
	named := flag.Lookup("test.run").Value.String() == "" && !tier.Deep()
	if named {
		_ = flag.Set("test.run", runOf(usual(race)))
		fmt.Printf("inprocess: %d named worlds and tests; all rows run with %s=deep\n", len(usual(race)), tier.Variable)
	}
	dir, err := makeHost()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaktest.Main(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		if missing := notBegun(usual(race)); named && code == 0 && len(missing) > 0 {
			fmt.Fprintf(os.Stderr, "worlds_test.go names rows that do not exist: %q\n", missing)
			code = 1
		}
		os.Exit(code)
	}))
}
