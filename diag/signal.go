package diag

// Signal is the dashboard name of a failure, as the runbook's matrices have it.
type Signal string

// The closed list of signals.
const (
	SigControlPlaneUnreachable Signal = "control_plane_api_unreachable"
	SigOperatorAuthFailed      Signal = "operator_auth_failed"
	SigAllocationNotActive     Signal = "allocation_not_active"
	SigAllocationNodeMismatch  Signal = "allocation_node_mismatch"
	SigHeartbeatStale          Signal = "node_agent_heartbeat_stale"
	SigOpsSSHFailed            Signal = "node_ops_ssh_failed"
	SigOpsAccessUnhealthy      Signal = "node_ops_access_unhealthy"
	SigDiskFull                Signal = "disk_full"
	SigDiskPressure            Signal = "node_observability_disk_pressure"
	SigProcessDown             Signal = "node_agent_process_down"
	SigBinaryInvalid           Signal = "node_agent_binary_invalid"
	SigClockSkew               Signal = "node_clock_skew"
	SigAPIUnreachable          Signal = "node_agent_api_unreachable"
	SigAPITLSFailed            Signal = "node_agent_api_tls_failed"
	SigEdgeRateLimited         Signal = "node_agent_edge_rate_limited"
	SigAuthFailed              Signal = "node_agent_auth_failed"
	SigResultPostFailed        Signal = "node_task_result_post_failed"
	SigEndpointProfileDrift    Signal = "node_endpoint_profile_drift"
	SigIdentityCloned          Signal = "node_identity_cloned"
	SigVersionDrift            Signal = "node_agent_version_drift"
	SigIngressCADrift          Signal = "node_ingress_ca_drift"
	SigTaskClaimFailed         Signal = "node_task_claim_failed"
	SigTaskBacklogStale        Signal = "node_task_backlog_stale"
	SigTokenMintFailed         Signal = "terminal_token_mint_failed"
	SigPublicRouteMissing      Signal = "terminal_public_route_missing"
	SigUpgradeFailed           Signal = "terminal_gateway_upgrade_failed"
	SigOpenWithoutStream       Signal = "terminal_open_without_stream"
	SigNodeStreamTimeout       Signal = "terminal_node_stream_timeout"
	SigConnectingStuck         Signal = "terminal_ui_connecting_stuck"
	SigNodeStreamMTLS          Signal = "terminal_node_stream_mtls_failed"
	SigTerminalProfileDrift    Signal = "terminal_env_profile_drift"
	SigPTYFailed               Signal = "terminal_pty_failed"
	SigAppStopped              Signal = "app_runtime_stopped"
	SigAppObservationStale     Signal = "app_observation_stale"
	SigAppRouteFailed          Signal = "app_route_failed"
	SigGPUDegraded             Signal = "gpu_degraded"
	SigGPUUnhealthy            Signal = "gpu_unhealthy"
	SigGPUUnknown              Signal = "gpu_unknown"
)

// ReasonCode is an operator reason of the drift model.
type ReasonCode string
