package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// wrong returns the claims of a report that its facts do not support. It reads the facts without any code of the
// judges.
func wrong(w *imagined, r *diag.Report) (all []string) {
	bad := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	byID, groups := map[string]*diag.Fact{}, map[string][]*diag.Fact{}
	group := func(id string) string {
		parts := strings.Split(id, "~")
		if _, err := strconv.Atoi(parts[len(parts)-1]); err == nil {
			parts = parts[:len(parts)-1]
		}
		return strings.Join(parts, "~")
	}
	constant := func(q string) bool {
		h := w.habits[tilde(q)]
		return h.other == nil && (h.share == 0 || h.share == 1)
	}
	replied := func(f *diag.Fact) bool {
		return f.Passed() || reading.Status(f) > 0 || f.Phase == "mtls" || f.Failure == diag.HTTPClosed
	}
	unheard := func(f *diag.Fact) bool {
		return strings.HasSuffix(string(f.Failure), "_timeout") || f.Failure == diag.Timeout
	}
	for i := range r.Facts {
		f := &r.Facts[i]
		if byID[f.ID] != nil {
			bad("two facts %s", f.ID)
		}
		byID[f.ID] = f
		if f.Failure != diag.Cancelled && f.Failure != diag.Unsupported {
			groups[group(f.ID)] = append(groups[group(f.ID)], f)
		}
	}
	for of, at := range w.spans {
		h := (&hop.Case{Plan: r.Plan}).Planned(hop.OfFact(of))
		if took := at[1].Sub(at[0]).Milliseconds(); took > h.BudgetMS+100 {
			bad("%s took %d ms of %d", of, took, h.BudgetMS)
		}
	}
	for id, reqs := range w.asked {
		again := walk.LimitTries // at most, of a step whose fact was dropped
		if f := byID[id]; f != nil {
			again = f.Refused
		}
		if len(reqs) > 1+again && !strings.HasPrefix(id, "evidence") {
			bad("%s was asked %d times, refused %d", id, len(reqs), again)
		}
		m, op := reqs[0].Method, reqs[0].Op
		if strings.Contains(id, "~") && ((m != "" && m != "GET") || reqs[0].Poll != nil || op == diag.OpSession) {
			bad("%s has an effect, and was asked again", id)
		}
	}
	for _, b := range append(r.Verdict.OtherFindings, blameOf(r)) {
		if (b.Confidence == diag.Proven) != (b.Proof != nil) {
			bad("%s %s: %s, proof %+v", b.Hop, b.Signal, b.Confidence, b.Proof)
		}
		if b.Proof == nil {
			continue
		}
		p := b.Proof
		a, z := byID[p.Failing], byID[p.Passing]
		if a == nil || z == nil {
			bad("%s: proof of no facts %+v", b.Hop, p)
			continue
		}
		as, zs := groups[group(a.ID)], groups[group(z.ID)]
		if p.Changed == diag.ChangedNothing {
			silent := slices.ContainsFunc(as, unheard)
			if b.Signal != diag.SigNetworkUnstable || group(a.ID) != group(z.ID) || !silent || z.Failure.Local() {
				bad("%s %s is proven by its instability: %s", b.Hop, b.Signal, p.Text)
			}
			continue
		}
		if b.Signal == diag.SigNetworkUnstable {
			bad("unstable, and proven by another question: %s", p.Text)
		}
		if step, _, _ := strings.Cut(a.ID, "~"); !strings.HasPrefix(step, string(b.Hop)+"/") {
			bad("%s %s is proven by %s", b.Hop, b.Signal, step)
		}
		changed := diag.Changed(&a.Request, &z.Request)
		if len(changed) != 1 || changed[0] != p.Changed || a.Vantage != z.Vantage {
			bad("%s: %v differ", b.Hop, changed)
		}
		need := 3
		if slices.ContainsFunc(as, unheard) {
			need = 9
		}
		if len(as) < need || len(zs) < need || len(as) != p.Failed || len(zs) != p.Passed {
			bad("%s: %d fail, %d pass: %+v", b.Hop, len(as), len(zs), p)
		}
		for _, f := range as {

			if (f.Failure == diag.TCPTimeout || f.Failure == diag.TCPNoRoute) &&
				(a.Failure == diag.TCPTimeout || a.Failure == diag.TCPNoRoute) {
				continue
			}
			if f.Failure != a.Failure || f.Phase != a.Phase || (reading.Status(f) != reading.Status(a) &&
				reading.Status(f) < 500) {
				bad("%s: %s is %s in %s HTTP %d, and %s %s in %s HTTP %d: %s", b.Hop, a.ID, a.Failure, a.Phase, reading.Status(a),
					f.ID, f.Failure, f.Phase, reading.Status(f), p.Text)
			}
		}
		for _, f := range zs {
			if f.Failure != z.Failure || f.Failure.Local() || f.Throttled() {
				bad("%s: %s is %s, and %s %s: %s", b.Hop, z.ID, z.Failure, f.ID, f.Failure, p.Text)
			}
		}
		for _, name := range []string{group(a.ID), group(z.ID)} {
			if h := w.habits[tilde(name)]; h.share > 0 && h.share < 1 && w.shared {
				w.chance++
				break
			}
		}
	}
	for _, b := range append(r.Verdict.OtherFindings, blameOf(r)) {
		for _, tc := range []struct {
			words, counter string
			as             func(*diag.Fact) bool
		}{
			{"the operator gets an answer, so", reading.CounterFromOperator, replied},
			{"the operator's request fails as well", reading.CounterFromOperator, func(f *diag.Fact) bool {
				return !f.Passed() && !f.Failure.Local()
			}},
			{"it answers, so only the look-up", reading.CounterPinned, replied},
			{"at the profile's address", reading.CounterPinned, replied},
			{"the same request from the machine's network passes", reading.CounterHostNetwork, replied},
		} {
			for q, facts := range groups {
				claims := strings.Contains(b.Text, tc.words) && strings.HasPrefix(q, string(b.Hop)+"/") &&
					strings.HasSuffix(q, "~"+tc.counter)
				if claims && slices.ContainsFunc(facts, func(f *diag.Fact) bool { return !tc.as(f) }) {
					bad("%s says %q, and %s does not: %s", b.Hop, tc.words, q, b.Text)
				}
			}
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		bad("%v", err)
	}
	for _, words := range strings.Split(string(text), "answers are intermittent: ")[1:] {
		q, rest, _ := strings.Cut(words, " was answered ")
		n, _, _ := strings.Cut(rest, " of ")
		heard := 0
		for _, f := range groups[q] {
			if !unheard(f) && !f.Failure.Local() && f.Failure != diag.TCPNoRoute {
				heard++
			}
		}
		if strconv.Itoa(heard) != n {
			bad("%s answers are intermittent: %d were heard, not %s", q, heard, n)
		}
		if constant(q) {
			bad("%s answers always alike, after %s, and is said to be intermittent", q, w.habits[tilde(q)].after)
		}
	}
	for _, b := range append(r.Verdict.OtherFindings, blameOf(r)) {
		step := ""
		if b.Signal == diag.SigNetworkUnstable && b.Proof != nil {
			step = group(b.Proof.Failing)
		}
		if step != "" && constant(step) {
			bad("%s answers always alike, after %s, and is said to be unstable: %s", step, w.habits[tilde(step)].after, b.Text)
		}
	}
	if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
		bad("replay: %v", err)
	}
	return all
}

func tilde(group string) string {
	if strings.Contains(group, "~") {
		return group
	}
	return group + "~"
}
