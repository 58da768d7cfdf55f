package ops

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// lifecycleTime bounds the three requests to the API for one node, two of them concurrent.
const lifecycleTime = 10 * time.Second

// Lifecycle is one node according to the platform's read model.
type Lifecycle struct {
	NodeID         string               `json:"node_id"`
	Asked          bool                 `json:"asked"` // false: nothing is known, see Why
	Why            string               `json:"why,omitempty"`
	Unknown        bool                 `json:"unknown,omitempty"`          // the platform does not know the node
	HeartbeatAgeMS *int64               `json:"heartbeat_age_ms,omitempty"` // since the last accepted heartbeat
	ContactAgeMS   *int64               `json:"contact_age_ms,omitempty"`   // since the last request of any kind
	Posture        string               `json:"posture,omitempty"`
	CertNotAfter   string               `json:"cert_not_after,omitempty"`
	AgentVersion   string               `json:"agent_version,omitempty"`
	RecordState    string               `json:"record_state,omitempty"`
	StaleTasks     *int                 `json:"stale_tasks,omitempty"`
	LostResults    *int                 `json:"lost_results,omitempty"`
	Operation      string               `json:"latest_operation,omitempty"` // type and status
	Classification *diag.Classification `json:"classification,omitempty"`
	// GPUs is the platform's judgement of the GPUs; absent if it does not judge any.
	GPUs *reading.GPUAdmission `json:"gpu,omitempty"`
}

// Lifecycle walks only the hops of the platform's read model, and classifies the result. It does not contact the node.
func (s *Session) Lifecycle(ctx context.Context) Lifecycle {
	ctx, cancel := context.WithTimeout(ctx, lifecycleTime)
	defer cancel()
	at := places{hop.Operator: s.open()[hop.Operator]}
	defer at.close(ctx)
	return lifecycleOf(s.ask(ctx, at, diag.HopControlPlaneAccess, diag.HopNodeHeartbeat, diag.HopGPUHealth))
}

// lifecycleOf converts a judged report.
func lifecycleOf(r *diag.Report) Lifecycle {
	l := Lifecycle{NodeID: r.Subject.NodeID}
	e := verdict.EvidenceOf(hops.BuiltIn(), r)
	if e.Node == nil {
		l.Why, l.Unknown = whyUnknown(r), UnknownSubject(r)
		return l
	}
	l.Asked, l.Classification = true, r.Classification
	l.Posture, l.AgentVersion, l.StaleTasks, l.LostResults = e.Node.Posture, e.Node.Version, e.Node.StaleTasks,
		e.Node.LostResults
	l.HeartbeatAgeMS, l.ContactAgeMS = milliseconds(e.Node.HeartbeatAge), milliseconds(e.Node.ContactAge)
	l.GPUs = hops.GPUsOf(r)
	row := hops.ReadModel(r)
	l.CertNotAfter, l.RecordState = row["node.cert_not_after"], row["node.record_state"]
	l.Operation = strings.TrimSpace(row["node.latest_operation_type"] + " " + row["node.latest_operation_status"])
	return l
}

// whyUnknown returns the hops' reason why the read model could not be read.
func whyUnknown(r *diag.Report) string {
	for _, id := range []diag.HopID{diag.HopControlPlaneAccess, diag.HopNodeHeartbeat} {
		for _, h := range r.Hops {
			if h.ID == id && h.Status != diag.StatusPass {
				return cmp.Or(h.Text, h.Because, string(h.Status))
			}
		}
	}
	return "the platform has no data about this node"
}

// UnknownSubject reports whether a walk was about a node or an allocation that the platform does not know: a mistake in
// the request or in the profile.
func UnknownSubject(r *diag.Report) bool {
	return slices.ContainsFunc(r.Hops, func(h diag.HopResult) bool {
		return h.Signal == diag.SigNodeUnknown || h.Signal == diag.SigAllocationUnknown
	})
}

func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}
