package preflight

import "github.com/gpuaas/gpuaasctl/diag"

// Chain is THE ordered chain. A new hop is one file, its test, and one line here.
func Chain() []Hop {
	return []Hop{
		controlPlaneAccess(),
		allocationBinding(),
		nodeHeartbeat(),
		nodeOpsAccess(),
		nodeReadiness(),
		nodeRuntimeAPI(),
		nodeRecoveryStatus(),
		nodeTaskRoundtrip(),
		terminalTokenMint(),
		terminalPublicRoute(),
		browserTerminalWS(),
		terminalOpenTask(),
		nodeTerminalReachability(),
		gatewayNodeStream(),
		terminalStartup(),
		appRuntimeLiveness(),
		appUserRoute(),
		gpuHealth(),
	}
}

// hopsThrough lists the ids of the chain from a to b, both included.
func hopsThrough(a, b diag.HopID) []diag.HopID {
	var ids []diag.HopID
	in := false
	for _, id := range diag.Hops {
		in = in || id == a
		if in {
			ids = append(ids, id)
		}
		if id == b {
			break
		}
	}
	return ids
}
