package preflight

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestCommandsToPaste: what a report prints reaches the node as the walk did, whoever named the login.
func TestCommandsToPaste(t *testing.T) {
	uid := func(n int) *int { return &n }
	for name, tc := range map[string]struct {
		login   string
		ssh     diag.SSHFacts
		want    string
		refused bool
	}{
		"login of ssh_config":           {"ssh node", diag.SSHFacts{User: "ops", UID: uid(0)}, "ssh node sudo -n", false},
		"the same, sudo refused":        {"ssh node", diag.SSHFacts{User: "ops", UID: uid(1000), SudoRefused: true}, "ssh node sudo -n", true},
		"the same, no sudo wanted":      {"ssh node", diag.SSHFacts{User: "ops", UID: uid(1000)}, "ssh node", false},
		"root":                          {"ssh node", diag.SSHFacts{User: "root", UID: uid(0)}, "ssh node", false},
		"login of the profile":          {"ssh ops@node sudo -n", diag.SSHFacts{User: "ops", UID: uid(0)}, "ssh ops@node sudo -n", false},
		"the same, as an old report is": {"ssh ops@node sudo -n", diag.SSHFacts{User: "ops", UID: uid(1000)}, "ssh ops@node sudo -n", true},
	} {
		plan := diag.Plan{Profile: "lab", Command: "gpuaasctl preflight --profile ./lab.yaml --node-id n1"}
		c := NewCase(diag.Subject{Expected: map[string]string{"ssh": tc.login}}, plan, diag.EndedCompleted,
			[]diag.Fact{{ID: factID(diag.HopNodeOpsAccess, stepSSH), SSH: &tc.ssh}})
		if got := placeholders(c)["ssh"]; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if got := sudoRefused(c, c.Fact(diag.HopNodeOpsAccess, stepSSH)); got != tc.refused {
			t.Errorf("%s: refused %v", name, got)
		}
		if got := diag.Fill("{preflight} --only node_readiness", placeholders(c)); got != plan.Command+" --only node_readiness" {
			t.Errorf("the proof is %s", got)
		}
	}
}
