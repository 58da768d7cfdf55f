package platform

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// tenantRecovery returns what an allocation's tenant is shown: its own clean-up first, then its node, then its
// workload. Nothing of a node is shown of an allocation that is not active on it.
func tenantRecovery(a store.Allocation, node recoveryView) diag.Shown {
	switch a.State {
	case store.StateReleaseFailed:
		return diag.ForUser(diag.ReasonReleaseCleanupStuck, node.seen)
	case store.StateActive, store.StateReleasing:
	default:
		return diag.Shown{Reason: diag.ReasonNone, State: diag.UserNormal}
	}
	m := withWorkload(node.seen, a)
	shown := diag.ForUser(node.Reason, m)
	own := appReason(a)
	if node.Reason == diag.ReasonNone || (own == diag.ReasonAppCredentialFailing && shown.Text == "") {
		return diag.ForUser(own, m)
	}
	return shown
}

// withWorkload adds what completed status probes saw of an active allocation's workload. The last status is kept while
// a probe is missing, but does not prove that the workload runs now. The platform does not measure the route to it.
func withWorkload(node diag.Seen, a store.Allocation) diag.Seen {
	m := diag.Seen{}
	maps.Copy(m, node)
	if a.State != store.StateActive || a.App.Status == "" {
		return m
	}
	m[diag.FactNode] = diag.MarkPass
	switch {
	case a.App.Status != appRunning:
		m[diag.FactWorkload] = diag.MarkFail
	case observationOf(a.App) == "current":
		m[diag.FactWorkload] = diag.MarkPass
	}
	return m
}

// appReason returns the reason of an active allocation's workload. Only a completed observation makes it failed; a
// missing observation is shown as missing and changes nothing.
func appReason(a store.Allocation) diag.ReasonCode {
	switch {
	case a.State != store.StateActive:
	case a.App.Status == appStopped, a.App.Status == appDegraded:
		return diag.ReasonAppRuntimeFailed
	case a.Credential() != nil && !a.Credential().Healthy:
		return diag.ReasonAppCredentialFailing
	case observationOf(a.App) == "stale":
		return diag.ReasonAppObservationStale
	}
	return diag.ReasonNone
}

func tenantRead(a store.Allocation, node recoveryView, trail []store.Evidence, now time.Time) tenantView {
	shown := tenantRecovery(a, node)
	v := tenantView{Reason: shown.Reason, State: shown.State, UserText: shown.Text, Actions: shown.Actions,
		UpdatedAt: diag.At(now), Evidence: make([]string, len(trail))}
	if string(shown.Reason) == a.RecoveryReason {
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
		shown := tenantRecovery(a, v)
		// A separate correlation id, so that one tenant's record does not lead to another's. The cause is for the
		// operator.
		if _, err := p.store.SetAllocationRecovery(ctx, nodeID, a.ID,
			store.Recovery{Reason: string(shown.Reason), State: string(shown.State), CorrelationID: store.NewID("notice-"),
				Detail: map[string]any{"user_text": shown.Text, "cause": correlationID}, At: o.now}); err != nil {
			return err
		}
	}
	return nil
}
