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
