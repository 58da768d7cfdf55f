package golden

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Check lists the differences between a report and its expectation, except for its support. It is empty if they agree.
func (e Expect) Check(r *diag.Report) []string {
	v := r.Verdict
	var out []string
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if v.Outcome != diag.OutcomeFail || v.Blame == nil {
		bad("outcome %s, want fail", v.Outcome)
		return out
	}
	if v.Blame.Hop != e.Hop || !slices.Contains(e.Signal, v.Blame.Signal) {
		bad("blame %s %s, want %s %v", v.Blame.Hop, v.Blame.Signal, e.Hop, e.Signal)
	}
	first := e.First
	if len(first) == 0 {
		first = []diag.HopID{e.Hop}
	}
	if !slices.Contains(first, v.FirstFailedHop) {
		bad("first failed hop %s, want one of %v", v.FirstFailedHop, first)
	}
	if len(e.Failure) > 0 && !slices.Contains(e.Failure, v.Blame.Failure) {
		bad("failure %q, want one of %v", v.Blame.Failure, e.Failure)
	}
	var others []diag.HopID
	for _, o := range v.OtherFindings {
		others = append(others, o.Hop)
	}
	if !slices.Equal(others, e.Others) {
		bad("other findings at %v, want %v", others, e.Others)
	}
	if v.Owner == "" || len(v.Recovery) == 0 || v.Reason == "" {
		bad("owner %q, recovery %v, reason %q: each must say something", v.Owner, v.Recovery, v.Reason)
	}
	for _, h := range r.Hops {
		if slices.Contains(e.Green, h.ID) && h.Status != diag.StatusPass {
			bad("%s is %s, and must stay green: %s%s", h.ID, h.Status, h.Text, h.Because)
		}
	}
	return out
}
