package platform

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// TestTenantTexts: users read the catalogue's text for their own reason. A workload that a completed probe saw
// stopped is not shown as running, and a node that is in contact is not shown as unreachable.
func TestTenantTexts(t *testing.T) {
	running := store.Allocation{State: store.StateActive, App: store.App{Status: appRunning}}
	stopped := store.Allocation{State: store.StateActive, App: store.App{Status: appStopped}}
	degraded := store.Allocation{State: store.StateActive, App: store.App{Status: appDegraded}}
	stuck := store.Allocation{State: store.StateReleaseFailed}
	gone := store.Allocation{State: store.StateReleased, App: store.App{Status: appStopped}}
	for _, c := range []struct {
		name       string
		a          store.Allocation
		node       diag.ReasonCode
		state      diag.UserState
		want, says string
	}{
		{"all is well", running, "none", "normal", "none normal", ""},
		{"nobody reads it", gone, "node_agent_unreachable", "temporary", "none normal", ""},
		{"no contact", running, "node_agent_unreachable", "temporary", "node_agent_unreachable temporary",
			"Temporarily disconnected"},
		{"no contact, and it was stopped", stopped, "node_agent_unreachable", "temporary", "node_agent_unreachable temporary",
			"Temporarily disconnected"},
		{"a late result", running, "dispatched_result_lost", "temporary", "dispatched_result_lost temporary",
			"An operation's result is late"},
		{"a backlog", running, "task_backlog_stale", "temporary", "task_backlog_stale temporary",
			"Operation history is stale"},
		{"an old agent", running, "agent_version_drift", "temporary", "agent_version_drift temporary", ""},
		{"an old agent, and it was stopped", stopped, "agent_version_drift", "temporary", "app_runtime_failed temporary",
			"Degraded or unavailable"},
		{"another address", running, "ip_route_drift", "temporary", "ip_route_drift temporary", ""},
		{"reconnecting", running, "cert_expired", "recovering", "cert_expired recovering", "Reconnecting"},
		{"nothing to reconnect with", running, "cert_expired", "operator_action_required",
			"cert_expired operator_action_required", "Platform maintenance in progress"},
		{"stopped", stopped, "none", "normal", "app_runtime_failed temporary", "Degraded or unavailable"},
		{"no answer at its port", degraded, "none", "normal", "app_route_failed temporary",
			"The application cannot be reached"},
		{"not cleaned up", stuck, "none", "normal", "release_failed_cleanup_stuck operator_action_required",
			"This allocation cannot be used again yet"},
	} {
		reason, state := tenantRecovery(c.a, recoveryView{Reason: c.node, State: c.state})
		if got, text := string(reason)+" "+string(state), userText(reason, state); got != c.want || text != c.says {
			t.Errorf("%s: %s %q, want %s %q", c.name, got, text, c.want, c.says)
		}
	}
}

// TestTenantSeesUserActions: the user interface's actions for a reason are in the tenant's own view.
func TestTenantSeesUserActions(t *testing.T) {
	running := store.Allocation{State: store.StateActive}
	fenced := recoveryView{Reason: diag.ReasonIdentityRevokedOrFenced, State: diag.UserOperator}
	if v := tenantRead(running, fenced, nil, time.Now()); !slices.Equal(v.Actions,
		[]diag.UserAction{diag.HideSelfService}) {
		t.Errorf("a fenced node: %v", v.Actions)
	}
	well := recoveryView{Reason: diag.ReasonNone, State: diag.UserNormal}
	if v := tenantRead(running, well, nil, time.Now()); v.Actions != nil {
		t.Errorf("all is well: %v", v.Actions)
	}
}
