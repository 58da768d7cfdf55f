package preflight

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// limitedFact turns a fact into a rate limiter's refusal, as today's probe reports it, or with old as an older one did.
func limitedFact(status int, old bool) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase, f.WS, f.PTY = diag.HTTPRateLimited, "http", nil, nil
		if old {
			f.Failure = diag.HTTPStatus
		}
		if f.Request.Op == diag.OpWS || f.Request.Op == diag.OpSession {
			f.WS = &diag.WSFacts{Status: status}
			if old {
				f.Failure, f.Phase = diag.WSUpgradeRejected, "ws"
			}
		}
		f.HTTP = &diag.HTTPFacts{Status: status, ErrorCode: "rate_limit_exceeded",
			Fields: map[string]string{"error.code": "rate_limit_exceeded"}}
	}
}

// throttledSteps returns the steps of a vantage with an HTTP exchange or a WebSocket in a healthy walk.
func throttledSteps(from string) []string {
	var ids []string
	for _, h := range hops.BuiltIn().List() {
		for _, s := range h.Steps {
			if s.From != from || s.Ask == nil || s.Policy.Turn != hop.Always || h.ID == diag.HopTerminalStartup ||
				s.Name == hop.StepPort {
				continue
			}
			f := healthy(diag.Request{ID: hop.FactID(h.ID, s.Name)})
			if f.HTTP != nil || f.WS != nil {
				ids = append(ids, hop.FactID(h.ID, s.Name))
			}
		}
	}
	return ids
}

var limiterStatuses = []int{400, 401, 403, 404, 409, 429, 503}

// TestThrottledOperatorIsNoFault: a limiter that refuses the operator in any one exchange causes no failing finding,
// whatever its status; it is reported, and the walk does not pass.
func TestThrottledOperatorIsNoFault(t *testing.T) {
	steps := throttledSteps(hop.Operator)
	if len(steps) < 10 {
		t.Fatalf("only %d steps: %v", len(steps), steps)
	}
	for _, id := range steps {
		for _, status := range limiterStatuses {
			for _, old := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d old %v", id, status, old), func(t *testing.T) {
					r := walkWith(t, answers{id: limitedFact(status, old)})
					for _, h := range r.Hops {
						if h.Status == diag.StatusFail {
							t.Errorf("%s fails: %s %s", h.ID, h.Signal, h.Text)
						}
					}
					if r.Verdict.Outcome != diag.OutcomeInconclusive {
						t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
					}
					if slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return len(f.ID) > len(id) && f.ID[:len(id)] == id }) {
						t.Error("the limiter was asked once more")
					}
				})
			}
		}
	}
}

// TestThrottledNodeIsNotDenied: a limiter that refuses the node is named as a limiter, and never as a denial or a
// refused certificate.
func TestThrottledNodeIsNotDenied(t *testing.T) {
	steps := throttledSteps(hop.Node)
	if len(steps) != 3 {
		t.Fatalf("steps %v", steps)
	}
	for _, id := range steps {
		for _, status := range limiterStatuses {
			for _, old := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d old %v", id, status, old), func(t *testing.T) {
					r := walkWith(t, answers{id: limitedFact(status, old)})
					if b := r.Verdict.Blame; b == nil || b.Signal != diag.SigEdgeRateLimited {
						t.Fatalf("blame %+v\n%s", b, describe(r))
					}
					if len(r.Verdict.OtherFindings) > 0 {
						t.Errorf("more findings: %+v", r.Verdict.OtherFindings)
					}
					if r.Classification == nil || r.Classification.Reason != diag.ReasonEdgeRateLimited {
						t.Errorf("reason %+v", r.Classification)
					}
				})
			}
		}
	}
}

// TestOneLimiterIsOneFault: an edge that limits all requests of the node is one fault.
func TestOneLimiterIsOneFault(t *testing.T) {
	all := answers{}
	for _, id := range throttledSteps(hop.Node) {
		all[id] = func(f *diag.Fact) {
			limitedFact(403, false)(f)
			if f.Target == "https://node-api.test/healthz" {
				f.Target = "https://term.test/healthz"
			}
		}
	}
	r := walkWith(t, all)
	if b := r.Verdict.Blame; b == nil || b.Hop != diag.HopNodeRuntimeAPI || len(r.Verdict.OtherFindings) > 0 {
		t.Errorf("blame %+v, others %+v\n%s", b, r.Verdict.OtherFindings, describe(r))
	}
}
