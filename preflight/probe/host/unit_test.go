//go:build linux

package host

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func TestUnitRunning(t *testing.T) {
	tier.NeedsHost(t)
	fakes := kit.NewFakes(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fakes.Unit(t, "x.service", kit.RunningUnit(os.Getpid())...)
	f := run(t, diag.Request{Op: diag.OpUnit, Target: "x.service"})
	kit.WantFailure(t, f, diag.OK)
	u := f.Unit
	if u.PID != os.Getpid() || *u.Restarts != 2 || u.ExecStatus != nil || u.UptimeS == nil || *u.UptimeS > 3600 ||
		u.RSSBytes == nil || *u.RSSBytes < 1<<20 ||
		!slices.Equal(u.DropIns, []string{"/run/a.conf", "/run/b.conf"}) || u.Fragment != "/etc/systemd/system/x.service" {
		t.Errorf("%+v", u)
	}
	if !slices.Contains(u.Listening, l.Addr().String()) {
		t.Errorf("listening = %v, want %s among them", u.Listening, l.Addr())
	}
}

func TestUnitStopped(t *testing.T) {
	fakes := kit.NewFakes(t)
	cmd := kit.Sleeper(t)
	fakes.Unit(t, "x.service", kit.RunningUnit(cmd.Process.Pid)...)
	kit.WantFailure(t, run(t, diag.Request{Op: diag.OpUnit, Target: "x.service"}), diag.OK)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	kit.AwaitState(t, cmd.Process.Pid, "T")
	f := run(t, diag.Request{Op: diag.OpUnit, Target: "x.service"})
	kit.WantFailure(t, f, diag.ProcessStopped)
	if f.Unit.ProcessState != "T" || f.Unit.Active != "active" {
		t.Errorf("%+v", f.Unit)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	kit.AwaitState(t, cmd.Process.Pid, "Z")
	kit.WantFailure(t, run(t, diag.Request{Op: diag.OpUnit, Target: "x.service"}), diag.ProcessStopped)
}

func TestUnitFrozen(t *testing.T) {
	tier.NeedsHost(t)
	kit.NeedsRoot(t)
	mounts, err := host.This.Mounts(host.Thread)
	if err != nil {
		t.Fatal(err)
	}
	root := cgroupFolder(mounts, "cgroup2", "", "/")
	if root == "" {
		t.Skip("skipped: needs cgroup2")
	}
	group := filepath.Join(root, fmt.Sprintf("gpuaas-probe-test-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("skipped: needs a control group: ", err)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { // the group can be removed when it is empty
		_ = os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte("0"), 0o644)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		kit.RemoveGroup(t, group)
	}()
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)),
		0o644); err != nil {
		t.Fatal(err)
	}
	fakes := kit.NewFakes(t)
	fakes.Unit(t, "x.service", kit.RunningUnit(cmd.Process.Pid)...)
	kit.WantFailure(t, run(t, diag.Request{Op: diag.OpUnit, Target: "x.service"}), diag.OK)
	if err := os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := run(t, diag.Request{Op: diag.OpUnit, Target: "x.service"})
	kit.WantFailure(t, f, diag.ProcessStopped)
	if f.Unit.ProcessState != "frozen" {
		t.Errorf("state = %s", f.Unit.ProcessState)
	}
}

func TestUnitWords(t *testing.T) {
	fakes := kit.NewFakes(t)
	for _, c := range []struct {
		name   string
		props  string
		word   diag.Failure
		detail string
	}{
		{"stopped", "LoadState=loaded ActiveState=inactive SubState=dead Result=success MainPID=0", diag.UnitInactive,
			"dead"},
		{"assert", "LoadState=loaded ActiveState=inactive SubState=dead Result=assert MainPID=0", diag.UnitInactive,
			"assert"},
		{"masked", "LoadState=masked ActiveState=inactive SubState=dead Result=success MainPID=0", diag.UnitInactive,
			"masked"},
		{"failed", "LoadState=loaded ActiveState=failed SubState=failed Result=exit-code ExecMainCode=1 ExecMainStatus=203 " +
			"MainPID=0", diag.UnitFailed, "203"},
		{"killed", "LoadState=loaded ActiveState=failed SubState=failed Result=signal ExecMainCode=2 ExecMainStatus=9 " +
			"MainPID=0", diag.UnitFailed, "result signal 9"},
		{"restarting",
			"LoadState=loaded ActiveState=activating SubState=auto-restart Result=exit-code ExecMainCode=1 ExecMainStatus=1 " +
				"MainPID=0", diag.UnitFailed, "auto-restart"},
		{"starting", "LoadState=loaded ActiveState=activating SubState=start Result=success MainPID=0", diag.UnitInactive,
			"activating"},
		{"bad file", "LoadState=bad-setting ActiveState=inactive Result=success MainPID=0", diag.UnitFailed, "bad-setting"},
		{"one-shot", "LoadState=loaded ActiveState=active SubState=exited Result=success MainPID=0", diag.OK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakes.Unit(t, "x.service", strings.Fields(c.props)...)
			f := run(t, diag.Request{Op: diag.OpUnit, Target: "x.service"})
			kit.WantFailure(t, f, c.word)
			if !strings.Contains(f.Detail, c.detail) {
				t.Errorf("detail = %q", f.Detail)
			}
			if c.name == "failed" && (f.Unit.ExecStatus == nil || *f.Unit.ExecStatus != 203) {
				t.Errorf("exec status = %v", f.Unit.ExecStatus)
			}
		})
	}
	kit.WantFailure(t, run(t, diag.Request{Op: diag.OpUnit, Target: "other.service"}), diag.UnitMissing)
	kit.WantFailure(t, run(t, diag.Request{Op: diag.OpUnit, Target: "--help"}), diag.Unsupported)
}

func TestUnitWithoutSystemd(t *testing.T) {
	fakes := kit.NewFakes(t)
	fakes.Script(t, "systemctl",
		`echo "System has not been booted with systemd as init system (PID 1). Can't operate." >&2; exit 1`)
	f := run(t, diag.Request{Op: diag.OpUnit, Target: "x.service"})
	kit.WantFailure(t, f, diag.Unsupported)
	if !strings.Contains(f.Detail, "not been booted") {
		t.Errorf("detail = %q", f.Detail)
	}
	fakes.Script(t, "systemctl", `sleep 600`)
	began := time.Now()
	kit.WantFailure(t, run(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 50}), diag.Timeout)
	if took := time.Since(began); took > time.Minute { // the command takes ten
		t.Errorf("it waited past its time, for %s", took)
	}
}

func TestParseSocket(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000:0016":                         "0.0.0.0:22",
		"00000000000000000000000000000000:0050": "[::]:80",
		"00000000000000000000000001000000:0050": "[::1]:80",
	} {
		if got, ok := parseSocket(in); !ok || got != want {
			t.Errorf("%s = %s, want %s", in, got, want)
		}
	}
	for _, bad := range []string{"", "0100007F", "01:zz", "0100:1F90"} {
		if got, ok := parseSocket(bad); ok {
			t.Errorf("%q = %s", bad, got)
		}
	}
}

// TestTenantsPortsAreNotTheUnits: ports of a tenant's process in the control group of root's unit are not reported as
// the unit's.
func TestTenantsPortsAreNotTheUnits(t *testing.T) {
	tier.NeedsHost(t)
	kit.NeedsRoot(t)
	as := func(uid uint32) int {
		t.Helper()
		cmd := exec.Command("cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		kit.StartAnswering(t, cmd)
		return cmd.Process.Pid
	}
	root, worker, tenant, other := as(0), as(33), as(54321), as(54322)
	if got := withoutTenants(root, []int{root, worker, tenant}); !slices.Equal(got, []int{root, worker}) {
		t.Errorf("of root's unit: %v, want %v", got, []int{root, worker})
	}
	if got := withoutTenants(tenant, []int{tenant, worker, other}); !slices.Equal(got, []int{tenant, worker}) {
		t.Errorf("of a tenant's unit: %v, want %v", got, []int{tenant, worker})
	}
}
