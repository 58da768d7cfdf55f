package sshtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/preflight/probe"
)

// Version is the version in the hello of a test binary as helper.
const Version = "test"

// HelperMain makes a test binary usable as the node's helper: TestMain calls it first. If the process was started as
// `BINARY probe ...`, it serves the probe's protocol on its standard streams and exits; else it returns at once.
func HelperMain() {
	if len(os.Args) < 2 || os.Args[1] != "probe" {
		return
	}
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	cfg := probe.Config{Version: Version}
	flags.StringVar(&cfg.Unit, "unit", "", "")
	flags.StringVar(&cfg.EnvFile, "env-file", "", "")
	flags.BoolVar(&cfg.Finish, "finish", false, "")
	flags.IntVar(&cfg.Inside, "in-namespace", 0, "") // the default of probe.Config.Exec
	if err := flags.Parse(os.Args[2:]); err != nil {
		os.Exit(2)
	}
	if err := probe.Serve(context.Background(), os.Stdin, os.Stdout, cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Helper returns the path of this test binary, which HelperMain makes a helper.
func Helper(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// Program writes a script that can be run at once. It blocks forks meanwhile: a child has the file open for writing
// until its exec, and running the script then would fail with "text file busy".
func Program(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
