package diag

import "slices"

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
	SigOperatorKeyMissing      Signal = "operator_ssh_key_missing"
	SigOperatorHostKeyUnknown  Signal = "operator_host_key_unknown"
	SigOperatorPathBroken      Signal = "operator_ssh_path_broken"
	SigOperatorHelperMissing   Signal = "operator_helper_missing"
	SigNodeUnknown             Signal = "operator_node_unknown"
	SigAllocationUnknown       Signal = "operator_allocation_unknown"
	SigProfileMismatch         Signal = "operator_profile_mismatch"
	SigOperatorClockSkew       Signal = "operator_clock_skew"
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
	SigAppCredentialFailing    Signal = "app_credential_failing"
	SigGPUDegraded             Signal = "gpu_degraded"
	SigGPUUnhealthy            Signal = "gpu_unhealthy"
	SigGPUUnknown              Signal = "gpu_unknown"
)

// Words of the dashboard's node_agent_status.
const (
	AgentHealthy          = "healthy"
	AgentStale            = "stale"
	AgentAuthFailed       = "auth_failed"
	AgentAPIUnreachable   = "api_unreachable"
	AgentTaskResultFailed = "task_result_failed"
	AgentUnknown          = "unknown"
)

// Words of the dashboard's terminal_readiness.
const (
	TerminalTokenReady      = "token_ready"
	TerminalBrowserReady    = "browser_ws_ready"
	TerminalOpenSent        = "terminal_open_sent"
	TerminalStreamConnected = "node_stream_connected"
	TerminalPTYReady        = "pty_ready"
	TerminalFailed          = "failed"
)

// SignalRow is what the runbook knows about a signal. Recovery and Proof are templates for Fill.
type SignalRow struct {
	Signal    Signal
	Title     string          // what is wrong, as one line for people
	Owner     string          // who is called
	Owners    map[Side]string // who is called instead where the fault is known to be on that side
	Recovery  []Step          // in order; see SignalRow.Steps
	Proof     string          // the command that proves the repair
	Dashboard string          // node_agent_status while this is the blame; "" says nothing about the agent
	Terminal  string          // terminal_readiness while this is the blame; "" says nothing about the terminal
	Runbook   string          // page and anchor
	Reason    ReasonCode      // the operator reason, where nothing in the facts refines it (see ReasonFor)
}

// Signals returns every row, in the order of the constants. The rows are shared: they are read, never written.
func Signals() []SignalRow { return slices.Clone(signalRows[:]) }

// LookupSignal returns the row of sig, and whether there is one.
func LookupSignal(sig Signal) (SignalRow, bool) {
	for i := range signalRows {
		if signalRows[i].Signal == sig {
			return signalRows[i], true
		}
	}
	return SignalRow{}, false
}

// ReasonFor is the operator reason of a signal, refined by what the network or the host said. A rejection by a
// listener that never asked for the certificate is drift of the profile, never a revoked identity.
func ReasonFor(sig Signal, f Failure) ReasonCode {
	row, ok := LookupSignal(sig)
	if !ok {
		return ReasonNone
	}
	if sig == SigOpsSSHFailed && f == SSHAuth {
		return ReasonNone // one operator's key or user name was refused: others may well get in
	}
	if sig != SigAuthFailed {
		return row.Reason
	}
	switch f {
	case MTLSCertExpired, TLSExpired:
		return ReasonCertExpired
	case MTLSCertNotYetValid, TLSNotYetValid, ClockSkew:
		return ReasonClockSkew
	case MTLSNotRequested, HTTPEdgePage, HTTPEdgeAuth:
		return ReasonEndpointProfileDrift
	case MTLSUnknownCA:
		return ReasonCertUntrustedByIngress
	}
	return row.Reason
}
