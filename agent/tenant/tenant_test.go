package tenant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

func TestProtected(t *testing.T) {
	for uid, protected := range map[uint32]bool{0: true, 1: true, 999: true, 1000: uint32(os.Getuid()) == 1000,
		65534: true, 65535: true, 1<<32 - 1: true, uint32(os.Getuid()): true, 1 << 31: false} {
		if err := Protected(uid, 0); errors.Is(err, ErrProtected) != protected {
			t.Errorf("user id %d: %v", uid, err)
		}
	}
	if Protected(1500, 2000) == nil {
		t.Error("an id below the configured bound may be ended")
	}
}

// TestEndRefusesSystemUsers: system users are refused, whatever the task says and whatever bound is configured.
func TestEndRefusesSystemUsers(t *testing.T) {
	for _, uid := range []uint32{0, 33, 999, 65534, uint32(os.Getuid())} {
		if n, err := (Host{First: 1}).End(t.Context(), "x", uid); n != 0 || !errors.Is(err, ErrProtected) {
			t.Errorf("user id %d: %d ended, %v", uid, n, err)
		}
	}
}

// tree creates a test's proc tree.
func tree(t *testing.T, processes map[int][2]string) Host {
	t.Helper()
	h := Host{Proc: host.Proc(t.TempDir()), Subuid: filepath.Join(t.TempDir(), "subuid")}.withDefaults()
	for pid, files := range processes {
		dir := h.Proc.Path(pid)
		for name, text := range map[string]string{"status": files[0], "cgroup": files[1]} {
			if err := errors.Join(os.MkdirAll(dir, 0o755),
				os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return h
}

func status(name, state, threads string, uids ...int) string {
	return fmt.Sprintf("Name:\t%s\nState:\t%s (x)\nUid:\t%d\t%d\t%d\t%d\nThreads:\t%s\n", name, state, uids[0], uids[1],
		uids[2], uids[3], threads)
}

// TestWhoseProcess: which processes belong to a login, and which do not.
func TestWhoseProcess(t *testing.T) {
	const tenants, agents = "0::/user.slice/user-1500.slice/session-3.scope\n",
		"0::/system.slice/gpuaas-node-agent.service\n"
	h := tree(t, map[int][2]string{
		10: {status("shell", "S", "1", 1500, 1500, 1500, 1500), agents},
		11: {status("passwd", "S", "1", 1500, 0, 0, 0), agents},           // a set-user-id program that the login started
		12: {status("threads", "Z", "2", 1500, 1500, 1500, 1500), agents}, // its first thread has ended, the second lives
		13: {status("container", "S", "1", 100005, 100005, 100005, 100005), agents},
		14: {status("other id", "S", "1", 2500, 2500, 2500, 2500), tenants}, // in its slice
		15: {status("in its terminal", "S", "1", 2500, 2500, 2500, 2500),
			"0::/gpuaas.slice/gpuaas-sessions.slice/gpuaas-session-u1500-ab12.service\n"},
		20: {status("ended", "Z", "1", 1500, 1500, 1500, 1500), agents},
		21: {status("sshd", "S", "1", 0, 0, 0, 0), tenants}, // root's part of its login
		22: {status("daemon", "S", "1", 33, 33, 33, 33), tenants},
		23: {status("neighbour", "S", "1", 1501, 1501, 1501, 1501), agents},
		24: {status("of root for a moment", "S", "1", 0, 1500, 0, 1500), agents},
		25: {status("neighbour's container", "S", "1", 200005, 200005, 200005, 200005), agents},
		26: {status("slice of 15000", "S", "1", 2500, 2500, 2500, 2500), "0::/user.slice/user-15000.slice/x\n"},
		28: {status("terminal of 15000", "S", "1", 2500, 2500, 2500, 2500),
			"0::/gpuaas.slice/gpuaas-sessions.slice/gpuaas-session-u15000-ab12.service\n"},
		29: {status("a name of its own", "S", "1", 2500, 2500, 2500, 2500),
			"0::/user.slice/user-2500.slice/user@2500.service/gpuaas.slice/" +
				"gpuaas-sessions.slice/gpuaas-session-u1500-ab12.service\n"},
		30: {status("root in its terminal", "S", "1", 0, 0, 0, 0),
			"0::/gpuaas.slice/gpuaas-sessions.slice/gpuaas-session-u1500-ab12.service\n"},
		27: {"Name:\tbroken\nUid:\t1500\n", agents},
	})
	if err := os.WriteFile(h.Subuid, []byte("ada:100000:65536\nada:200000:10\nbob:200000:65536\nada:0:5000\nada:x:1\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	found, _, err := h.listProcesses(t.Context(), login{uid: 1500, subordinate: h.subordinate("ada", 1500)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, p := range found {
		pids = append(pids, p.PID)
	}
	slices.Sort(pids)
	if want := []int{10, 11, 12, 13, 14, 15}; !slices.Equal(pids, want) {
		t.Errorf("the login's processes are %v, want %v", pids, want)
	}
}

// TestLeftIsBounded: a tenant that names a thousand processes does not fill the log, and cannot inject text into
// it.
func TestLeftIsBounded(t *testing.T) {
	l := &SurvivorsError{}
	for i := range 1000 {
		l.Processes = append(l.Processes, Process{PID: i, Name: "x\x1b[31m\u202e", State: "D"})
	}
	if text := l.Error(); len(text) > 1000 || !strings.Contains(text, "and 992 more") ||
		strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

// stranger is a user id that does not exist on this machine.
func stranger(t *testing.T, n int) uint32 {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root, to start another user's processes")
	}
	uid := uint32(50000 + 2*(os.Getpid()%5000) + n)
	if found, _, err := (Host{}).withDefaults().listProcesses(t.Context(), login{uid: uid}, nil); err != nil ||
		len(found) > 0 {
		t.Skipf("skipped: user id %d of this test runs %v here (%v)", uid, found, err)
	}
	return uid
}

func runAs(t *testing.T, uid uint32, script string) {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_, _ = Host{}.End(context.Background(), "", uid) // the test's own context is over by now
	})
}

// TestEndFindsWhatEscaped: processes that left their session, their parent and their control group, that ignore
// every signal or keep forking are all killed; another login's process survives.
func TestEndFindsWhatEscaped(t *testing.T) {
	tier.NeedsHost(t)
	uid, neighbour := stranger(t, 0), stranger(t, 1)
	runAs(t, neighbour, "exec sleep 600")
	for _, script := range []string{
		"exec sleep 600",
		"setsid sh -c 'setsid sleep 600 & exit' & exit", // double fork, new session
		"trap '' HUP INT TERM QUIT TSTP; nohup sleep 600 >/dev/null 2>&1 & while :; do sleep 1; done",
		"f() { sleep 0.01; f & }; i=0; while [ $i -lt 5 ]; do f & i=$((i+1)); done", // each forks the next and dies
		"kill -STOP $$",
	} {
		runAs(t, uid, script)
	}
	host := Host{}.withDefaults()
	of := func(uid uint32) []Process {
		found, _, err := host.listProcesses(t.Context(), login{uid: uid}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	wait.For(t, "the tenant runs six processes", func() bool { return len(of(uid)) >= 6 })
	time.Sleep(100 * time.Millisecond)
	n, err := host.End(t.Context(), "tester", uid)
	if err != nil || n < 6 {
		t.Errorf("%d ended, %v", n, err)
	}
	for range 20 {
		if left := of(uid); len(left) > 0 {
			t.Fatalf("left after the end: %v", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(of(neighbour)) != 1 {
		t.Error("another login's process was ended")
	}
}

// TestEndSaysWhatIsLeft: a process that cannot be killed is named, and no success is claimed. A tree with a
// nonexistent process simulates one that ignores signals.
func TestEndSaysWhatIsLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	h := tree(t, map[int][2]string{1 << 29: {status("stuck", "D", "1", 1500, 1500, 1500, 1500), ""}})
	// With a timeout that expires at once the last scan begins after it, as on a busy machine.
	for _, within := range []time.Duration{time.Nanosecond, 100 * time.Millisecond} {
		h.Timeout = within
		n, err := h.End(t.Context(), "ada", 1500)
		var left *SurvivorsError
		if !errors.As(err, &left) || n != 0 || len(left.Processes) != 1 ||
			!strings.Contains(err.Error(), `"stuck" (state D)`) {
			t.Errorf("within %s: %d ended, %v", within, n, err)
		}
	}
}
