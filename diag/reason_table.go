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
		Title: Text{{{Says: "One node identity, several machines"}}}, UserText: Text{{{Says: userUnavailable}}},
		NextAction: Text{{{Says: "page security, fence the duplicate, bootstrap a new identity"}}},
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonIPRouteDrift, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "cloned_identity_detected", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonIdentityRevokedOrFenced, Severity: P0, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: Text{{{
			Says: "The node's identity is revoked, retired or fenced",
		}}}, UserText: Text{{{Says: userUnavailable}}},
		NextAction: Text{{{Says: "pause polling; reactivate the node or re-enroll it"}}},
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonCertExpired, ReasonRecoveryTokenMissing, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "identity_revoked_or_fenced", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonDiskFull, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerObserve,
		Title:      Text{{{Says: "The node's disk is full, or nearly so"}}},
		NextAction: Text{{{Says: "free space, rotate buffers, rerun the preflight"}}},
		Hides:      []ReasonCode{ReasonCertExpired, ReasonRecoveryEnrollmentBlocked, ReasonAgentDown, ReasonTaskResultPostFailed, ReasonTerminalStartupFailed, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeReadiness, HopNodeRecoveryStatus},
		Runbook:    reasonPage + "disk_full", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonClockSkew, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerNode,
		Title:      Text{{{Says: "The node's clock is wrong"}}},
		NextAction: Text{{{Says: "synchronize the time first, then judge certificates"}}},
		Hides:      []ReasonCode{ReasonCertExpired, ReasonServerTLSUntrusted, ReasonIdentityRejectedRecoverable, ReasonRecoveryTokenMissing, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeReadiness, HopNodeRecoveryStatus, HopNodeRuntimeAPI},
		Runbook:    reasonPage + "clock_skew", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonCertUntrustedByIngress, Severity: P0, State: UserOperator, Layer: LayerManagement, Owner: ownerPKI,
		Title:      Text{{{Says: "The node ingress trusts another CA than the one that signs nodes"}}},
		UserText:   Text{{{Says: userMaintenance}}},
		NextAction: Text{{{Says: "repair CA and ingress trust of the control plane first; never re-enroll alone"}}},
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonRecoveryEnrollmentBlocked, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopControlPlaneAccess, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "cert_untrusted_by_ingress", Detect: time.Minute, Repair: 15 * time.Minute,
	}, {
		Code: ReasonEndpointProfileDrift, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerProfile,
		Title:      Text{{{Says: "The node's settings are those of another node or environment"}}},
		UserText:   Text{{{Says: userMaintenance}}},
		NextAction: Text{{{Says: "repair the endpoint profile by a bundle that rewrites endpoints and CA together"}}},
		Hides:      []ReasonCode{ReasonServerTLSUntrusted, ReasonIdentityRejectedRecoverable, ReasonEdgeRateLimited, ReasonControlPlaneUnreachable, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeRuntimeAPI, HopNodeHeartbeat},
		Runbook:    reasonPage + "endpoint_profile_drift", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonServerTLSUntrusted, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerPKI,
		Title:      Text{{{Says: "The node does not trust the platform's certificate"}}},
		UserText:   Text{{{Says: userMaintenance}}},
		NextAction: Text{{{Says: "rewrite the node's CA bundle, restart the agent"}}},
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRuntimeAPI, HopNodeRecoveryStatus, HopNodeTerminalReachability, HopNodeHeartbeat},
		Runbook:    reasonPage + "server_tls_untrusted", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonRecoveryEnrollmentBlocked, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: Text{{{Says: "The node cannot re-enroll by itself"}}}, UserText: Text{{{Says: userMaintenance}}},
		NextAction: Text{{{Says: "use the pinned recovery trust path, or issue an operator bundle"}}},
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat},
		Runbook:    reasonPage + "recovery_enrollment_blocked", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonCertExpired, Severity: P1, State: UserRecovery, Layer: LayerManagement, Owner: ownerEnrollment,
		Title: Text{{{Says: "The node's certificate has expired"}}}, UserText: Text{{{Says: userReconnect}}},
		NextAction: Text{{{Says: "wait while a current recovery token exists, else re-enroll the node"}}},
		Hides:      []ReasonCode{ReasonIdentityRejectedRecoverable, ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "cert_expired", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonIdentityRejectedRecoverable, Severity: P1, State: UserRecovery, Layer: LayerManagement, Owner: ownerEnrollment,
		Title:      Text{{{Says: "The platform rejects the node's certificate, and may accept a new one"}}},
		UserText:   Text{{{Says: userReconnect}}},
		NextAction: Text{{rejectedWithoutToken, {Says: "wait for the bounded re-enrollment; the backend decides"}}},
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat, HopNodeTerminalReachability},
		Runbook:    reasonPage + "identity_rejected_recoverable", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonRecoveryTokenMissing, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerEnrollment,
		Title:      Text{{{Says: "The node needs a new certificate and has no token for it"}}},
		UserText:   Text{{{Says: "Support has to act"}}},
		NextAction: Text{{{Says: "issue an audited re-enrollment bundle"}}},
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeHeartbeat},
		Runbook:    reasonPage + "recovery_token_missing", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonEdgeRateLimited, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerEdge,
		Title:      Text{{{Says: "An edge slows the node down"}}},
		NextAction: Text{{{Says: "check the endpoint profile first, then the edge's rule; never retry harder"}}},
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeRuntimeAPI, HopNodeRecoveryStatus},
		Runbook:    reasonPage + "edge_rate_limited", Detect: 5 * time.Minute,
	}, {
		Code: ReasonControlPlaneUnreachable, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerNetwork,
		Title: titleUnreachable, UserText: userUnreachable,
		NextAction: Text{{{Says: "wait with bounded back-off; repair the path or the control plane"}}},
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopControlPlaneAccess, HopNodeRuntimeAPI, HopNodeRecoveryStatus, HopNodeHeartbeat},
		Runbook:    reasonPage + "control_plane_unreachable", Detect: time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonIPRouteDrift, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerNetwork,
		Title:      Text{{{Says: "The node's address or route has changed"}}},
		NextAction: Text{{{Says: "refresh the node's network facts; recover only if its identity matches"}}},
		With:       []HopID{HopNodeHeartbeat, HopNodeOpsAccess, HopAppUserRoute},
		Runbook:    reasonPage + "ip_route_drift", Detect: 30 * time.Minute,
	}, {
		Code: ReasonAgentDown, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerNode,
		Title: titleAgentDown, UserText: userDisconnected,
		NextAction: Text{{{Says: "restart the agent"}}},
		Hides:      []ReasonCode{ReasonNodeAgentUnreachable},
		With:       []HopID{HopNodeReadiness, HopNodeHeartbeat},
		Runbook:    reasonPage + "agent_down", Detect: 5 * time.Minute,
	}, {
		Code: ReasonAgentVersionDrift, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerTasks,
		Title:      Text{{{Says: "The agent's version does not fit the platform's"}}},
		NextAction: Text{{{Says: "self-update or rebootstrap, before workload recovery"}}},
		With:       []HopID{HopNodeRecoveryStatus, HopNodeTaskRoundtrip, HopTerminalOpenTask, HopNodeHeartbeat},
		Runbook:    reasonPage + "agent_version_drift", Detect: 30 * time.Minute,
	}, {
		Code: ReasonTaskResultPostFailed, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerResults,
		Title: Text{{{Says: "Task results do not arrive"}}}, UserText: Text{{{Says: userLate}}},
		NextAction: Text{{{
			Says: "restore the API's result route; results are posted again; never mark the workload failed",
		}}},
		With:    []HopID{HopNodeTaskRoundtrip, HopTerminalOpenTask},
		Runbook: reasonPage + "task_result_post_failed", Detect: 5 * time.Minute,
	}, {
		Code: ReasonDispatchedResultLost, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerSweeper,
		Title: Text{{{Says: "A task was done, and its answer was lost"}}}, UserText: Text{{{Says: userLate}}},
		NextAction: Text{{{Says: "requeue safely, or accept the result idempotently"}}},
		With:       []HopID{HopNodeTaskRoundtrip, HopNodeHeartbeat},
		Runbook:    reasonPage + "dispatched_result_lost", Detect: 30 * time.Minute,
	}, {
		Code: ReasonTaskBacklogStale, Severity: P2, State: UserTemporary, Layer: LayerManagement, Owner: ownerSweeper,
		Title: Text{{{Says: "Expired tasks are still in the queue"}}}, UserText: userBacklog,
		NextAction: Text{{{Says: "wait for the sweep"}}},
		With:       []HopID{HopNodeTaskRoundtrip, HopNodeHeartbeat},
		Runbook:    reasonPage + "task_backlog_stale", Detect: 5 * time.Minute,
	}, {
		Code: ReasonOpsAccessUnhealthy, Severity: P2, State: UserNormal, Layer: LayerManagement, Owner: ownerOps,
		Title:      titleOpsAccess,
		NextAction: Text{{{Says: "repair the guest's access path; recreate the worker if needed"}}},
		With:       []HopID{HopNodeOpsAccess},
		Runbook:    reasonPage + "ops_access_unhealthy", Detect: 30 * time.Minute,
	}, {
		Code: ReasonGPUUnhealthy, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerGPU,
		Title:      Text{{{Says: "A GPU of the node has a fault"}}},
		NextAction: Text{{{Says: "cordon, drain, then repair or replace the GPU"}}},
		With:       []HopID{HopGPUHealth},
		Runbook:    reasonPage + "gpu_unhealthy", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonTerminalGatewayDown, Severity: P1, State: UserTemporary, Layer: LayerEdge, Owner: ownerGateway,
		Title: Text{{{Says: "The way to the terminal gateway is broken"}}}, UserText: Text{{{Says: userTerminal}}},
		NextAction: Text{{{Says: "repair edge or gateway; never re-enroll the node"}}},
		With:       []HopID{HopTerminalTokenMint, HopTerminalPublicRoute, HopBrowserTerminalWS, HopGatewayNodeStream},
		Runbook:    reasonPage + "terminal_gateway_down", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonTerminalEndpointDrift, Severity: P1, State: UserOperator, Layer: LayerEdge, Owner: ownerTermNet,
		Title: Text{{{Says: "The node's terminal stream goes nowhere"}}}, UserText: Text{{{Says: userTerminal}}},
		NextAction: Text{{{Says: "repair the node-facing terminal endpoint or its profile"}}},
		With:       []HopID{HopNodeTerminalReachability, HopGatewayNodeStream, HopBrowserTerminalWS},
		Runbook:    reasonPage + "terminal_endpoint_drift", Detect: 30 * time.Second, Repair: time.Hour,
	}, {
		Code: ReasonTerminalStartupFailed, Severity: P1, State: UserOperator, Layer: LayerEdge, Owner: ownerUsers,
		Title:      Text{{{Says: "No shell starts for the allocation's user"}}},
		UserText:   Text{{{Says: "The terminal could not be started"}}},
		NextAction: Text{{{Says: "repair user, shell or PTY through the allocation's set-up"}}},
		With:       []HopID{HopTerminalStartup, HopBrowserTerminalWS},
		Runbook:    reasonPage + "terminal_startup_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppRuntimeFailed, Severity: P1, State: UserTemporary, Layer: LayerRuntime, Owner: ownerApp,
		Title: titleAppStopped, UserText: Text{{{Says: "Degraded or unavailable"}}},
		NextAction: Text{{{Says: "recover it through the app runtime"}}},
		Hides:      []ReasonCode{ReasonAppRouteFailed, ReasonAppObservationStale},
		With:       []HopID{HopAppRuntimeLiveness, HopAllocationBinding},
		Runbook:    reasonPage + "app_runtime_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppRouteFailed, Severity: P1, State: UserTemporary, Layer: LayerEdge, Owner: ownerAppRoute,
		Title: titleAppRoute, UserText: Text{{{Says: "The application cannot be reached"}}},
		NextAction: Text{{{Says: "repair proxy or route; this is not node recovery"}}},
		With:       []HopID{HopAppUserRoute},
		Runbook:    reasonPage + "app_route_failed", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppCredentialFailing, Severity: P1, State: UserOperator, Layer: LayerRuntime, Owner: "credential broker",
		Title:      Text{{{Says: "The workload's credential is refused"}}},
		UserText:   Text{{{Says: "A credential of this application has to be renewed"}}},
		NextAction: Text{{{Says: "renew it at the credential broker; one action item, deduplicated"}}},
		With:       []HopID{HopAppRuntimeLiveness, HopAllocationBinding},
		Runbook:    reasonPage + "app_credential_failing", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonReleaseCleanupStuck, Severity: P1, State: UserOperator, Layer: LayerManagement, Owner: ownerAllocation,
		Title:      Text{{{Says: "A release has failed and its clean-up is stuck"}}},
		UserText:   Text{{{Says: "This allocation cannot be used again yet"}}},
		NextAction: Text{{{Says: "force-release it, audited"}}},
		With:       []HopID{HopAllocationBinding},
		Runbook:    reasonPage + "release_failed_cleanup_stuck", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonAppObservationStale, Severity: P2, State: UserNormal, Layer: LayerRuntime, Owner: ownerApp,
		Title:      Text{{{Says: "The workload was not looked at for a while"}}},
		UserText:   Text{{{Says: "Last observation is old; the status shown is kept"}}},
		NextAction: Text{{{Says: "wait for the next probe, with back-off"}}},
		With:       []HopID{HopAppRuntimeLiveness, HopAllocationBinding},
		Runbook:    reasonPage + "app_observation_stale", Detect: 5 * time.Minute,
	}, {
		Code: ReasonNodeAgentUnreachable, Severity: P1, State: UserTemporary, Layer: LayerManagement, Owner: ownerNodeNet,
		Title: titleSilent, UserText: userDisconnected,
		NextAction: nextSilent,
		With:       []HopID{HopNodeHeartbeat, HopNodeOpsAccess, HopNodeRecoveryStatus, HopNodeTaskRoundtrip, HopTerminalOpenTask},
		Runbook:    reasonPage + "node_agent_unreachable", Detect: 5 * time.Minute, Repair: time.Hour,
	}, {
		Code: ReasonNone, State: UserNormal, Layer: LayerManagement, Title: titleNone,
		NextAction: nextNone, Owner: "nobody", Runbook: reasonPage + "none",
	},
}
