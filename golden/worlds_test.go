package golden

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// TestWorlds: what the facts of each recording show about its parties, before any hop is judged. What was measured
// nowhere is left out.
func TestWorlds(t *testing.T) {
	var out strings.Builder
	for _, path := range recordings(t) {
		fmt.Fprintf(&out, "== %s", path)
		last := ""
		w := world.Of(hops.BuiltIn().CaseOf(recorded(t, path)))
		for _, p := range w.Properties() {
			if p.Is() == world.NotMeasured {
				continue
			}
			if p.Party != last {
				fmt.Fprintf(&out, "\n%s:", p.Party)
			}
			last = p.Party
			fmt.Fprintf(&out, " %s %s,", p.Name, p.Is())
		}
		out.WriteString("\n\n")
	}
	goldentest.Check(t, "worlds.txt", strings.ReplaceAll(out.String(), ",\n", "\n"))
}

// TestAWorldRestsOnFacts: every yes and every no rests on facts of the walk, and without them it is not the same answer
// for nothing. A walk without facts knows nothing.
func TestAWorldRestsOnFacts(t *testing.T) {
	worldOf := func(r diag.Report, without []string) map[string]world.Property {
		var kept []diag.Fact
		for _, f := range r.Facts {
			if !slices.ContainsFunc(without, func(id string) bool { return f.ID == id || strings.HasPrefix(f.ID, id+"~") }) {
				kept = append(kept, f)
			}
		}
		r.Facts = kept
		known := map[string]world.Property{}
		for _, p := range world.Of(hops.BuiltIn().CaseOf(&r)).Properties() {
			known[p.Party+"."+p.Name] = p
		}
		return known
	}
	for _, path := range recordings(t) {
		r := recorded(t, path)
		facts := diag.FactsByID(r.Facts)
		for name, p := range worldOf(*r, nil) {
			if p.Is() == world.NotMeasured {
				continue
			}
			if len(p.RestsOn()) == 0 {
				t.Errorf("%s: %s is %s, and rests on no fact", path, name, p.Is())
			}
			for _, id := range p.RestsOn() {
				if facts[id] == nil {
					t.Errorf("%s: %s is %s, and rests on %s, which was not measured", path, name, p.Is(), id)
				}
			}
			for _, other := range worldOf(*r, p.RestsOn())[name].RestsOn() {
				if slices.Contains(p.RestsOn(), other) {
					t.Errorf("%s: %s rests on %s, which is not there any more", path, name, other)
				}
			}
		}
		r.Facts, r.Evidence = nil, nil
		for name, p := range worldOf(*r, nil) {
			if p.Is() != world.NotMeasured {
				t.Errorf("%s without facts: %s is %s", path, name, p.Is())
			}
		}
	}
}

// TestAWorldOfOtherFacts: what says nothing about a property does not answer it. Each row changes one fact of the
// healthy recording.
func TestAWorldOfOtherFacts(t *testing.T) {
	fails := func(failure diag.Failure, phase string) func(*diag.Fact) {
		return func(f *diag.Fact) { f.Failure, f.Phase, f.HTTP, f.WS, f.PTY = failure, phase, nil, nil, nil }
	}
	status := func(code int) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: code}
		}
	}
	for _, tc := range []struct {
		name, fact string
		change     func(*diag.Fact)
		property   string
		want       world.Answer
	}{
		{"the operator's own login", "node_ops_access/ssh", fails(diag.SSHSetup, "ssh"), "node.login", world.NotMeasured},
		{"a login that is refused", "node_ops_access/ssh", fails(diag.SSHAuth, "ssh"), "node.login", world.No},
		{"a file that may not be read", "node_recovery_status/identity", fails(diag.NotPermitted, "cert"), "identity.valid",
			world.NotMeasured},
		{"no port left here", "browser_terminal_ws/session", fails(diag.HostExhausted, "tcp"), "session.accepted",
			world.NotMeasured},
		{"a session that ends at once", "browser_terminal_ws/session", fails(diag.TCPRefused, "tcp"), "session.accepted",
			world.No},
		{"a page that is not there", "app_user_route/route", status(404), "workload.route_answers", world.NotMeasured},
		{"an edge's error", "app_user_route/route", status(502), "workload.route_answers", world.No},
		{"a unit that starts", "app_runtime_liveness/unit", func(f *diag.Fact) {
			f.Failure, f.Unit = diag.UnitInactive, &diag.UnitFacts{Active: "activating", Sub: "start"}
		}, "workload.runs", world.NotMeasured},
		{"a full root file system", "node_readiness/root_disk", fails(diag.DiskFull, "disk"), "node.takes_writes", world.No},
		{"a silent page", "control_plane_access/healthz", fails(diag.HTTPTimeout, "http"), "platform.answers_operator",
			world.Yes}, // the token was accepted
	} {
		r := recorded(t, "reports/healthy.json")
		found := false
		for i := range r.Facts {
			if r.Facts[i].ID == tc.fact {
				tc.change(&r.Facts[i])
				found = true
			}
		}
		if !found {
			t.Errorf("%s: no fact %s", tc.name, tc.fact)
		}
		for _, p := range world.Of(hops.BuiltIn().CaseOf(r)).Properties() {
			if p.Party+"."+p.Name == tc.property && p.Is() != tc.want {
				t.Errorf("%s: %s is %s, want %s", tc.name, tc.property, p.Is(), tc.want)
			}
		}
	}
}
