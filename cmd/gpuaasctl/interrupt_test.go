package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// usualHops is how many hops a walk has: optional ones only where a profile asks for them.
var usualHops = len(slices.DeleteFunc(diag.HopIDs(), func(id diag.HopID) bool {
	row, _ := diag.LookupHop(id)
	return row.Optional
}))

// stubborn waits for the first interrupt, and then does not end by itself.
func stubborn() {
	ctx, stop := cmdutil.Interruptible()
	defer stop()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("first")
	time.Sleep(time.Minute)
}

// start runs a program of TestMain's table; the test kills it if it is still running at the end.
func start(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd, out := command(t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// command returns a program with its own home and a buffer for its stdout.
func command(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command(args[0], args[1:]...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, t.Output()
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME=", "XDG_STATE_HOME="+t.TempDir())
	return cmd, out
}

// waitCode waits for the end and returns the exit code (-1: by a signal).
func waitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// atOnce is the time limit for an interrupt on a machine that is busy with other tests: uninterrupted, these programs
// run longer.
const atOnce = 45 * time.Second

func TestInterruptGivesAPartialReport(t *testing.T) {
	tier.NeedsHost(t)
	patient := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(patient,
		[]byte("nodes: {n1: {host: 127.0.0.1}}\nbudgets: {control_plane_access: 1m, node_ops_access: 1m}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			ln, err := silentListener()
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			port := ln.Addr().(*net.TCPAddr).Port
			t.Setenv("GPUAASCTL_SSH_PORT", strconv.Itoa(port))
			cmd, out := start(t, "gpuaasctl", "preflight", "--profile", patient, "--node-id", "n1",
				"--api-base", "http://"+ln.Addr().String(), "-o", "json")
			for range 2 { // the connections to the API and the SSH server are open, and nothing answers
				conn, err := ln.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			began := time.Now()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := waitCode(t, cmd); code != cmdutil.ExitInterrupted {
				t.Errorf("exit code %d, want %d", code, cmdutil.ExitInterrupted)
			}
			if took := time.Since(began); took > atOnce {
				t.Errorf("ended only after %s", took)
			}
			var r diag.Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("no report: %v\n%s", err, out)
			}
			if r.Run.EndedBy != diag.EndedInterrupted || r.Verdict.Outcome == diag.OutcomePass ||
				len(r.Hops) != usualHops {
				t.Errorf("ended by %q with %q and %d hops", r.Run.EndedBy, r.Verdict.Outcome, len(r.Hops))
			}
		})
	}
}

// TestInterruptEndsASecretCommand: an interrupt ends a secret command with all of its children, and is not a usage
// error. The child has the other end of a pipe, which ends with the last process.
func TestInterruptEndsASecretCommand(t *testing.T) {
	for _, args := range [][]string{{"preflight", "--node-id", "n1"}, {"diag", "trust", "n1"}} {
		t.Run(args[0], func(t *testing.T) {
			dir := t.TempDir()
			fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "p.yaml")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			text := "nodes: {n1: {host: 127.0.0.1}}\nauth: {token_command: [sh, -c, 'exec 9>" + fifo +
				"; sleep 60 & echo ready >&9; wait']}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd, _ := command(t, append(append([]string{"gpuaasctl"}, args...), "--profile", file)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal, as in a CI pipeline
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			pipe, err := os.Open(fifo)
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			lines := bufio.NewScanner(pipe)
			if !lines.Scan() || lines.Text() != "ready" {
				t.Fatalf("the command said %q, %v", lines.Text(), lines.Err())
			}
			began := time.Now()
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if code := waitCode(t, cmd); code != cmdutil.ExitInterrupted {
				t.Errorf("exit code %d, want %d", code, cmdutil.ExitInterrupted)
			}
			if lines.Scan() || lines.Err() != nil {
				t.Errorf("the command said %q, %v", lines.Text(), lines.Err())
			}
			if took := time.Since(began); took > atOnce {
				t.Errorf("ended only after %s", took)
			}
		})
	}
}

func TestSecondInterruptKills(t *testing.T) {
	tier.NeedsHost(t)
	cmd := exec.Command("stubborn")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	caught := make(chan os.Signal, 1) // a child inherits ignored signals, as from nohup, and no handlers
	signal.Notify(caught, os.Interrupt)
	err = cmd.Start()
	signal.Stop(caught)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewScanner(pipe)
	for _, want := range []string{"ready", "first"} {
		if !lines.Scan() || strings.TrimSpace(lines.Text()) != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() { // the handler is removed right after the context ends: it may still have caught the second signal
		for cmd.Process.Signal(os.Interrupt) == nil {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	if code := waitCode(t, cmd); code != -1 {
		t.Errorf("exit code %d, want death by the second signal", code)
	}
}
