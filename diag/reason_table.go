package diag

import "time"

const (
	reasonPage = "docs/runbook.md#reason-"

	userMaintenance = "Platform maintenance in progress"
	userReconnect   = "Reconnecting"
	userUnavailable = "This node is unavailable"
	userLate        = "An operation's result is late"
	userTerminal    = "The terminal cannot be reached at the moment"
)

// reasonRows is the one table of reasons. Its order is the drift model's precedence: of several reasons that the
// evidence allows, the first is the verdict.
var reasonRows = [...]Reason{
	{
		Code: ReasonClonedIdentity, Severity: P0, State: UserSecurity, Layer: LayerManagement, Owner: ownerSecurity,
		Title: "One node identity, several machines", UserText: userUnavailable,
		NextAction: "page security, fence the duplicate, bootstrap a new identity",
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonIPRouteDrift, ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "cloned_identity_detected", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonIdentityRevokedOrFenced, Severity: P0, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: "The node's identity is revoked, retired or fenced", UserText: userUnavailable,
		NextAction: "pause polling; reactivate the node or re-enroll it",
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonCertExpired, ReasonRecoveryTokenMissing, ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "identity_revoked_or_fenced", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonDiskFull, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerObserve,
		Title:      "The node's disk is full, or nearly so",
		NextAction: "free space, rotate buffers, rerun the preflight",
		Hides:      []ReasonCode{ReasonCertExpired, ReasonRecoveryEnrollmentBlocked, ReasonAgentDown, ReasonTaskResultPostFailed, ReasonTerminalStartupFailed, ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "disk_full", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonClockSkew, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerNode,
		Title:      "The node's clock is wrong",
		NextAction: "synchronize the time first, then judge certificates",
		Hides:      []ReasonCode{ReasonCertExpired, ReasonServerTLSUntrusted, ReasonIdentityRejectedRecoverable, ReasonRecoveryTokenMissing, ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "clock_skew", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonCertUntrustedByIngress, Severity: P0, State: UserOperator, Layer: LayerManagement, Owner: ownerPKI,
		Title: "The node ingress trusts another CA than the one that signs nodes", UserText: userMaintenance,
		NextAction: "repair CA and ingress trust of the control plane first; never re-enroll alone",
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonRecoveryEnrollmentBlocked, ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "cert_untrusted_by_ingress", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonEndpointProfileDrift, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerProfile,
		Title: "The node points at another environment's endpoints", UserText: userMaintenance,
		NextAction: "repair the endpoint profile by a bundle that rewrites endpoints and CA together",
		Hides:      []ReasonCode{ReasonServerTLSUntrusted, ReasonIdentityRejectedRecoverable, ReasonEdgeRateLimited, ReasonControlPlaneUnreachable, ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "endpoint_profile_drift", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonServerTLSUntrusted, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerPKI,
		Title: "The node does not trust the platform's certificate", UserText: userMaintenance,
		NextAction: "rewrite the node's CA bundle, restart the agent",
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "server_tls_untrusted", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonRecoveryEnrollmentBlocked, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: "The node cannot re-enroll by itself", UserText: userMaintenance,
		NextAction: "use the pinned recovery trust path, or issue an operator bundle",
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "recovery_enrollment_blocked", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonCertExpired, Severity: P1, State: UserRecovery, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: "The node's certificate has expired", UserText: userReconnect,
		NextAction: "wait while a current recovery token exists, else re-enroll the node",
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "cert_expired", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonIdentityRejectedRecoverable, Severity: P1, State: UserRecovery, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: "The platform rejects the node's certificate, and may accept a new one", UserText: userReconnect,
		NextAction: "wait for the bounded re-enrollment; the backend decides",
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "identity_rejected_recoverable", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonRecoveryTokenMissing, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: "The node needs a new certificate and has no token for it", UserText: "Support has to act",
		NextAction: "issue an audited re-enrollment bundle",
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "recovery_token_missing", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonEdgeRateLimited, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerEdge,
		Title:      "An edge slows the node down",
		NextAction: "check the endpoint profile first, then the edge's rule; never retry harder",
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "edge_rate_limited", Detect: 5 * time.Minute,
	}, {
		Code: ReasonControlPlaneUnreachable, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerNetwork,
		Title: "Node and control plane do not reach each other", UserText: "Operation history is stale; running work is not affected",
		NextAction: "wait with bounded back-off; repair the path or the control plane",
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "control_plane_unreachable", Detect: time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonIPRouteDrift, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerNetwork,
		Title:      "The node's address or route has changed",
		NextAction: "refresh the node's network facts; recover only if its identity matches",
		Runbook:    reasonPage + "ip_route_drift", Detect: 30 * time.Minute,
	}, {
		Code: ReasonAgentDown, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerNode,
		Title: "The node agent does not run", UserText: "Temporarily disconnected",
		NextAction: "restart the agent",
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		Runbook:    reasonPage + "agent_down", Detect: 5 * time.Minute,
	}, {
		Code: ReasonAgentVersionDrift, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerTasks,
		Title:      "The agent's version does not fit the platform's",
		NextAction: "self-update or rebootstrap, before workload recovery",
		Runbook:    reasonPage + "agent_version_drift", Detect: 30 * time.Minute,
	}, {
		Code: ReasonTaskResultPostFailed, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerResults,
		Title: "Task results do not arrive", UserText: userLate,
		NextAction: "restore the API's result route; results are posted again; never mark the workload failed",
		Runbook:    reasonPage + "task_result_post_failed", Detect: 5 * time.Minute,
	}, {
		Code: ReasonDispatchedResultLost, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerSweeper,
		Title: "A task was done, and its answer was lost", UserText: userLate,
		NextAction: "requeue safely, or accept the result idempotently",
		Runbook:    reasonPage + "dispatched_result_lost", Detect: 30 * time.Minute,
	}, {
		Code: ReasonTaskBacklogStale, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerSweeper,
		Title: "Expired tasks are still in the queue", UserText: "Operation history is stale",
		NextAction: "wait for the sweep",
		Runbook:    reasonPage + "task_backlog_stale", Detect: 5 * time.Minute,
	}, {
		Code: ReasonOpsAccessUnhealthy, Severity: P2, State: UserNormal, Layer: LayerManagement, Owner: ownerOps,
		Title:      "Operators cannot enter the node; the agent is well",
		NextAction: "repair the guest's access path; recreate the worker if needed",
		Runbook:    reasonPage + "ops_access_unhealthy", Detect: 30 * time.Minute,
	}, {
		Code: ReasonGPUUnhealthy, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerGPU,
		Title:      "A GPU of the node is not well",
		NextAction: "cordon, drain, then repair or replace the GPU",
		Runbook:    reasonPage + "gpu_unhealthy", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonTerminalGatewayDown, Severity: P1, State: UserTemporary, Layer: LayerEdge, Owner: ownerGateway,
		Title: "The way to the terminal gateway is broken", UserText: userTerminal,
		NextAction: "repair edge or gateway; never re-enroll the node",
		Runbook:    reasonPage + "terminal_gateway_down", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonTerminalEndpointDrift, Severity: P1, State: UserOperator, Layer: LayerEdge, Owner: ownerTermNet,
		Title: "The node's terminal stream goes nowhere", UserText: userTerminal,
		NextAction: "repair the node-facing terminal endpoint or its profile",
		Runbook:    reasonPage + "terminal_endpoint_drift", Detect: 30 * time.Second, Repair: time.Hour,
	}, {
		Code: ReasonTerminalStartupFailed, Severity: P1, State: UserOperator, Layer: LayerEdge, Owner: ownerUsers,
		Title: "No shell starts for the allocation's user", UserText: "The terminal could not be started",
		NextAction: "repair user, shell or PTY through the allocation's set-up",
		Runbook:    reasonPage + "terminal_startup_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppRuntimeFailed, Severity: P1, State: UserTemporary, Layer: LayerRuntime, Owner: ownerApp,
		Title: "The workload does not run", UserText: "Degraded or unavailable",
		NextAction: "recover it through the app runtime",
		Hides:      []ReasonCode{ReasonAppRouteFailed, ReasonAppObservationStale},
		Runbook:    reasonPage + "app_runtime_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppRouteFailed, Severity: P1, State: UserTemporary, Layer: LayerEdge, Owner: ownerAppRoute,
		Title: "The workload runs, and users do not reach it", UserText: "The application cannot be reached",
		NextAction: "repair proxy or route; this is not node recovery",
		Runbook:    reasonPage + "app_route_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppCredentialFailing, Severity: P1, State: UserOperator, Layer: LayerRuntime, Owner: "credential broker",
		Title: "The workload's credential is refused", UserText: "A credential of this application has to be renewed",
		NextAction: "renew it at the credential broker; one action item, deduplicated",
		Runbook:    reasonPage + "app_credential_failing", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonReleaseCleanupStuck, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerAllocation,
		Title: "A release has failed and its clean-up stands still", UserText: "This allocation cannot be used again yet",
		NextAction: "force-release it, audited",
		Runbook:    reasonPage + "release_failed_cleanup_stuck", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppObservationStale, Severity: P2, State: UserNormal, Layer: LayerRuntime, Owner: ownerApp,
		Title: "The workload was not looked at for a while", UserText: "Last observation is stale; the status shown is kept",
		NextAction: "wait for the next probe, with back-off",
		Runbook:    reasonPage + "app_observation_stale", Detect: 5 * time.Minute,
	}, {
		Code: ReasonNodeAgentUnreachable, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerNodeNet,
		Title: "The agent is not heard of, and nothing says why", UserText: "Temporarily disconnected",
		NextAction: "collect the host's diagnostic record",
		Runbook:    reasonPage + "node_agent_unreachable", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonNone, State: UserNormal, Layer: LayerManagement, Title: "Nothing is wrong with the node",
		NextAction: "nothing to do", Owner: "nobody", Runbook: reasonPage + "none",
	},
}
