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
		Title: says("One node identity, several machines"), UserText: says(userUnavailable),
		NextAction: says("page security, fence the duplicate, bootstrap a new identity"),
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonIPRouteDrift, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "cloned_identity_detected", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonIdentityRevokedOrFenced, Severity: P0, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: says("The node's identity is revoked, retired or fenced"), UserText: says(userUnavailable),
		NextAction: says("pause polling; reactivate the node or re-enroll it"),
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonCertExpired, ReasonRecoveryTokenMissing, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "identity_revoked_or_fenced", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonDiskFull, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerObserve,
		Title:      says("The node's disk is full, or nearly so"),
		NextAction: says("free space, rotate buffers, rerun the preflight"),
		Hides:      []ReasonCode{ReasonCertExpired, ReasonRecoveryEnrollmentBlocked, ReasonAgentDown, ReasonTaskResultPostFailed, ReasonTerminalStartupFailed, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeReadiness, HopNodeRecoveryStatus},
		Runbook:    reasonPage + "disk_full", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonClockSkew, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerNode,
		Title:      says("The node's clock is wrong"),
		NextAction: says("synchronize the time first, then judge certificates"),
		Hides:      []ReasonCode{ReasonCertExpired, ReasonServerTLSUntrusted, ReasonIdentityRejectedRecoverable, ReasonRecoveryTokenMissing, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeReadiness, HopNodeRecoveryStatus, HopNodeRuntimeAPI},
		Runbook:    reasonPage + "clock_skew", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonCertUntrustedByIngress, Severity: P0, State: UserOperator, Layer: LayerManagement, Owner: ownerPKI,
		Title: says("The node ingress trusts another CA than the one that signs nodes"), UserText: says(userMaintenance),
		NextAction: says("repair CA and ingress trust of the control plane first; never re-enroll alone"),
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonRecoveryEnrollmentBlocked, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopControlPlaneAccess, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "cert_untrusted_by_ingress", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonEndpointProfileDrift, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerProfile,
		Title: says("The node's settings are those of another node or environment"), UserText: says(userMaintenance),
		NextAction: says("repair the endpoint profile by a bundle that rewrites endpoints and CA together"),
		Hides:      []ReasonCode{ReasonServerTLSUntrusted, ReasonIdentityRejectedRecoverable, ReasonEdgeRateLimited, ReasonControlPlaneUnreachable, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeRuntimeAPI, HopNodeHeartbeat},
		Runbook:    reasonPage + "endpoint_profile_drift", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonServerTLSUntrusted, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerPKI,
		Title: says("The node does not trust the platform's certificate"), UserText: says(userMaintenance),
		NextAction: says("rewrite the node's CA bundle, restart the agent"),
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRuntimeAPI, HopNodeRecoveryStatus, HopNodeTerminalReachability, HopNodeHeartbeat},
		Runbook:    reasonPage + "server_tls_untrusted", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonRecoveryEnrollmentBlocked, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: says("The node cannot re-enroll by itself"), UserText: says(userMaintenance),
		NextAction: says("use the pinned recovery trust path, or issue an operator bundle"),
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat},
		Runbook:    reasonPage + "recovery_enrollment_blocked", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonCertExpired, Severity: P1, State: UserRecovery, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: says("The node's certificate has expired"), UserText: says(userReconnect),
		NextAction: says("wait while a current recovery token exists, else re-enroll the node"),
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "cert_expired", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonIdentityRejectedRecoverable, Severity: P1, State: UserRecovery, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: says("The platform rejects the node's certificate, and may accept a new one"), UserText: says(userReconnect),
		NextAction: rejectedNext("wait for the bounded re-enrollment; the backend decides"),
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "identity_rejected_recoverable", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonRecoveryTokenMissing, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: says("The node needs a new certificate and has no token for it"), UserText: says("Support has to act"),
		NextAction: says("issue an audited re-enrollment bundle"),
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat},
		Runbook:    reasonPage + "recovery_token_missing", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonEdgeRateLimited, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerEdge,
		Title:      says("An edge slows the node down"),
		NextAction: says("check the endpoint profile first, then the edge's rule; never retry harder"),
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRuntimeAPI, HopNodeRecoveryStatus},
		Runbook:    reasonPage + "edge_rate_limited", Detect: 5 * time.Minute,
	}, {
		Code: ReasonControlPlaneUnreachable, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerNetwork,
		Title: titleUnreachable, UserText: userUnreachable,
		NextAction: says("wait with bounded back-off; repair the path or the control plane"),
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopControlPlaneAccess, HopNodeRuntimeAPI, HopNodeRecoveryStatus, HopNodeHeartbeat},
		Runbook:    reasonPage + "control_plane_unreachable", Detect: time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonIPRouteDrift, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerNetwork,
		Title:      says("The node's address or route has changed"),
		NextAction: says("refresh the node's network facts; recover only if its identity matches"),
		With:       []HopID{HopNodeHeartbeat, HopNodeOpsAccess, HopAppUserRoute},
		Runbook:    reasonPage + "ip_route_drift", Detect: 30 * time.Minute,
	}, {
		Code: ReasonAgentDown, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerNode,
		Title: titleAgentDown, UserText: userDisconnected,
		NextAction: says("restart the agent"),
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeReadiness, HopNodeHeartbeat},
		Runbook:    reasonPage + "agent_down", Detect: 5 * time.Minute,
	}, {
		Code: ReasonAgentVersionDrift, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerTasks,
		Title:      says("The agent's version does not fit the platform's"),
		NextAction: says("self-update or rebootstrap, before workload recovery"),
		With:       []HopID{HopNodeRecoveryStatus, HopNodeTaskRoundtrip, HopTerminalOpenTask, HopNodeHeartbeat},
		Runbook:    reasonPage + "agent_version_drift", Detect: 30 * time.Minute,
	}, {
		Code: ReasonTaskResultPostFailed, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerResults,
		Title: says("Task results do not arrive"), UserText: says(userLate),
		NextAction: says("restore the API's result route; results are posted again; never mark the workload failed"),
		With:       []HopID{HopNodeTaskRoundtrip, HopTerminalOpenTask},
		Runbook:    reasonPage + "task_result_post_failed", Detect: 5 * time.Minute,
	}, {
		Code: ReasonDispatchedResultLost, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerSweeper,
		Title: says("A task was done, and its answer was lost"), UserText: says(userLate),
		NextAction: says("requeue safely, or accept the result idempotently"),
		With:       []HopID{HopNodeTaskRoundtrip, HopNodeHeartbeat},
		Runbook:    reasonPage + "dispatched_result_lost", Detect: 30 * time.Minute,
	}, {
		Code: ReasonTaskBacklogStale, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerSweeper,
		Title: says("Expired tasks are still in the queue"), UserText: userBacklog,
		NextAction: says("wait for the sweep"),
		With:       []HopID{HopNodeTaskRoundtrip, HopNodeHeartbeat},
		Runbook:    reasonPage + "task_backlog_stale", Detect: 5 * time.Minute,
	}, {
		Code: ReasonOpsAccessUnhealthy, Severity: P2, State: UserNormal, Layer: LayerManagement, Owner: ownerOps,
		Title:      titleOpsAccess,
		NextAction: says("repair the guest's access path; recreate the worker if needed"),
		With:       []HopID{HopNodeOpsAccess},
		Runbook:    reasonPage + "ops_access_unhealthy", Detect: 30 * time.Minute,
	}, {
		Code: ReasonGPUUnhealthy, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerGPU,
		Title:      says("A GPU of the node has a fault"),
		NextAction: says("cordon, drain, then repair or replace the GPU"),
		With:       []HopID{HopGPUHealth},
		Runbook:    reasonPage + "gpu_unhealthy", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonTerminalGatewayDown, Severity: P1, State: UserTemporary, Layer: LayerEdge, Owner: ownerGateway,
		Title: says("The way to the terminal gateway is broken"), UserText: says(userTerminal),
		NextAction: says("repair edge or gateway; never re-enroll the node"),
		With:       []HopID{HopTerminalTokenMint, HopTerminalPublicRoute, HopBrowserTerminalWS, HopGatewayNodeStream},
		Runbook:    reasonPage + "terminal_gateway_down", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonTerminalEndpointDrift, Severity: P1, State: UserOperator, Layer: LayerEdge, Owner: ownerTermNet,
		Title: says("The node's terminal stream goes nowhere"), UserText: says(userTerminal),
		NextAction: says("repair the node-facing terminal endpoint or its profile"),
		With:       []HopID{HopNodeTerminalReachability, HopGatewayNodeStream, HopBrowserTerminalWS},
		Runbook:    reasonPage + "terminal_endpoint_drift", Detect: 30 * time.Second, Repair: time.Hour,
	}, {
		Code: ReasonTerminalStartupFailed, Severity: P1, State: UserOperator, Layer: LayerEdge, Owner: ownerUsers,
		Title: says("No shell starts for the allocation's user"), UserText: says("The terminal could not be started"),
		NextAction: says("repair user, shell or PTY through the allocation's set-up"),
		With:       []HopID{HopTerminalStartup, HopBrowserTerminalWS},
		Runbook:    reasonPage + "terminal_startup_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppRuntimeFailed, Severity: P1, State: UserTemporary, Layer: LayerRuntime, Owner: ownerApp,
		Title: titleAppStopped, UserText: says("Degraded or unavailable"),
		NextAction: says("recover it through the app runtime"),
		Hides:      []ReasonCode{ReasonAppRouteFailed, ReasonAppObservationStale},
		With:       []HopID{HopAppRuntimeLiveness, HopAllocationBinding},
		Runbook:    reasonPage + "app_runtime_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppRouteFailed, Severity: P1, State: UserTemporary, Layer: LayerEdge, Owner: ownerAppRoute,
		Title: titleAppRoute, UserText: says("The application cannot be reached"),
		NextAction: says("repair proxy or route; this is not node recovery"),
		With:       []HopID{HopAppUserRoute},
		Runbook:    reasonPage + "app_route_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppCredentialFailing, Severity: P1, State: UserOperator, Layer: LayerRuntime, Owner: "credential broker",
		Title:      says("The workload's credential is refused"),
		UserText:   says("A credential of this application has to be renewed"),
		NextAction: says("renew it at the credential broker; one action item, deduplicated"),
		With:       []HopID{HopAppRuntimeLiveness, HopAllocationBinding},
		Runbook:    reasonPage + "app_credential_failing", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonReleaseCleanupStuck, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerAllocation,
		Title:      says("A release has failed and its clean-up stands still"),
		UserText:   says("This allocation cannot be used again yet"),
		NextAction: says("force-release it, audited"),
		With:       []HopID{HopAllocationBinding},
		Runbook:    reasonPage + "release_failed_cleanup_stuck", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppObservationStale, Severity: P2, State: UserNormal, Layer: LayerRuntime, Owner: ownerApp,
		Title:      says("The workload was not looked at for a while"),
		UserText:   says("Last observation is old; the status shown is kept"),
		NextAction: says("wait for the next probe, with back-off"),
		With:       []HopID{HopAppRuntimeLiveness, HopAllocationBinding},
		Runbook:    reasonPage + "app_observation_stale", Detect: 5 * time.Minute,
	}, {
		Code: ReasonNodeAgentUnreachable, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerNodeNet,
		Title: titleSilent, UserText: userDisconnected,
		NextAction: says("collect the host's diagnostic record"),
		With:       []HopID{HopNodeHeartbeat, HopNodeOpsAccess, HopNodeRecoveryStatus, HopNodeTaskRoundtrip, HopTerminalOpenTask},
		Runbook:    reasonPage + "node_agent_unreachable", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonNone, State: UserNormal, Layer: LayerManagement, Title: titleNone,
		NextAction: nextNone, Owner: "nobody", Runbook: reasonPage + "none",
	},
}
