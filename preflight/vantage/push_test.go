package vantage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// Programs at the installed path: each adds a line to the file "called" next to it when it is started.
const (
	wasCalled = "#!/bin/sh\necho \"$@\" >>\"$(dirname \"$0\")\"/called\n"
	oldHelper = wasCalled +
		"echo '{\"hello\":{\"version\":\"old\",\"uid\":0,\"pid\":1,\"now\":\"2026-01-01T00:00:00.000Z\"}}'\ncat >/dev/null\n"
	silentHelper = wasCalled + "cat >/dev/null\n"
	brokenHelper = wasCalled + "echo 'libfoo.so: cannot open shared object file' >&2\nexit 127\n"
	daemon       = wasCalled + "sleep 600\n"
)

// machine is a simulated node's environment: programs that precede the real ones, and a runtime folder.
type machine struct {
	bin, runtime string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{bin: t.TempDir(), runtime: t.TempDir()}
	// Without root: nothing is mounted on the machine that runs the test.
	m.program(t, "id", "#!/bin/sh\necho 4242\n")
	return m
}

func (m *machine) program(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(m.bin, name)
	sshtest.Program(t, file, text)
	return file
}

func (m *machine) env() []string {
	return []string{"PATH=" + m.bin + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + m.runtime}
}

// ours returns a folder with this test binary as gpuaas-agent.
func ours(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(sshtest.Helper(t), filepath.Join(dir, "gpuaas-agent")); err != nil {
		t.Fatal(err)
	}
	return []string{dir}
}

// If a program is replaced while this process runs, its digest is computed again; otherwise it is cached.
func TestSumFollowsTheFile(t *testing.T) {
	program, err := os.ReadFile(sshtest.Helper(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "gpuaas-agent")
	sum := func() string {
		t.Helper()
		found, err := Programs([]string{dir}, "gpuaas-agent", nil)
		if len(found) != 1 || err != nil {
			t.Fatalf("%d programs, want 1: %v", len(found), err)
		}
		return found[0].Sum
	}
	for _, content := range [][]byte{program, append(slices.Clone(program), 0), append(slices.Clone(program), 1)} {
		sshtest.Program(t, path, string(content))
		want := fmt.Sprintf("%x", sha256.Sum256(content))
		for range 2 {
			if got := sum(); got != want {
				t.Errorf("sum of %d bytes: %s, want %s", len(content), got, want)
			}
		}
	}
}

// TestAHelperOfAnotherBuildIsNotPushed: where the build has digests, the owner of a file is not enough.
func TestAHelperOfAnotherBuildIsNotPushed(t *testing.T) {
	program, err := os.ReadFile(sshtest.Helper(t))
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(program))
	for name, tc := range map[string]struct {
		build  string
		refuse bool
	}{
		"no digests":        {"", false},
		"of this build":     {"gpuaas-agent:0,gpuaas-agent:" + sum, false},
		"of another build":  {"gpuaas-agent:0", true},
		"of another helper": {"gpuaas-fault:" + sum, true},
		"an empty digest":   {"gpuaas-agent:", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			s := sshtest.Start(t, sshtest.Config{Env: m.env()})
			cfg := configFor(t, s)
			dir := t.TempDir()
			file := filepath.Join(dir, "gpuaas-agent")
			sshtest.Program(t, file, string(program))
			cfg.Version, cfg.HelperDirs, cfg.Build = sshtest.Version, []string{dir}, owned.ParseBuild(tc.build)
			cfg.Agent.Binary = filepath.Join(t.TempDir(), "none")
			f := loginFact(within(t, time.Minute), open(t, cfg))
			if !tc.refuse {
				if f.Failure != diag.OK {
					t.Errorf("%s: %s", f.Failure, f.Detail)
				}
				return
			}
			if f.Failure == diag.OK || !strings.Contains(f.Detail, file+" is not of this build (sha256 "+sum+")") {
				t.Errorf("%q: %s", f.Failure, f.Detail)
			}
			if found, _ := filepath.Glob(m.runtime + "/gpuaasctl/*"); len(found) > 0 {
				t.Errorf("on the node: %q", found)
			}
		})
	}
}

// TestAForeignHelperIsNotPushed: a node would run it as root. The sticky folder is a shared machine's /tmp.
func TestAForeignHelperIsNotPushed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	for name, spoil := range map[string]func(dir, file string) error{
		"another user's, in a sticky folder": func(dir, file string) error {
			return errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Chown(file, 65534, -1))
		},
		"writable by all":    func(_, file string) error { return os.Chmod(file, 0o777) },
		"in a folder of all": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			s := sshtest.Start(t, sshtest.Config{Env: m.env()})
			cfg := configFor(t, s)
			program, err := os.ReadFile(sshtest.Helper(t))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "gpuaas-agent")
			sshtest.Program(t, file, string(program))
			if err := spoil(dir, file); err != nil {
				t.Fatal(err)
			}
			cfg.Version, cfg.HelperDirs = sshtest.Version, []string{dir}
			cfg.Agent.Binary = filepath.Join(t.TempDir(), "none")
			f := loginFact(within(t, time.Minute), open(t, cfg))
			if f.Failure == diag.OK || !strings.Contains(f.Detail, "another user could have written it") {
				t.Errorf("%q: %s", f.Failure, f.Detail)
			}
			if found, _ := filepath.Glob(m.runtime + "/gpuaasctl/*"); len(found) > 0 {
				t.Errorf("on the node: %q", found)
			}
		})
	}
}

func TestPush(t *testing.T) {
	for name, installed := range map[string]string{"missing": "", "another version": oldHelper, "no answer": silentHelper,
		"broken": brokenHelper, "a daemon": daemon} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			s := sshtest.Start(t, sshtest.Config{Env: m.env()})
			cfg := configFor(t, s)
			cfg.Version, cfg.HelperDirs = sshtest.Version, ours(t)
			cfg.Agent.Binary = filepath.Join(t.TempDir(), "none")
			if installed != "" {
				cfg.Agent.Binary = m.program(t, "installed", installed)
			}
			n := open(t, cfg)
			ctx := within(t, 2*time.Minute)
			facts := n.Probe(ctx, []diag.Request{{Op: diag.OpSSH}, {Op: diag.OpClock}})
			for _, f := range facts {
				if f.Failure != diag.OK {
					t.Fatalf("%s: %q at %s: %s", f.Request.Op, f.Failure, f.Phase, f.Detail)
				}
			}
			ssh := facts[0].SSH
			if ssh.Helper != "pushed" || ssh.HelperVersion != sshtest.Version ||
				!strings.HasPrefix(ssh.HelperPath, m.runtime+"/gpuaasctl/gpuaas-agent-") {
				t.Errorf("%+v", ssh)
			}
			st, err := os.Stat(ssh.HelperPath)
			if err != nil || st.Mode().Perm() != 0o755 {
				t.Errorf("%v %v", st, err)
			}
			// The next walk finds the helper: one command, no push.
			before := len(s.Execs())
			if f := loginFact(ctx, open(t, cfg)); f.Failure != diag.OK || f.SSH.Helper != "pushed" ||
				len(s.Execs()) != before+1 {
				t.Errorf("the second walk: %q %+v, %d commands", f.Failure, f.SSH, len(s.Execs())-before)
			}
			if err := n.Remove(ctx); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Dir(ssh.HelperPath)); err == nil {
				t.Error("the folder is still there")
			}
			if calls, err := os.ReadFile(filepath.Join(m.bin, "called")); err == nil {
				t.Errorf("the installed program was started:\n%s", calls)
			}
		})
	}
}

func TestWhatCannotBePushed(t *testing.T) {
	for name, c := range map[string]struct {
		installed string
		prepare   func(t *testing.T, m *machine, cfg *NodeConfig)
		text      string
		word      diag.Failure
	}{
		"nothing here": {"", func(_ *testing.T, _ *machine, cfg *NodeConfig) { cfg.HelperDirs = nil }, "here to push",
			diag.SSHSetup},
		"another machine type": {"", func(t *testing.T, m *machine, _ *NodeConfig) {
			m.program(t, "uname", "#!/bin/sh\necho riscv64\n")
		}, "none for riscv64", diag.SSHSetup},
		"nowhere to put it": {"", func(t *testing.T, m *machine, _ *NodeConfig) {
			m.program(t, "mkdir", "#!/bin/sh\nexit 1\n")
		}, "no place on the node", diag.SSHExec},
		"it arrives broken": {"", func(t *testing.T, m *machine, _ *NodeConfig) {
			m.program(t, "sha256sum", "#!/bin/sh\ncat >/dev/null\necho 00 -\n")
		}, "another digest", diag.SSHExec},
		"nothing here, and another's program there": {daemon, func(_ *testing.T, _ *machine, cfg *NodeConfig) {
			cfg.HelperDirs = nil
		}, "here to push", diag.SSHSetup},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			s := sshtest.Start(t, sshtest.Config{Env: m.env()})
			cfg := configFor(t, s)
			cfg.HelperDirs = ours(t)
			cfg.Agent.Binary = filepath.Join(t.TempDir(), "none")
			if c.installed != "" {
				cfg.Agent.Binary = m.program(t, "installed", c.installed)
			}
			c.prepare(t, m, &cfg)
			f := loginFact(within(t, 2*time.Minute), open(t, cfg))
			wantFailure(t, f, c.word, "exec")
			if !strings.Contains(f.Detail, c.text) {
				t.Errorf("detail %q does not say %q", f.Detail, c.text)
			}
		})
	}
}

// TestOtherBuild: an installed gpuaas-agent of another build is used if ours cannot be pushed. It is recognized by its
// build info; a script that contains the same text is not started.
func TestOtherBuild(t *testing.T) {
	program, err := os.ReadFile(sshtest.Helper(t))
	if err != nil {
		t.Fatal(err)
	}
	// the mark of build info, with its first byte changed so that this program does not contain it
	mark := []byte("1w\xaf\f\x92t\b\x02A\xe1\xc1\a\xe6\xd6\x18\xe6")
	mark[0]--
	words := "path\texample.org/renamed/cmd/gpuaas-agent\nmod\t"
	info := string(mark) + words
	for name, c := range map[string]struct {
		text string
		here bool // there is a helper to push, but no place for it on the node
		word diag.Failure
	}{
		"none here":               {string(program) + info, false, diag.OK},
		"no place there":          {string(program) + info, true, diag.OK},
		"another program":         {string(program), false, diag.SSHSetup},
		"its words in a sentence": {string(program) + "\n" + words, false, diag.SSHSetup},
		"in a script":             {oldHelper + info, false, diag.SSHSetup},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			s := sshtest.Start(t, sshtest.Config{Env: m.env()})
			cfg := configFor(t, s)
			cfg.Version, cfg.HelperDirs = "newer", nil
			if c.here {
				cfg.HelperDirs = ours(t)
				m.program(t, "mkdir", "#!/bin/sh\nexit 1\n")
			}
			cfg.Agent.Binary = m.program(t, "installed", c.text)
			facts := open(t, cfg).Probe(within(t, 2*time.Minute), []diag.Request{{Op: diag.OpSSH}, {Op: diag.OpClock}})
			for _, f := range facts {
				if f.Failure != c.word {
					t.Errorf("%s: %q %s", f.Request.Op, f.Failure, f.Detail)
				}
			}
			if got := facts[0].SSH; c.word == diag.OK && (got.Helper != "installed" || got.HelperVersion != sshtest.Version) {
				t.Errorf("%+v", got)
			}
			if calls, err := os.ReadFile(filepath.Join(m.bin, "called")); err == nil {
				t.Errorf("it was started:\n%s", calls)
			}
		})
	}
}

func TestSudo(t *testing.T) {
	const allow, refuse = "#!/bin/sh\necho sudo >>\"$(dirname \"$0\")\"/used\n[ \"$1\" = -n ] || exit 9\nshift\nexec " +
		"\"$@\"\n", "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"
	// A server may read a command's two streams in any order: stderr may arrive after output that was written later.
	late := []string{"sh", "-c", `{ "$@" 2>&1 >&3 | { sleep 0.2; exec cat >&2; }; } 3>&1`, "sh"}
	yes := true
	for name, c := range map[string]struct {
		user   string
		sudo   *bool
		script string
		wrap   []string
		word   diag.Failure
		used   bool
	}{
		"root needs none":             {"root", nil, refuse, nil, diag.OK, false},
		"another login uses it":       {"ops", nil, allow, nil, diag.OK, true},
		"refused, so without":         {"ops", nil, refuse, nil, diag.OK, false},
		"refused, and said late":      {"ops", nil, refuse, late, diag.OK, false},
		"refused, where it was asked": {"ops", &yes, refuse, nil, diag.SSHExec, false},
		"the same, said late":         {"ops", &yes, refuse, late, diag.SSHExec, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.program(t, "sudo", c.script)
			s := sshtest.Start(t, sshtest.Config{Env: m.env(), Wrap: c.wrap})
			cfg := configFor(t, s)
			cfg.SSH.User, cfg.SSH.Sudo = c.user, c.sudo
			f := loginFact(within(t, 2*time.Minute), open(t, cfg))
			if f.Failure != c.word {
				t.Fatalf("%q at %s: %s", f.Failure, f.Phase, f.Detail)
			}
			if refused := c.word == diag.OK && c.user != "root" && !c.used; f.SSH.SudoRefused != refused {
				t.Errorf("sudo refused: %v", f.SSH.SudoRefused)
			}
			if c.word != diag.OK && !strings.Contains(f.Detail, "a password is required") {
				t.Errorf("detail %q", f.Detail)
			}
			if _, err := os.Stat(filepath.Join(m.bin, "used")); (err == nil) != c.used {
				t.Errorf("sudo used: %v", err == nil)
			}
		})
	}
}

// TestSudoDoesNotWork: a node without sudo, or with one that refuses, is probed as the login user, even if the helper
// must be pushed first, which would need sudo as well.
func TestSudoDoesNotWork(t *testing.T) {
	for words, missing := range map[string]bool{
		"bash: line 1: sudo: command not found": true, "sh: 1: sudo: not found": true, "sudo: a password is required": false,
	} {
		t.Run(words, func(t *testing.T) {
			m := newMachine(t)
			m.program(t, "sudo", "#!/bin/sh\necho '"+words+"' >&2\nexit 127\n")
			s := sshtest.Start(t, sshtest.Config{Env: m.env()})
			cfg := configFor(t, s)
			cfg.SSH.User, cfg.Agent.Binary, cfg.HelperDirs = "ops", "/nonexistent", ours(t)
			f := loginFact(within(t, 2*time.Minute), open(t, cfg))
			if !f.Passed() || f.SSH.Helper != "pushed" || !f.SSH.SudoRefused || f.SSH.SudoMissing != missing {
				t.Errorf("%q at %s: %s; %+v", f.Failure, f.Phase, f.Detail, f.SSH)
			}
		})
	}
}

// TestSlowLogin: a shell or sudo that takes longer than a helper is not taken for one that runs nothing.
func TestSlowLogin(t *testing.T) {
	m := newMachine(t)
	m.program(t, "sudo", "#!/bin/sh\nshift\nsleep 2\nexec \"$@\"\n")
	for name, c := range map[string]struct {
		user string
		wrap []string
	}{
		"shell": {"root", []string{"sh", "-c", `sleep 2; exec "$@"`, "sh"}},
		"sudo":  {"ops", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := configFor(t, sshtest.Start(t, sshtest.Config{Env: m.env(), Wrap: c.wrap}))
			cfg.SSH.User, cfg.HelloTimeout = c.user, time.Second
			if f := loginFact(within(t, time.Minute), open(t, cfg)); f.Failure != diag.OK || f.SSH.Helper != "installed" {
				t.Errorf("%q at %s: %s %+v", f.Failure, f.Phase, f.Detail, f.SSH)
			}
		})
	}
}

// TestHangingSudo: a helper behind a sudo that hangs is not said to have started.
func TestHangingSudo(t *testing.T) {
	m := newMachine(t)
	m.program(t, "sudo", "#!/bin/sh\nexec sleep 60\n")
	cfg := configFor(t, sshtest.Start(t, sshtest.Config{Env: m.env()}))
	cfg.SSH.User = "ops"
	_, facts := inVain(t, cfg, diag.Timeout, "exec")
	if !strings.Contains(facts[0].Detail, "or the sudo before it, did not answer within") {
		t.Errorf("detail %q", facts[0].Detail)
	}
}

func TestGreetingsAreNotTheProtocol(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{
		Wrap: []string{"sh", "-c", `printf 'Welcome to {node}\nno newline at all '; echo; exec "$@"`, "sh"},
	})
	if f := loginFact(within(t, 2*time.Minute), open(t, configFor(t, s))); f.Failure != diag.OK {
		t.Errorf("%q %s", f.Failure, f.Detail)
	}
}

// As root, the helper is pushed to its own tmpfs, which can be removed. The mount is in a mount namespace of the test,
// over a noexec /run, as on the lab's machines.
func TestPushAsRoot(t *testing.T) {
	tier.NeedsHost(t)
	if os.Getuid() != 0 {
		t.Skip("needs root, to own a mount namespace")
	}
	holder := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c",
		"mount -t tmpfs -o noexec tmpfs /run && echo ready && exec cat")
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	holder.Stdout, holder.Stderr = pw, &out
	if err := holder.Start(); err != nil {
		t.Skip("no mount namespace here: ", err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = holder.Wait(); _ = pr.Close() })
	_ = pw.Close()
	if n, _ := pr.Read(make([]byte, 5)); n == 0 {
		t.Skip("no mounts here: ", out.String())
	}
	inside := []string{"nsenter", "-t", strconv.Itoa(holder.Process.Pid), "-m"}
	s := sshtest.Start(t, sshtest.Config{Wrap: inside})
	cfg := configFor(t, s)
	cfg.Version, cfg.HelperDirs, cfg.Agent.Binary = sshtest.Version, ours(t), "/nonexistent"
	for round := range 2 { // the second finds it
		n := open(t, cfg)
		ctx := within(t, 2*time.Minute)
		f := loginFact(ctx, n)
		if f.Failure != diag.OK || f.SSH.Helper != "pushed" ||
			!strings.HasPrefix(f.SSH.HelperPath, pushDir+"/gpuaas-agent-") {
			t.Fatalf("round %d: %q at %s: %s %+v", round, f.Failure, f.Phase, f.Detail, f.SSH)
		}
		if round == 1 {
			if err := n.Remove(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	check := exec.Command(inside[0], append(inside[1:], "sh", "-c", "mountpoint "+pushDir+"; ls "+pushDir)...)
	if b, err := check.CombinedOutput(); err == nil || !strings.Contains(fmt.Sprint(string(b)), "No such file") {
		t.Errorf("after the removal: %s %v", b, err)
	}
}

// TestPushThatIsCutLeavesNothing: if the connection ends while a helper arrives, its incomplete file is removed,
// although nobody is left to read what the script says.
func TestPushThatIsCutLeavesNothing(t *testing.T) {
	tier.NeedsHost(t)
	m := newMachine(t)
	cmd := exec.Command("sh", "-c", pushScript, "sh", "gpuaas-agent-0123456789abcdef", strings.Repeat("0", 64))
	cmd.Env = m.env()
	cmd.Stdin = strings.NewReader("the first bytes of a program")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Run() // how it ends does not matter
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(m.runtime, "gpuaasctl")
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("the script did not get as far as its folder: %v", err)
	}
	if len(left) != 0 {
		t.Errorf("it left %v in %s", left, dir)
	}
}
