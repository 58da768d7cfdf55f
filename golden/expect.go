// Package golden holds reports that were recorded on real machines, and what each must say. The expectations stand
// here, apart from the recordings: recording anew can change facts and words, never a verdict.
package golden

import "github.com/gpuaas/gpuaasctl/diag"

// Expect is what the walk must say about one fault.
type Expect struct {
	Name    string
	First   []diag.HopID // any of these; empty: the blamed hop
	Hop     diag.HopID
	Signal  []diag.Signal // any of these
	Failure []diag.Failure
	Proven  bool // a one-change pair exists, so it must be found
	Others  []diag.HopID
	// Green must pass whatever else fails.
	Green []diag.HopID
}

// Faults is the table, in the order in which the lab is broken.
func Faults() []Expect {
	stale := []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeReadiness}
	workload := []diag.HopID{diag.HopAppRuntimeLiveness, diag.HopAppUserRoute}
	return []Expect{
		{Name: "agent-stopped", First: stale, Hop: diag.HopNodeReadiness, Signal: one(diag.SigProcessDown), Green: workload},
		{Name: "agent-frozen", First: stale, Hop: diag.HopNodeReadiness, Signal: one(diag.SigProcessDown), Failure: []diag.Failure{diag.ProcessStopped}, Green: workload},
		{Name: "agent-binary-broken", First: stale, Hop: diag.HopNodeReadiness, Signal: one(diag.SigBinaryInvalid), Green: workload},
		{
			Name: "api-egress-blocked", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI}, Hop: diag.HopNodeRuntimeAPI,
			Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.TCPTimeout}, Proven: true, Green: append(clone(workload), diag.HopNodeTerminalReachability),
		},
		{
			Name: "api-egress-rejected", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI}, Hop: diag.HopNodeRuntimeAPI,
			Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.TCPRefused}, Proven: true, Green: workload,
		},
		{
			Name: "api-dns-broken", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI}, Hop: diag.HopNodeRuntimeAPI,
			Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.DNSTimeout}, Proven: true, Green: workload,
		},
		{
			Name: "api-name-unknown", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI}, Hop: diag.HopNodeRuntimeAPI,
			Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.DNSNXDomain, diag.DNSNoAnswer, diag.DNSRefused}, Proven: true, Green: workload,
		},
		{
			Name: "stale-ca-bundle", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI}, Hop: diag.HopNodeRuntimeAPI,
			Signal: one(diag.SigAPITLSFailed), Failure: []diag.Failure{diag.TLSUnknownCA}, Proven: true, Green: workload,
		},
		{
			Name: "ca-bundle-missing", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI}, Hop: diag.HopNodeRuntimeAPI,
			Signal: one(diag.SigAPITLSFailed), Failure: []diag.Failure{diag.FileMissing}, Proven: true, Green: workload,
		},
		{
			Name: "api-name-elsewhere", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI}, Hop: diag.HopNodeRuntimeAPI,
			Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.DNSMismatch}, Proven: true, Green: workload,
		},
		{
			Name: "node-cert-expired", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRecoveryStatus}, Hop: diag.HopNodeRecoveryStatus,
			Signal: one(diag.SigAuthFailed), Failure: []diag.Failure{diag.MTLSCertExpired}, Green: workload,
		},
		{
			Name: "wrong-public-edge", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRecoveryStatus}, Hop: diag.HopNodeRecoveryStatus,
			Signal: []diag.Signal{diag.SigEndpointProfileDrift, diag.SigAuthFailed}, Green: workload,
		},
		{
			Name: "ingress-ca-drift", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRecoveryStatus}, Hop: diag.HopNodeRecoveryStatus,
			Signal: one(diag.SigIngressCADrift), Green: workload,
		},
		{Name: "disk-full", Hop: diag.HopNodeReadiness, Signal: one(diag.SigDiskFull), Failure: []diag.Failure{diag.DiskFull}, Proven: true, Green: workload},
		{
			Name: "root-disk-full", Hop: diag.HopNodeReadiness, Signal: one(diag.SigDiskFull), Failure: []diag.Failure{diag.DiskFull}, Proven: true,
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeOpsAccess, diag.HopNodeRecoveryStatus, diag.HopNodeTaskRoundtrip},
		},
		{
			Name: "result-post-blocked", First: []diag.HopID{diag.HopNodeTaskRoundtrip}, Hop: diag.HopNodeTaskRoundtrip,
			Signal: one(diag.SigResultPostFailed), Green: workload,
		},
		{
			Name: "edge-rate-limited", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI}, Hop: diag.HopNodeRuntimeAPI,
			Signal: one(diag.SigEdgeRateLimited), Green: workload,
		},
		{Name: "terminal-route-missing", Hop: diag.HopTerminalPublicRoute, Signal: one(diag.SigPublicRouteMissing), Green: workload},
		{Name: "terminal-upgrade-rejected", Hop: diag.HopBrowserTerminalWS, Signal: one(diag.SigUpgradeFailed), Green: workload},
		{Name: "redis-binding-lost", Hop: diag.HopBrowserTerminalWS, Signal: []diag.Signal{diag.SigUpgradeFailed, diag.SigOpenWithoutStream}, Green: workload},
		{
			Name: "terminal-egress-blocked", First: []diag.HopID{diag.HopBrowserTerminalWS}, Hop: diag.HopNodeTerminalReachability,
			Signal: one(diag.SigNodeStreamTimeout), Failure: []diag.Failure{diag.TCPTimeout}, Proven: true, Green: workload,
		},
		{
			Name: "terminal-url-wrong", First: []diag.HopID{diag.HopBrowserTerminalWS}, Hop: diag.HopNodeTerminalReachability,
			Signal: []diag.Signal{diag.SigTerminalProfileDrift, diag.SigNodeStreamTimeout}, Proven: true, Green: workload,
		},
		{
			Name: "terminal-mtls-rejected", First: []diag.HopID{diag.HopBrowserTerminalWS}, Hop: diag.HopNodeTerminalReachability,
			Signal: one(diag.SigNodeStreamMTLS), Green: workload,
		},
		{
			Name: "allocation-user-missing", Hop: diag.HopTerminalStartup, Signal: one(diag.SigPTYFailed),
			Failure: []diag.Failure{diag.UserMissing}, Proven: true, Green: append(clone(workload), diag.HopBrowserTerminalWS),
		},
		{Name: "pty-shell-broken", Hop: diag.HopTerminalStartup, Signal: one(diag.SigPTYFailed), Green: append(clone(workload), diag.HopBrowserTerminalWS)},
		{
			Name: "pty-delayed", First: []diag.HopID{diag.HopBrowserTerminalWS, diag.HopTerminalStartup}, Hop: diag.HopTerminalStartup,
			Signal: one(diag.SigPTYFailed), Green: workload,
		},
		{
			Name: "ops-path-lost", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsSSHFailed), Failure: []diag.Failure{diag.TCPRefused},
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS, diag.HopAppUserRoute},
		},
		{Name: "sshd-frozen", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsSSHFailed), Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopAppUserRoute}},
		{
			Name: "host-key-changed", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsSSHFailed), Failure: []diag.Failure{diag.SSHHostKey},
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopAppUserRoute},
		},
		{
			Name: "sudo-refused", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsSSHFailed), Failure: []diag.Failure{diag.NotPermitted},
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS, diag.HopAppUserRoute},
		},
		{
			Name: "guest-agent-down", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsAccessUnhealthy), Failure: []diag.Failure{diag.TCPTimeout},
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS, diag.HopAppUserRoute},
		},
		{
			Name: "terminal-upgrade-unanswered", Hop: diag.HopBrowserTerminalWS, Signal: one(diag.SigConnectingStuck),
			Green: append(management(), workload...),
		},
		{
			Name: "heartbeat-refused", Hop: diag.HopNodeHeartbeat, Signal: one(diag.SigHeartbeatStale),
			Green: append([]diag.HopID{diag.HopNodeOpsAccess, diag.HopNodeRecoveryStatus, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS}, workload...),
		},
		{Name: "workload-stopped", Hop: diag.HopAppRuntimeLiveness, Signal: one(diag.SigAppStopped), Green: management()},
		{Name: "workload-route-broken", Hop: diag.HopAppUserRoute, Signal: one(diag.SigAppRouteFailed), Green: append(management(), diag.HopAppRuntimeLiveness)},
		{
			Name: "three-faults", First: stale, Hop: diag.HopNodeReadiness, Signal: one(diag.SigDiskFull), Failure: []diag.Failure{diag.DiskFull}, Proven: true,
			Others: []diag.HopID{diag.HopNodeReadiness, diag.HopTerminalPublicRoute}, Green: []diag.HopID{diag.HopAppRuntimeLiveness},
		},
	}
}

func one(s diag.Signal) []diag.Signal { return []diag.Signal{s} }

// management lists the hops that say whether the platform can manage the node.
func management() []diag.HopID { return append([]diag.HopID{}, diag.Hops[:8]...) }

func clone(ids []diag.HopID) []diag.HopID { return append([]diag.HopID{}, ids...) }
