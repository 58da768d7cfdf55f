//go:build linux

package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func TestUnitRestarts(t *testing.T) {
	fakes := kit.NewFakes(t)
	young := func() int { return kit.Sleeper(t).Process.Pid }
	a, b := young(), young()
	state := func(active, sub string, pid, restarts int) []string {
		return []string{"LoadState=loaded", "ActiveState=" + active, "SubState=" + sub, "Result=success", "ExecMainCode=0",
			"ExecMainStatus=0", fmt.Sprintf("NRestarts=%d", restarts), fmt.Sprintf("MainPID=%d", pid)}
	}
	unit := func() *diag.UnitFacts {
		t.Helper()
		f := run(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
		kit.WantFailure(t, f, diag.OK)
		return f.Unit
	}

	fakes.Script(t, "journalctl", "exit 1")
	fakes.States(t, state("active", "running", a, 0))
	if u := unit(); u.Later != nil || u.Recent != nil {
		t.Errorf("a unit that was never restarted: %+v", u)
	}
	if n, err := os.ReadFile(filepath.Join(fakes.Dir, "systemctl.n")); string(n) != "1\n" {
		t.Errorf("such a unit is looked at %q times, %v", n, err)
	}

	a = young() // on a busy machine the previous process is old by now
	fakes.States(t, state("active", "running", a, 5), state("active", "running", b, 6))
	u := unit()
	if l := u.Later; u.PID != a || *u.Restarts != 5 || l == nil || l.PID != b || *l.Restarts != 6 ||
		l.Active != "active" || l.AfterMS < 500 || u.Recent != nil {
		t.Errorf("%+v, later %+v", u, u.Later)
	}

	a = young()
	fakes.Journal(t, 3, 5, 7, 9)
	fakes.States(t, state("active", "running", a, 3), state("activating", "auto-restart", 0, 3))
	u = unit()
	if l := u.Later; l == nil || l.PID != 0 || l.Sub != "auto-restart" {
		t.Errorf("later %+v", l)
	}
	// The fourth entry predates the last manual start.
	if r := u.Recent; r == nil || r.Count != 3 || r.EveryS == nil || *r.EveryS != 2 || r.WithinS != 600 {
		t.Errorf("recent %+v", u.Recent)
	}

	fakes.Journal(t)
	fakes.States(t, state("active", "running", a, 3))
	if u := unit(); u.Recent != nil {
		t.Errorf("an empty journal says something: %+v", u.Recent)
	}
}

// TestMainProcessGone: a main process that ended between two queries is looked up again; it is reported as gone only if
// systemd still names it.
func TestMainProcessGone(t *testing.T) {
	fakes := kit.NewFakes(t)
	cmd := kit.Sleeper(t)
	gone := cmd.Process.Pid
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	fakes.Script(t, "journalctl", "exit 1")
	next := kit.Sleeper(t).Process.Pid

	fakes.States(t, kit.RunningUnit(gone), kit.RunningUnit(next))
	f := run(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
	kit.WantFailure(t, f, diag.OK)
	if f.Unit.PID != next || f.Unit.ProcessState == "" || strings.Contains(f.Detail, "main process") {
		t.Errorf("%+v %q", f.Unit, f.Detail)
	}

	fakes.States(t, kit.RunningUnit(gone))
	f = run(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
	kit.WantFailure(t, f, diag.ProcessStopped)
	if f.Unit.PID != gone || !strings.Contains(f.Detail, "is gone") {
		t.Errorf("%+v %q", f.Unit, f.Detail)
	}
}

// TestMainProcessStarts: a main process that systemd has not executed yet does not count as running; the next reading
// decides. A process that stays in that state counts as present.
func TestMainProcessStarts(t *testing.T) {
	tier.NeedsHost(t)
	fakes := kit.NewFakes(t)
	sh, err := exec.LookPath("sh") // it behaves the same under every name
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "(agent)")
	if err := os.Symlink(sh, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "-c", "while read line; do echo $line; done")
	kit.StartAnswering(t, cmd)
	starts := cmd.Process.Pid

	fakes.States(t, kit.RunningUnit(starts), []string{"LoadState=loaded", "ActiveState=activating",
		"SubState=auto-restart",
		"Result=exit-code", "ExecMainCode=1", "ExecMainStatus=203", "NRestarts=1", "MainPID=0",
		"LimitNOFILE=16"})
	f := run(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
	kit.WantFailure(t, f, diag.UnitFailed)
	if f.Unit.PID != 0 || f.Unit.ExecStatus == nil || *f.Unit.ExecStatus != 203 ||
		f.Unit.MaxOpenFiles == nil || *f.Unit.MaxOpenFiles != 16 {
		t.Errorf("%+v %q", f.Unit, f.Detail)
	}

	fakes.States(t, kit.RunningUnit(starts))
	f = run(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
	kit.WantFailure(t, f, diag.OK)
	if f.Unit.PID != starts || f.Unit.ProcessState == "" {
		t.Errorf("%+v %q", f.Unit, f.Detail)
	}
}
