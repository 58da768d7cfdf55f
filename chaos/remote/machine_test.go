package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

func TestFault(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.open(t)
	secret := bytes.Repeat([]byte("top-secret"), 20_000)
	r, err := m.Fault(t.Context(), secret, "arm", "--why", "it's 50 $HOME")
	if err != nil || r.Version != "test" || r.Error != "arm|--why|it's 50 $HOME 200000 a430da06" {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err = m.Fault(t.Context(), nil, "revert"); err != nil || r.Refused == nil || r.Refused.Code != step.RefusedNone {
		t.Errorf("a refusal is an answer: %+v %v", r, err)
	}
	if n := len(b.pushed(t)); n != 1 {
		t.Errorf("%d programs there", n)
	}
	if got := len(b.Execs()); got != 4 || b.Logins() != 1 { // one that finds no program, the push, and two commands
		t.Errorf("%d commands over %d connections", got, b.Logins())
	}
	for _, line := range b.Execs() {
		if strings.Contains(line, "top-secret") {
			t.Error("what a drill holds was on a command line")
		}
	}
	if err := m.RemoveHelper(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.dir); err == nil {
		t.Error("the tmpfs is still there")
	}
	if r, err = m.Fault(t.Context(), nil, "renew"); err != nil || !strings.HasPrefix(r.Error, "renew 0 ") {
		t.Errorf("after leaving: %+v %v", r, err)
	}
}

// Concurrent calls share one connection and one push.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.open(t)
	if _, err := m.Fault(t.Context(), nil, "status"); err != nil {
		t.Fatal(err)
	}
	before := len(b.Execs())
	var wg sync.WaitGroup
	for i := range 2 * most {
		wg.Go(func() {
			r, err := m.Fault(t.Context(), []byte("x"), "do", fmt.Sprint(i))
			if want := fmt.Sprintf("do|%d 1 ", i); err != nil || !strings.HasPrefix(r.Error, want) {
				t.Errorf("%+v %v, want %s", r, err, want)
			}
		})
	}
	wg.Wait()
	if got := len(b.Execs()) - before; got != 2*most || b.Logins() != 1 || len(b.pushed(t)) != 1 {
		t.Errorf("%d commands, %d connections, %d programs", got, b.Logins(), len(b.pushed(t)))
	}
}

// A walk's helper in the same folder is left alone.
func TestLeaveLeavesOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.open(t)
	if err := m.RemoveHelper(t.Context()); err != nil || b.Logins() != 0 {
		t.Errorf("nothing was put there, and it was asked all the same: %v", err)
	}
	if _, err := m.Fault(t.Context(), nil, "status"); err != nil {
		t.Fatal(err)
	}
	helper, forgotten := filepath.Join(b.dir, "gpuaas-agent-0123456789abcdef"),
		filepath.Join(b.dir, ".gpuaas-fault-0123456789abcdef.7")
	for _, p := range []string{helper, forgotten} {
		if err := os.WriteFile(p, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := m.HelperPaths(t.Context()); err != nil || len(left) != 2 || left[1] != forgotten {
		t.Errorf("left: %v %v", left, err)
	}
	if err := m.RemoveHelper(t.Context()); err != nil {
		t.Error(err)
	}
	if all := b.pushed(t); len(all) != 1 || all[0] != helper {
		t.Errorf("left: %v", all)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, b *bench)
		command string
		says    string
	}{
		"another digest": {func(t *testing.T, b *bench) { b.program(t, "sha256sum", "cat >/dev/null; echo 00 -") }, "arm",
			"what arrived has another digest"},
		"no tmpfs": {func(t *testing.T, b *bench) {
			b.program(t, "mountpoint", "exit 1")
			b.program(t, "mount", "echo 'permission denied' >&2; exit 1")
		}, "arm", "no tmpfs can be mounted at "},
		"another machine": {func(t *testing.T, b *bench) { b.program(t, "uname", "echo riscv64") }, "arm",
			"no gpuaas-fault for riscv64"},
		"nothing to put there": {func(_ *testing.T, b *bench) { b.cfg.Programs = nil }, "arm", "neither there nor here"},
		"ours is of another build": {func(_ *testing.T, b *bench) {
			b.cfg.Build = owned.Build{step.Program: {"0"}}
		}, "arm", "is not of this build (sha256 "},
		"it does not run": {nil, "close", "it ended without an answer (exit code 132): illegal instruction"},
		"no root, no sudo": {func(t *testing.T, b *bench) {
			b.cfg.Node.SSH.User = "ops"
			no := false
			b.cfg.Node.SSH.Sudo = &no
			b.program(t, "id", "echo 1000")
		}, "arm", "is not root, and the profile says that it uses no sudo"},
		"sudo wants a password": {func(t *testing.T, b *bench) {
			b.cfg.Node.SSH.User = "ops"
			b.program(t, "sudo", "echo 'sudo: a password is required' >&2; exit 1")
		}, "arm", "may not become root without a password: sudo: a password is required"},
		"turned away": {func(_ *testing.T, b *bench) { b.Set(sshtest.RejectAuth) }, "arm", "ssh_auth"},
		"no channel":  {func(_ *testing.T, b *bench) { b.Set(sshtest.RefuseOpen) }, "arm", "no more sessions"},
		"another command is run": {func(_ *testing.T, b *bench) { b.Set(sshtest.CloseAtExec) }, "arm",
			"the script printed nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if c.prepare != nil {
				c.prepare(t, b)
			}
			r, err := b.open(t).Fault(t.Context(), []byte("top-secret"), c.command)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "node-1") {
				t.Errorf("%+v %v, want %q", r, err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "top-secret") {
				t.Error("the error tells a secret")
			}
		})
	}
}

// A login that may use sudo is enough.
func TestSudo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.cfg.Node.SSH.User = "ops"
	b.program(t, "id", `[ -n "$AS_ROOT" ] && echo 0 || echo 1000`)
	b.program(t, "sudo", `[ "$1" = -n ] || exit 9`+"\nshift\n"+`AS_ROOT=1 exec "$@"`)
	m := b.open(t)
	if r, err := m.Fault(t.Context(), []byte("in"), "arm"); err != nil || !strings.HasPrefix(r.Error, "arm 2 ") {
		t.Errorf("%+v %v", r, err)
	}
	if out, err := m.Exec(t.Context(), step.Exec{Argv: []string{"id", "-u"}}); err != nil || out.Text != "0\n" {
		t.Errorf("%+v %v", out, err)
	}
}

// A connection that is cut during a command is an error, since the outcome is unknown; the next call uses a new
// one.
func TestCut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.open(t)
	if _, err := m.Fault(t.Context(), nil, "status"); err != nil {
		t.Fatal(err)
	}
	before := len(b.Execs())
	var wg sync.WaitGroup
	wg.Go(func() {
		if r, err := m.Fault(t.Context(), nil, "verify"); err == nil {
			t.Errorf("an answer from nowhere: %+v", r)
		}
	})
	wait.For(t, "the machine is asked", func() bool { return len(b.Execs()) > before })
	b.Drop()
	wg.Wait()
	if len(b.Execs()) != before+1 {
		t.Error("it was tried again, although it may have been carried out")
	}
	if _, err := m.Fault(t.Context(), nil, "status"); err != nil || b.Logins() != 2 {
		t.Errorf("%v over connection %d", err, b.Logins())
	}
	b.Drop() // between calls, so that no caller is affected
	if _, err := m.Fault(t.Context(), nil, "status"); err != nil || b.Logins() != 3 {
		t.Errorf("%v over connection %d", err, b.Logins())
	}
}

// A server that accepts no new connections still serves existing ones.
func TestKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.open(t)
	if _, err := m.Fault(t.Context(), nil, "status"); err != nil {
		t.Fatal(err)
	}
	b.Set(sshtest.CloseAtOnce)
	if _, err := m.Fault(t.Context(), nil, "status"); err != nil {
		t.Error(err)
	}
	m.Reconnect()
	if _, err := m.Fault(t.Context(), nil, "status"); err == nil {
		t.Error("a new connection was wanted")
	}
	b.Set(sshtest.None)
	if _, err := m.Fault(t.Context(), nil, "status"); err != nil || b.Logins() != 2 {
		t.Errorf("%v over connection %d", err, b.Logins())
	}
}

// Reconnect does not affect calls in progress.
func TestReconnect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.open(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if out, err := m.Exec(t.Context(),
			step.Exec{Argv: []string{"sh", "-c", "echo begun; sleep 0.5; echo ended"}}); err != nil ||
			out.Text != "begun\nended\n" {
			t.Errorf("%+v %v", out, err)
		}
	})
	wait.For(t, "the machine is asked", func() bool { return len(b.Execs()) > 0 })
	m.Reconnect()
	if _, err := m.Exec(t.Context(), step.Exec{Argv: []string{"true"}}); err != nil || b.Logins() != 2 {
		t.Errorf("%v over connection %d", err, b.Logins())
	}
	wg.Wait()
}

// A canceled call ends at once. Other calls continue if the server works, and end if it is frozen.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprint("frozen ", frozen), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			m := b.open(t)
			if _, err := m.Exec(t.Context(), step.Exec{Argv: []string{"true"}}); err != nil {
				t.Fatal(err)
			}
			other, takes := make(chan error, 1), "0.8"
			if frozen {
				takes = "20" // it must not be over before the server is frozen
			}
			go func() {
				_, err := m.Exec(t.Context(), step.Exec{Argv: []string{"sleep", takes}})
				other <- err
			}()
			wait.For(t, "the machine is asked", func() bool { return len(b.Execs()) > 1 })
			if frozen {
				b.Freeze()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			if _, err := m.Exec(ctx, step.Exec{Argv: []string{"sleep", "20"}}); err == nil {
				t.Error("an answer")
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("given up after %s", took)
			}
			select {
			case err := <-other:
				if (err != nil) != frozen {
					t.Errorf("the other call: %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("the other call hangs")
			}
			if _, err := m.Exec(t.Context(), step.Exec{Argv: []string{"true"}}); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.open(t)
	for name, on := range map[string]interface {
		Exec(context.Context, step.Exec) (out, error)
	}{"remote": m, "here": Local()} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				e    step.Exec
				want out
			}{
				{step.Exec{Argv: []string{"printf", "%s|", "a b", "$HOME", "'", "\\", ""}}, out{Text: "a b|$HOME|'|\\||"}},
				{step.Exec{Argv: []string{"sh", "-c", "cat; echo oops >&2; exit 3"}, Stdin: "in\n"},
					out{Code: 3, Text: "in\noops\n"}},
				{step.Exec{Argv: []string{"sh", "-c", "printf 'GPUAASCTL-SENTINEL exit code=7\\n' >&2; exit 255"}},
					out{Code: 255, Text: "GPUAASCTL-SENTINEL exit code=7\n"}},
				{step.Exec{Argv: []string{"sh", "-c", "sleep 30 & echo left"}}, out{Text: "left\n"}},
				{step.Exec{Argv: []string{"sh", "-c", "yes | head -c 300000"}}, out{Text: strings.Repeat("y\n", toolKept/2)}},
			} {
				began := time.Now()
				got, err := on.Exec(t.Context(), c.e)
				if n := len(got.Text); len(c.want.Text) > 1000 && n >= toolKept-100 {
					c.want.Text = c.want.Text[:min(n, toolKept)]
				}
				if err != nil || got != c.want {
					t.Errorf("%q: %d, %d bytes %.80q %v", c.e.Argv, got.Code, len(got.Text), got.Text, err)
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("%q took %s", c.e.Argv, took)
				}
			}
			if _, err := on.Exec(t.Context(), step.Exec{Argv: []string{"/nonexistent/tool"}}); err == nil {
				t.Error("a tool that is not there was run")
			}
		})
	}
}

// A closed machine accepts no calls, and those in progress end.
func TestClosed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.open(t)
	done := make(chan error, 1)
	go func() {
		_, err := m.Exec(t.Context(), step.Exec{Argv: []string{"sleep", "20"}})
		done <- err
	}()
	wait.For(t, "the machine is asked", func() bool { return len(b.Execs()) > 0 })
	if err := m.Close(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("an answer")
	}
	if _, err := m.Exec(t.Context(), step.Exec{Argv: []string{"true"}}); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// Drills are read by their own programs, and nothing is pushed.
func TestRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.cfg.state = t.TempDir()
	m := b.open(t)
	if all, err := m.Runs(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("none: %v %v", all, err)
	}
	for run, text := range map[string]string{
		"r1": `echo '{"schema":"gpuaas.drill-reply/v1","status":{"run":"r1","phase":"armed","steps":[]}}'`,
		"r2": `echo '{"schema":"gpuaas.drill-reply/v1","refused":{"code":"no_drill","text":"there is no drill r2"}}'; exit 3`,
		"r3": "echo 'cannot execute'; exit 126",
		"r4": "",
	} {
		if err := os.MkdirAll(filepath.Join(b.cfg.state, run), 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		sshtest.Program(t, filepath.Join(b.cfg.state, run, step.Program), "#!/bin/sh\n"+text+"\n")
	}
	all, err := m.Runs(t.Context())
	if err != nil || len(all) != 4 {
		t.Fatalf("%v %v", all, err)
	}
	for i, want := range []string{"", "there is no drill r2", "its program printed: cannot execute",
		"its folder has no program"} {
		if all[i].Run != fmt.Sprint("r", i+1) || (all[i].Status == nil) != (want != "") ||
			!strings.Contains(all[i].Error, want) {
			t.Errorf("%+v, want %q", all[i], want)
		}
	}
	if r, err := m.FaultOf(t.Context(), "r1", "revert"); err != nil || r.Status == nil || len(b.pushed(t)) != 0 {
		t.Errorf("by its own program: %+v %v", r, err)
	}
	if r, err := m.FaultOf(t.Context(), "r4", "status", "x"); err != nil ||
		!strings.HasPrefix(r.Error, "status|x|--run|r4 ") || len(b.pushed(t)) != 1 {
		t.Errorf("by ours: %+v %v", r, err)
	}
	if _, err := m.FaultOf(t.Context(), "../r1", "revert"); err == nil {
		t.Error("a path is no drill")
	}
}
