package terminal

import (
	"encoding/base64"
	"encoding/json"
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

	"github.com/gpuaas/gpuaasctl/agent/tenant"
	"github.com/gpuaas/gpuaasctl/internal/ptmx"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// becomeMark makes the test's program become a shell, as systemd makes the agent's.
const becomeMark = "GPUAAS_TEST_BECOME"

func TestUnitArgv(t *testing.T) {
	got := unitArgv("gpuaas-session-u2001-abcdefgh.service", "/dev/pts/7", "/proc/42/exe",
		Limits{TasksMax: "512", MemoryMax: "2G", CPUWeight: "20"}, []string{"TasksMax"}, "eyJ9")
	want := strings.Fields(
		`systemd-run --collect --wait --service-type=exec --unit=gpuaas-session-u2001-abcdefgh.service
		--slice=gpuaas-sessions.slice --description=Terminal_session_of_a_tenant
		--property=TTYPath=/dev/pts/7 --property=StandardInput=tty --property=StandardOutput=tty --property=StandardError=tty
		--property=TasksMax=512 --property=MemoryMax=2G --property=CPUWeight=20 --property=OOMPolicy=continue --property=OOMScoreAdjust=500
		--property=KillMode=control-group --property=SendSIGHUP=yes --property=TimeoutStopSec=200ms --property=LimitNPROC=512
		-- /proc/42/exe session eyJ9`)
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "_session_of_a_", " session of a ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// If the kernel counts a unit's processes, processes of the login outside the unit do not count.
	for _, lacks := range [][]string{nil, {"MemoryMax"}} {
		if all := unitArgv("u", "t", "p", DefaultLimits(), lacks, ""); strings.Contains(strings.Join(all, " "),
			"LimitNPROC") {
			t.Errorf("without %v: %q", lacks, all)
		}
	}
	if all := unitArgv("u", "t", "p", Limits{TasksMax: "infinity"}, []string{"TasksMax"},
		""); strings.Contains(strings.Join(all, " "), "LimitNPROC") {
		t.Errorf("no limit: %q", all)
	}
	if a, b := unitName(2001), unitName(2001); a == b || !strings.HasPrefix(a, tenant.SessionPrefix(2001)) {
		t.Errorf("units %s and %s", a, b)
	}
}

// TestNotEnforced: a limit is claimed only if the host has its controller, in either kind of hierarchy.
func TestNotEnforced(t *testing.T) {
	for name, tc := range map[string]struct {
		controllers string
		folders     []string
		lacks       string
	}{
		"unified":            {controllers: "cpuset cpu io memory pids\n"},
		"nothing delegated":  {controllers: "\n", lacks: "TasksMax MemoryMax CPUWeight"},
		"memory is disabled": {controllers: "cpu pids\n", lacks: "MemoryMax"},
		"of their own":       {folders: []string{"cpu", "memory", "pids"}},
		"nothing is known":   {lacks: "TasksMax MemoryMax CPUWeight"},
	} {
		root := t.TempDir()
		if tc.controllers != "" {
			if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte(tc.controllers), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range tc.folders {
			if err := os.Mkdir(filepath.Join(root, f), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(notEnforced(root), " "); got != tc.lacks {
			t.Errorf("%s: %q, want %q", name, got, tc.lacks)
		}
	}
}

// TestBecome: the process that systemd starts as root becomes the user's login shell: only the user's ids, no
// capability, a minimal environment, a terminal that the user owns, the agent's mounts, and no descriptor besides
// the terminal.
func TestBecome(t *testing.T) {
	u := script(t,
		`echo "args $0 home $HOME pwd $(pwd) ids $(id -u):$(id -g):$(id -G) tty $(stat -c %u $(tty)) vars $(env | cut -d= -f1 | sort | tr '\n' ,)"
grep -E 'CapEff|CapPrm|CapAmb' /proc/self/status | tr -d '\n\t'; for f in /proc/$$/fd/*; do readlink $f; done | sort -u | tr '\n' ,; echo " mounts $(readlink /proc/self/ns/mnt) end"; sleep 60`)
	if os.Geteuid() == 0 {
		u.UID, u.GID, u.groups = 65534, 65534, []uint32{65534, 4, 24}
		if err := os.Chown(u.Home, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		for _, leaf := range []string{u.Home, u.Shell} {
			for dir := leaf; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
				_ = os.Chmod(dir, 0o755)
			}
		}
	}
	agent := agentOf(t)
	got := becomeShell(t, become{User: u.Name, Home: u.Home, Shell: u.Shell, UID: u.UID, GID: u.GID, Groups: u.groups,
		Agent: agent})
	id := strconv.Itoa(int(u.UID))
	want := []string{"home " + u.Home, "pwd " + u.Home, "ids " + id + ":", "tty " + id, "HOME,"}
	if os.Geteuid() == 0 {
		mounts, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", agent))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "ids 65534:65534:65534 4 24",
			"CapPrm:0000000000000000CapEff:0000000000000000CapAmb:0000000000000000", "mounts "+mounts)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in %q", w, got)
		}
	}
	for _, of := range []string{"anon_inode:", "mnt:[", "socket:"} { // of the Go runtime, and the namespace
		if strings.Contains(strings.ReplaceAll(got, "mounts mnt:[", ""), of) {
			t.Errorf("a descriptor of the agent's program is the tenant's: %q", got)
		}
	}
	if strings.Contains(got, becomeMark) {
		t.Errorf("the environment of the agent's program is the tenant's: %q", got)
	}
}

// agentOf starts a process with its own mount namespace; it returns 0 if that is not permitted.
func agentOf(t *testing.T) int {
	t.Helper()
	tier.NeedsHost(t)
	if os.Geteuid() != 0 {
		return 0
	}
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// becomeShell starts this program on a terminal and returns its output up to "end".
func becomeShell(t *testing.T, b become) string {
	t.Helper()
	tier.NeedsHost(t)
	spec, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	master, tty, err := ptmx.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{becomeMark + "=" + base64.RawURLEncoding.EncodeToString(spec), "SECRET=1"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var all strings.Builder
	buf := make([]byte, 4096)
	_ = master.SetReadDeadline(time.Now().Add(30 * time.Second))
	for !strings.Contains(all.String(), " end") {
		n, err := master.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			return all.String()
		}
	}
	return all.String()
}

// TestBecomeSays: an error is printed on the tenant's terminal, and nothing runs instead.
func TestBecomeSays(t *testing.T) {
	me := uint32(os.Geteuid())
	for name, tc := range map[string]struct {
		b    become
		says string
	}{
		"no such shell": {become{Home: "/", Shell: "/no/such/shell", UID: me, GID: uint32(os.Getegid())},
			"start the shell: /no/such/shell: no such file"},
		"no such agent": {become{Home: "/", Shell: "/bin/sh", UID: me, Agent: 1 << 30},
			"start the shell: enter the agent's mounts"},
	} {
		if got := becomeShell(t, tc.b); !strings.Contains(got, tc.says) {
			t.Errorf("%s: %q, want %q", name, got, tc.says)
		}
	}
	for _, text := range []string{"", "e30!", "bm90IEpTT04"} {
		if err := Become(text); err == nil || !strings.Contains(err.Error(), "read who is to have it") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestUnitEnd: a shell that a signal ended did not exit with a code, and what systemd-run says about every unit is no
// complaint.
func TestUnitEnd(t *testing.T) {
	const ran = "Running as unit: gpuaas-session-u2001-abcdefgh.service\nFinished with result: signal\n" +
		"Main processes terminated with: code=%s\nService runtime: 3ms\nCPU time consumed: 1ms\nMemory peak: 1M\n"
	for output, want := range map[string]struct {
		complaints string
		signal     int
	}{
		fmt.Sprintf(ran, "exited/status=3"):    {"", 0},
		fmt.Sprintf(ran, "killed/status=KILL"): {"", 9},
		fmt.Sprintf(ran, "killed/status=HUP"):  {"", 1},
		fmt.Sprintf(ran, "dumped/status=SEGV"): {"", 11},
		"Failed to find executable /x: No such file or directory\n": {
			"Failed to find executable /x: No such file or directory", 0},
		"Job for u.service failed.\nSee \"systemctl status u.service\".\n": {
			"Job for u.service failed.\nSee \"systemctl status u.service\".", 0},
		"": {"", 0},
	} {
		if complaints, signal := unitEnd(output); complaints != want.complaints || signal != want.signal {
			t.Errorf("%q: %q %d, want %+v", output, complaints, signal, want)
		}
	}
}
