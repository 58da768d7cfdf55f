//go:build linux

package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// looks makes systemctl report these states one after the other, and then the last one for ever.
func (f fakes) looks(t *testing.T, states ...[]string) {
	t.Helper()
	_ = os.Remove(filepath.Join(f.dir, "systemctl.n"))
	body := `for last; do :; done
n=$(cat "$0.n" 2>/dev/null || echo 0); echo $((n+1)) >"$0.n"
case $n in
`
	for i, props := range states {
		pattern := fmt.Sprint(i)
		if i == len(states)-1 {
			pattern = "*"
		}
		body += pattern + ") cat <<'END'\n" + strings.Join(props, "\n") + "\nEND\n;;\n"
	}
	f.script(t, "systemctl", body+"esac")
}

// journal makes journalctl report restarts of the unit x.service, this many seconds ago.
func (f fakes) journal(t *testing.T, ago ...int) {
	t.Helper()
	body :=
		`case "$*" in *_PID=1*MESSAGE_ID=5eb03494b6584870a536b337290809b3*UNIT=x.service*--since=@*) ;; *) exit 64 ;; esac
`
	for _, s := range ago {
		at := time.Now().Add(-time.Duration(s) * time.Second).UnixMicro()
		body += fmt.Sprintf("echo '{\"__REALTIME_TIMESTAMP\":\"%d\",\"UNIT\":\"x.service\"}'\n", at)
	}
	f.script(t, "journalctl", body)
}

func TestUnitRestarts(t *testing.T) {
	fakes := newFakes(t)
	young := func() int { return sleeper(t).Process.Pid }
	a, b := young(), young()
	state := func(active, sub string, pid, restarts int) []string {
		return []string{"LoadState=loaded", "ActiveState=" + active, "SubState=" + sub, "Result=success", "ExecMainCode=0",
			"ExecMainStatus=0", fmt.Sprintf("NRestarts=%d", restarts), fmt.Sprintf("MainPID=%d", pid)}
	}
	unit := func() *diag.UnitFacts {
		t.Helper()
		f := measure(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
		wantWord(t, f, diag.OK)
		return f.Unit
	}

	fakes.script(t, "journalctl", "exit 1")
	fakes.looks(t, state("active", "running", a, 0))
	if u := unit(); u.Later != nil || u.Recent != nil {
		t.Errorf("a unit that was never restarted: %+v", u)
	}
	if n, err := os.ReadFile(filepath.Join(fakes.dir, "systemctl.n")); string(n) != "1\n" {
		t.Errorf("such a unit is looked at %q times, %v", n, err)
	}

	a = young() // on a busy machine the previous process is old by now
	fakes.looks(t, state("active", "running", a, 5), state("active", "running", b, 6))
	u := unit()
	if l := u.Later; u.PID != a || *u.Restarts != 5 || l == nil || l.PID != b || *l.Restarts != 6 ||
		l.Active != "active" || l.AfterMS < 500 || u.Recent != nil {
		t.Errorf("%+v, later %+v", u, u.Later)
	}

	a = young()
	fakes.journal(t, 3, 5, 7, 9)
	fakes.looks(t, state("active", "running", a, 3), state("activating", "auto-restart", 0, 3))
	u = unit()
	if l := u.Later; l == nil || l.PID != 0 || l.Sub != "auto-restart" {
		t.Errorf("later %+v", l)
	}
	// The fourth entry predates the last manual start.
	if r := u.Recent; r == nil || r.Count != 3 || r.EveryS == nil || *r.EveryS != 2 || r.WithinS != 600 {
		t.Errorf("recent %+v", u.Recent)
	}

	fakes.journal(t)
	fakes.looks(t, state("active", "running", a, 3))
	if u := unit(); u.Recent != nil {
		t.Errorf("an empty journal says something: %+v", u.Recent)
	}
}

// TestMainProcessGone: a main process that ended between two queries is looked up again; it is reported as gone only if
// systemd still names it.
func TestMainProcessGone(t *testing.T) {
	fakes := newFakes(t)
	cmd := sleeper(t)
	gone := cmd.Process.Pid
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	fakes.script(t, "journalctl", "exit 1")
	next := sleeper(t).Process.Pid

	fakes.looks(t, running(gone), running(next))
	f := measure(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
	wantWord(t, f, diag.OK)
	if f.Unit.PID != next || f.Unit.ProcessState == "" || strings.Contains(f.Detail, "main process") {
		t.Errorf("%+v %q", f.Unit, f.Detail)
	}

	fakes.looks(t, running(gone))
	f = measure(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
	wantWord(t, f, diag.ProcessStopped)
	if f.Unit.PID != gone || !strings.Contains(f.Detail, "is gone") {
		t.Errorf("%+v %q", f.Unit, f.Detail)
	}
}

// TestMainProcessStarts: a main process that systemd has not executed yet does not count as running; the next reading
// decides. A process that stays in that state counts as present.
func TestMainProcessStarts(t *testing.T) {
	tier.NeedsHost(t)
	fakes := newFakes(t)
	sh, err := exec.LookPath("sh") // it behaves the same under every name
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "(agent)")
	if err := os.Symlink(sh, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "-c", "while read line; do echo $line; done")
	startAnswering(t, cmd)
	starts := cmd.Process.Pid

	fakes.looks(t, running(starts), []string{"LoadState=loaded", "ActiveState=activating", "SubState=auto-restart",
		"Result=exit-code", "ExecMainCode=1", "ExecMainStatus=203", "NRestarts=1", "MainPID=0",
		"LimitNOFILE=16"})
	f := measure(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
	wantWord(t, f, diag.UnitFailed)
	if f.Unit.PID != 0 || f.Unit.ExecStatus == nil || *f.Unit.ExecStatus != 203 ||
		f.Unit.MaxOpenFiles == nil || *f.Unit.MaxOpenFiles != 16 {
		t.Errorf("%+v %q", f.Unit, f.Detail)
	}

	fakes.looks(t, running(starts))
	f = measure(t, diag.Request{Op: diag.OpUnit, Target: "x.service", TimeoutMS: 120_000})
	wantWord(t, f, diag.OK)
	if f.Unit.PID != starts || f.Unit.ProcessState == "" {
		t.Errorf("%+v %q", f.Unit, f.Detail)
	}
}

// TestInsideOfAStartingAgent: a child inside the mounts of an agent that is just starting, with systemd's environment,
// reads the agent's environment from its file, as outside.
func TestInsideOfAStartingAgent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(file, []byte("GPUAAS_API_URL=https://node-api.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{cfg: Config{Inside: sleeper(t).Process.Pid, EnvFile: file}}
	e := s.findAgent(patient(t))
	defer e.prober.Close()
	if a := e.prober.Host.Agent; a.Source != sourceEnvFile || a.Env["GPUAAS_API_URL"] != "https://node-api.test" {
		t.Errorf("%+v", a)
	}
}
