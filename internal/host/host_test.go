package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

func TestParseStat(t *testing.T) {
	s, err := parseStat("42 (a) S 1) b) T 1 42 43 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 999 1")
	want := Stat{State: "T", Name: "a) S 1) b", Group: 42, Session: 43, Started: 12345}
	if err != nil || s != want || !s.Stopped() || s.Ended() {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{"", "42 (x) S 1", "42 x) T 1 42 43 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 999 1"} {
		if s, err := parseStat(text); err == nil {
			t.Errorf("%q is taken for a process: %+v", text, s)
		}
	}
}

// TestThisProcess reads the test's own process in the real proc.
func TestThisProcess(t *testing.T) {
	pid := os.Getpid()
	s, err := This.Stat(pid)
	age, err2 := This.Age(s)
	if err != nil || err2 != nil || s.Ended() || age < 0 || age > time.Hour {
		t.Errorf("%+v, %s old, %v %v", s, age, err, err2)
	}
	if uid, ok := This.RealUser(pid); !ok || int(uid) != os.Getuid() {
		t.Errorf("user id %d, %t", uid, ok)
	}
	status, err := This.Status(pid)
	if err != nil || status.Number("Threads") < 1 || status.Number("VmRSS") < 100 ||
		status.Value("Pid") != strconv.Itoa(pid) {
		t.Errorf("%v:\n%s", err, status)
	}
	pids, err := This.PIDs(-1)
	if i := slices.Index(pids, pid); err != nil || i < 0 || (i > 0 && pids[i-1] >= pid) {
		t.Errorf("%v, %v", pids, err)
	}
	groups, err := This.Cgroups(pid)
	if err != nil || len(groups) == 0 || !strings.HasPrefix(groups[len(groups)-1].Path, "/") {
		t.Errorf("%+v, %v", groups, err)
	}
	mounts, err := This.Mounts(Thread)
	if err != nil || !slices.ContainsFunc(mounts, func(m Mount) bool { return m.Point == "/proc" && m.Kind == "proc" }) {
		t.Errorf("%+v, %v", mounts, err)
	}
	if len(This.BootID()) != 36 {
		t.Errorf("boot %q", This.BootID())
	}
	if _, err := This.Stat(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a process that is not there: %v", err)
	}
}

// TestAnotherProc: a file over its limit is an error; its first part is not returned.
func TestAnotherProc(t *testing.T) {
	p := Proc(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(string(p), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("10/status", "Name:\tx\nUid:\t1\t2\t3\t4\nVmRSS:\t    123 kB\n")
	write("9/status", "Uid:\t1\t2\t3\n")
	write("9/cgroup", "12:cpu,memory:/a:b\n0::/user.slice\n")
	write("11/status", "Uid:\t1\t2\t3\t4\n"+strings.Repeat("x", Small))
	write("self/status", "Uid:\t1\t2\t3\t4\n")
	pids, err := p.PIDs(-1)
	if err != nil || len(pids) != 3 || pids[0] != 9 || pids[2] != 11 {
		t.Errorf("%v, %v", pids, err)
	}
	s, err := p.Status(10)
	ids, ok := s.UIDs()
	if err != nil || !ok || ids != [4]uint32{1, 2, 3, 4} || s.Number("VmRSS") != 123 || s.Number("Threads") != 0 {
		t.Errorf("%v %t %v", ids, ok, err)
	}
	for _, pid := range []int{9, 11} {
		if _, ok := p.RealUser(pid); ok {
			t.Errorf("process %d has a user id", pid)
		}
	}
	groups, err := p.Cgroups(9)
	if err != nil || len(groups) != 2 || groups[0].Path != "/a:b" || groups[0].Unified ||
		groups[0].Controllers[1] != "memory" || !groups[1].Unified {
		t.Errorf("%+v, %v", groups, err)
	}
}

func TestParseMounts(t *testing.T) {
	all, err := parseMounts("36 35 98:0 /mnt1 /mnt\\040two\\134\\043 rw,noatime master:1 - ext3 /dev/root rw\n" +
		"37 35 0:5 / /x rw - tmpfs  ro,pids\n")
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	want := Mount{"36", "98:0", "/mnt1", `/mnt two\#`, "rw,noatime", "ext3", "/dev/root", "rw"}
	if all[0] != want {
		t.Errorf("%+v", all[0])
	}
	if m := all[1]; m.Source != "" || m.Super != "ro,pids" || !m.HasSuper("pids") || m.HasSuper("pid") {
		t.Errorf("%+v", m)
	}
	for _, text := range []string{"garbage\n", "36 35 98:0 /mnt1 /x rw master:1 ext3 /dev/root rw\n"} {
		if _, err := parseMounts(text); err == nil {
			t.Errorf("%q is taken for a mount", text)
		}
	}
}

func TestParseUnits(t *testing.T) {
	all := ParseUnits("Id=a.service\nMainPID=7\nEnvironmentFiles=/x (ignore_errors=no)\n" +
		"EnvironmentFiles=/y (ignore_errors=yes)\n\nId=b.socket\nMainPID=[not set]\n")
	if len(all) != 2 || all[0].PID() != 7 || all[1]["Id"] != "b.socket" || all[1].PID() != 0 {
		t.Fatalf("%q", all)
	}
	if got := all[0]["EnvironmentFiles"]; got != "/x (ignore_errors=no)\n/y (ignore_errors=yes)" {
		t.Errorf("%q", got)
	}
	if _, ok := all[1].Number("MainPID"); ok {
		t.Error("a number that is not set")
	}
}

func TestParseUser(t *testing.T) {
	u, err := ParseUser("ada:x:1000:1001:Ada L,,,:/home/ada:\nbob:x:1:1:::/bin/zsh\n")
	if want := (User{Name: "ada", UID: 1000, GID: 1001, Home: "/home/ada", Shell: "/bin/sh"}); err != nil || u != want {
		t.Errorf("%+v %v", u, err)
	}
	for _, line := range []string{"", "ada", "a:x:-1:1:::", "a:x:1:99999999999:::", "a:x:1:1:::/bin/sh:more"} {
		if _, err := ParseUser(line); err == nil {
			t.Errorf("%q is taken for a passwd line", line)
		}
	}
}

func TestFindUser(t *testing.T) {
	run := func(_ context.Context, argv ...string) (Answer, error) {
		if strings.Join(argv[:3], " ") != "getent passwd --" {
			t.Errorf("asked by %q", argv)
		}
		switch argv[3] {
		case `CORP\ada b@x`, "grace":
			return Answer{Out: []byte(argv[3] + ":x:1000:1000:::/bin/sh\n")}, nil
		case "1000":
			return Answer{Out: []byte("ada:x:1000:1000:::/bin/sh\n")}, nil
		case "broken":
			return Answer{Code: 1, Err: []byte("cannot reach the directory\nmore\n")}, nil
		}
		return Answer{Code: NoEntry}, nil
	}
	for name, want := range map[string]error{`CORP\ada b@x`: nil, "grace": nil, "1000": ErrNoUser, "bob": ErrNoUser,
		"": ErrUserName, "-s": ErrUserName, "a:b": ErrUserName, "a\nb": ErrUserName, "a\x00": ErrUserName,
		strings.Repeat("x", 257): ErrUserName} {
		if u, err := FindUser(t.Context(), run, name); !errors.Is(err, want) || (want == nil && u.Name != name) {
			t.Errorf("%q: %+v, %v", name, u, err)
		}
	}
	_, err := FindUser(t.Context(), run, "broken")
	if text := fmt.Sprint(err); !strings.HasSuffix(text, ": cannot reach the directory") {
		t.Error(text)
	}
}

// TestUsableShell has a row for each case of the rule that the agent, which starts the shell, and the probe share.
func TestUsableShell(t *testing.T) {
	dir := t.TempDir()
	make := func(name string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/bin/sh", link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, path string
		usable     bool
	}{
		{"a shell", "/bin/sh", true},
		{"a link to a shell", link, true},
		{"a program of any name", make("mine", 0o755), true},
		{"executable by its owner alone", make("own", 0o700), true},
		{"missing", "/no/such/shell", false},
		{"a folder", dir, false},
		{"a device", "/dev/null", false},
		{"without a bit of execution", make("plain", 0o644), false},
		{"nologin", make("nologin", 0o755), false},
		{"false", make("false", 0o755), false},
		{"true", make("true", 0o755), false},
		{"sync", make("sync", 0o755), false},
		{"shutdown", make("shutdown", 0o755), false},
		{"halt", make("halt", 0o755), false},
	} {
		if err := UsableShell(c.path); (err == nil) != c.usable {
			t.Errorf("%s (%s): %v", c.what, c.path, err)
		}
	}
}

func TestCommand(t *testing.T) {
	tier.NeedsHost(t)
	c := Command{Most: 8, Stdin: "in"}
	a, err := c.Run(t.Context(), "/bin/sh", "-c", `cat; pwd; echo "$LC_ALL"; echo one >&2; echo two >&2; exit 3`)
	if err != nil || a.Code != 3 || a.Signaled || string(a.Out) != "in/\nC\n" || a.Complaint() != "one" || a.Cut {
		t.Errorf("%+v %q, %v", a, a.Out, err)
	}
	a, err = c.Run(t.Context(), "/bin/sh", "-c", `echo 0123456789; kill -9 $$`)
	if err != nil || a.Code != 137 || !a.Signaled || string(a.Out) != "01234567" || !a.Cut {
		t.Errorf("%+v %q, %v", a, a.Out, err)
	}
	if _, err = c.Run(t.Context(), "no-such-program-here"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a missing program: %v", err)
	}
	began := time.Now()
	a, err = c.Run(t.Context(), "/bin/sh", "-c", `sleep 60 & echo $!`)
	if err != nil || time.Since(began) > 20*time.Second || a.Code != 0 || len(a.Out) == 0 {
		t.Errorf("a child that holds the output: %+v, %v", a, err)
	}
	if pid, _ := strconv.Atoi(strings.TrimSpace(string(a.Out))); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	runs := filepath.Join(t.TempDir(), "runs")
	go func() {
		wait.Until(t, func() bool {
			_, err := os.Stat(runs)
			return err == nil || ctx.Err() != nil
		})
		cancel(why)
	}()
	began = time.Now()
	a, err = c.Run(ctx, "/bin/sh", "-c", `sh -c 'echo $$; touch "$0"; exec sleep 60' "$0"; true`, runs)
	if !errors.Is(err, why) || time.Since(began) > 20*time.Second {
		t.Errorf("%+v, %v", a, err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(a.Out)))
	wait.For(t, "the child of a program whose time was up ends", func() bool {
		s, err := This.Stat(pid)
		return pid > 0 && (s.Ended() || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH))
	})
}

// TestOutputIsReadHoweverLate: a late reader gets what was written in time, though the pipe is held open.
func TestOutputIsReadHoweverLate(t *testing.T) {
	o, err := newOutput(64)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	held, err := syscall.Dup(int(o.to.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(held)
	if _, err := o.to.WriteString("in time"); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Second)
	if err := o.from.SetReadDeadline(past); err != nil {
		t.Fatal(err)
	}
	o.read()
	o.end(past)
	if got := o.String(); got != "in time" {
		t.Errorf("%q", got)
	}
}
