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

	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
)

// worldsAtOnce is how many worlds may run at once: most of them wait for a silence to be noticed.
const worldsAtOnce = "6"

func TestMain(m *testing.M) {
	sshtest.HelperMain()
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == flag.Lookup("test.parallel").DefValue {
		_ = flag.Set("test.parallel", worldsAtOnce)
	}
	dir, err := makeHost()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}
