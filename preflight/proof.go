package preflight

import (
	"fmt"
	"sort"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// phases is the ladder: a probe that failed in a later phase passed all the earlier ones.
var phases = [...]string{"target", "env", "dns", "tcp", "trust", "cert", "tls", "mtls", "http", "poll", "ws", "pty"}

func rung(phase string) int {
	for i, p := range phases {
		if p == phase {
			return i
		}
	}
	return -1
}

// passesWhere reports whether b came through the phase in which a failed.
func passesWhere(b, a *diag.Fact) bool {
	if b.Failure == diag.OK {
		return true
	}
	if b.Failure == diag.Cancelled {
		return false
	}
	return rung(a.Phase) >= 0 && rung(b.Phase) > rung(a.Phase)
}

// prove looks for a pair among a failing probe and its counter-probes: one that fails as the probe did, and one that
// comes through, measured from the same place with exactly one input changed. Another vantage proves where, never why,
// and is no proof; nor is a probe of another step, which asks about another thing.
func prove(c *Case, failing string) *diag.Proof {
	main := c.facts[failing]
	if main == nil || main.Failure == diag.OK || main.Failure == diag.Cancelled {
		return nil
	}
	family := []*diag.Fact{main}
	for id, f := range c.facts {
		if strings.HasPrefix(id, failing+"~") && f.Vantage == main.Vantage {
			family = append(family, f)
		}
	}
	sort.Slice(family, func(i, j int) bool { return family[i].ID < family[j].ID })
	for _, a := range family {
		if a.Failure != main.Failure || a.Phase != main.Phase {
			continue
		}
		for _, b := range family {
			if !passesWhere(b, a) {
				continue
			}
			if changed := diag.Changed(a.Request, b.Request); len(changed) == 1 {
				return &diag.Proof{Failing: a.ID, Passing: b.ID, Changed: changed[0], Text: proofText(a, b, changed[0])}
			}
		}
	}
	return nil
}

// proofText says the pair in one sentence.
func proofText(a, b *diag.Fact, changed string) string {
	return fmt.Sprintf("%s with %s; %s with %s", a.Failure, inWords(a.Request, changed), outcome(b), inWords(b.Request, changed))
}

func outcome(f *diag.Fact) string {
	if f.Failure == diag.OK {
		return "passes"
	}
	return "gets past it (to " + f.Phase + ")"
}

// inWords says one input of a request for people.
func inWords(r diag.Request, name string) string {
	v, set := r.Inputs()[name]
	switch {
	case name == "ca_inline" && set:
		return "the active bundle"
	case name == "ca_inline" && r.CABundle != "":
		return "the bundle " + r.CABundle
	case name == "ca_inline":
		return "the host's own roots"
	case name == "resolve" && set:
		return fmt.Sprintf("the address %v pinned", v)
	case name == "resolve":
		return "the name looked up"
	case name == "view" && !set:
		return "the agent's eyes"
	case name == "view":
		return fmt.Sprintf("the %v's eyes", v)
	case name == "target":
		return fmt.Sprint(v)
	case !set:
		return "no " + name
	}
	return fmt.Sprintf("%s %v", name, v)
}
