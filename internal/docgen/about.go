package main

import "github.com/gpuaas/gpuaasctl/diag"

// abouts has a row for every hop.
var abouts = map[diag.HopID]about{
	diag.HopControlPlaneAccess: {
		"A pass means: the API's health page answered 200 here, and the token was accepted by a read. Without a token only the first is shown, and the text says so.",
		[]diag.Signal{diag.SigControlPlaneUnreachable, diag.SigOperatorAuthFailed},
	},
	diag.HopAllocationBinding: {
		"A pass means: the platform says that the allocation is active and on this node. An answer that names no node is `inconclusive`.",
		[]diag.Signal{diag.SigAllocationNotActive, diag.SigAllocationNodeMismatch, diag.SigAllocationUnknown},
	},
	diag.HopNodeHeartbeat: {
		"A pass means: the last heartbeat that the platform took in is younger than `node.heartbeat_stale_after_seconds`, by the platform's own clock. A platform that gives no time of it (`node.last_heartbeat_at`) is judged by its last contact of any kind, and the text says so. That the platform's own checklist says otherwise is a warning that names both. A stale heartbeat says nothing about the workload.",
		[]diag.Signal{diag.SigHeartbeatStale, diag.SigNodeUnknown},
	},
	diag.HopNodeOpsAccess: {
		"A pass means: TCP, banner, host key, login and an exec channel worked, and `gpuaas-agent probe` answers on it. A failure here says nothing about the agent; the heartbeat does. What this operator lacks (a key, a known host key, a route, a jump host) is `inconclusive`, and the operator's to repair.",
		[]diag.Signal{diag.SigOpsSSHFailed, diag.SigOpsAccessUnhealthy, diag.SigOperatorKeyMissing, diag.SigOperatorHostKeyUnknown, diag.SigOperatorPathBroken, diag.SigOperatorHelperMissing},
	},
	diag.HopNodeReadiness: {
		"A pass means: 8 KiB were really written, synced and removed again where the agent keeps its diagnostics (or at the nearest folder above), the same at `/` where that is another file system (a login that may not write there measures its usage alone; a read-only root is no fault), both disks are below `node.disk_pressure_percent`, the agent's unit is active, its process is not stopped and systemd does not restart it again and again, its program is whole, made for this machine and, where the profile says so, gpuaas-agent (it is read and never run), and the clock is within 5 s of the operator's. Where the two differ, the platform's clock decides which is wrong.",
		[]diag.Signal{diag.SigDiskFull, diag.SigDiskPressure, diag.SigProcessDown, diag.SigBinaryInvalid, diag.SigClockSkew, diag.SigProfileMismatch, diag.SigOperatorClockSkew},
	},
	diag.HopNodeRuntimeAPI: {
		"A pass means: from the node, the API of the running agent's own environment was looked up, connected and verified with the agent's own bundle, and answered. No client certificate is sent, so the answer tells which listener this is: the 400 of a node ingress is a pass.",
		[]diag.Signal{diag.SigAPIUnreachable, diag.SigAPITLSFailed, diag.SigEdgeRateLimited, diag.SigProfileMismatch},
	},
	diag.HopNodeRecoveryStatus: {
		"A pass means: certificate and key on the node are a pair, in date and bound to this node, the running agent uses the endpoints of the profile, and a real task wait with that certificate was let in. The wait is a peek: it claims nothing and counts as no contact. The key never leaves the node.",
		[]diag.Signal{diag.SigAuthFailed, diag.SigEndpointProfileDrift, diag.SigIdentityCloned, diag.SigIngressCADrift, diag.SigAPIUnreachable, diag.SigAPITLSFailed, diag.SigEdgeRateLimited, diag.SigDiskFull, diag.SigResultPostFailed, diag.SigVersionDrift, diag.SigHeartbeatStale, diag.SigProfileMismatch},
	},
	diag.HopNodeTaskRoundtrip: {
		"A pass means: a typed no-op was enqueued, claimed by the agent, and its result came back.",
		[]diag.Signal{diag.SigTaskClaimFailed, diag.SigResultPostFailed, diag.SigTaskBacklogStale},
	},
	diag.HopTerminalTokenMint: {
		"A pass means: the API gave a terminal token and a session id for the allocation.",
		[]diag.Signal{diag.SigTokenMintFailed},
	},
	diag.HopTerminalPublicRoute: {
		"A pass means: the gateway's health page answered 200 through the public route. The root path is not asked: it may honestly be a 404.",
		[]diag.Signal{diag.SigPublicRouteMissing},
	},
	diag.HopBrowserTerminalWS: {
		"A pass means: the gateway took the browser's WebSocket and said something in time: ready, or an error about the workload's user or shell. The second is a pass because the user was told; the fault is shown at `workload_terminal_startup_failure`.",
		[]diag.Signal{diag.SigUpgradeFailed, diag.SigNodeStreamTimeout, diag.SigConnectingStuck, diag.SigAuthFailed},
	},
	diag.HopTerminalOpenTask: {
		"A pass means: this session's `terminal.open` was claimed by the agent, and its answer came. An honest failure is an answer, and passes here. One that was claimed and not answered in time is `inconclusive`, or, where the shell computed all the same, a result that was lost.",
		[]diag.Signal{diag.SigTaskClaimFailed, diag.SigResultPostFailed},
	},
	diag.HopNodeTerminalReachability: {
		"A pass means: from the node, the terminal listener of the running agent's own environment was looked up, connected, verified, and let the node's certificate in, and it is the profile's. The upgrade is asked for a session that does not exist: the gateway's 404 proves the whole way and disturbs nobody.",
		[]diag.Signal{diag.SigNodeStreamTimeout, diag.SigNodeStreamMTLS, diag.SigTerminalProfileDrift, diag.SigProfileMismatch, diag.SigEdgeRateLimited},
	},
	diag.HopGatewayNodeStream: {
		"A pass means: the gateway saw the node's WebSocket for the very session that this walk opened. A task that says success is no such proof.",
		[]diag.Signal{diag.SigOpenWithoutStream, diag.SigNodeStreamMTLS},
	},
	diag.HopTerminalStartup: {
		"The name is the runbook's; the hop is terminal startup. A pass means: the allocation's user and shell exist as the agent sees them, and the shell computed a nonce through the browser's terminal. An echo is not a shell. With `--run-ws-smoke=false` only user and shell are looked at, and the text says so.",
		[]diag.Signal{diag.SigPTYFailed},
	},
	diag.HopAppRuntimeLiveness: {
		"A pass means: the workload's unit runs and its port answers on the node. The platform's last look at it being old is a warning (`app_observation_stale`), never a failure; that the platform says again and again that its credential is refused is one (`app_credential_failing`).",
		[]diag.Signal{diag.SigAppStopped, diag.SigAppCredentialFailing, diag.SigAppObservationStale},
	},
	diag.HopAppUserRoute: {
		"A pass means: the workload's product URL answered through the public edge without an error status. Where platform or profile say so, a WebSocket upgrade was taken there as well, and the workload received the headers that the edge has to inject. The step from the platform's host (`platform_ssh`) tells on which side of the proxy a fault is; where there is no way to that host it is skipped.",
		[]diag.Signal{diag.SigAppRouteFailed},
	},
	diag.HopGPUHealth: {
		"Not built yet. It is always `skipped`, with that reason.",
		nil,
	},
}
