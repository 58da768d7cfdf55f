package golden

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// Row is the expected classification for one row of the drift model's failure matrix: evidence in; reason, state,
// severity, detection budget, MTTR target, owner and next action out.
type Row struct {
	Scenario string // row of the matrix
	// report with the evidence, below golden/; "" if no lab can produce it: then the test has it as literals
	Recording string
	Reason    diag.ReasonCode
	State     diag.UserState
	Severity  diag.Severity
	Detect    time.Duration
	Repair    time.Duration // 0: repairs itself, or on the next business day
	Owner     string        // who is called
	Component string        // implementation owner, by the matrix
	Next      string
}

// Classify classifies a judged report. In the blind spot's row, the evidence is only the node's own record: the
// platform receives nothing and no probe runs.
func (w Row) Classify(r *diag.Report) diag.Classification {
	e := verdict.EvidenceOf(hops.BuiltIn(), r)
	if w.Scenario == "pre_auth_blind_spot" {
		e = classify.Evidence{Node: e.Node, Record: e.Record}
	}
	return classify.Classify(e)
}

// Check lists the differences between a classification and the row. It is empty if they agree.
func (w Row) Check(c diag.Classification) []string {
	var out []string
	differs := func(what string, have, want any) {
		if have != want {
			out = append(out, fmt.Sprintf("%s: %v, want %v", what, have, want))
		}
	}
	differs("reason", c.Reason, w.Reason)
	differs("scenario", c.Scenario, w.Scenario)
	differs("state", c.State, w.State)
	differs("severity", c.Severity, w.Severity)
	differs("detect within", time.Duration(c.DetectMS)*time.Millisecond, w.Detect)
	differs("repair within", time.Duration(c.RepairMS)*time.Millisecond, w.Repair)
	differs("owner", c.Owner, w.Owner)
	differs("component", c.Component, w.Component)
	differs("next action", c.Next, w.Next)
	return out
}

// Matrix returns the failure matrix's 26 rows, in the drift model's order, with the expected classification of each.
func Matrix() []Row {
	const (
		op, tmp   = diag.UserOperator, diag.UserTemporary
		p0, p1    = diag.P0, diag.P1
		five      = 5 * time.Minute
		enroll    = "PKI, node enrollment"
		pki       = "PKI, edge profile"
		app       = "app runtime"
		sweeper   = "lifecycle task sweeper"
		quarter   = 15 * time.Minute
		half      = 30 * time.Minute
		recovered = diag.UserRecovery
	)
	lab := func(name string) string { return "matrix/" + name + ".json" }
	walk := func(name string) string { return "reports/" + name + ".json" }
	return []Row{
		{"short_node_outage", walk("agent-stopped"), diag.ReasonAgentDown, tmp, diag.P2, five, 0, "node runtime",
			"API lifecycle read model, node agent",
			"no decision needed: the agent resumes without re-enrollment; restart it if it does not"},
		{"long_outage_beyond_cert_expiry", lab("long_outage_beyond_cert_expiry"), diag.ReasonCertExpired, recovered, p1, five,
			time.Hour, enroll, "node agent recovery path",
			"wait while a current recovery token and trust bundle exist, else re-enroll the node"},
		{"identity_rejected_after_profile_change", lab("identity_rejected_after_profile_change"),
			diag.ReasonIdentityRejectedRecoverable, recovered, p1, five, time.Hour, enroll,
			"node agent recovery path, API node authorization",
			"wait for the bounded re-enrollment; the backend stays the authority and rejects retired nodes"},
		{"control_plane_outage", lab("control_plane_outage"), diag.ReasonControlPlaneUnreachable, tmp, p1, time.Minute,
			time.Hour, "environment networking", "node agent retry loop, ops alerts",
			"wait with bounded back-off; repair the path or the control plane, nodes come back by themselves"},
		{"control_plane_ca_restart_drift", lab("control_plane_ca_restart_drift"), diag.ReasonCertUntrustedByIngress, op, p0,
			time.Minute, quarter, pki, "API preflight, profile renderer",
			"repair the API's signing CA and the ingress's trusted CA first; then re-enroll the nodes that need it"},
		{"ingress_trust_ca_drift", walk("ingress-ca-drift"), diag.ReasonCertUntrustedByIngress, op, p0, time.Minute, quarter,
			pki, "profile renderer, ingress",
			"render one CA into API signing, bootstrap bundle and ingress trust; never re-enroll alone"},
		{"endpoint_profile_drift", walk("wrong-public-edge"), diag.ReasonEndpointProfileDrift, op, p1, five, time.Hour,
			"environment profile", "API enrollment and profile verifier",
			"issue a recovery bundle that rewrites endpoint fields and CA material together"},
		{"trust_bundle_drift", lab("trust_bundle_drift"), diag.ReasonServerTLSUntrusted, op, p1, five, time.Hour, pki,
			"node agent TLS self-check, API classifier", "rewrite the node's CA bundle by a recovery bundle, restart the agent"},
		{"trust_drift_blocks_recovery_enrollment", lab("trust_drift_blocks_recovery_enrollment"),
			diag.ReasonServerTLSUntrusted, op, p1, five, time.Hour, pki, "node agent TLS self-check, API profile evidence",
			"use the pinned recovery trust, profile repair material, or an operator's bundle; do not wait for retries"},
		{"pre_auth_blind_spot", lab("pre_auth_blind_spot"), diag.ReasonServerTLSUntrusted, op, p1, five, time.Hour, pki,
			"node agent diagnostic record, API classifier",
			"the host's record names the reason: repair the profile or trust path that it names"},
		{"edge_rate_limiting", walk("edge-rate-limited"), diag.ReasonEdgeRateLimited, tmp, diag.P2, five, 0,
			"edge and route profile", "node agent retry loop, edge",
			"check the endpoint profile first, then the edge's rule; slow polling, never retry harder"},
		{"recovery_token_missing", lab("recovery_token_missing"), diag.ReasonRecoveryTokenMissing, op, p1, five, time.Hour,
			enroll, "node agent recovery path, API evidence", "issue audited re-enrollment material"},
		{"identity_revoked_or_fenced", lab("identity_revoked_or_fenced"), diag.ReasonIdentityRevokedOrFenced, op, p0,
			time.Minute, quarter, enroll, "API node authorization", "pause polling; reactivate the node or re-enroll it"},
		{"cloned_vm_identity", lab("cloned_vm_identity"), diag.ReasonClonedIdentity, diag.UserSecurity, p0, time.Minute,
			quarter, "security, node enrollment", "API heartbeat correlator",
			"page security, fence the duplicate, bootstrap a new node identity"},
		{"ip_route_drift", lab("ip_route_drift"), diag.ReasonIPRouteDrift, tmp, diag.P2, half, 0, "environment networking",
			"API lifecycle read model", "refresh the node's network facts; recover only if its identity still matches"},
		{"task_backlog_after_outage", lab("task_backlog_after_outage"), diag.ReasonTaskBacklogStale, tmp, diag.P2, five, 0,
			sweeper, "lifecycle task sweeper", "wait for the sweep: expired tasks become history, and their audit stays"},
		{"dispatched_result_lost", lab("dispatched_result_lost"), diag.ReasonDispatchedResultLost, tmp, diag.P2, half, 0,
			sweeper, "lifecycle task reclaimer", "requeue safely, or accept the result idempotently"},
		{"app_status_probe_expires", lab("app_status_probe_expires"), diag.ReasonAppObservationStale, diag.UserNormal,
			diag.P2, five, 0, app, "app runtime worker",
			"keep the workload's status, record a stale observation, probe again with back-off"},
		{"app_reports_stopped", walk("workload-stopped"), diag.ReasonAppRuntimeFailed, tmp, p1, five, time.Hour, app,
			"app runtime worker", "recover the workload through its app runtime; the completed probe is the evidence"},
		{"app_recovered_after_false_unhealthy", lab("app_recovered_after_false_unhealthy"), diag.ReasonAppObservationStale,
			diag.UserNormal, diag.P2, five, 0, app, "app runtime worker",
			"nothing to repair: the next status probe sets the workload to running and clears the failure"},
		{"app_endpoint_fails", walk("workload-route-broken"), diag.ReasonAppRouteFailed, tmp, p1, five, time.Hour,
			"proxy runtime, app route", "proxy runtime, app runtime worker",
			"repair proxy, route or upstream; this is not node recovery"},
		{"app_token_fails", lab("app_token_fails"), diag.ReasonAppCredentialFailing, op, p1, five, time.Hour,
			"credential broker", "credential broker, app runtime worker",
			"renew the credential at its broker; one action item, deduplicated"},
		{"terminal_gateway_outage", walk("redis-binding-lost"), diag.ReasonTerminalGatewayDown, tmp, p1, five, time.Hour,
			"terminal gateway, edge", "terminal gateway, edge", "repair edge or gateway; never re-enroll the node"},
		{"terminal_stream_never_connects", walk("terminal-egress-blocked"), diag.ReasonTerminalEndpointDrift, op, p1,
			30 * time.Second, time.Hour, "node-facing terminal endpoint",
			"terminal gateway, node agent, endpoint profile verifier",
			"repair the node-facing terminal endpoint or profile; a completed task does not mean a ready session"},
		{"node_agent_version_drift", lab("node_agent_version_drift"), diag.ReasonAgentVersionDrift, tmp, diag.P2, half, 0,
			"control plane, node agent version", "lifecycle rollout worker",
			"self-update or rebootstrap in the next maintenance window, before workload recovery"},
		{"clock_skew", "", diag.ReasonClockSkew, op, p1, five, time.Hour, "node runtime",
			"node agent self-check, API classifier", "synchronize the time first, then check certificates"},
	}
}
