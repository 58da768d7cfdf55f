package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// pipeOf is a named pipe, with a writer that writes nothing if held.
func pipeOf(t *testing.T, held bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if held {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
	}
	return path
}

// ownFiles are the ways to name one of the operator's own files: arguments and environment for a path.
var ownFiles = map[string]func(path string) (args, env []string){
	"profile":     func(p string) ([]string, []string) { return []string{"profile", "validate", p}, nil },
	"token":       walkWith("--token-file"),
	"cookie":      walkWith("--edge-cookie-file"),
	"operator CA": walkUnder("OPERATOR_CA"),
	"node CA":     walkUnder("NODE_CA"),
	"known hosts": walkUnder("SSH_KNOWN_HOSTS"),
	"identity":    walkUnder("SSH_IDENTITY"),
}

func walkWith(flag string) func(string) (args, env []string) {
	return func(p string) ([]string, []string) { return append(aWalk(), flag, p), nil }
}

func walkUnder(variable string) func(string) (args, env []string) {
	return func(p string) ([]string, []string) { return aWalk(), []string{"GPUAASCTL_" + variable + "=" + p} }
}

// aWalk ends at once: nothing listens there.
func aWalk() []string {
	return []string{"preflight", "--api-base", "https://127.0.0.1:1", "--terminal-base", "https://127.0.0.1:1",
		"--node-id", "n1", "--node-host", "127.0.0.1", "--no-save", "-o", "short"}
}

// TestNoFileIsWaitedForWithoutEnd: a pipe without a writer, and a device that never ends, are reported as mistakes. The
// walk continues only if the file is a key, which is one of several.
func TestNoFileIsWaitedForWithoutEnd(t *testing.T) {
	for what, with := range ownFiles {
		for _, path := range []string{pipeOf(t, false), "/dev/zero"} {
			t.Run(what+" "+filepath.Base(path), func(t *testing.T) {
				t.Parallel()
				args, env := with(path)
				cmd, _ := command(t, append([]string{"gpuaasctl"}, args...)...)
				said := &strings.Builder{}
				cmd.Env, cmd.Stderr = append(cmd.Env, env...), said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				late := time.AfterFunc(atOnce, func() { _ = cmd.Process.Kill() })
				code := waitCode(t, cmd)
				if !late.Stop() {
					t.Fatal("it did not end")
				}
				empty := what == "profile" && path != "/dev/zero" // a profile may be empty
				if (code != cmdutil.ExitUsage && what != "identity" && !empty) ||
					(code == cmdutil.ExitUsage && !strings.Contains(said.String(), path)) {
					t.Errorf("exit code %d: %s", code, said)
				}
			})
		}
	}
}

// TestInterruptEndsTheWaitForAFile: Ctrl-C ends the wait for a pipe whose writer writes nothing.
func TestInterruptEndsTheWaitForAFile(t *testing.T) {
	for what, args := range map[string][]string{
		"token":    append(aWalk(), "--token-file"),
		"replay":   {"preflight", "replay"},
		"baseline": {"preflight", "replay", filepath.Join("..", "..", "golden", "reports", "healthy.json"), "--baseline"},
		"classify": {"diag", "classify"},
		"trust":    {"diag", "trust", "--replay"},
		"diff":     {"history", "diff", filepath.Join("..", "..", "golden", "reports", "healthy.json")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := pipeOf(t, true)
			cmd, _ := start(t, append(append([]string{"gpuaasctl"}, args...), path)...)
			awaitOpened(t, cmd.Process.Pid, path)
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(atOnce, func() { _ = cmd.Process.Kill() })
			if code := waitCode(t, cmd); code != cmdutil.ExitInterrupted {
				t.Errorf("exit code %d, want %d", code, cmdutil.ExitInterrupted)
			}
			if !late.Stop() {
				t.Error("it did not end")
			}
		})
	}
}

// awaitOpened waits until a process has a file open.
func awaitOpened(t *testing.T, pid int, path string) {
	t.Helper()
	wait.For(t, "it opens "+path, func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		return slices.ContainsFunc(fds, func(fd string) bool { to, _ := os.Readlink(fd); return to == path })
	})
}

// TestReportIntoAPipeThatNobodyReads: the walk ends with an error, and its document is written.
func TestReportIntoAPipeThatNobodyReads(t *testing.T) {
	path := pipeOf(t, false)
	cmd, out := command(t, append(append([]string{"gpuaasctl"}, aWalk()...), "--report", path)...)
	said := &strings.Builder{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(atOnce, func() { _ = cmd.Process.Kill() })
	code := waitCode(t, cmd)
	if !late.Stop() {
		t.Fatal("it did not end")
	}
	if code != cmdutil.ExitInternal || !strings.Contains(said.String(), "no process reads this pipe") || out.Len() == 0 {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
}
