//go:build linux

package inprocess

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// foreignSource is a program that records, in its path with the ending ".called", that it was called, and keeps
// running.
const foreignSource = `package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	self, _ := os.Executable()
	f, _ := os.OpenFile(self+".called", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fmt.Fprintln(f, os.Args)
	_ = syscall.Pause()
}
`

// foreignProgram is that program, built once.
var foreignProgram = sync.OnceValues(func() (string, error) {
	dir := filepath.Dir(unitsDir())
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "fleetd")
	if err := os.WriteFile(source, []byte(foreignSource), 0o600); err != nil {
		return "", err
	}
	return program, goBuild("-o", program, source)
})

// foreignAgents are programs that record that they were called, in their path with the ending ".called", and keep
// running: a script and a Go program.
func foreignAgents(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	script, program := filepath.Join(dir, "fleetd.sh"), filepath.Join(dir, "fleetd")
	sshtest.Program(t, script, "#!/bin/sh\necho \"$0 $*\" >>'"+script+".called'\nsleep 600\n")
	built, err := foreignProgram()
	if err = errors.Join(err, os.Link(built, program)); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"script": script, "program": program}
}

// unprivileged is a login that pushes helpers to a folder of the test: for a root login, the tool would mount a
// file system on the machine that runs the test.
func unprivileged(t *testing.T) sshtest.Config {
	t.Helper()
	bin := t.TempDir()
	sshtest.Program(t, filepath.Join(bin, "id"), "#!/bin/sh\necho 4242\n")
	return sshtest.Config{Env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + t.TempDir()}}
}

// slowLogins allows a minute for each hop: a login without a helper pushes one, 8 MB through a test's server.
func slowLogins(p *profile.Profile) {
	for hop := range p.Budgets {
		p.Budgets[hop] = time.Minute
	}
}

// awaitGone waits until the only processes with a folder in their command line are those in before. A foreign
// agent would keep running; commands of a login end a moment after their walk.
func awaitGone(t *testing.T, folder string, before []string) {
	t.Helper()
	var left []string
	if !await(t.Context(), 30*time.Second, func() bool {
		left = slices.DeleteFunc(processes(t, folder), func(p string) bool { return slices.Contains(before, p) })
		return len(left) == 0
	}) {
		t.Fatalf("processes before:\n%s\nand after it as well:\n%s", strings.Join(before, "\n"), strings.Join(left, "\n"))
	}
}

// processes lists the processes of this machine with this folder in their command line, except the scripts of
// logins.
func processes(t *testing.T, folder string) (found []string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), folder) &&
			!strings.Contains(string(b), "GPUAASCTL-SENTINEL") {
			found = append(found, f+": "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

// TestForeignAgent: no operation starts a foreign program, whatever the profile calls the agent; nothing is left
// running, and the node is not blamed for having another agent. A foreign program in the agent's place is the
// fault.
func TestForeignAgent(t *testing.T) {
	t.Parallel()
	tool := build(t)
	for kind, program := range foreignAgents(t) {
		t.Run(kind, func(t *testing.T) {
			w := start(t, options{ssh: unprivileged(t), profile: func(p *profile.Profile) {
				p.Agent.Binary = program
				slowLogins(p)
			}})
			w.agent.program = program
			w.agent.run(t, "active/running")
			before := processes(t, filepath.Dir(program))
			r := w.walk(t)
			if r.Verdict.Outcome != diag.OutcomePass {
				t.Errorf("a foreign agent is a fault:\n%s", describe(r))
			}
			for _, f := range r.Facts {
				if b := f.Binary; b != nil && (b.Path != program || b.OurAgent == nil || *b.OurAgent || b.Version != "") {
					t.Errorf("%+v", b)
				}
				if f.SSH != nil && (f.SSH.Helper != "pushed" || strings.Contains(f.SSH.HelperPath, program)) {
					t.Errorf("the helper: %+v", f.SSH)
				}
			}
			for _, argv := range [][]string{
				{"preflight", "--node-id", nodeID, "--allocation-id", alloc}, {"diag", "show", nodeID}, {"diag", "trust", nodeID},
				{"diag", "timeline", nodeID}, {"diag", "classify", nodeID}, {"node", "status", nodeID},
				{"node", "endpoints", "show", nodeID},
			} {
				cmd := exec.Command(tool, append(argv, "--profile", w.profile)...)
				cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Logf("%v: %v %.300s", argv, err, out) // other tests check their output
				}
			}
			if text, err := os.ReadFile(program + ".called"); err == nil {
				t.Errorf("it was started:\n%s", text)
			}
			awaitGone(t, filepath.Dir(program), before)
		})
	}
}

// TestNotOurProgram: the profile declares gpuaas-agent, and another program is installed.
func TestNotOurProgram(t *testing.T) {
	t.Parallel()
	program := foreignAgents(t)["program"]
	w := start(t, options{ssh: unprivileged(t), profile: slowLogins})
	if err := errors.Join(os.Remove(w.agent.program), os.Link(program, w.agent.program)); err != nil {
		t.Fatal(err)
	}
	r := w.walk(t)
	if b := r.Verdict.Blame; b == nil || b.Hop != diag.HopNodeReadiness || b.Signal != diag.SigBinaryInvalid {
		t.Errorf("blame %+v\n%s", b, describe(r))
	}
	if h := resultOf(t, r, diag.HopNodeReadiness); !strings.Contains(h.Text, "not gpuaas-agent but the Go program") {
		t.Errorf("%q", h.Text)
	}
	if text, err := os.ReadFile(w.agent.program + ".called"); err == nil {
		t.Errorf("it was started:\n%s", text)
	}
}

// TestCrashLoop: systemd reports the unit as active on every query, each time with another process.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	w := start(t, options{profile: slowLogins}) // the second look starts programs, which a busy machine does slowly
	w.agent.run(t, "active/running")
	w.agent.loop(t)
	r := w.walk(t)
	if b := r.Verdict.Blame; b == nil || b.Hop != diag.HopNodeReadiness || b.Signal != diag.SigProcessDown {
		t.Errorf("blame %+v\n%s", b, describe(r))
	}
	if h := resultOf(t, r, diag.HopNodeReadiness); !strings.Contains(h.Text, "crash loop") ||
		!strings.Contains(h.Text, "was replaced by") {
		t.Errorf("%q", h.Text)
	}
}
