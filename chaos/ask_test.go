package chaos

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestNeedsAllocation: a drill that can neither be planned nor be judged without an allocation says so.
func TestNeedsAllocation(t *testing.T) {
	base := builtin(t)["api-egress-blocked"]
	node := []diag.HopID{diag.HopNodeRuntimeAPI}
	for name, tc := range map[string]struct {
		change func(s *Scenario)
		want   bool
	}{
		"as it is":                    {func(*Scenario) {}, false},
		"a fault that names its user": {func(s *Scenario) { s.Faults[0].Params = params(t, `{user: "${os_user}"}`) }, true},
		"an unknown kind": {func(s *Scenario) { s.Faults[0] = Fault{Kind: "x", Params: s.Faults[0].Params} },
			false},
		"a probe of its port": {func(s *Scenario) {
			s.VerifyInjected.Probe.Probe = []string{"nc", "127.0.0.1", "${app_port}"}
		}, true},
		"a view of its unit": {func(s *Scenario) { s.Recovery.Proof.View = "${app_unit}" }, true},
		"a hop of it":        {func(s *Scenario) { s.Expect.Blame.Hop = []diag.HopID{diag.HopAppRuntimeLiveness} }, true},
		"that hop, or another": {func(s *Scenario) {
			s.Expect.Blame.Hop = append(slices.Clone(node), diag.HopAppRuntimeLiveness)
		}, false},
		"nothing is blamed": {func(s *Scenario) { s.Expect.Blame = Blame{None: true} }, false},
		"another finding of it": {func(s *Scenario) {
			s.Expect.Others = []Finding{{Hop: []diag.HopID{diag.HopAppRuntimeLiveness}}}
		}, true},
		"a hop that must stay green": {func(s *Scenario) {
			s.Expect.MustStayGreen = StayGreen{Hops: []diag.HopID{diag.HopAppRuntimeLiveness}}
		}, false},
	} {
		s := base
		s.Faults = slices.Clone(s.Faults)
		tc.change(&s)
		if got := s.NeedsAllocation(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestMember: a machine that is walked or broken must be in the profile, and have every label that is asked for.
func TestMember(t *testing.T) {
	s := builtin(t)["api-egress-blocked"]
	s.Target.Labels = map[string]string{"lab": "true"}
	p := testProfile()
	n := p.Nodes["n2"]
	n.Host = ""
	p.Nodes["n2"] = n
	n.Host, n.Labels = "h", map[string]string{"lab": "false"}
	p.Nodes["n3"] = n
	for id, want := range map[string]bool{"n1": true, "n2": false, "n3": false, "n9": false} {
		if m, err := s.member(p, id, RoleNode); (err == nil) != want || (err == nil && m.ID != id) ||
			(err != nil && !strings.Contains(err.Error(), "zero targets")) {
			t.Errorf("%s: %+v, %v", id, m, err)
		}
	}
	if _, err := s.member(p, "n3", RolePeer); err != nil {
		t.Errorf("a peer that is neither walked nor broken needs the labels: %v", err)
	}
	s.Faults = slices.Clone(s.Faults)
	if s.Faults[0].On = RolePeer; !s.breaks(RolePeer) {
		t.Fatal("the peer is not broken")
	}
	if _, err := s.member(p, "n3", RolePeer); err == nil {
		t.Error("a peer that is broken needs no labels")
	}
	if s.Target.Labels, p.Chaos.Labels = nil, map[string]string{"lab": "true"}; true {
		if _, err := s.member(p, "n3", RoleNode); err == nil {
			t.Error("the profile's labels do not count")
		}
	}
}

// TestAskOfMachine: a machine is asked for what its own faults and probes need, and for nothing that it known.
func TestAskOfMachine(t *testing.T) {
	s := builtin(t)["api-egress-blocked"]
	probe := func(from Role, words ...string) Probe { return Probe{From: from, Probe: words} }
	s.VerifyInjected.Probe = probe(RoleNode, "nc", "x")
	s.VerifyInjected.Control = probe(RoleOperator, "curl", "x")
	s.Recovery.Proof = probe(RoleNode, "/usr/bin/ss")
	ask := func(m Machine) Questions { return s.Ask(testProfile(), Subject{Node: "n1"}, nil, m) }
	q := ask(Machine{Role: RoleNode, ID: "n1"})
	if want := []string{"curl", "nc", "nft", "setpriv", "systemctl", "timeout"}; !slices.Equal(q.Tools, want) ||
		len(q.Names) != 1 || q.None() {
		t.Errorf("%+v", q)
	}
	if q := ask(Machine{Role: RolePlatform}); !slices.Equal(q.Tools, []string{"systemctl", "timeout"}) ||
		len(q.Names) != 0 {
		t.Errorf("the platform: %+v", q)
	}
	known := testMachine(RoleNode, "n1")
	if q := ask(known); !q.None() {
		t.Errorf("asked again: %+v", q)
	}
	s.Recovery.Proof.Probe = nil
	if q := ask(Machine{Role: RoleNode}); slices.Contains(q.Tools, "") {
		t.Errorf("%q", q.Tools)
	}
	if got := fresh([]string{"b", "", "a", "b", "c"}, map[string]int{"c": 1}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	same := Questions{Files: []string{"/a", "/b"}, Texts: []string{"/a"}}.unknown(Machine{})
	if !slices.Equal(same.Files, []string{"/b"}) || !slices.Equal(same.Texts, []string{"/a"}) {
		t.Errorf("a file whose text is asked for is asked for twice: %+v", same)
	}
}

// TestResolve: where a probe runs, with which program, and in whose view; a journal is read by the agent's process.
func TestResolve(t *testing.T) {
	machines := []Machine{testMachine(RolePlatform, "p"), testMachine(RoleNode, "n1")}
	machines[1].Tools["curl"] = "/opt/curl"
	vars := map[string]string{"agent_unit": "gpuaas-node-agent"}
	for name, tc := range map[string]struct {
		p                  Probe
		machine, unit, cmd string // "" cmd: refused
	}{
		"the operator's": {Probe{From: RoleOperator, Probe: []string{"curl", "${agent_unit}"}}, "", "",
			"/usr/local/curl gpuaas-node-agent"},
		"the node's":  {Probe{From: RoleNode, Probe: []string{"curl", "a"}}, "n1", "", "/opt/curl a"},
		"by its path": {Probe{From: RoleNode, Probe: []string{"/bin/x"}}, "n1", "", "/bin/x"},
		"in a view": {Probe{From: RoleNode, View: "app", Probe: []string{"cat", "a"}}, "n1", "app.service",
			"/usr/bin/cat a"},
		"no such machine":  {Probe{From: RolePeer, Probe: []string{"curl"}}, "", "", ""},
		"no such program":  {Probe{From: RoleNode, Probe: []string{"none"}}, "n1", "", ""},
		"no such variable": {Probe{From: RoleNode, Probe: []string{"curl", "${z}"}}, "n1", "", ""},
		"the agent's journal": {Probe{From: RoleNode, Probe: []string{"journalctl", "-u", "gpuaas-node-agent"}}, "n1",
			"gpuaas-node-agent.service", "/usr/bin/journalctl -u gpuaas-node-agent _PID={main-pid}"},
		"another's journal": {Probe{From: RoleNode, Probe: []string{"journalctl", "-u", "app"}}, "n1", "",
			"/usr/bin/journalctl -u app"},
		"the agent's journal, in a view": {Probe{From: RoleNode, View: "app",
			Probe: []string{"journalctl", "--unit=gpuaas-node-agent.service"}}, "n1", "app.service",
			"/usr/bin/journalctl --unit=gpuaas-node-agent.service"},
		"the operator's journal": {Probe{From: RoleOperator, Probe: []string{"journalctl", "-ugpuaas-node-agent"}}, "", "",
			"/usr/local/journalctl -ugpuaas-node-agent"},
	} {
		l, no := tc.p.resolve("n", machines, map[string]string{"curl": "/usr/local/curl",
			"journalctl": "/usr/local/journalctl"}, vars)
		if (no == nil) != (tc.cmd != "") {
			t.Errorf("%s: %v", name, no)
			continue
		}
		if got := strings.Join(l.Check.Exec.Argv, " "); no == nil && (got != tc.cmd || l.Machine != tc.machine ||
			l.Check.Unit != tc.unit) {
			t.Errorf("%s: %q on %q in %q", name, got, l.Machine, l.Check.Unit)
		}
	}
}

// TestTexts: a finding, a refusal and a blame in one line.
func TestTexts(t *testing.T) {
	f := Finding{Hop: []diag.HopID{"a", "b"}, Signal: []diag.Signal{"c"}}
	full := f
	full.Failure, full.Status = []diag.Failure{"d", "e"}, diag.StatusWarn
	no := step.Refusal{Code: "busy", Text: "x"}
	for got, want := range map[string]string{
		f.String(): "a or b c", full.String(): "a or b c (d or e) (warn)", Blame{None: true}.String(): "none",
		Blame{Finding: f}.String(): "a or b c", Refusal{Refusal: no}.String(): "busy: x",
		Refusal{Machine: "n1", Refusal: no}.String():             "n1: busy: x",
		Refusal{Fault: "f", Refusal: no}.String():                "fault f: busy: x",
		Refusal{Machine: "n2", Fault: "f", Refusal: no}.String(): "n2, fault f: busy: x",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for text, want := range map[string]bool{`"none"`: true, `{"hop":["a"],"signal":["c"]}`: false} {
		var b Blame
		if err := b.UnmarshalJSON([]byte(text)); err != nil || b.None != want || (len(b.Hop) == 0) != want {
			t.Errorf("%s: %+v, %v", text, b, err)
		}
	}
}
