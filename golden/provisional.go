package golden

import (
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// NetworkFaults are the recordings of a route, a name or a port that is wrong or blocked. A stream that is cut after
// its first answer is not one of them: until its deadline it may be a slow shell.
func NetworkFaults() []string {
	return []string{
		"reports/api-egress-blocked.json", "reports/api-egress-rejected.json", "reports/api-dns-broken.json",
		"reports/api-name-unknown.json", "reports/api-name-elsewhere.json", "reports/agent-network-other.json",
		"reports/agent-network-private.json", "reports/ops-path-lost.json", "reports/guest-agent-down.json",
		"reports/sshd-frozen.json", "reports/terminal-egress-blocked.json", "reports/terminal-url-wrong.json",
		"reports/wrong-public-edge.json", "reports/workload-route-broken.json", "matrix/ip_route_drift.json",
	}
}

// FirstBlame returns when a recorded walk began to name its final blame without interruption, and whether it named
// another one before. The report must be judged by today's rules and have a blame.
func FirstBlame(r *diag.Report) (at time.Duration, corrected bool) {
	at = time.Duration(r.Run.DurationMS) * time.Millisecond
	said := walk.Rehearse(hops.BuiltIn(), r)
	for i := len(said) - 1; i >= 0; i-- {
		b := said[i].Blame
		if b == nil || b.Hop != r.Verdict.Blame.Hop || b.Signal != r.Verdict.Blame.Signal {
			return at, true
		}
		at = said[i].At
	}
	return at, false
}
