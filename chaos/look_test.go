package chaos

import (
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// TestJournalLooksNameTheProcess: on a machine with tenants, a drill trusts only journal lines of the agent's main
// process, and of nothing else in the agent's control group.
func TestJournalLooksNameTheProcess(t *testing.T) {
	const agent = "gpuaas-node-agent.service"
	vars := map[string]string{"agent_unit": agent}
	node := testMachine(RoleNode, "n1")
	node.Tools["journalctl"] = "/usr/bin/journalctl"
	for name, tc := range map[string]struct {
		probe []string
		unit  string // from which it looks
	}{
		"-u":             {[]string{"journalctl", "-u", "${agent_unit}", "--since=-10s"}, agent},
		"--unit=":        {[]string{"journalctl", "--unit=gpuaas-node-agent", "-o", "cat"}, agent},
		"--unit":         {[]string{"/usr/bin/journalctl", "--unit", agent}, agent},
		"-uNAME":         {[]string{"journalctl", "-ugpuaas-node-agent"}, agent},
		"names it":       {[]string{"journalctl", "-u", agent, "_PID=7"}, ""},
		"another unit":   {[]string{"journalctl", "-u", "nginx.service"}, ""},
		"no unit":        {[]string{"journalctl", "-t", "nginx"}, ""},
		"not a journal":  {[]string{"/usr/bin/systemctl", "-u", agent}, ""},
		"without a name": {[]string{"journalctl", "-u"}, ""},
	} {
		l, no := Probe{Probe: tc.probe, From: RoleNode}.resolve("look", []Machine{node}, nil, vars)
		if no != nil {
			t.Fatalf("%s: %v", name, no)
		}
		argv := l.Check.Exec.Argv
		if l.Check.Unit != tc.unit || slices.Contains(argv, "_PID="+step.MainPID) != (tc.unit != "") {
			t.Errorf("%s: %q from %q, want it from %q", name, argv, l.Check.Unit, tc.unit)
		}
		if pid := l.Check.Exec.WithMainPID(42).Argv; tc.unit != "" && pid[len(pid)-1] != "_PID=42" {
			t.Errorf("%s: looks at %q", name, pid)
		}
	}
}
