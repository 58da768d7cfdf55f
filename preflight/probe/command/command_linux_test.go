package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// own runs programs with the rights of the test, as an operator's own machine does.
var own = Prober{Allowed: true, Own: true}

// run runs argv for at most limit.
func run(t *testing.T, p *Prober, limit time.Duration, argv ...string) *diag.Fact {
	t.Helper()
	f := diag.Fact{}
	c := &diag.Program{Argv: argv, LimitMS: limit.Milliseconds(), Most: 4096}
	p.Run(t.Context(), diag.Request{Op: diag.OpCommand, Command: c}, &f)
	return &f
}

// script writes an executable file in a folder that only this user can change.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "check")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAProgramIsRun: what it writes and how it ends are the fact's.
func TestAProgramIsRun(t *testing.T) {
	f := run(t, &own, time.Minute, script(t, "#!/bin/sh\necho \"$# $1 $HOME $LANG\"; echo oops >&2; exit 2\n"), "a b")
	c := f.Command
	if c == nil || c.Exit == nil || *c.Exit != 2 || c.Out != "1 a b / C.UTF-8\n" || c.Err != "oops\n" || c.Left != 0 ||
		f.Failure != diag.OK {
		t.Fatalf("%+v %+v", f, c)
	}
	f = run(t, &own, time.Minute, "/bin/cat") // its input is empty
	if f.Command == nil || f.Command.Exit == nil || *f.Command.Exit != 0 {
		t.Errorf("reading its input: %+v %+v", f, f.Command)
	}
	f = run(t, &own, time.Minute, "/usr/bin/env")
	if f.Command == nil || strings.Count(f.Command.Out, "\n") != len(environment) {
		t.Errorf("the environment is %+v", f.Command)
	}
}

// TestScriptsFindTheirFolder: a script may read files beside it, as monitoring plugins do.
func TestScriptsFindTheirFolder(t *testing.T) {
	path := script(t, "#!/bin/sh\n. \"$(dirname \"$0\")/lib.sh\"\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "lib.sh"), []byte("echo found"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f := run(t, &own, time.Minute, path); f.Command == nil || f.Command.Out != "found\n" {
		t.Errorf("%+v %+v", f, f.Command)
	}
}

// marked is a word that only processes of one test have among their arguments.
func marked(t *testing.T) string {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	return fmt.Sprintf("mark-%d-%s", os.Getpid(), strings.ToLower(name))
}

// alive lists the processes with this word among their arguments.
func alive(t *testing.T, word string) (pids []int) {
	t.Helper()
	all, err := host.This.PIDs(-1)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		text, err := os.ReadFile(host.This.Path(pid, "cmdline"))
		if err == nil && strings.Contains(string(text), word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestHostilePrograms: whatever a program does, its run ends in time, what is kept is bounded text, and no process of
// it is left.
func TestHostilePrograms(t *testing.T) {
	for _, p := range []struct {
		name, text string
		limit      time.Duration
		ended      string // by whom
		exit       int    // if by itself
		left       bool   // processes were left behind when it had ended by itself
	}{
		{"hangs", "exec sleep 600", 300 * time.Millisecond, diag.EndedByLimit, 0, false},
		{"ignores SIGTERM", "trap '' TERM; while :; do sleep 1; done", 300 * time.Millisecond, diag.EndedByLimit, 0, false},
		{"leaves a daemon", "setsid sh -c 'sleep 600; : MARK' </dev/null >/dev/null 2>&1 & exit 0", time.Minute, "", 0, true},
		{"forks twice", "(setsid sh -c 'sh -c \"trap \\\"\\\" TERM HUP; sleep 600; : MARK\" & exit' &) ; sleep 0.2; exit 1",
			time.Minute, "", 1, true},
		{"its child holds the output", "sh -c 'sleep 600; : MARK' & echo ok", time.Minute, "", 0, true},
		{"floods", "exec cat /dev/zero", time.Minute, diag.EndedByFlood, 0, false},
		{"floods its errors", "yes MARK >&2", time.Minute, diag.EndedByFlood, 0, false},
		{"closes its outputs and sleeps", "exec >&- 2>&-; sleep 600", 300 * time.Millisecond, diag.EndedByLimit, 0, false},
		{"exit 137", "exit 137", time.Minute, "", 137, false},
		{"stops itself", "kill -STOP $$", 300 * time.Millisecond, diag.EndedByLimit, 0, false},
		{"forks without end", "f() { f & f; }; f 2>/dev/null", 500 * time.Millisecond, diag.EndedByLimit, 0, false},
	} {
		t.Run(p.name, func(t *testing.T) {
			if strings.Contains(p.name, "without end") && os.Geteuid() == 0 {
				p.text = "i=0; while [ $i -lt 200 ]; do sh -c 'while :; do sh -c : ; done; : MARK' & i=$((i+1)); done; wait"
			}
			mark := marked(t)
			path := script(t, "#!/bin/sh\n"+strings.ReplaceAll(p.text, "MARK", mark)+"\n")
			f := run(t, &own, p.limit, path, mark)
			c := f.Command
			if c == nil {
				t.Fatalf("%+v", f)
			}
			if c.Ended != p.ended || c.Unended != 0 || (p.ended == "" && (c.Left > 0) != p.left) {
				t.Errorf("ended by %q, %d left, %d not ended", c.Ended, c.Left, c.Unended)
			}
			if p.ended == "" && (c.Exit == nil || *c.Exit != p.exit) {
				t.Errorf("it ended with %+v", c)
			}
			if (f.Failure == diag.Timeout) != (p.ended == diag.EndedByLimit) {
				t.Errorf("the failure is %q", f.Failure)
			}
			if len(c.Out) > 3*4096 || len(c.Err) > 3*4096 {
				t.Errorf("%d and %d bytes were kept", len(c.Out), len(c.Err))
			}
			if pids := alive(t, mark); len(pids) > 0 {
				t.Errorf("left: %v", pids)
			}
			if below := descendants(os.Getpid()); len(below) > 0 {
				t.Errorf("below the test: %v", below)
			}
		})
	}
}

// TestTheWalkEndsACommand: a command ends with the request, and is then no evidence.
func TestTheWalkEndsACommand(t *testing.T) {
	tier.NeedsHost(t)
	mark := marked(t)
	path := script(t, "#!/bin/sh\necho ready > "+filepath.Join(t.TempDir(), "x")+"; setsid sleep 600 & exec sleep 600\n")
	ctx, cancel := context.WithCancel(t.Context())
	f := diag.Fact{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		own.Run(ctx, diag.Request{Command: &diag.Program{Argv: []string{path, mark}, LimitMS: 60000, Most: 10}}, &f)
	}()
	wait.For(t, "the command runs", func() bool {
		return len(alive(t, mark)) > 0 || len(descendants(os.Getpid())) >= 3
	})
	cancel()
	<-done
	if f.Failure != diag.Cancelled || (f.Command != nil && f.Command.Ended != diag.EndedByWalk) {
		t.Errorf("%+v %+v", f, f.Command)
	}
	if below := descendants(os.Getpid()); len(below) > 0 {
		t.Errorf("left: %v", below)
	}
}

// TestOutputsAreText: bytes that no terminal must see are not in the fact, and neither are secrets.
func TestOutputsAreText(t *testing.T) {
	path := script(t, `#!/bin/sh
printf 'a\033[31mred\033]0;title\007\000\377\302\233 \342\200\256end\nAuthorization: Bearer abcdef0123456789abcdef\n'`)
	c := run(t, &own, time.Minute, path).Command
	if c == nil || strings.ContainsAny(c.Out, "\x1b\x07\x00\u009b\u202e") || !strings.Contains(c.Out, "\ufffd") ||
		strings.Contains(c.Out, "abcdef0123456789") || !strings.HasPrefix(c.Out, "a[31mred") {
		t.Errorf("%+v", c)
	}
}

// TestRefusedPrograms: what is not run, and why.
func TestRefusedPrograms(t *testing.T) {
	ok := script(t, "#!/bin/sh\n")
	with := func(mode os.FileMode) string {
		path := script(t, "#!/bin/sh\n")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := t.TempDir()
	inOpen := filepath.Join(open, "check")
	if err := os.WriteFile(inOpen, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name string
		argv []string
		says string
	}{
		{"relative", []string{"bin/true"}, "not an absolute path"},
		{"with dots", []string{"/bin/../bin/true"}, "shortest form"},
		{"nothing", nil, "no command"},
		{"NUL", []string{ok, "a\x00b"}, "NUL"},
		{"huge argv", append([]string{ok}, strings.Repeat("x", mostArgBytes)), "bytes of them"},
		{"many arguments", append([]string{ok}, make([]string, mostArgs)...), "arguments"},
		{"folder", []string{"/usr"}, "not a program"},
		{"device", []string{"/dev/null"}, "not a program"},
		{"missing", []string{"/usr/bin/nothing-of-this-name"}, "no such file"},
		{"not executable", []string{with(0o644)}, "not executable"},
		{"world-writable", []string{with(0o757)}, "can be written by others"},
		{"in a folder of others", []string{inOpen}, "can be written by others"},
		{"setuid", []string{with(0o755 | os.ModeSetuid)}, "rights of another user"},
		{"no interpreter", []string{script(t, "#!/usr/bin/missing-interpreter -x\n")}, "interpreter"},
		{"empty interpreter", []string{script(t, "#!\n")}, "no interpreter"},
		{"no program at all", []string{script(t, "\x7fELFnonsense")}, "exec format"},
	} {
		f := run(t, &own, time.Minute, r.argv...)
		if f.Command != nil || f.Failure == diag.OK || !strings.Contains(f.Detail, r.says) {
			t.Errorf("%s: %+v", r.name, f)
		}
	}
	if f := run(t, &Prober{}, time.Minute, ok); f.Command != nil || f.Failure != diag.NotPermitted {
		t.Errorf("for a platform: %+v", f)
	}
}

// TestASwappedProgram: what was checked is what runs, although its path leads to another program by then.
func TestASwappedProgram(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "check")
	if err := os.Symlink("/bin/echo", link); err != nil {
		t.Fatal(err)
	}
	p, err := openProgram(link, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.file.Close()
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/false", link); err != nil {
		t.Fatal(err)
	}
	r, err := keep(t.Context(), p, account{}, &diag.Program{Argv: []string{link, "checked"}, LimitMS: 60000, Most: 100})
	if err != nil || string(r.Out) != "checked\n" {
		t.Errorf("%+v %v", r, err)
	}
}

// TestRootNeedsAGrant: on a node, a check is root only if the machine's owner names program, digest, user and day.
func TestRootNeedsAGrant(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path := script(t, "#!/bin/sh\nid -u\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	allow := filepath.Join(t.TempDir(), "checks.allow")
	node := Prober{Allowed: true, allowFile: allow}
	t.Setenv("SUDO_UID", "")
	for name, g := range map[string]struct {
		line string
		mode os.FileMode
		says string // "": it runs
	}{
		"none":     {"", 0, "no such file"},
		"named":    {path + " sha256:" + digest + " root 2999-01-01", 0o644, ""},
		"expired":  {path + " sha256:" + digest + " root 2001-01-01", 0o644, "expired"},
		"another":  {path + " sha256:" + strings.Repeat("0", 64) + " root 2999-01-01", 0o644, "it has sha256:" + digest},
		"a user's": {path + " sha256:" + digest + " nobody 2999-01-01", 0o644, "for the user nobody"},
		"a typo":   {path + " sha256:" + digest + " root 2999-01-01\nroot", 0o644, "line 2: want PROGRAM"},
		"open":     {path + " sha256:" + digest + " root 2999-01-01", 0o666, "can be written by others"},
	} {
		_ = os.Remove(allow) // there may be none
		if g.mode != 0 {
			if err := os.WriteFile(allow, []byte(g.line), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(allow, g.mode); err != nil {
				t.Fatal(err)
			}
		}
		f := run(t, &node, time.Minute, path)
		switch {
		case g.says == "" && (f.Command == nil || f.Command.Out != "0\n" || f.Command.SHA256 != digest):
			t.Errorf("%s: %+v %+v", name, f, f.Command)
		case g.says != "" && (f.Failure != diag.NotPermitted || !strings.Contains(f.Detail, g.says)):
			t.Errorf("%s: %+v", name, f)
		}
	}
	f := diag.Fact{}
	node.Run(t.Context(), diag.Request{Command: &diag.Program{Argv: []string{"/usr/bin/id", "-u"}, As: "nobody",
		LimitMS: 60000, Most: 100}}, &f)
	if f.Command == nil || f.Command.Out == "0\n" || f.Command.User != "nobody" {
		t.Errorf("as another user: %+v %+v", f, f.Command)
	}
	t.Setenv("SUDO_UID", "65534")
	if f := run(t, &node, time.Minute, "/usr/bin/id", "-u"); f.Command == nil || f.Command.Out != "65534\n" {
		t.Errorf("as the login: %+v %+v", f, f.Command)
	}
}

// TestNoRightsByAnotherProgram: a program that would take other rights does not get them.
func TestNoRightsByAnotherProgram(t *testing.T) {
	f := run(t, &own, time.Minute, script(t, "#!/bin/sh\ngrep NoNewPrivs /proc/self/status; ulimit -c\n"))
	if f.Command == nil || f.Command.Out != "NoNewPrivs:\t1\n0\n" {
		t.Errorf("%+v %+v", f, f.Command)
	}
}

// TestAKeeperEndsWithItsParent: if the process that asked is killed, the command is ended all the same.
func TestAKeeperEndsWithItsParent(t *testing.T) {
	tier.NeedsHost(t)
	mark := marked(t)
	p, err := openProgram(script(t, "#!/bin/sh\ntrap '' TERM HUP\nwhile :; do sleep 1; done\n"), os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.file.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		wait.Within(func() bool { return len(alive(t, mark)) > 0 })
		cancel() // it closes the keeper's input, as the end of this process would
	}()
	r, err := keep(ctx, p, account{}, &diag.Program{Argv: []string{p.path, mark}, LimitMS: 60000, Most: 100})
	if err != nil || r.Ended != diag.EndedByWalk || len(alive(t, mark)) > 0 {
		t.Errorf("%+v %v", r, err)
	}
	if err := syscall.Kill(-1, 0); err != nil && os.Geteuid() == 0 { // the test itself may signal
		t.Error(err)
	}
}
