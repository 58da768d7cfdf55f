//go:build linux

package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuaas/gpuaasctl/diag"
)

// shellUser makes a user with this shell; the user is nobody, so that the change of user is tested, too.
func shellUser(t *testing.T, fakes fakes, shell string) diag.Request {
	t.Helper()
	fakes.passwd(t, "tenant:x:65534:65534::/:"+shell)
	fakes.script(t, "id", "echo 65534 4242")
	return diag.Request{Op: diag.OpPTY, User: "tenant", TimeoutMS: 5000}
}

// openDir is a folder that every user can reach.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "probe-pty-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func shell(t *testing.T, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPTYAnswers(t *testing.T) {
	needsRoot(t)
	defer goleak.VerifyNone(t)
	fakes := newFakes(t)
	dir := openDir(t)
	for _, sh := range []string{"/bin/sh", "/bin/bash",
		shell(t, dir, "who", fmt.Sprintf(`id -u >%[1]s/uid; tty >%[1]s/tty; /usr/bin/id -G >%[1]s/groups; sleep 600 & exec sh`, dir))} {
		f := measure(t, shellUser(t, fakes, sh))
		wantWord(t, f, diag.OK)
		if f.PTY == nil || !f.PTY.NonceOK || f.PTY.FirstByteMS < 1 || f.PTY.Shell != sh || f.User.Name != "tenant" {
			t.Errorf("%s: %+v", sh, f.PTY)
		}
	}
	for name, want := range map[string]string{"uid": "65534", "tty": "/dev/pts/", "groups": "4242"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s = %q, %v", name, b, err)
		}
	}
}

func TestPTYLeavesNobody(t *testing.T) {
	needsRoot(t)
	fakes := newFakes(t)
	dir := openDir(t)
	sh := shell(t, dir, "busy", fmt.Sprintf(`trap '' HUP; sleep 601 & echo $! >%s/pid; exec sh`, dir))
	wantWord(t, measure(t, shellUser(t, fakes, sh)), diag.OK)
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for range 6000 {
		if s, err := readStat(pid); err != nil || s.state == "Z" {
			return // whoever reaps orphans may take its time
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("process %d outlived the session", pid)
}

func TestPTYFailures(t *testing.T) {
	needsRoot(t)
	fakes := newFakes(t)
	dir := openDir(t)
	for _, c := range []struct {
		name, shell string
		word        diag.Failure
		ms          int64
	}{
		{"ends", shell(t, dir, "ends", "exit 3"), diag.PTYFailed, 5000},
		{"sleeps", shell(t, dir, "sleeps", "exec sleep 600"), diag.PTYSilent, 200},
		{"only echoes", shell(t, dir, "echoes", "exec cat"), diag.PTYSilent, 200},
		{"floods", shell(t, dir, "floods", "exec yes"), diag.PTYFailed, 5000},
		{"no program", brokenShell(t, dir), diag.PTYFailed, 5000},
		{"nologin", "/usr/sbin/nologin", diag.ShellMissing, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := shellUser(t, fakes, c.shell)
			req.TimeoutMS = c.ms
			f := measure(t, req)
			wantWord(t, f, c.word)
			if f.PTY != nil && f.PTY.NonceOK {
				t.Error("a nonce without a shell")
			}
			if c.name == "sleeps" && f.PTY.FirstByteMS != 0 {
				t.Error("the terminal's echo was taken for the shell's")
			}
		})
	}
	fakes.passwd(t, "other:x:1:1:::/bin/sh")
	wantWord(t, measure(t, diag.Request{Op: diag.OpPTY, User: "tenant"}), diag.UserMissing)
}

// brokenShell is executable, and nothing that the kernel can run.
func brokenShell(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "noise")
	if err := os.WriteFile(path, []byte{1, 2, 3}, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
