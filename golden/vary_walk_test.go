package golden

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// walkVariations returns the variations that concern more than one fact: a hop, a vantage, the plan, the ending.
func walkVariations(whole *diag.Report) []variation {
	var all []variation
	add := func(name string, apply func(*diag.Report)) { all = append(all, variation{name: name, apply: apply}) }
	for _, end := range []diag.EndedBy{diag.EndedDeadline, diag.EndedInterrupted, diag.EndedError} {
		add("ended by "+string(end), func(r *diag.Report) { r.Run.EndedBy = end })
	}
	for _, from := range []string{hop.Operator, hop.Node, hop.Platform} {
		of := func(f *diag.Fact) bool { return f.Vantage == from }
		add("nothing measured from "+from, without(of))
		for _, c := range []change{
			ended(diag.TCPTimeout, "tcp", ""), ended(diag.TCPRefused, "tcp", "ECONNREFUSED"), ended(diag.DNSTimeout, "dns", ""),
			{"out of ports", exhaustedAt(diag.LocalPorts, diag.ScopeNetwork), false},
		} {
			add("from "+from+" all "+c.name, changing(c.to, func(f *diag.Fact) bool {
				return of(f) && f.Request.Op.Row().Ladder
			}))
		}
	}
	add("the login broke at once", changing(func(f *diag.Fact) { endIn(f, diag.SSHTransport, "ssh", "") },
		func(f *diag.Fact) bool { return f.Vantage == hop.Node && f.Request.Op != diag.OpSSH }))
	add("without counter-probes", without(func(f *diag.Fact) bool { return strings.Contains(f.ID, "~") }))
	add("without repeats", without(func(f *diag.Fact) bool {
		at := strings.LastIndexByte(f.ID, '~')
		return at >= 0 && repeat.MatchString(f.ID[at:])
	}))
	add("vantages exchanged", changing(atOtherVantage, func(f *diag.Fact) bool { return f.Vantage != hop.Platform }))
	always := add
	add = func(name string, apply func(*diag.Report)) { // as in factVariations: another part in each recording
		if chosen(4, whole.Run.ID, name) {
			always(name, apply)
		}
	}
	for i := range whole.Plan.Hops {
		id := string(whole.Plan.Hops[i].ID)
		add("nothing measured at "+id, without(func(f *diag.Fact) bool { return strings.HasPrefix(f.ID, id+"/") }))
		plan := func(name string, to func(*diag.PlannedHop)) {
			add(name+" "+id, func(r *diag.Report) {
				r.Plan.Hops = slices.Clone(r.Plan.Hops)
				to(&r.Plan.Hops[i])
			})
		}
		plan("not asked for", func(p *diag.PlannedHop) { p.Skip = "not asked for" })
		plan("this platform has no", func(p *diag.PlannedHop) { p.Absent = "the profile maps no path" })
	}
	for _, key := range slices.Sorted(maps.Keys(whole.Plan.Policy)) {
		add("policy without "+key, func(r *diag.Report) {
			r.Plan.Policy = maps.Clone(r.Plan.Policy)
			delete(r.Plan.Policy, key)
		})
	}
	for _, key := range slices.Sorted(maps.Keys(whole.Subject.Expected)) {
		add("profile without "+key, func(r *diag.Report) {
			r.Subject.Expected = maps.Clone(r.Subject.Expected)
			delete(r.Subject.Expected, key)
		})
		add("profile with another "+key, func(r *diag.Report) {
			r.Subject.Expected = maps.Clone(r.Subject.Expected)
			r.Subject.Expected[key] = "https://other.test"
		})
	}
	add("no evidence of the platform", func(r *diag.Report) { r.Evidence = nil })
	for i := range whole.Evidence {
		add(fmt.Sprintf("no evidence line %d (%s)", i, whole.Evidence[i].Kind), func(r *diag.Report) {
			r.Evidence = slices.Delete(slices.Clone(r.Evidence), i, i+1)
		})
	}
	add("another node", func(r *diag.Report) { r.Subject.NodeID = "other" })
	add("without allocation", func(r *diag.Report) { r.Subject.AllocationID = "" })
	return all
}

func without(which func(*diag.Fact) bool) func(*diag.Report) {
	return func(r *diag.Report) {
		r.Facts = slices.DeleteFunc(slices.Clone(r.Facts), func(f diag.Fact) bool { return which(&f) })
	}
}

func changing(to func(*diag.Fact), which func(*diag.Fact) bool) func(*diag.Report) {
	return func(r *diag.Report) {
		var at []int
		for i := range r.Facts {
			if which(&r.Facts[i]) {
				at = append(at, i)
			}
		}
		replace(r, at, to)
	}
}
