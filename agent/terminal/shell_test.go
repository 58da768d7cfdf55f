package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(becomeMark); spec != "" {
		fmt.Fprintln(os.Stderr, Become(spec))
		os.Exit(ExitNoShell)
	}
	leaktest.Main(m)
}

// script creates a test's shell, and its user.
func script(t *testing.T, text string) user {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testsh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	return user{host.User{Name: "tester", Home: t.TempDir(), Shell: path, UID: uid, GID: gid}, []uint32{gid}}
}

func begin(t *testing.T, u user) *shell {
	t.Helper()
	s, err := startShell(u, 80, 24, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end() })
	return s
}

// read collects the shell's output until the pattern matches, and returns its first group.
func read(t *testing.T, s *shell, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	var all bytes.Buffer
	buf := make([]byte, 1024)
	if err := s.master.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		if m := want.FindStringSubmatch(all.String()); m != nil {
			return m[1]
		}
		n, err := s.master.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			t.Fatalf("no %s in %q: %v", pattern, all.String(), err)
		}
	}
}

func TestFirstWords(t *testing.T) {
	const patient, short = 30 * time.Second, 200 * time.Millisecond
	for name, tc := range map[string]struct {
		shell  string
		code   string // of the error
		words  string // in the error, or printed by the shell
		within time.Duration
	}{
		"ends without a word": {shell: "exit 3", code: wire.CodePTYExited, words: "code 3", within: patient},
		"says why and ends": {shell: "echo This account is not available; exit 1", code: wire.CodePTYExited,
			words: "not available", within: patient},
		"prompts":                {shell: "printf prompt; sleep 60", words: "prompt", within: patient},
		"lives without a word":   {shell: "sleep 60", code: wire.CodePTYSilent, words: "printed nothing", within: short},
		"dies by its own signal": {shell: "kill -KILL $$", code: wire.CodePTYExited, words: "code 137", within: patient},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, script(t, tc.shell))
			if tc.code == wire.CodePTYExited { // it does, however late that is noticed
				s.settle = patient
			}
			began := time.Now()
			said, err := s.firstWords(t.Context(), tc.within)
			took := time.Since(began)
			var e *Error
			switch {
			case tc.code == "" && err != nil:
				t.Fatal(err)
			case tc.code != "" && (!errors.As(err, &e) || e.Code != tc.code || !strings.Contains(e.Error(), tc.words)):
				t.Fatalf("error %v, want %s with %q", err, tc.code, tc.words)
			case tc.code == "" && !strings.Contains(string(said), tc.words):
				t.Fatalf("said %q", said)
			}
			if silent := tc.code == wire.CodePTYSilent; silent == (took < tc.within) {
				t.Errorf("took %v of %v", took, tc.within)
			}
		})
	}
}

// TestLastOutputIsRead: output in a terminal with an expired deadline is read, without waiting for more.
func TestLastOutputIsRead(t *testing.T) {
	s := begin(t, script(t, "printf last-words; sleep 60"))
	if err := s.master.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var all []byte
	buf := make([]byte, 64)
	if !wait.Until(t, func() bool {
		if _, err := s.master.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("after %q its deadline is not over: %v", all, err)
		}
		all = append(all, buf[:s.waiting(buf)]...)
		return string(all) == "last-words"
	}) {
		t.Fatalf("only %q", all)
	}
	if n := s.waiting(buf); n != 0 {
		t.Errorf("%q came after it", buf[:n])
	}
}

// TestSilentShellHoldsUpNothing: a decision waits neither for a shell to print something, nor for the timeout of
// that.
func TestSilentShellHoldsUpNothing(t *testing.T) {
	s := begin(t, script(t, "sleep 60"))
	ctx, end := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { end(Decided(wire.EndAllocationReleased)) })
	began := time.Now()
	_, err := s.firstWords(ctx, 30*time.Second)
	var e *Error
	if took := time.Since(began); !errors.As(err, &e) || e.Code != wire.EndAllocationReleased || took > 20*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
}

func TestShellIsALoginShellOfItsUser(t *testing.T) {
	u := script(t,
		`echo "args $0 home $HOME pwd $(pwd) term $TERM ids $(id -u):$(id -g):$(id -G) tty $(stat -c %u $(tty)) env $(env | wc -l)"; sleep 60`)
	if os.Geteuid() == 0 {
		u.UID, u.GID, u.groups = 65534, 65534, []uint32{65534, 4, 24}
		if err := os.Chown(u.Home, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		for dir := u.Home; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			_ = os.Chmod(dir, 0o755)
		}
		for dir := u.Shell; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			_ = os.Chmod(dir, 0o755)
		}
	}
	got := read(t, begin(t, u), `(?s)(.*env )`)
	id := strconv.Itoa(int(u.UID))
	want := []string{"home " + u.Home, "pwd " + u.Home, "term xterm-256color", "ids " + id + ":", "tty " + id}
	if os.Geteuid() == 0 {
		want = append(want, "ids 65534:65534:65534 4 24")
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in %q", w, got)
		}
	}
}

func TestShellWithoutAHome(t *testing.T) {
	u := script(t, "echo pwd=$(pwd); sleep 60")
	u.Home = "/no/such/folder"
	read(t, begin(t, u), `(pwd=/)\r`)
}

func TestOnlyRootBecomesSomebodyElse(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("skipped: root may")
	}
	u := script(t, "sleep 60")
	u.UID++
	if _, err := startShell(u, 80, 24, DefaultLimits()); !errors.Is(err, unix.EPERM) {
		t.Errorf("error %v", err)
	}
}

func TestEndLeavesNothingInTheForeground(t *testing.T) {
	u := script(t, "")
	u.Shell = "/bin/sh"
	s := begin(t, u)
	if _, err := s.master.WriteString("sh -c 'trap \"\" HUP TERM; echo stubborn=$$.; sleep 600'\n"); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(read(t, s, `stubborn=(\d+)\.`))
	if err != nil {
		t.Fatal(err)
	}
	s.end()
	wait.For(t, "the shell's process ends", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestLookup(t *testing.T) {
	tier.NeedsHost(t)
	for name, code := range map[string]string{"": wire.CodeUserMissing, "-s": wire.CodeUserMissing,
		"no-such-user-here": wire.CodeUserMissing, "0": wire.CodeUserMissing, "a:b": wire.CodeUserMissing} {
		var e *Error
		if _, err := lookup(t.Context(), name); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%q: %v", name, err)
		}
	}
	u, err := lookup(t.Context(), "root")
	if err != nil || u.UID != 0 || u.Home == "" || len(u.groups) == 0 {
		t.Errorf("root: %+v, %v", u, err)
	}
}

// TestLookupWantsAShell: a shell that only refuses logins is rejected before it is started, by the same rule as in
// the probe.
func TestLookupWantsAShell(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for shell, code := range map[string]string{"/bin/sh": "", "": "", "/bin/false": wire.CodeShellMissing,
		"/no/such/shell": wire.CodeShellMissing} {
		text := "#!/bin/sh\necho ada:x:1000:1000:::" + shell + "\n"
		if err := os.WriteFile(filepath.Join(bin, "getent.new"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Rename(filepath.Join(bin, "getent.new"), filepath.Join(bin, "getent")),
			os.WriteFile(filepath.Join(bin, "id"), []byte("#!/bin/sh\necho 1000\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
		var e *Error
		_, err := lookup(t.Context(), "ada")
		if (code == "" && err != nil) || (code != "" && (!errors.As(err, &e) || e.Code != code)) {
			t.Errorf("shell %q: %v", shell, err)
		}
	}
}
