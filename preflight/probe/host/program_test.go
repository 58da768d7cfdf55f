//go:build linux

package host

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestNoProgramIsRun: a script, a Go program and the program of a unit are read and never started, whatever their
// names, and the machine's processes are the same afterwards.
func TestNoProgramIsRun(t *testing.T) {
	fakes := kit.NewFakes(t)
	called := filepath.Join(t.TempDir(), "called")
	logs := `echo "$@" >>'` + called + `'; sleep 600`
	agent := fakes.Script(t, "gpuaas-agent", logs)
	program := buildProgram(t, "daemon", "", called)
	cmd := kit.Sleeper(t)
	fakes.Unit(t, "gpuaas-node-agent.service", kit.RunningUnit(cmd.Process.Pid, execStart(program))...)
	before := children(t)
	for _, req := range []diag.Request{
		{Target: agent}, {Target: program}, {Target: agent, Unit: "gpuaas-node-agent.service"},
		{Target: agent, VersionCommand: []string{agent, "version"}}, // from a task of the platform, without an operator
	} {
		req.Op = diag.OpBinary
		f := run(t, req)
		kit.WantFailure(t, f, diag.OK)
		if f.Binary.Version != "" {
			t.Errorf("%s has version %q", f.Binary.Path, f.Binary.Version)
		}
	}
	if text, err := os.ReadFile(called); err == nil {
		t.Errorf("a program was run:\n%s", text)
	}
	if after := children(t); after != before {
		t.Errorf("processes before:\n%s\nafter:\n%s", before, after)
	}
}

// children lists this process's children and grandchildren.
func children(t *testing.T) string {
	t.Helper()
	tier.NeedsHost(t)
	out, err := exec.Command("ps", "-o", "pid=,args=", "--ppid", strconv.Itoa(os.Getpid())).Output()
	if err != nil && len(out) == 0 {
		t.Skip("skipped: needs ps: ", err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "ps -o") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func execStart(path string) string {
	return fmt.Sprintf("ExecStart={ path=%s ; argv[]=%s run ; ignore_errors=no ; start_time=[n/a] ; pid=0 }", path, path)
}

// buildProgram builds a Go program whose main package is example.org/MAIN. It appends its arguments to the file called,
// and sleeps. stamp is main.version.
func buildProgram(t *testing.T, main, stamp, called string) string {
	t.Helper()
	tier.NeedsHost(t)
	dir := t.TempDir()
	folder := filepath.Join(dir, main)
	text := "package main\nimport (\"fmt\"; \"os\"; \"time\")\nvar version = \"dev\"\nfunc main() {\n" +
		"f, _ := os.OpenFile(" + strconv.Quote(called) + ", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)\n" +
		"fmt.Fprintln(f, version, os.Args)\ntime.Sleep(10*time.Minute)\n}\n"
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "main.go"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org\ngo 1.26\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "built", filepath.Base(main))
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+stamp, "-o",
		path, "./"+main)
	// the race detector's run has cgo, and would compile everything again
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// TestProgramThatCouldNotBeRead: programs that were not read in time are not reported as different.
func TestProgramThatCouldNotBeRead(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, path := range []string{self, "/bin/sleep"} {
		b := &diag.BinaryFacts{Path: path, Kind: kindELF}
		if identify(ctx, b, ""); b.OurAgent != nil {
			t.Errorf("%s: ours: %t", path, *b.OurAgent)
		}
	}
}

// TestWhoseProgram: our agent is recognized by its main package, whatever its module's and file's names, and by being
// the program that reads it; its version by the stamp from its build.
func TestWhoseProgram(t *testing.T) {
	tier.NeedsHost(t)
	fakes := kit.NewFakes(t)
	ours := buildProgram(t, "cmd/gpuaas-agent", Stamped("gpuaas-agent", "v1.2.3-4-g00ff"), "/dev/null")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(t.TempDir(), "big")
	if err := errors.Join(exec.Command("cp", ours, big).Run(), os.Truncate(big, maxDigest+1)); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	for _, c := range []struct {
		name, path    string
		ours          *bool
		main, version string
	}{
		{"ours", ours, &yes, "example.org/cmd/gpuaas-agent", "gpuaas-agent v1.2.3-4-g00ff"},
		{"ours without a stamp", buildProgram(t, "cmd/gpuaas-agent", "v1", "/dev/null"), &yes, "example.org/cmd/gpuaas-agent",
			""},
		{"this program", self, &yes, "github.com/gpuaas/gpuaasctl/preflight/probe/host.test", ""},
		{"another Go program with our stamp", buildProgram(t, "cmd/other", Stamped("gpuaas-agent", "v1"), "/dev/null"), &no,
			"example.org/cmd/other", ""},
		{"a program of the system's", "/bin/sleep", &no, "", ""},
		{"a script, which may start anything", fakes.Script(t, "wrapper", "exec agent"), nil, "", ""},
		{"too large to be read", big, nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := run(t, diag.Request{Op: diag.OpBinary, Target: c.path})
			kit.WantFailure(t, f, diag.OK)
			b := f.Binary
			if (b.OurAgent == nil) != (c.ours == nil) || (b.OurAgent != nil && *b.OurAgent != *c.ours) {
				t.Errorf("ours: %v", b.OurAgent)
			}
			if b.Version != c.version || (b.GoMain != c.main &&
				c.main != "github.com/gpuaas/gpuaasctl/preflight/probe/host.test") {
				t.Errorf("%+v", b)
			}
		})
	}
	t.Run("what a wrapper runs", func(t *testing.T) {
		cmd := exec.Command(ours)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		fakes.Unit(t, "x.service", kit.RunningUnit(cmd.Process.Pid, execStart(fakes.Script(t, "wrapper", "exec agent")))...)
		b := run(t, diag.Request{Op: diag.OpBinary, Target: "/none", Unit: "x.service"}).Binary
		if b.OurAgent == nil || !*b.OurAgent || b.Version != "gpuaas-agent v1.2.3-4-g00ff" || b.Kind != kindScript {
			t.Errorf("%+v", b)
		}
	})
}

// TestReadStamp: a mark without a version, a mark split across two buffers, and two marks.
func TestReadStamp(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{Stamped("gpuaas-agent", "v1"), "v1"},
		{Stamped("gpuaas-agent", "") + Stamped("gpuaas-agent", "a b") + Stamped("gpuaas-agent", "v2"), "v2"},
		{Stamped("gpuaas-agent", strings.Repeat("v", maxVersion)), strings.Repeat("v", maxVersion)},
		{Stamped("gpuaas-agent", strings.Repeat("v", maxVersion+1)), ""},
		{strings.Repeat("x", 256<<10-7) + Stamped("gpuaas-agent", "v3"), "v3"},
		{strings.Repeat("x", 512<<10-97) + Stamped("gpuaas-agent", "v4") + strings.Repeat("y", 300<<10), "v4"},
		{Stamped("gpuaas-fault", "v5"), ""},
		{"[[gpuaas-agent=v6", ""},
	} {
		if got := readStamp(strings.NewReader(c.text), "gpuaas-agent"); got != c.want {
			t.Errorf("%d bytes: %q, want %q", len(c.text), got, c.want)
		}
	}
	if v := Unstamped("gpuaas-agent", Stamped("gpuaas-agent", "v1")); v != "v1" ||
		Unstamped("gpuaas-agent", "dev") != "dev" {
		t.Errorf("%q", v)
	}
}

// TestVersionCommand: the profile's command runs only if an operator started the helper, with a time limit and bounded
// output; its failure is not a failure of the program.
func TestVersionCommand(t *testing.T) {
	fakes := kit.NewFakes(t)
	agent := fakes.Script(t, "fleetd", "exit 99")
	for name, c := range map[string]struct{ body, version, detail string }{
		"answers": {`test "$*" = --version && echo "fleetd 1.2.3" && echo more`, "fleetd 1.2.3", ""},
		"fails":   {`echo "no such command" >&2; exit 3`, "", "exit status 3: no such command"},
		"mute":    {`exit 0`, "", "printed nothing"},
		"tells":   {`echo "fleetd 1 token=` + kit.Canary + `"`, "fleetd 1 token=" + diag.Redacted, ""},
		"flood":   {`yes | head -c 1000000`, "y", ""},
	} {
		ask := fakes.Script(t, "ask-"+name, c.body)
		f := kit.Run(kit.Patient(t), &Prober{Commands: true},
			diag.Request{Op: diag.OpBinary, Target: agent, VersionCommand: []string{ask, "--version"}})
		kit.WantFailure(t, f, diag.OK)
		if f.Binary.Version != c.version || !strings.Contains(f.Detail, c.detail) || strings.Contains(f.Detail, kit.Canary) {
			t.Errorf("%s: version %q, detail %q", name, f.Binary.Version, f.Detail)
		}
	}
	began := time.Now()
	hangs := fakes.Script(t, "hangs", `sleep 600 & wait`)
	f := kit.Run(kit.Patient(t), &Prober{Commands: true},
		diag.Request{Op: diag.OpBinary, Target: agent, VersionCommand: []string{hangs}, TimeoutMS: 50})
	// a child that it leaves behind runs for ten minutes
	if took := time.Since(began); took > time.Minute || f.Binary.Version != "" {
		t.Errorf("%+v after %s", f, took)
	}
}

func TestBinaryCannotRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	host, known := hostMachine()
	if !known {
		t.Fatal("this machine is not in the table")
	}
	foreign := elf.EM_AARCH64
	if host == foreign {
		foreign = elf.EM_X86_64
	}
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18], head[20] = byte(elf.ET_EXEC), byte(foreign), byte(elf.EV_CURRENT)
	bare := append([]byte{}, head...)
	bare[18] = byte(host)
	whole, err := os.ReadFile(buildProgram(t, "cmd/gpuaas-agent", "v1", "/dev/null"))
	if err != nil {
		t.Fatal(err)
	}
	cLike, err := os.ReadFile("/bin/sleep") // has a loader
	if err != nil {
		t.Fatal(err)
	}
	unloadable := bytes.ReplaceAll(cLike, []byte("/ld-linux"), []byte("/no-linux"))
	for _, c := range []struct {
		name, path string
		word       diag.Failure
		text       string
	}{
		{"missing", filepath.Join(dir, "none"), diag.BinaryMissing, ""},
		{"a folder", dir, diag.BinaryExecFormat, ""},
		{"another machine's", file("foreign", 0o755, string(head)), diag.BinaryExecFormat, foreign.String()},
		{"empty", file("empty", 0o755, ""), diag.BinaryExecFormat, "exec format error"},
		{"zeros", file("zeros", 0o755, string(make([]byte, 4096))), diag.BinaryExecFormat,
			"neither an ELF program nor a script"},
		{"text", file("text", 0o755, "echo hello\n"), diag.BinaryExecFormat, "exec format error"},
		{"a head alone", file("bare", 0o755, string(bare)), diag.BinaryExecFormat, "nothing to load"},
		{"ten bytes of one", file("ten", 0o755, string(whole[:10])), diag.BinaryExecFormat, "cut off"},
		{"half of one", file("half", 0o755, string(whole[:len(whole)/2])), diag.BinaryExecFormat, "cut off"},
		{"all but a page", file("most", 0o755, string(whole[:len(whole)-4096])), diag.BinaryExecFormat, "cut off"},
		{"no loader", file("unloadable", 0o755, string(unloadable)), diag.BinaryExecFormat, "loader is missing"},
		{"a pipe", pipe(t, filepath.Join(dir, "pipe")), diag.BinaryExecFormat, "not a regular file"},
		{"not executable", file("plain", 0o644, "#!/bin/sh\n"), diag.BinaryNotExecutable, "permission denied"},
		{"no interpreter", file("lost", 0o755, "#!/no/such/shell\n"), diag.BinaryExecFormat, "interpreter"},
		{"relative", "sh", diag.Unsupported, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := run(t, diag.Request{Op: diag.OpBinary, Target: c.path})
			kit.WantFailure(t, f, c.word)
			if !strings.Contains(f.Detail, c.text) {
				t.Errorf("detail = %q, want %q in it", f.Detail, c.text)
			}
		})
	}
}

// pipe makes a named pipe without a writer.
func pipe(t *testing.T, path string) string {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBinaryOfAUnit(t *testing.T) {
	fakes := kit.NewFakes(t)
	usual := fakes.Script(t, "agent", `echo 1`)
	replaced := fakes.Script(t, "agent-other", `echo 2`)
	cmd := kit.Sleeper(t)
	ask := func(path string) diag.Fact {
		fakes.Unit(t, "x.service", kit.RunningUnit(cmd.Process.Pid, execStart(path))...)
		return run(t, diag.Request{Op: diag.OpBinary, Target: usual, Unit: "x.service"})
	}
	f := ask(usual)
	kit.WantFailure(t, f, diag.OK)
	// sleep runs
	if b := f.Binary; b.Path != usual || len(b.Running) != 64 || b.Running == b.SHA256 || b.OurAgent == nil ||
		*b.OurAgent {
		t.Errorf("%+v", f.Binary)
	}
	f = ask(replaced)
	kit.WantFailure(t, f, diag.OK)
	if f.Binary.Path != replaced {
		t.Errorf("a drop-in over ExecStart is not seen: %+v", f.Binary)
	}
	fakes.Script(t, "systemctl", "exit 1")
	f = run(t, diag.Request{Op: diag.OpBinary, Target: usual, Unit: "x.service"})
	kit.WantFailure(t, f, diag.OK)
	if f.Detail == "" {
		t.Error("nothing says that the unit was not asked")
	}
}

func TestUser(t *testing.T) {
	fakes := kit.NewFakes(t)
	home := t.TempDir()
	for _, c := range []struct {
		name, entry, ask string
		word             diag.Failure
		homeOK           bool
	}{
		{"good", "alice:x:1000:1000:A:" + home + ":/bin/sh", "alice", diag.OK, true},
		{"default shell", "alice:x:1000:1000::" + home + ":", "alice", diag.OK, true},
		{"no home", "alice:x:1000:1000:::/bin/sh", "alice", diag.OK, false},
		{"missing", "alice:x:1000:1000:::/bin/sh", "bob", diag.UserMissing, false},
		{"a uid is no name", "1000:x:1000:1000:::/bin/sh", "01000", diag.UserMissing, false},
		{"shell missing", "alice:x:1000:1000::/nowhere:/no/such/shell", "alice", diag.ShellMissing, false},
		{"shell no program", "alice:x:1000:1000::" + home + ":/etc/passwd", "alice", diag.ShellMissing, true},
		{"shell a folder", "alice:x:1000:1000::" + home + ":/bin", "alice", diag.ShellMissing, true},
		{"nologin", "alice:x:1000:1000::" + home + ":/usr/sbin/nologin", "alice", diag.ShellMissing, true},
		{"false", "alice:x:1000:1000::" + home + ":/bin/false", "alice", diag.ShellMissing, true},
		{"an option", "alice:x:1000:1000:::/bin/sh", "--help", diag.Unknown, false},
		{"garbage", "alice:x:many:1000:::/bin/sh", "alice", diag.Unknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakes.Passwd(t, c.entry)
			f := run(t, diag.Request{Op: diag.OpUser, Target: c.ask})
			kit.WantFailure(t, f, c.word)
			found := c.word == diag.OK || c.word == diag.ShellMissing
			if found != (f.User != nil) {
				t.Fatalf("user = %+v", f.User)
			}
			if found && (*f.User.HomeOK != c.homeOK || *f.User.ShellOK != (c.word == diag.OK) || f.User.UID != 1000) {
				t.Errorf("%+v: home %v, shell %v", f.User, *f.User.HomeOK, *f.User.ShellOK)
			}
		})
	}
}

func TestUserOfThisHost(t *testing.T) {
	tier.NeedsHost(t)
	f := run(t, diag.Request{Op: diag.OpUser, Target: "root"})
	if f.User == nil || f.User.UID != 0 || f.User.Name != "root" {
		t.Errorf("%+v", f)
	}
	// getent takes a number for a uid; the agent looks users up by name.
	kit.WantFailure(t, run(t, diag.Request{Op: diag.OpUser, Target: "0"}), diag.UserMissing)
}

func TestClock(t *testing.T) {
	c := run(t, diag.Request{Op: diag.OpClock}).Clock
	if d := time.Since(c.Now.Time); d < 0 || d > time.Minute {
		t.Errorf("now = %v", c.Now)
	}
	if len(c.BootID) != 36 || c.UptimeS == nil || *c.UptimeS < 1 {
		t.Errorf("%+v", c)
	}
}
