package platform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// tenantView is what one tenant's allocation shows of a state that may be its node's. It has its own trail, and
// shows nothing of the node's other tenants.
type tenantView struct {
	Reason   diag.ReasonCode `json:"reason"` // for the operator
	State    diag.UserState  `json:"state"`
	UserText string          `json:"user_text,omitempty"`
	// actions of a user interface in addition to showing the text
	Actions   []diag.UserAction `json:"user_actions,omitempty"`
	Since     diag.Time         `json:"since,omitzero"`
	UpdatedAt diag.Time         `json:"updated_at"`
	Evidence  []string          `json:"evidence"` // the newest records for this allocation, newest first
}

// trailLength is the number of an allocation's records in the view.
const trailLength = 5

// userText returns the catalogue's text for users about a reason. Reasons are for operators.
func userText(reason diag.ReasonCode, state diag.UserState) string {
	row, _ := diag.LookupReason(reason)
	seen := diag.Seen{}
	switch reason { // reasons that are a single measured fact each, as in reason()
	case diag.ReasonNodeAgentUnreachable:
		seen[diag.FactContact] = diag.MarkFail
	case diag.ReasonTaskBacklogStale:
		seen[string(diag.PointBacklog)] = diag.MarkFail
	}
	return row.Shown(state, seen)
}

// tenantRecovery returns what an allocation's tenant is shown: its own clean-up first, then its node, then its
// workload. A problem of the node that is not shown to users does not hide a failure of the workload.
func tenantRecovery(a store.Allocation, node recoveryView) (reason diag.ReasonCode, state diag.UserState) {
	if a.State == store.StateReleaseFailed {
		return classified(diag.ReasonReleaseCleanupStuck)
	}
	if a.State != store.StateActive && a.State != store.StateReleasing {
		return classified(diag.ReasonNone)
	}
	if node.Reason != diag.ReasonNone && userText(node.Reason, node.State) != "" {
		return node.Reason, node.State
	}
	if reason, state = appRecovery(a); state == diag.UserNormal && node.Reason != diag.ReasonNone {
		return node.Reason, node.State
	}
	return reason, state
}

// appRecovery returns the state of an active allocation's workload. Only a completed observation makes it failed;
// a missing observation is shown as missing and changes nothing.
func appRecovery(a store.Allocation) (reason diag.ReasonCode, state diag.UserState) {
	switch {
	case a.State != store.StateActive:
	case a.App.Status == appStopped:
		return classified(diag.ReasonAppRuntimeFailed)
	case a.App.Status == appDegraded:
		return classified(diag.ReasonAppRouteFailed)
	case a.Credential() != nil && !a.Credential().Healthy:
		return classified(diag.ReasonAppCredentialFailing)
	case observationOf(a.App) == "stale":
		return classified(diag.ReasonAppObservationStale)
	}
	return classified(diag.ReasonNone)
}

func tenantRead(a store.Allocation, node recoveryView, trail []store.Evidence, now time.Time) tenantView {
	reason, state := tenantRecovery(a, node)
	v := tenantView{Reason: reason, State: state, UserText: userText(reason, state), UpdatedAt: diag.At(now),
		Evidence: make([]string, len(trail))}
	if row, ok := diag.LookupReason(reason); ok {
		v.Actions = row.UserActions
	}
	if string(reason) == a.RecoveryReason {
		v.Since = when(a.RecoverySince)
	}
	for i, e := range trail {
		v.Evidence[i] = fmt.Sprintf("%s %v: %v (%s)", e.At.Format(timeText), e.Detail["state"], e.Detail["reason"],
			e.CorrelationID)
	}
	return v
}

// Reclassify checks every node's reason, and reports a change to each of the node's allocations. The platform runs
// it at the sweep's interval.
func (p *Platform) Reclassify(ctx context.Context) error {
	ids, err := p.store.NodeIDs(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		if err := p.reclassify(ctx, id, store.NewID("reason-")); err != nil {
			errs = append(errs, fmt.Errorf("reclassify node %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// reclassified runs reclassify within the request that changed something, rather than at the next sweep.
func (p *Platform) reclassified(ctx context.Context, nodeID string) {
	if err := p.reclassify(ctx, nodeID, web.CorrelationID(ctx)); err != nil {
		p.log.Error("reclassify failed", "node_id", nodeID, "error", err)
	}
}

// reclassify checks one node under the correlation id of the sweep, or of the decision that changed something.
func (p *Platform) reclassify(ctx context.Context, nodeID, correlationID string) error {
	o, err := p.observe(ctx, nodeID)
	if err != nil {
		return err
	}
	v := recovery(o)
	changed, err := p.store.SetNodeRecovery(ctx, nodeID,
		store.Recovery{Reason: string(v.Reason), State: string(v.State), CorrelationID: correlationID,
			Detail: map[string]any{"evidence": v.Evidence}, At: o.now})
	if err != nil {
		return err
	}
	if changed {
		p.log.Info("a node's reason changed", "node_id", nodeID, "reason", v.Reason, "state", v.State)
		p.metrics.add("recovery_changes_total", "reason", string(v.Reason))
	}
	tenants, err := p.store.AllocationsOn(ctx, nodeID)
	if err != nil {
		return err
	}
	for _, a := range tenants {
		reason, state := tenantRecovery(a, v)
		// A separate correlation id, so that one tenant's record does not lead to another's. The cause is for the
		// operator.
		if _, err := p.store.SetAllocationRecovery(ctx, nodeID, a.ID,
			store.Recovery{Reason: string(reason), State: string(state), CorrelationID: store.NewID("notice-"),
				Detail: map[string]any{"user_text": userText(reason, state), "cause": correlationID}, At: o.now}); err != nil {
			return err
		}
	}
	return nil
}
