package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestCachedTaskWait: a no-op that nobody claims while a cache answers the node's task waits is no fault of the agent.
func TestCachedTaskWait(t *testing.T) {
	for name, cached := range map[string]string{"from a cache": "Age: 120", "from the platform": ""} {
		r := walkWith(t, answers{"node_task_roundtrip/task": nobodyClaims,
			"node_recovery_status/task_wait": func(f *diag.Fact) { f.HTTP.Cached = cached }})
		v := r.Verdict
		if v.Blame == nil || v.Blame.Hop != diag.HopNodeTaskRoundtrip ||
			strings.Contains(v.Blame.Text, "from a cache (Age: 120)") != (cached != "") {
			t.Fatalf("%s: %+v\n%s", name, v.Blame, describe(r))
		}
		edge := strings.HasPrefix(v.Owner, "edge")
		asksAgent := strings.Contains(strings.Join(v.Recovery, "\n"), "verifier keys")
		if edge != (cached != "") || asksAgent == (cached != "") {
			t.Errorf("%s: owner %s, steps %q", name, v.Owner, v.Recovery)
		}
	}
}
