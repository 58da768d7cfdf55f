package chaos

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// aBareNode is the profile of a node with an SSH server and nothing else.
func aBareNode() profile.Profile {
	return profile.Profile{
		Name: "bare", Kind: profile.KindSSHOnly, Agent: profile.Agent{Present: new(false)},
		Allocation: profile.Allocation{Present: new(false)},
		Nodes:      map[string]profile.Node{"n1": {Host: "10.231.77.201"}}, Chaos: profile.Chaos{Allow: true},
		SSH: profile.SSH{User: "ops", Identity: "/home/op/key", KnownHosts: "/home/op/known_hosts"},
	}.WithDefaults()
}

func TestWhatDrillsNeed(t *testing.T) {
	ofHops := map[diag.HopID][]Need{diag.HopNodeRuntimeAPI: {NeedAgent}, diag.HopNodeTaskRoundtrip: {NeedAgent, NeedAPI},
		diag.HopNodeRecoveryStatus: {NeedAgent}}
	files := builtin(t)
	for id, want := range map[string][]Need{
		"ssh-stopped":         nil,                                             // a service and a port
		"ssh-key-refused":     {NeedLogin},                                     // variables of a probe
		"root-disk-full":      nil,                                             // its kind concerns an agent at times
		"disk-full":           {NeedAgent},                                     // a variable of a parameter
		"agent-frozen":        {NeedAgent, NeedNodeAPI},                        // the unit, and a probe
		"api-dns-nxdomain":    {NeedAgent, NeedNodeAPI},                        // the hop that finds it
		"gpu-lost":            {NeedLab},                                       // the kind of fault
		"workload-stopped":    {NeedAgent, NeedAllocation},                     // what a probe compares with
		"cloned-identity":     {NeedAgent, NeedNodeAPI, NeedPeer},              // a fault on another machine
		"result-post-blocked": {NeedAgent, NeedNodeAPI, NeedPlatform, NeedLab}, // one of two hops may find it
	} {
		s := files[id]
		got := s.Needs(ofHops)
		if id == "workload-stopped" || id == "agent-frozen" {
			got = slices.DeleteFunc(got, func(n Need) bool { return !slices.Contains(want, n) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s needs %v, want %v", id, got, want)
		}
	}
	for _, n := range Needs() {
		if n.About() == "" {
			t.Errorf("%s: nothing says what it is", n)
		}
	}
	for _, v := range Variables() {
		if v.need != "" && v.need.About() == "" {
			t.Errorf("${%s} needs %q, which is no need", v.Name, v.need)
		}
	}
}

// TestNothingIsAskedOfAnEnvironmentThatLacksSomething: such a plan has the reasons, and no change, probe or other
// refusal.
func TestNothingIsAskedOfAnEnvironmentThatLacksSomething(t *testing.T) {
	files := builtin(t)
	for _, tc := range []struct {
		id     string
		absent []AbsentHop
		want   string
	}{
		{"disk-full", nil, "the profile declares no agent (agent.present: false)"},
		{"ops-path-lost", nil, "platform_ssh.host"},
		{"gpu-lost", nil, "the label lab"},
		{"root-disk-full", []AbsentHop{{diag.HopNodeReadiness, "left out here"}}, "left out here"},
	} {
		s := files[tc.id]
		p := Make(s, aBareNode(), Subject{Node: "n1", Absent: tc.absent}, testFacts(), "r1")
		if len(p.Refused) == 0 || len(p.Targets) > 0 || len(p.Injected.Check.Exec.Argv) > 0 {
			t.Errorf("%s: planned %v, refused %v", tc.id, p.Targets, p.Refused)
		}
		text := ""
		for _, r := range p.Refused {
			if text += r.String() + "\n"; r.Code != RefusedEnvironment {
				t.Errorf("%s: refused as %s", tc.id, r)
			}
		}
		if !strings.Contains(text, tc.want) {
			t.Errorf("%s: %s, want %s", tc.id, text, tc.want)
		}
	}
}

// TestBareNodeDrills: at least fifteen drills run where there is only a node.
func TestBareNodeDrills(t *testing.T) {
	ran := 0
	for id, s := range builtin(t) {
		if len(s.Lacks(aBareNode(), Subject{})) > 0 {
			continue
		}
		m := testMachine(RoleNode, "n1")
		if p := Make(s, aBareNode(), Subject{Node: "n1"}, testFacts(m), "r1"); len(p.Refused) > 0 {
			t.Errorf("%s: %v", id, p.Refused)
		}
		if !s.Expect.MustStayGreen.WasGreen {
			t.Errorf("%s: its control is a list of hops, which a bare node has not", id)
		}
		ran++
	}
	if ran < 15 {
		t.Errorf("%d drills run on a bare node", ran)
	}
}

// TestAListLeavesOutWhatTheEnvironmentHasNot: the plan says which hops are not measured; where none is left there is no
// control.
func TestAListLeavesOutWhatTheEnvironmentHasNot(t *testing.T) {
	s := builtin(t)["root-disk-full"]
	s.Expect.MustStayGreen = StayGreen{Hops: []diag.HopID{diag.HopNodeOpsAccess, diag.HopNodeHeartbeat}}
	gone := []AbsentHop{{diag.HopNodeHeartbeat, "no agent"}, {diag.HopAppUserRoute, "no app"}}
	p := Make(s, aBareNode(), Subject{Node: "n1", Absent: gone}, testFacts(testMachine(RoleNode, "n1")), "r1")
	if !slices.Equal(p.NotMeasured, gone[:1]) || len(p.Refused) > 0 {
		t.Errorf("not measured %v, refused %v", p.NotMeasured, p.Refused)
	}
	gone = append(gone, AbsentHop{diag.HopNodeOpsAccess, "no login"})
	if lacks := s.Lacks(aBareNode(), Subject{Absent: gone}); len(lacks) != 1 || !strings.Contains(lacks[0], "no control") {
		t.Errorf("%v", lacks)
	}
}

// TestStayGreenIsReadAsWritten: as a word and as a list, in YAML and in JSON.
func TestStayGreenIsReadAsWritten(t *testing.T) {
	for _, g := range []StayGreen{{WasGreen: true}, {Hops: []diag.HopID{diag.HopNodeHeartbeat}}, {}} {
		var viaJSON, viaYAML Expect
		text, err := json.Marshal(Expect{MustStayGreen: g})
		if err == nil {
			err = json.Unmarshal(text, &viaJSON)
		}
		if err != nil || viaJSON.MustStayGreen.WasGreen != g.WasGreen || !slices.Equal(viaJSON.MustStayGreen.Hops, g.Hops) {
			t.Errorf("%s: %+v, %v", text, viaJSON.MustStayGreen, err)
		}
		if strings.Contains(string(text), "mustStayGreen") == g.IsZero() {
			t.Errorf("%s", text)
		}
		text, err = yaml.Marshal(map[string]any{"mustStayGreen": g})
		if err == nil {
			err = yaml.Unmarshal(text, &viaYAML)
		}
		if err != nil || viaYAML.MustStayGreen.WasGreen != g.WasGreen || !slices.Equal(viaYAML.MustStayGreen.Hops, g.Hops) {
			t.Errorf("%s: %+v, %v", text, viaYAML.MustStayGreen, err)
		}
	}
	text, err := os.ReadFile("../scenarios/root-disk-full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse("root-disk-full.yaml", []byte(strings.Replace(string(text), "was-green", "was-gren", 1)))
	if err == nil || !strings.Contains(err.Error(), "was-green") {
		t.Errorf("a wrong word: %v", err)
	}
}

// TestAHoldOfTheRootIsValid: the folder of a disk may be the root.
func TestAHoldOfTheRootIsValid(t *testing.T) {
	m := testMachine(RoleNode, "n1")
	s := builtin(t)["root-disk-full"]
	p := Make(s, aBareNode(), Subject{Node: "n1"}, testFacts(m), "r1")
	if len(p.Targets) != 1 || p.Targets[0].Drill.Steps[0].Changes[0].Hold.Dir != "/" ||
		p.Targets[0].Tier != step.TierWatchdog {
		t.Errorf("%+v", p.Targets)
	}
}
