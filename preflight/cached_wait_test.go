package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestTaskWaitsThatAskNoQueue: a no-op that nobody claims while something else answers the node's task waits is no
// fault of the agent.
func TestTaskWaitsThatAskNoQueue(t *testing.T) {
	cached := func(header string) func(*diag.Fact) { return func(f *diag.Fact) { f.HTTP.Cached = header } }
	page := func(f *diag.Fact) {
		httpFails(diag.HTTPEdgePage, 404, "edge_error")(f)
		f.HTTP.ContentType = "text/html"
	}
	json := func(do func(*diag.Fact)) func(*diag.Fact) {
		return func(f *diag.Fact) { do(f); f.HTTP.ContentType = "application/json" }
	}
	const edge, api, agent = "edge and route profile", "control plane API", "control plane"
	for name, tc := range map[string]struct {
		wait        func(*diag.Fact)
		owner, says string
	}{
		"from a cache":              {cached("Age: 120"), edge, "from a cache (Age: 120)"},
		"from the platform":         {cached(""), agent, "no agent claimed the no-op"},
		"an unsigned 404":           {json(httpFails(diag.HTTPStatus, 404, "")), edge, "HTTP 404"},
		"an edge's 404":             {page, edge, "HTTP 404"},
		"an empty 404":              {httpFails(diag.HTTPStatus, 404, ""), edge, "HTTP 404"},
		"a redirect":                {func(f *diag.Fact) { f.HTTP.Status = 302 }, edge, "HTTP 302"},
		"a refusal of the platform": {json(refusal(409, "node_conflict")), api, "HTTP 409, node_conflict"},
		"it does not know the node": {json(refusal(404, "node_not_found")), api, "HTTP 404, node_not_found"},
	} {
		for _, old := range []string{"", "v0"} { // a version that differs is no reason either
			r := walkWith(t, answers{"node_task_roundtrip/task": nobodyClaims, "node_recovery_status/task_wait": tc.wait,
				readModelFact: func(f *diag.Fact) {
					f.HTTP.Fields["node.agent_version"], f.HTTP.Fields["node.agent_desired_version"] = old, "v1"
				}})
			v := r.Verdict
			if v.Blame == nil || v.Blame.Hop != diag.HopNodeTaskRoundtrip || !strings.Contains(v.Blame.Text, tc.says) {
				t.Errorf("%s: %+v\n%s", name, v.Blame, describe(r))
				continue
			}
			asksAgent := strings.Contains(strings.Join(v.Recovery, "\n"), "verifier keys")
			if v.Owners[0] != tc.owner || asksAgent != (tc.owner == agent) ||
				(tc.owner != agent && v.Reason != diag.ReasonControlPlaneUnreachable) {
				t.Errorf("%s: owner %s, reason %s, steps %q", name, v.Owner, v.Reason, v.Recovery)
			}
		}
	}
}

// TestCachedAnswers: what the API says from a cache is no evidence of what is now, against neither agent nor platform.
func TestCachedAnswers(t *testing.T) {
	cached := func(change func(*diag.Fact)) func(*diag.Fact) {
		return func(f *diag.Fact) { change(f); f.HTTP.Cached = "Age: 7" }
	}
	for id, change := range map[string]func(*diag.Fact){
		"node_task_roundtrip/task":      nobodyClaims,
		"allocation_binding/allocation": setField("allocation.state", "released"),
		readModelFact:                   func(*diag.Fact) {},
	} {
		r := walkWith(t, answers{id: cached(change)})
		hop, _, _ := strings.Cut(id, "/")
		if h := hopOf(r, diag.HopID(hop)); r.Verdict.Blame != nil || r.Verdict.Outcome != diag.OutcomeInconclusive ||
			!strings.Contains(h.Because, "came from a cache (Age: 7)") || !strings.HasPrefix(r.Verdict.Owner, "edge") {
			t.Errorf("%s: owner %s\n%s", id, r.Verdict.Owner, describe(r))
		}
	}
	if r := walkWith(t, answers{"allocation_binding/allocation": cached(func(*diag.Fact) {})}); r.Verdict.Outcome !=
		diag.OutcomeWarn {
		t.Errorf("a healthy answer\n%s", describe(r))
	}
}
