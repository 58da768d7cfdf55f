package diag

import "time"

// Scenario is a row of the drift model's failure matrix. Several rows may have one reason: then the evidence tells
// them apart, and budgets, recovery and the deciding component are the row's. Its name is never an input.
type Scenario struct {
	ID        string
	Title     string
	Reasons   []ReasonCode
	Severity  Severity
	Detect    time.Duration
	Repair    time.Duration // 0: by itself, at the next sweep, or on the next business day
	Component string        // the implementation owner
	Recovery  Text          // the next action
	tells     func(v *view) bool
}

const (
	byAgent  = "node agent"
	byAPI    = "API"
	byApp    = "app runtime worker"
	bySweep  = "lifecycle task sweeper"
	byRender = "profile renderer, ingress"
)

// matrix is the failure matrix, in the model's order. Of the rows of one reason the first that tells itself apart is
// taken, else the one that asks nothing.
var matrix = [...]Scenario{
	{ID: "short_node_outage", Title: "Short node outage", Reasons: []ReasonCode{ReasonAgentDown},
		Severity: P2, Detect: 5 * time.Minute, Component: byAPI + " lifecycle read model, " + byAgent,
		Recovery: says("nothing to decide: the agent resumes without re-enrollment; restart it when it does not")},
	{ID: "long_outage_beyond_cert_expiry", Title: "Long node outage beyond cert expiry", Reasons: []ReasonCode{ReasonCertExpired},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: byAgent + " recovery path",
		Recovery: says("wait while a current recovery token and trust bundle exist, else re-enroll the node")},
	{ID: "identity_rejected_after_profile_change", Title: "Node identity rejected after reachable profile change",
		Reasons: []ReasonCode{ReasonIdentityRejectedRecoverable}, Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour,
		Component: byAgent + " recovery path, " + byAPI + " node authorization",
		Recovery:  rejectedNext("wait for the bounded re-enrollment; the backend stays the authority and rejects retired nodes")},
	{ID: "control_plane_outage", Title: "Control-plane outage", Reasons: []ReasonCode{ReasonControlPlaneUnreachable},
		Severity: P1, Detect: time.Minute, Repair: time.Hour, Component: byAgent + " retry loop, ops alerts",
		Recovery: says("wait with bounded back-off; repair the path or the control plane, nodes come back by themselves")},
	{ID: "control_plane_ca_restart_drift", Title: "Control-plane CA restart drift", Reasons: []ReasonCode{ReasonCertUntrustedByIngress},
		Severity: P0, Detect: time.Minute, Repair: 15 * time.Minute, Component: byAPI + " preflight, profile renderer",
		Recovery: says("repair the API's signing CA and the ingress's trusted CA first; then re-enroll the nodes that need it"),
		tells:    func(v *view) bool { return v.record.fresh }},
	{ID: "ingress_trust_ca_drift", Title: "Ingress trust CA drift", Reasons: []ReasonCode{ReasonCertUntrustedByIngress},
		Severity: P0, Detect: time.Minute, Repair: 15 * time.Minute, Component: byRender,
		Recovery: says("render one CA into API signing, bootstrap bundle and ingress trust; never re-enroll alone")},
	{ID: "endpoint_profile_drift", Title: "Endpoint/profile drift", Reasons: []ReasonCode{ReasonEndpointProfileDrift},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: byAPI + " enrollment and profile verifier",
		Recovery: says("issue a recovery bundle that rewrites endpoint fields and CA material together")},
	{ID: "trust_bundle_drift", Title: "Trust bundle drift on host", Reasons: []ReasonCode{ReasonServerTLSUntrusted},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: byAgent + " TLS self-check, " + byAPI + " classifier",
		Recovery: says("rewrite the node's CA bundle by a recovery bundle, restart the agent")},
	{ID: "trust_drift_blocks_recovery_enrollment", Title: "Trust bundle drift blocks recovery enrollment",
		Reasons:  []ReasonCode{ReasonServerTLSUntrusted, ReasonRecoveryEnrollmentBlocked},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: byAgent + " TLS self-check, " + byAPI + " profile evidence",
		Recovery: says("use the pinned recovery trust, profile repair material, or an operator's bundle; do not wait for retries"),
		tells:    func(v *view) bool { return len(v.record.blocked) > 0 && len(v.named(ReasonServerTLSUntrusted)) > 0 }},
	{ID: "pre_auth_blind_spot", Title: "Pre-auth diagnostic blind spot",
		Reasons:  []ReasonCode{ReasonServerTLSUntrusted, ReasonEndpointProfileDrift, ReasonRecoveryEnrollmentBlocked},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: byAgent + " diagnostic record, " + byAPI + " classifier",
		Recovery: says("the host's record names the reason: repair the profile or trust path that it names"),
		tells:    onlyRecord},
	{ID: "edge_rate_limiting", Title: "Edge/API rate limiting", Reasons: []ReasonCode{ReasonEdgeRateLimited},
		Severity: P2, Detect: 5 * time.Minute, Component: byAgent + " retry loop, edge",
		Recovery: says("check the endpoint profile first, then the edge's rule; slow polling, never retry harder")},
	{ID: "recovery_token_missing", Title: "Recovery token missing/consumed",
		Reasons:  []ReasonCode{ReasonRecoveryTokenMissing, ReasonRecoveryEnrollmentBlocked},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: byAgent + " recovery path, " + byAPI + " evidence",
		Recovery: says("issue audited re-enrollment material"),
		tells:    func(v *view) bool { return v.token == TokenGone || len(v.named(ReasonRecoveryTokenMissing)) > 0 }},
	{ID: "identity_revoked_or_fenced", Title: "Node identity revoked/fenced", Reasons: []ReasonCode{ReasonIdentityRevokedOrFenced},
		Severity: P0, Detect: time.Minute, Repair: 15 * time.Minute, Component: byAPI + " node authorization",
		Recovery: says("pause polling; reactivate the node or re-enroll it")},
	{ID: "cloned_vm_identity", Title: "Cloned VM identity", Reasons: []ReasonCode{ReasonClonedIdentity},
		Severity: P0, Detect: time.Minute, Repair: 15 * time.Minute, Component: byAPI + " heartbeat correlator",
		Recovery: says("page security, fence the duplicate, bootstrap a new node identity")},
	{ID: "ip_route_drift", Title: "IP/route drift", Reasons: []ReasonCode{ReasonIPRouteDrift},
		Severity: P2, Detect: 30 * time.Minute, Component: byAPI + " lifecycle read model",
		Recovery: says("refresh the node's network facts; recover only if its identity still matches")},
	{ID: "task_backlog_after_outage", Title: "Task backlog after outage", Reasons: []ReasonCode{ReasonTaskBacklogStale},
		Severity: P2, Detect: 5 * time.Minute, Component: bySweep,
		Recovery: says("wait for the sweep: expired tasks become history, and their audit stays")},
	{ID: "dispatched_result_lost", Title: "Dispatched result lost", Reasons: []ReasonCode{ReasonDispatchedResultLost},
		Severity: P2, Detect: 30 * time.Minute, Component: "lifecycle task reclaimer",
		Recovery: says("requeue safely, or accept the result idempotently")},
	{ID: "app_status_probe_expires", Title: "App status probe expires", Reasons: []ReasonCode{ReasonAppObservationStale},
		Severity: P2, Detect: 5 * time.Minute, Component: byApp,
		Recovery: says("keep the workload's status, record a stale observation, probe again with back-off")},
	{ID: "app_reports_stopped", Title: "App status probe reports stopped container", Reasons: []ReasonCode{ReasonAppRuntimeFailed},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: byApp,
		Recovery: says("recover the workload by its app runtime; the completed probe is the evidence")},
	{ID: "app_recovered_after_false_unhealthy", Title: "App status probe succeeds after false unhealthy",
		Reasons: []ReasonCode{ReasonAppObservationStale}, Severity: P2, Detect: 5 * time.Minute, Component: byApp,
		Recovery: Text{{when("nothing to repair: the next status probe sets the workload to running and clears the failure", passed(HopAppRuntimeLiveness)), when("wait for the next status probe")}},
		tells:    func(v *view) bool { return v.App != nil && v.App.down() && workloadRuns(v) }},
	{ID: "app_endpoint_fails", Title: "App endpoint fails while runtime process is running", Reasons: []ReasonCode{ReasonAppRouteFailed},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: "proxy runtime, " + byApp,
		Recovery: says("repair proxy, route or upstream; this is not node recovery")},
	{ID: "app_token_fails", Title: "App token refresh/use fails repeatedly", Reasons: []ReasonCode{ReasonAppCredentialFailing},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: "credential broker, " + byApp,
		Recovery: says("renew the credential at its broker; one action item, deduplicated")},
	{ID: "terminal_gateway_outage", Title: "Terminal gateway outage", Reasons: []ReasonCode{ReasonTerminalGatewayDown},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: "terminal gateway, edge",
		Recovery: says("repair edge or gateway; never re-enroll the node")},
	{ID: "terminal_stream_never_connects", Title: "Terminal node stream never connects", Reasons: []ReasonCode{ReasonTerminalEndpointDrift},
		Severity: P1, Detect: 30 * time.Second, Repair: time.Hour, Component: "terminal gateway, " + byAgent + ", endpoint profile verifier",
		Recovery: says("repair the node-facing terminal endpoint or profile; a completed task is no ready session")},
	{ID: "node_agent_version_drift", Title: "Node-agent version drift", Reasons: []ReasonCode{ReasonAgentVersionDrift},
		Severity: P2, Detect: 30 * time.Minute, Component: "lifecycle rollout worker",
		Recovery: says("self-update or rebootstrap in the next maintenance window, before workload recovery")},
	{ID: "clock_skew", Title: "Clock skew", Reasons: []ReasonCode{ReasonClockSkew},
		Severity: P1, Detect: 5 * time.Minute, Repair: time.Hour, Component: byAgent + " self-check, " + byAPI + " classifier",
		Recovery: says("synchronize the time first, then judge certificates")},
}

// Scenarios returns the failure matrix. The rows are shared: they are read, never written.
func Scenarios() []Scenario { return matrix[:] }

// scenarioOf is the row of the matrix that fits the reason, nil where none does.
func scenarioOf(code ReasonCode, v *view) *Scenario {
	for _, general := range []bool{false, true} {
		for i := range matrix {
			m := &matrix[i]
			if !has(m.Reasons, code) || general != (m.tells == nil) {
				continue
			}
			if general || m.tells(v) {
				return m
			}
		}
	}
	return nil
}

func has(codes []ReasonCode, code ReasonCode) bool {
	for _, c := range codes {
		if c == code {
			return true
		}
	}
	return false
}

// onlyRecord reports whether the platform does not hear the node, and nothing but the node's own record says why.
func onlyRecord(v *view) bool {
	if !v.unheard() {
		return false
	}
	for _, code := range []ReasonCode{ReasonServerTLSUntrusted, ReasonEndpointProfileDrift, ReasonRecoveryEnrollmentBlocked} {
		if lines := v.record.now[code]; len(lines) > 0 && len(lines) == len(v.named(code)) {
			return true
		}
	}
	return false
}
