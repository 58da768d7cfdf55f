package platform

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// node is a node's state with a reason, of which all five points pass; more are further facts.
func node(reason diag.ReasonCode, more diag.Seen) recoveryView {
	m := diag.Seen{diag.FactNode: diag.MarkPass, diag.FactToken: diag.MarkPass, diag.FactContact: diag.MarkPass}
	for _, p := range diag.Points {
		m[string(p)] = diag.MarkPass
	}
	maps.Copy(m, more)
	return recoveryView{Reason: reason, seen: m}
}

// TestTenantTexts: users read the catalogue's text for their own reason. A workload that a completed probe saw
// stopped is not shown as running, and a node that is in contact is not shown as unreachable.
func TestTenantTexts(t *testing.T) {
	running := store.Allocation{State: store.StateActive, App: store.App{Status: appRunning}}
	stopped := store.Allocation{State: store.StateActive, App: store.App{Status: appStopped}}
	degraded := store.Allocation{State: store.StateActive, App: store.App{Status: appDegraded}}
	stuck := store.Allocation{State: store.StateReleaseFailed}
	gone := store.Allocation{State: store.StateReleased, App: store.App{Status: appStopped}}
	refused := store.Allocation{State: store.StateActive, App: store.App{Status: appRunning},
		Credentials: []store.Credential{{Healthy: false}}}
	silent := diag.Seen{diag.FactContact: diag.MarkFail}
	backlog := diag.Seen{string(diag.PointBacklog): diag.MarkFail}
	never := diag.Seen{diag.FactContact: diag.MarkFail, diag.FactNode: ""}
	unmeasured := diag.Seen{string(diag.PointTask): ""}
	failing := diag.Seen{string(diag.PointTask): diag.MarkFail}
	spent := diag.Seen{diag.FactToken: diag.MarkFail}
	for _, c := range []struct {
		name       string
		a          store.Allocation
		node       recoveryView
		want, says string
	}{
		{"all is well", running, node("none", nil), "none normal", ""},
		{"a point is not measured", running, node("none", unmeasured), "none normal", ""},
		{"a point fails", running, node("none", failing), "none unknown", ""},
		{"nobody reads it", gone, node("node_agent_unreachable", silent), "none normal", ""},
		{"no contact", running, node("node_agent_unreachable", silent), "node_agent_unreachable temporary",
			"Temporarily disconnected"},
		{"no contact ever", store.Allocation{State: store.StateActive}, node("node_agent_unreachable", never),
			"node_agent_unreachable unknown", ""},
		{"no contact, and it was stopped", stopped, node("node_agent_unreachable", silent),
			"node_agent_unreachable temporary", "Temporarily disconnected"},
		{"a late result", running, node("dispatched_result_lost", nil), "dispatched_result_lost temporary",
			"An operation's result is late"},
		{"a backlog", running, node("task_backlog_stale", backlog), "task_backlog_stale temporary",
			"Operation history is stale"},
		{"an old agent", running, node("agent_version_drift", nil), "agent_version_drift temporary", ""},
		{"an old agent, and it was stopped", stopped, node("agent_version_drift", nil), "app_runtime_failed temporary",
			"Degraded or unavailable"},
		{"another address", running, node("ip_route_drift", nil), "ip_route_drift temporary", ""},
		{"another address, and a refused credential", refused, node("ip_route_drift", nil),
			"app_credential_failing operator_action_required", "A credential of this application has to be renewed"},
		{"reconnecting", running, node("cert_expired", nil), "cert_expired recovering", "Reconnecting"},
		{"nothing to reconnect with", running, node("cert_expired", spent), "cert_expired operator_action_required",
			"Platform maintenance in progress"},
		{"stopped", stopped, node("none", nil), "app_runtime_failed temporary", "Degraded or unavailable"},
		{"no answer at its port", degraded, node("none", nil), "app_runtime_failed temporary", "Degraded or unavailable"},
		{"not cleaned up", stuck, node("none", nil), "release_failed_cleanup_stuck operator_action_required",
			"This allocation cannot be used again yet"},
	} {
		v := tenantRead(c.a, c.node, nil, time.Now())
		if got := string(v.Reason) + " " + string(v.State); got != c.want || v.UserText != c.says {
			t.Errorf("%s: %s %q, want %s %q", c.name, got, v.UserText, c.want, c.says)
		}
	}
}

// TestTenantSeesUserActions: the user interface's actions for a reason are in the tenant's own view.
func TestTenantSeesUserActions(t *testing.T) {
	running := store.Allocation{State: store.StateActive}
	fenced := node(diag.ReasonIdentityRevokedOrFenced, nil)
	if v := tenantRead(running, fenced, nil, time.Now()); !slices.Equal(v.Actions,
		[]diag.UserAction{diag.HideSelfService}) {
		t.Errorf("a fenced node: %v", v.Actions)
	}
	well := node(diag.ReasonNone, nil)
	if v := tenantRead(running, well, nil, time.Now()); v.Actions != nil {
		t.Errorf("all is well: %v", v.Actions)
	}
}
