//go:build linux

// Package e2e walks the chain on real machines: healthy, and broken by hand in every way that the golden table names.
// It runs the built binary, as a user would, and needs root.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab"
)

const (
	node     = "compute-node-01"
	platform = "platform"
	split    = "compute-node-02" // has a small root file system, and /var on another

	// settle bounds how long the lab may take to be green again after a fault: three of an agent's longest
	// back-offs here. A wait ends as soon as its condition holds.
	settle = 2 * time.Minute
)

// needLab skips without root, and returns the lab that is up, or starts one for this run.
func needLab(t *testing.T) *lab.Lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	if os.Getenv("GPUAASCTL_LAB_TESTS") == "" {
		t.Skip("skipped: needs GPUAASCTL_LAB_TESTS=1 (make test-lab sets it)")
	}
	alone(t)
	run(t, 10*time.Minute, "lab", "up", "--nodes", labNodes, "--bare", "1")
	l, err := lab.Open(lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// alone prevents two suites from using this machine's lab at the same time: it waits for the other one, and holds
// the lab until this process ends.
func alone(t *testing.T) {
	t.Helper()
	if err := lockLab(); err != nil {
		t.Fatal(err)
	}
}

var lockLab = sync.OnceValue(func() error {
	fd, err := syscall.Open("/run/lock/gpuaasctl-lab-tests.lock", syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return syscall.Flock(fd, syscall.LOCK_EX)
})

// tool is the built binary.
func tool() string {
	dir := os.Getenv("GPUAASCTL_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	return filepath.Join(dir, "gpuaasctl")
}

// run runs the tool and returns its stdout; any exit status but 0 fails the test.
func run(t *testing.T, limit time.Duration, argv ...string) []byte {
	t.Helper()
	out, stderr, code := try(t, limit, argv...)
	if code != 0 {
		t.Fatalf("gpuaasctl %s: exit %d\n%s", strings.Join(argv, " "), code, stderr)
	}
	return out
}

func try(t *testing.T, limit time.Duration, argv ...string) (stdout, stderr []byte, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(), argv...)
	// walks of broken machines are not the operator's; a test may switch it on
	cmd.Env = append([]string{"GPUAASCTL_HISTORY=off"}, os.Environ()...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("gpuaasctl %s: still running after %s\n%s", strings.Join(argv, " "), limit, errs.Bytes())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.Bytes(), errs.Bytes(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), errs.Bytes(), 0
}

// walk runs one preflight of a node and its allocation, and returns its report, its exit code, and the report as
// written.
func walk(t *testing.T, machine string, more ...string) (*diag.Report, int, []byte) {
	t.Helper()
	return preflight(t, append(subject(machine), more...)...)
}

// subject are the flags that name a node and its allocation.
func subject(machine string) []string {
	return []string{"--node-id", machine, "--allocation-id", lab.Machine{Name: machine}.Allocation()}
}

func preflight(t *testing.T, subject ...string) (*diag.Report, int, []byte) {
	t.Helper()
	// Without the lab its addresses may belong to other machines: never use them as targets.
	if _, err := net.InterfaceByName("gpuaas-lab"); err != nil {
		t.Fatalf("the lab is gone: %v", err)
	}
	argv := append([]string{"preflight", "--profile", "lab", "-o", "json"}, subject...)
	out, stderr, code := try(t, 90*time.Second, argv...)
	var r diag.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("exit %d, no report: %v\n%s\n%s", code, err, out, stderr)
	}
	return &r, code, out
}

// green waits until a walk of the node passes.
func green(t *testing.T, machine string) *diag.Report {
	t.Helper()
	var r *diag.Report
	for began := time.Now(); time.Since(began) < settle; time.Sleep(500 * time.Millisecond) {
		var code int
		if r, code, _ = walk(t, machine); code == 0 {
			return r
		}
	}
	t.Fatalf("%s is not green after %s:\n%s", machine, settle, describe(r))
	return nil
}

func describe(r *diag.Report) string {
	var b strings.Builder
	for _, h := range r.Hops {
		fmt.Fprintf(&b, "%-36s %-12s %-32s %s%s\n", h.ID, h.Status, h.Signal, h.Text, h.Because)
	}
	if v := r.Verdict; v.Blame != nil {
		fmt.Fprintf(&b, "blame %s %s %s (%s): %s; symptoms %v\n", v.Blame.Hop, v.Blame.Signal, v.Blame.Failure, v.Confidence,
			v.Blame.Text, v.Symptoms)
	}
	return b.String()
}

// on runs a shell script as root on a machine, from the host: it works when sshd does not.
func on(t *testing.T, l *lab.Lab, machine, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := l.Exec(ctx, machine, "sh", "-euc", script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}
