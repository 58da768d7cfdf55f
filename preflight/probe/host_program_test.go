//go:build linux

package probe

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

func TestBinaryVersion(t *testing.T) {
	fakes := newFakes(t)
	good := fakes.script(t, "agent", `test "$*" = version && echo "agent 1.2.3" && echo more`)
	f := measure(t, diag.Request{Op: diag.OpBinary, Target: good})
	wantWord(t, f, diag.OK)
	if b := f.Binary; b.Version != "agent 1.2.3" || b.Path != good || b.Size == 0 || len(b.SHA256) != 64 || b.Machine != "" || b.Running != "" {
		t.Errorf("%+v", b)
	}
	for name, c := range map[string]struct {
		body string
		word diag.Failure
		say  string
	}{
		"fails":  {`echo "no such command" >&2; exit 3`, diag.BinaryVersion, "exit status 3: no such command"},
		"mute":   {`exit 0`, diag.BinaryVersion, "printed nothing"},
		"killed": {`kill -9 $$`, diag.BinaryVersion, "exit status 137"},
		"tells":  {`echo "unknown flag; GPUAAS_ENROLLMENT_TOKEN=` + canary + `" >&2; exit 2`, diag.BinaryVersion, "GPUAAS_ENROLLMENT_TOKEN=" + diag.Redacted},
	} {
		f := measure(t, diag.Request{Op: diag.OpBinary, Target: fakes.script(t, name, c.body)})
		wantWord(t, f, c.word)
		if !strings.Contains(f.Detail, c.say) {
			t.Errorf("%s: %q", name, f.Detail)
		}
	}
	tells := measure(t, diag.Request{Op: diag.OpBinary, Target: fakes.script(t, "blabs", `echo "agent 1 token=`+canary+`"`)})
	if tells.Binary.Version != "agent 1 token="+diag.Redacted {
		t.Errorf("version %q", tells.Binary.Version)
	}
	began := time.Now()
	hangs := fakes.script(t, "hangs", `sleep 600 & wait`)
	wantWord(t, measure(t, diag.Request{Op: diag.OpBinary, Target: hangs, TimeoutMS: 50}), diag.Timeout)
	if took := time.Since(began); took > time.Minute { // what it left behind takes ten
		t.Errorf("it waited for what a program left behind, for %s", took)
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
	if elf.Machine(host) == foreign {
		foreign = elf.EM_X86_64
	}
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18] = byte(elf.ET_EXEC), byte(foreign)
	for _, c := range []struct {
		name, path string
		word       diag.Failure
		say        string
	}{
		{"missing", filepath.Join(dir, "none"), diag.BinaryMissing, ""},
		{"a folder", dir, diag.BinaryExecFormat, ""},
		{"another machine's", file("foreign", 0o755, string(head)), diag.BinaryExecFormat, foreign.String()},
		{"empty", file("empty", 0o755, ""), diag.BinaryExecFormat, "exec format error"},
		{"not executable", file("plain", 0o644, "#!/bin/sh\n"), diag.BinaryExecFormat, "permission denied"},
		{"no interpreter", file("lost", 0o755, "#!/no/such/shell\n"), diag.BinaryExecFormat, "interpreter"},
		{"relative", "sh", diag.Unsupported, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := measure(t, diag.Request{Op: diag.OpBinary, Target: c.path})
			wantWord(t, f, c.word)
			if !strings.Contains(f.Detail, c.say) {
				t.Errorf("detail = %q, want %q in it", f.Detail, c.say)
			}
		})
	}
}

func TestBinaryOfAUnit(t *testing.T) {
	fakes := newFakes(t)
	usual := fakes.script(t, "agent", `echo 1`)
	replaced := fakes.script(t, "agent-other", `echo 2`)
	cmd := sleeper(t)
	start := func(path string) string {
		return fmt.Sprintf("ExecStart={ path=%s ; argv[]=%s run ; ignore_errors=no ; start_time=[n/a] ; pid=0 }", path, path)
	}
	ask := func(path string) diag.Fact {
		fakes.unit(t, "x.service", running(cmd.Process.Pid, start(path))...)
		return measure(t, diag.Request{Op: diag.OpBinary, Target: usual, Unit: "x.service"})
	}
	f := ask(usual)
	wantWord(t, f, diag.OK)
	if f.Binary.Path != usual || len(f.Binary.Running) != 64 || f.Binary.Running == f.Binary.SHA256 {
		t.Errorf("%+v", f.Binary)
	}
	f = ask(replaced)
	wantWord(t, f, diag.OK)
	if f.Binary.Path != replaced || f.Binary.Version != "2" {
		t.Errorf("a drop-in over ExecStart is not seen: %+v", f.Binary)
	}
	f = ask("/bin/true")
	wantWord(t, f, diag.BinaryVersion)
	if f.Binary.Path != "/bin/true" || f.Binary.Version != "" || !strings.Contains(f.Detail, "not asked") {
		t.Errorf("%+v %+v", f, f.Binary)
	}
	fakes.script(t, "systemctl", "exit 1")
	f = measure(t, diag.Request{Op: diag.OpBinary, Target: usual, Unit: "x.service"})
	wantWord(t, f, diag.OK)
	if f.Detail == "" {
		t.Error("nothing says that the unit was not asked")
	}
}

func TestUser(t *testing.T) {
	fakes := newFakes(t)
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
			fakes.passwd(t, c.entry)
			f := measure(t, diag.Request{Op: diag.OpUser, Target: c.ask})
			wantWord(t, f, c.word)
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
	f := measure(t, diag.Request{Op: diag.OpUser, Target: "root"})
	if f.User == nil || f.User.UID != 0 || f.User.Name != "root" {
		t.Errorf("%+v", f)
	}
	// getent takes a number for a uid; the agent looks users up by name.
	wantWord(t, measure(t, diag.Request{Op: diag.OpUser, Target: "0"}), diag.UserMissing)
}

func TestClock(t *testing.T) {
	c := measure(t, diag.Request{Op: diag.OpClock}).Clock
	if d := time.Since(c.Now.Time); d < 0 || d > time.Minute {
		t.Errorf("now = %v", c.Now)
	}
	if len(c.BootID) != 36 || c.UptimeS == nil || *c.UptimeS < 1 {
		t.Errorf("%+v", c)
	}
}
