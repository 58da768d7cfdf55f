package diag

// HopID is the runbook's name of a hop. The ordered chain itself is in package preflight.
type HopID string

const (
	HopControlPlaneAccess       HopID = "control_plane_access"
	HopAllocationBinding        HopID = "allocation_binding"
	HopNodeHeartbeat            HopID = "node_heartbeat"
	HopNodeOpsAccess            HopID = "node_ops_access"
	HopNodeReadiness            HopID = "node_readiness"
	HopNodeRuntimeAPI           HopID = "node_runtime_api_reachability"
	HopNodeRecoveryStatus       HopID = "node_recovery_status"
	HopNodeTaskRoundtrip        HopID = "node_task_roundtrip"
	HopTerminalTokenMint        HopID = "terminal_token_mint"
	HopTerminalPublicRoute      HopID = "terminal_public_route"
	HopBrowserTerminalWS        HopID = "browser_terminal_ws"
	HopTerminalOpenTask         HopID = "terminal_open_task"
	HopNodeTerminalReachability HopID = "node_terminal_reachability"
	HopGatewayNodeStream        HopID = "gateway_node_stream"
	HopTerminalStartup          HopID = "workload_terminal_startup_failure"
	HopAppRuntimeLiveness       HopID = "app_runtime_liveness"
	HopAppUserRoute             HopID = "app_user_route"
	HopGPUHealth                HopID = "gpu_health"
)

// Hops lists the ids in runbook order.
var Hops = [...]HopID{
	HopControlPlaneAccess, HopAllocationBinding, HopNodeHeartbeat, HopNodeOpsAccess, HopNodeReadiness,
	HopNodeRuntimeAPI, HopNodeRecoveryStatus, HopNodeTaskRoundtrip, HopTerminalTokenMint, HopTerminalPublicRoute,
	HopBrowserTerminalWS, HopTerminalOpenTask, HopNodeTerminalReachability, HopGatewayNodeStream,
	HopTerminalStartup, HopAppRuntimeLiveness, HopAppUserRoute, HopGPUHealth,
}

// NeedsAllocation says whether the hop is about one allocation: without one it cannot be walked.
func (h HopID) NeedsAllocation() bool {
	switch h {
	case HopAllocationBinding, HopTerminalTokenMint, HopBrowserTerminalWS, HopTerminalOpenTask, HopGatewayNodeStream,
		HopTerminalStartup, HopAppRuntimeLiveness, HopAppUserRoute:
		return true
	}
	return false
}
