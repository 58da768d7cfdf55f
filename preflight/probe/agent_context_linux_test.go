package probe

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestAHungSystemdIsAskedOnce: each query costs its whole timeout, so "no agent runs" is cached for the duration of a
// walk, rather than queried before every request.
func TestAHungSystemdIsAskedOnce(t *testing.T) {
	tier.NeedsHost(t)
	f := kit.NewFakes(t)
	s := inServer()
	s.cfg.Unit = "x.service"
	const asked = -10 * time.Second // just now, and this machine may stall before the next query
	for _, c := range []struct {
		name, script string
		ago          time.Duration
		stale        bool
	}{
		{"it answers", "echo LoadState=not-found; echo ActiveState=inactive; echo MainPID=0", asked, false},
		{"it answered, a while ago", "", time.Hour, true},
		{"it hangs", "exec sleep 60", asked, false},
		{"it hung, a while ago", "", 8 * time.Second, false},
	} {
		if c.script != "" {
			f.Script(t, "systemctl", c.script)
			if err := s.agent.close(); err != nil {
				t.Fatal(err)
			}
			s.agent = s.findAgent(t.Context())
		}
		s.agent.found = time.Now().Add(-c.ago)
		if s.agent.stale() != c.stale {
			t.Errorf("%s: stale is %t after %s and a look of %s", c.name, !c.stale, c.ago, s.agent.took)
		}
	}
	if err := s.agent.close(); err != nil {
		t.Fatal(err)
	}
}

// TestInsideOfAStartingAgent: a child inside the mounts of an agent that is just starting, with systemd's environment,
// reads the agent's environment from its file, as outside.
func TestInsideOfAStartingAgent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(file, []byte("GPUAAS_API_URL=https://node-api.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{cfg: Config{Inside: kit.Sleeper(t).Process.Pid, EnvFile: file}}
	e := s.findAgent(kit.Patient(t))
	defer e.prober.Close()
	if a := e.prober.Host.Agent; a.Source != hostprobe.SourceEnvFile ||
		a.Env["GPUAAS_API_URL"] != "https://node-api.test" {
		t.Errorf("%+v", a)
	}
}
