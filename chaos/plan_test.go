package chaos

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/profile"
)

var testSubject = Subject{Node: "n1", Peer: "n2", Allocation: "a1"}

func plan(t *testing.T, id string, p profile.Profile, facts Facts) Plan {
	t.Helper()
	s, ok := builtin(t)[id]
	if !ok {
		t.Fatalf("no drill %s", id)
	}
	return Make(s, p, testSubject, facts, "r1")
}

func codes(p Plan) []string {
	var all []string
	for _, r := range p.Refused {
		all = append(all, r.Code)
	}
	return all
}

func TestPlanGolden(t *testing.T) {
	p := plan(t, "api-egress-blocked", testProfile(), testFacts(testMachine(RoleNode, "n1")))
	if len(p.Refused) > 0 {
		t.Fatal(p.Refused)
	}
	golden(t, "plan-api-egress-blocked.txt", changesOf(p))
	two := plan(t, "three-faults", testProfile(), testFacts(testMachine(RoleNode, "n1"), platformMachine()))
	if len(two.Refused) > 0 || len(two.Targets) != 2 {
		t.Fatal(two.Refused, len(two.Targets))
	}
	golden(t, "plan-three-faults.txt", changesOf(two))
}

// changesOf returns the text that a plan shows for its changes.
func changesOf(p Plan) string {
	var b strings.Builder
	for _, t := range p.Targets {
		for _, s := range t.Drill.Steps {
			fmt.Fprintf(&b, "%s %s (%s, %s): %s\n", t.ID, s.ID, s.Fault, s.Tier, s.Title)
			for n, c := range s.Changes {
				do, undo := c.Lines(p.Run, s.ID, n, t.Drill.TTL.Duration())
				fmt.Fprintf(&b, "  do\n    %s\n  undo\n    %s\n", strings.Join(do, "\n    "), strings.Join(undo, "\n    "))
			}
		}
	}
	return b.String()
}

func platformMachine() Machine { return testMachine(RolePlatform, Platform) }

// planned returns a drill's plan on machines that answer like the lab's.
func planned(t *testing.T, s *Scenario) Plan {
	t.Helper()
	facts := testFacts(testMachine(RoleNode, "n1"), testMachine(RolePeer, "n2"), platformMachine())
	for i := range facts.Machines {
		m := &facts.Machines[i]
		for round := 0; ; round++ {
			q := s.Ask(testProfile(), testSubject, facts.Allocation, *m)
			if q.None() {
				break
			}
			if round > 2 {
				t.Fatalf("%s: asks for ever: %+v", s.Metadata.ID, q)
			}
			answerAll(m, q)
		}
	}
	return Make(*s, testProfile(), testSubject, facts, "r1")
}

// TestEveryBuiltinPlans: the files of each built-in drill give drills that a machine accepts.
func TestEveryBuiltinPlans(t *testing.T) {
	for id, s := range builtin(t) {
		p := planned(t, &s)
		if len(p.Refused) > 0 {
			t.Errorf("%s: %v", id, p.Refused)
		}
		for _, target := range p.Targets {
			if _, err := step.Decode(strings.NewReader(string(target.Drill.Encode()))); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
}

// answerAll gives the machine everything that is asked for, with texts in which every built-in edit finds its
// place.
func answerAll(m *Machine, q Questions) {
	for _, n := range q.Tools {
		m.Tools[n] = Tool("/usr/bin/" + n)
	}
	for _, n := range q.Names {
		m.Names[n] = addresses("10.231.77.50")
	}
	for _, n := range q.Units {
		m.Units[n] = Unit{Loaded: true, Active: "active", PID: 9, Private: true}
	}
	for _, n := range q.Users {
		m.Users[n] = User{UID: 900, GID: 900, Shell: "/bin/bash"}
	}
	const text = "\tlocation / { proxy_pass http://127.0.0.1:8080; }\n pass http://10.231.77.101:8888; }\n if " +
		"($ssl_client_verify = NONE) { return 496; }\npki:\n  node.task_stale_sweep_interval_seconds: 5\n"
	for _, n := range append(q.Files, q.Texts...) {
		m.Files[n] = File{Kind: "file", Path: n, Mode: 0o644, Text: text}
	}
}

func TestRefusals(t *testing.T) {
	const id = "api-egress-blocked"
	for name, tc := range map[string]struct {
		id    string
		spoil func(*profile.Profile, *Facts)
		code  string
	}{
		"no consent": {id, func(_ *profile.Profile, f *Facts) { f.Machines[0].Consent = Consent{} },
			step.RefusedConsent},
		"consent by all": {id, func(_ *profile.Profile, f *Facts) { f.Machines[0].Consent.Problem = "x" },
			step.RefusedConsent},
		"another's": {id, func(_ *profile.Profile, f *Facts) { f.Machines[0].Consent.Node = "n9" }, step.RefusedNode},
		"consent is over": {id, func(_ *profile.Profile, f *Facts) {
			f.Machines[0].Consent.Until = testNow.Add(time.Minute)
		}, step.RefusedExpired},
		"locked": {id, func(_ *profile.Profile, f *Facts) { f.Machines[0].Locked = "r0" }, step.RefusedLocked},
		"clock": {id, func(_ *profile.Profile, f *Facts) { f.Machines[0].Now = testNow.Add(-3 * time.Minute) },
			step.RefusedClock},
		"not root": {id, func(_ *profile.Profile, f *Facts) { f.Machines[0].Root = false }, step.RefusedUnsupported},
		"unreachable": {id, func(_ *profile.Profile, f *Facts) { f.Machines[0].Error = "tcp_refused" },
			RefusedUnreachable},
		"not allowed": {id, func(p *profile.Profile, _ *Facts) { p.Chaos.Allow = false }, RefusedNotAllowed},
		"window": {id, func(p *profile.Profile, _ *Facts) { p.Chaos.Windows = []string{"Sat 08:00-17:00 UTC"} },
			RefusedWindow},
		"ttl of a profile": {id, func(p *profile.Profile, _ *Facts) { p.Policy[profile.PolicyChaosMinTTL] = 600 },
			step.RefusedDrill},
		"operator's SSH": {id, func(_ *profile.Profile, f *Facts) {
			f.Machines[0].Names["node-api.gpuaas.test"] = addresses("10.231.77.1")
			f.Machines[0].SSH = mustPort("10.231.77.1:443")
		}, step.RefusedOperator},
		"disposable without the owner": {"ops-path-lost", func(_ *profile.Profile, f *Facts) {
			f.Machines = append(f.Machines, platformMachine())
			f.Machines[1].Tools["journalctl"] = "/usr/bin/journalctl"
			f.Machines[0].Consent.Disposable = false
		}, step.RefusedDisposable},
		"T3 without the owner": {"node-cert-expired-recovers", func(_ *profile.Profile, f *Facts) {
			f.Machines[0].Consent.Disposable = false
		}, step.RefusedDisposable},
		"no tool for a look": {id, func(_ *profile.Profile, f *Facts) { f.Tools = nil }, step.RefusedTools},
		"nothing to block": {id, func(_ *profile.Profile, f *Facts) { f.Machines[0].Names["node-api.gpuaas.test"] = nil },
			step.RefusedUnsupported},
	} {
		p, facts := testProfile(), testFacts(testMachine(RoleNode, "n1"))
		facts.Machines[0].Tools["find"] = "/usr/bin/find"
		tc.spoil(&p, &facts)
		made := plan(t, tc.id, p, facts)
		if !slices.Equal(codes(made), []string{tc.code}) {
			t.Errorf("%s: refused as %v, want %s", name, made.Refused, tc.code)
		}
	}
	s := builtin(t)["node-cert-expired-recovers"]
	s.Target.Disposable = false
	if p := Make(s, testProfile(), testSubject, testFacts(testMachine(RoleNode, "n1")), "r1"); !slices.Contains(codes(p),
		step.RefusedDisposable) {
		t.Errorf("T3 on a machine that is not disposable: %v", p.Refused)
	}
	s = builtin(t)["ops-path-lost"]
	s.Target.Disposable = false
	if p := Make(s, testProfile(), testSubject, testFacts(testMachine(RoleNode, "n1"), platformMachine()),
		"r1"); !slices.Contains(codes(p), step.RefusedDisposable) {
		t.Errorf("no SSH on a machine that is not disposable: %v", p.Refused)
	}
	s = builtin(t)["cloned-identity"]
	s.Faults = append(s.Faults, builtin(t)["agent-stopped"].Faults[0])
	s.Faults[1].On = RoleNode
	if p := Make(s, testProfile(), testSubject, testFacts(testMachine(RoleNode, "n1"), testMachine(RolePeer, "n2")),
		"r1"); !slices.Contains(codes(p), RefusedTooMany) {
		t.Errorf("two nodes under maxNodes 1: %v", p.Refused)
	}
	two := builtin(t)["agent-stopped"]
	two.Faults = append(two.Faults, two.Faults[0])
	two.Faults[1].ID = "again"
	if p := Make(two, testProfile(), testSubject, testFacts(testMachine(RoleNode, "n1")), "r1"); !slices.Contains(codes(p),
		step.RefusedDrill) {
		t.Errorf("two faults of one place: %v", p.Refused)
	}
}

func TestZeroTargets(t *testing.T) {
	s := builtin(t)["api-egress-blocked"]
	s.Target.Labels = map[string]string{"lab": "true"}
	for node, want := range map[string]string{"n1": "", "n2": "has not the label lab: true",
		"n3": "the profile has no node", "": "zero targets"} {
		_, err := s.Machines(testProfile(), Subject{Node: node})
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", node, err, want)
		}
	}
	// A fault may be injected on another machine than the target: that machine needs the labels as well. A machine
	// that is only probed from does not.
	s.Faults = slices.Clone(s.Faults)
	for role, want := range map[Role]string{RolePeer: "n2 has not the label lab: true", RolePlatform: ""} {
		s.Target.Labels, s.Faults[0].On, s.Recovery.Proof.From = nil, role, RolePeer
		p := testProfile()
		p.Chaos.Labels = map[string]string{"lab": "true"}
		if _, err := s.Machines(p, testSubject); (err == nil) != (want == "") ||
			(err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("broken on %s: %v, want %q", role, err, want)
		}
	}
	p := testProfile()
	p.PlatformSSH.Host = ""
	if _, err := builtin(t)["ingress-ca-drift"].machines(p); err == nil ||
		!strings.Contains(err.Error(), "platform_ssh.host") {
		t.Errorf("no platform: %v", err)
	}
}

func (s Scenario) machines(p profile.Profile) ([]Machine, error) { return s.Machines(p, testSubject) }

// TestHash: the hash is the same for each run of an unchanged plan, whatever is minted for it, and differs for
// another plan.
func TestHash(t *testing.T) {
	facts := testFacts(testMachine(RoleNode, "n1"))
	s := builtin(t)["node-cert-expired"]
	one := Make(s, testProfile(), testSubject, facts, "r1")
	later := facts
	later.Now, later.Operator = facts.Now.Add(time.Hour), "bob"
	later.Machines = slices.Clone(facts.Machines)
	later.Machines[0].SSH = mustPort("10.231.77.1:50999")
	mint := (&certParams{As: "expired"}).mint("n1")
	later.Material = map[string]Material{mint.Key(): {Mint: mint, Text: "CERT", Key: "KEY"}}
	two := Make(s, testProfile(), testSubject, later, "r2")
	if one.Hash == "" || one.Hash != two.Hash {
		t.Errorf("%s and %s", one.Hash, two.Hash)
	}
	if got := two.Targets[0].Drill.Steps[0].Changes[1].File.Text; got != "KEY" {
		t.Errorf("the material is not used: %q", got)
	}
	other := s
	other.Guards.TTL += Duration(time.Second)
	if Make(other, testProfile(), testSubject, facts, "r1").Hash == one.Hash {
		t.Error("another ttl has the same hash")
	}
	shown, err := json.Marshal(two.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), `"KEY"`) || strings.Contains(changesOf(two), "KEY") {
		t.Error("a key is shown")
	}
	if two.Targets[0].Drill.Steps[0].Changes[1].File.Text != "KEY" {
		t.Error("redacting a plan changed it")
	}
}

// TestPrivateFilesAreNotShown: a configuration that only its service may read is changed, but its text is in no
// output.
func TestPrivateFilesAreNotShown(t *testing.T) {
	facts := testFacts(testMachine(RoleNode, "n1"), platformMachine())
	f := facts.Machines[1].Files["/etc/nginx/edge.d/term.conf"]
	f.Mode, f.Text = 0o640, "# hunter2\n"+f.Text
	facts.Machines[1].Files["/etc/nginx/edge.d/term.conf"] = f
	p := plan(t, "terminal-route-missing", testProfile(), facts)
	p.Facts = &facts
	shown, err := json.Marshal(p.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Refused) > 0 || strings.Contains(string(shown)+changesOf(p), "hunter2") {
		t.Errorf("%v\n%s", p.Refused, changesOf(p))
	}
	if !strings.Contains(string(p.Targets[0].Drill.Encode()), "hunter2") {
		t.Error("the machine does not get it")
	}
	again := plan(t, "terminal-route-missing", testProfile(), *p.Redacted().Facts)
	if len(again.Refused) != 1 ||
		!strings.Contains(again.Refused[0].Text, "/etc/nginx/edge.d/term.conf of platform is not in these facts") {
		t.Errorf("planned again from what was shown: %v", again.Refused)
	}
}

// TestDecisionPath: no name can leave its segment in the path of a decision.
func TestDecisionPath(t *testing.T) {
	s := builtin(t)["cloned-identity"]
	facts := testFacts(testMachine(RoleNode, "n1?x=1"), testMachine(RolePeer, "n2"), platformMachine())
	for path, want := range map[string]string{
		s.Recovery.Decision.Path:    "/v1/admin/nodes/n1%3Fx=1/reactivate",
		"/v1/a?node=${node_id}&b=c": "/v1/a?node=n1%3Fx%3D1&b=c",
	} {
		decision := *s.Recovery.Decision
		decision.Path = path
		s.Recovery.Decision = &decision
		if p := Make(s, testProfile(), Subject{Node: "n1?x=1", Peer: "n2", Allocation: "a1"}, facts,
			"r1"); p.Decision.Path != want {
			t.Errorf("%s: %s, want %s", path, p.Decision.Path, want)
		}
	}
}

// TestPlanIsPure: the same input gives the same plan, also after a round trip through JSON.
func TestPlanIsPure(t *testing.T) {
	facts := testFacts(testMachine(RoleNode, "n1"), platformMachine())
	one := plan(t, "three-faults", testProfile(), facts)
	text, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	var back Facts
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	two := plan(t, "three-faults", testProfile(), back)
	a, _ := json.Marshal(one)
	b, _ := json.Marshal(two)
	if string(a) != string(b) {
		t.Errorf("%s\n%s", a, b)
	}
	var read Plan
	if err := json.Unmarshal(a, &read); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read.Targets, one.Targets) ||
		read.Scenario.Expect.Blame.String() != one.Scenario.Expect.Blame.String() {
		t.Error("a plan does not read back")
	}
}
