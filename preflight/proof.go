package preflight

import (
	"fmt"
	"sort"

	"github.com/gpuaas/gpuaasctl/diag"
)

// phases is the ladder: a probe that failed in a later phase passed all the earlier ones.
var phases = [...]string{"env", "dns", "tcp", "cert", "tls", "http", "poll", "ws", "pty"}

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

// prove looks for a fact that came through where the failing one did not, measured from the same place with exactly
// one input changed. Another vantage proves where, never why, and is no proof.
func prove(c *Case, failing string) *diag.Proof {
	a := c.facts[failing]
	if a == nil || a.Failure == diag.OK || a.Failure == diag.Cancelled {
		return nil
	}
	ids := make([]string, 0, len(c.facts))
	for id := range c.facts {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	for _, id := range ids {
		b := c.facts[id]
		if b.ID == a.ID || b.Vantage != a.Vantage || b.Request.Op != a.Request.Op || !passesWhere(b, a) {
			continue
		}
		changed := diag.Changed(a.Request, b.Request)
		if len(changed) != 1 {
			continue
		}
		return &diag.Proof{Failing: a.ID, Passing: b.ID, Changed: changed[0], Text: proofText(a, b, changed[0])}
	}
	return nil
}

// proofText says the pair in one sentence.
func proofText(a, b *diag.Fact, changed string) string {
	return fmt.Sprintf("%s with %s %s; %s with %s",
		a.Failure, changed, value(a.Request, changed), outcome(b), value(b.Request, changed))
}

func outcome(f *diag.Fact) string {
	if f.Failure == diag.OK {
		return "passes"
	}
	return "gets past it (to " + f.Phase + ")"
}

func value(r diag.Request, name string) string {
	v, ok := r.Inputs()[name]
	if !ok {
		return "unset"
	}
	s := fmt.Sprint(v)
	if name == "ca_inline" {
		return "the active bundle"
	}
	return s
}
