package vantage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// onceNode is a simulated node whose login has one folder for programs, and our program for it.
type onceNode struct {
	*machine
	server *sshtest.Server
	home   string
	ours   Program
}

func newOnceNode(t *testing.T, env ...string) *onceNode {
	t.Helper()
	o := &onceNode{machine: newMachine(t), home: t.TempDir()}
	// the real folders of the machine that runs the test stay out of it
	o.program(t, "mktemp", onlyIn(o.home))
	o.server = sshtest.Start(t, sshtest.Config{Env: append(append(o.env(), "HOME="+o.home), env...)})
	found, err := Programs(ours(t), "gpuaas-agent", nil)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	o.ours = found[0]
	return o
}

// onlyIn is a mktemp that makes folders in one place alone.
func onlyIn(home string) string {
	return "#!/bin/sh\ncase $2 in " + home + "/*) exec /usr/bin/mktemp \"$@\" ;; esac\nexit 1\n"
}

// open logs in as a check does.
func (o *onceNode) open(t *testing.T, user string) *Node {
	t.Helper()
	cfg := configFor(t, o.server)
	cfg.Bare, cfg.SSH.Sudo, cfg.SSH.User = true, new(bool), user
	return open(t, cfg)
}

// left is what is in the folder.
func (o *onceNode) left(t *testing.T) string {
	t.Helper()
	var all []string
	err := filepath.Walk(o.home, func(path string, _ os.FileInfo, err error) error {
		if path != o.home {
			all = append(all, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func clockOnce(t *testing.T, p Program) Once {
	t.Helper()
	input, err := probe.Requests(diag.Request{ID: "now", Op: diag.OpClock})
	if err != nil {
		t.Fatal(err)
	}
	return Once{Program: p, Args: []string{"probe", "--finish", "--unit", "none.service"}, Input: input,
		Within: time.Minute, Keep: 1 << 20}
}

// TestOnce: our program arrives, has no file while it runs, answers, and nothing is left.
func TestOnce(t *testing.T) {
	o := newOnceNode(t)
	n := o.open(t, "root")
	ctx := within(t, 2*time.Minute)
	m, err := n.Machine(ctx, nil, nil, o.ours)
	if err != nil || m.Uname != o.ours.Machine {
		t.Fatalf("%+v %v", m, err)
	}
	once := clockOnce(t, o.ours)
	once.Env = []string{"GPUAAS_NVML_FAKE=/x"}
	ran, err := n.RunOnce(ctx, m, once)
	if err != nil || ran.Code != 0 || ran.Installed {
		t.Fatalf("%+v %v", ran, err)
	}
	hello, facts, err := probe.Answers(ran.Output)
	if f := facts["now"]; err != nil || hello.Version != sshtest.Version || !f.Passed() || f.Clock == nil {
		t.Errorf("%v %+v", err, f)
	}
	if left := o.left(t); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestOnceIsCutOff: whenever the connection ends, nothing stays on the node.
func TestOnceIsCutOff(t *testing.T) {
	for name, words := range map[string]string{
		"while it arrives": "head",        // the room for it is made
		"while it runs":    "env",         // it is about to begin
		"while it is read": "sha256sum",   // all has arrived
		"before it":        "mktemp-once", // nothing is there yet
	} {
		t.Run(name, func(t *testing.T) {
			o := newOnceNode(t)
			reached := filepath.Join(o.bin, "reached")
			tool, _, _ := strings.Cut(words, "-")
			real := o.program(t, tool+".is", "#!/bin/sh\nexec /usr/bin/"+tool+" \"$@\"\n")
			if tool == "mktemp" {
				real = o.program(t, "mktemp.is", onlyIn(o.home))
			}
			o.program(t, tool, "#!/bin/sh\n: >"+reached+"\nsleep 0.3\nexec "+real+" \"$@\"\n")
			n := o.open(t, "root")
			ctx := within(t, 2*time.Minute)
			m := Machine{Uname: o.ours.Machine, As: "root"}
			ended := make(chan error, 1)
			go func() {
				_, err := n.RunOnce(ctx, m, clockOnce(t, o.ours))
				ended <- err
			}()
			wait.For(t, "the tool is started", func() bool { _, err := os.Stat(reached); return err == nil })
			_ = n.Close()
			if err := <-ended; err == nil && words != "env" {
				t.Error("it was not cut off")
			}
			wait.For(t, "nothing is left", func() bool { return o.left(t) == "" })
		})
	}
}

// TestOnceIsNotPossible: the reasons are words, and nothing is left.
func TestOnceIsNotPossible(t *testing.T) {
	for name, c := range map[string]struct {
		tool, text, why string
	}{
		"a full disk":     {"head", "#!/bin/sh\nexit 1\n", "no folder of the node has room"},
		"no sha256sum":    {"sha256sum", "#!/bin/sh\nexit 127\n", "sha256sum is missing"},
		"damaged":         {"sha256sum", "#!/bin/sh\necho 00 -\n", "another digest"},
		"nothing may run": {"chmod", "#!/bin/sh\nexit 1\n", "may run it"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOnceNode(t)
			o.program(t, c.tool, c.text)
			_, err := o.open(t, "root").RunOnce(within(t, 2*time.Minute), Machine{As: "root"}, clockOnce(t, o.ours))
			var none *NoProgramError
			if !errors.As(err, &none) || !strings.Contains(none.Text, c.why) {
				t.Errorf("%v", err)
			}
			if left := o.left(t); left != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// TestOnceCannotBeStarted: the exit code of a program that the node cannot start is the shell's, with its words.
func TestOnceCannotBeStarted(t *testing.T) {
	o := newOnceNode(t)
	path := filepath.Join(t.TempDir(), "broken")
	sshtest.Program(t, path, "\x7fELF of no machine")
	sum := "c5c2a3e1"
	o.program(t, "sha256sum", "#!/bin/sh\necho "+sum+" -\n")
	ran, err := o.open(t, "root").RunOnce(within(t, 2*time.Minute), Machine{As: "root"}, Once{Within: time.Minute,
		Program: Program{Path: path, Name: "broken", Sum: sum}})
	if err != nil || (ran.Code != 126 && ran.Code != 127 && ran.Code != 2) || ran.Words == "" {
		t.Errorf("%+v %v", ran, err)
	}
	if left := o.left(t); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestMachine: who runs our programs, by the profile and by what sudo allows.
func TestMachine(t *testing.T) {
	yes, no := true, false
	const allow, refuse = "#!/bin/sh\n[ \"$1\" = -n ] || exit 9\nshift\nexec \"$@\"\n",
		"#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"
	for name, c := range map[string]struct {
		uid, sudo string
		mode      *bool
		as, why   string
	}{
		"root":                  {"0", refuse, nil, "root", ""},
		"root, and sudo is set": {"0", refuse, &yes, "root", ""},
		"sudo":                  {"1000", allow, nil, "sudo", ""},
		"sudo is not to be":     {"1000", allow, &no, "login", ""},
		"sudo is refused":       {"1000", refuse, nil, "login", ""},
		"sudo must be":          {"1000", refuse, &yes, "", "a password is required"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOnceNode(t)
			o.program(t, "id", "#!/bin/sh\necho "+c.uid+"\n")
			o.program(t, "sudo", c.sudo)
			m, err := o.open(t, "ops").Machine(within(t, time.Minute), c.mode, nil, o.ours)
			if m.As != c.as || (err == nil) != (c.why == "") || (err != nil && !strings.Contains(err.Error(), c.why)) {
				t.Errorf("%+v %v", m, err)
			}
		})
	}
}

// TestInstalledIsUsed: a program with our digest that only root could have written is used in place of a push.
func TestInstalledIsUsed(t *testing.T) {
	tier.NeedsHost(t)
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root, to own a file")
	}
	program, err := os.ReadFile(sshtest.Helper(t))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/lib", "gpuaasctl-test-") // every folder above is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "gpuaas-agent")
	sshtest.Program(t, path, string(program))
	for name, c := range map[string]struct {
		spoil func() error
		used  bool
	}{
		"ours":                 {func() error { return nil }, true},
		"writable by others":   {func() error { return os.Chmod(path, 0o777) }, false},
		"of another user":      {func() error { return os.Chown(path, 65534, -1) }, false},
		"in a folder of all":   {func() error { return os.Chmod(dir, 0o777) }, false},
		"with another content": {func() error { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(os.Chown(path, 0, -1), os.Chmod(path, 0o755), os.Chmod(dir, 0o755), c.spoil()); err != nil {
				t.Fatal(err)
			}
			o := newOnceNode(t)
			if name == "with another content" {
				o.ours.Sum = strings.Repeat("0", 64)
			}
			m, err := o.open(t, "root").Machine(within(t, time.Minute), nil, []string{dir}, o.ours)
			if err != nil {
				t.Fatal(err)
			}
			if _, used := m.have[o.ours.Sum]; used != c.used {
				t.Errorf("used: %t: %+v", used, m)
			}
		})
	}
}
