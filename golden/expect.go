// Package golden has reports that were recorded on real machines, and the verdict that each must have. The expectations
// are separate from the recordings: a new recording can change facts and texts, never a verdict.
package golden

import "github.com/gpuaas/gpuaasctl/diag"

// Expect is the verdict that a walk must reach about one fault.
type Expect struct {
	Name    string
	First   []diag.HopID // any of these; empty: the blamed hop
	Hop     diag.HopID
	Signal  []diag.Signal // any of these
	Failure []diag.Failure
	Others  []diag.HopID
	// Green must pass whatever else fails.
	Green []diag.HopID
}

// Faults is the table of faults, in the order in which the lab is broken.
func Faults() []Expect {
	stale := []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeReadiness}
	workload := []diag.HopID{diag.HopAppRuntimeLiveness, diag.HopAppUserRoute}
	return []Expect{
		{Name: "agent-stopped", First: stale, Hop: diag.HopNodeReadiness, Signal: one(diag.SigProcessDown), Green: workload},
		{Name: "agent-frozen", First: stale, Hop: diag.HopNodeReadiness, Signal: one(diag.SigProcessDown),
			Failure: []diag.Failure{diag.ProcessStopped}, Green: workload},
		{Name: "agent-binary-broken", First: stale, Hop: diag.HopNodeReadiness, Signal: one(diag.SigBinaryInvalid),
			Green: workload},
		{
			Name: "api-egress-blocked", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.TCPTimeout},
			Green: append(clone(workload),
				diag.HopNodeTerminalReachability),
		},
		{
			Name: "api-egress-rejected", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.TCPRefused},
			Green: workload,
		},
		{
			Name: "api-dns-broken", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.DNSTimeout},
			Green: workload,
		},
		{
			Name: "api-name-unknown", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAPIUnreachable),
			Failure: []diag.Failure{diag.DNSNXDomain, diag.DNSNoAnswer,
				diag.DNSRefused}, Green: workload,
		},
		{
			Name: "stale-ca-bundle", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAPITLSFailed), Failure: []diag.Failure{diag.TLSUnknownCA},
			Green: workload,
		},
		{
			Name: "ca-bundle-missing", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAPITLSFailed), Failure: []diag.Failure{diag.FileMissing},
			Green: workload,
		},
		{
			Name: "api-name-elsewhere", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAPIUnreachable), Failure: []diag.Failure{diag.DNSMismatch},
			Green: workload,
		},
		{
			Name: "agent-network-private", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAgentConfined), Failure: []diag.Failure{diag.TCPNetUnreachable},
			Green: workload,
		},
		{
			Name: "agent-network-other", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAgentConfined), Failure: []diag.Failure{diag.TCPNetUnreachable},
			Green: workload,
		},
		{ // the refusal is read from the unit: no input of the probe can be changed
			Name: "agent-families-refused", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAgentConfined), Failure: []diag.Failure{diag.TCPDenied},
			Green: workload,
		},
		{
			Name: "agent-addresses-denied", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigAgentConfined), Failure: []diag.Failure{diag.TCPDenied},
			Green: workload,
		},
		{
			Name: "node-cert-expired", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRecoveryStatus},
			Hop: diag.HopNodeRecoveryStatus, Signal: one(diag.SigAuthFailed), Failure: []diag.Failure{diag.MTLSCertExpired},
			Green: workload,
		},
		{
			Name: "wrong-public-edge", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRecoveryStatus},
			Hop: diag.HopNodeRecoveryStatus, Signal: []diag.Signal{diag.SigEndpointProfileDrift, diag.SigAuthFailed},
			Green: workload,
		},
		{
			Name: "ingress-ca-drift", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRecoveryStatus},
			Hop: diag.HopNodeRecoveryStatus, Signal: one(diag.SigIngressCADrift), Green: workload,
		},
		{Name: "disk-full", Hop: diag.HopNodeReadiness, Signal: one(diag.SigDiskFull),
			Failure: []diag.Failure{diag.DiskFull}, Green: workload},
		{
			Name: "root-disk-full", Hop: diag.HopNodeReadiness, Signal: one(diag.SigDiskFull),
			Failure: []diag.Failure{diag.DiskFull},
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeOpsAccess, diag.HopNodeRecoveryStatus,
				diag.HopNodeTaskRoundtrip},
		},
		{
			Name: "result-post-blocked", First: []diag.HopID{diag.HopNodeTaskRoundtrip}, Hop: diag.HopNodeTaskRoundtrip,
			Signal: one(diag.SigResultPostFailed), Green: workload,
		},
		{
			Name: "edge-rate-limited", First: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeRuntimeAPI},
			Hop: diag.HopNodeRuntimeAPI, Signal: one(diag.SigEdgeRateLimited), Green: workload,
		},
		{Name: "terminal-route-missing", Hop: diag.HopTerminalPublicRoute, Signal: one(diag.SigPublicRouteMissing),
			Green: workload},
		{Name: "terminal-upgrade-rejected", Hop: diag.HopBrowserTerminalWS, Signal: one(diag.SigUpgradeFailed),
			Green: workload},
		{Name: "redis-binding-lost", Hop: diag.HopBrowserTerminalWS,
			Signal: []diag.Signal{diag.SigUpgradeFailed, diag.SigOpenWithoutStream}, Green: workload},
		{
			Name: "terminal-egress-blocked", First: []diag.HopID{diag.HopBrowserTerminalWS},
			Hop: diag.HopNodeTerminalReachability, Signal: one(diag.SigNodeStreamTimeout),
			Failure: []diag.Failure{diag.TCPTimeout}, Green: workload,
		},
		{
			Name: "terminal-url-wrong", First: []diag.HopID{diag.HopBrowserTerminalWS}, Hop: diag.HopNodeTerminalReachability,
			Signal: []diag.Signal{diag.SigTerminalProfileDrift, diag.SigNodeStreamTimeout}, Green: workload,
		},
		{
			Name: "terminal-mtls-rejected", First: []diag.HopID{diag.HopBrowserTerminalWS},
			Hop: diag.HopNodeTerminalReachability, Signal: one(diag.SigNodeStreamMTLS), Green: workload,
		},
		{
			Name: "allocation-user-missing", Hop: diag.HopTerminalStartup, Signal: one(diag.SigPTYFailed),
			Failure: []diag.Failure{diag.UserMissing}, Green: append(clone(workload), diag.HopBrowserTerminalWS),
		},
		{Name: "pty-shell-broken", Hop: diag.HopTerminalStartup, Signal: one(diag.SigPTYFailed),
			Green: append(clone(workload), diag.HopBrowserTerminalWS)},
		{
			Name: "pty-delayed", First: []diag.HopID{diag.HopBrowserTerminalWS, diag.HopTerminalStartup},
			Hop: diag.HopTerminalStartup, Signal: one(diag.SigPTYFailed), Green: workload,
		},
		{
			Name: "ops-path-lost", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsSSHFailed),
			Failure: []diag.Failure{diag.TCPRefused},
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS,
				diag.HopAppUserRoute},
		},
		{Name: "sshd-frozen", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsSSHFailed),
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopAppUserRoute}},
		{
			Name: "host-key-changed", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsSSHFailed),
			Failure: []diag.Failure{diag.SSHHostKey}, Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopAppUserRoute},
		},
		{
			Name: "sudo-refused", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsSSHFailed),
			Failure: []diag.Failure{diag.NotPermitted},
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS,
				diag.HopAppUserRoute},
		},
		{
			Name: "guest-agent-down", Hop: diag.HopNodeOpsAccess, Signal: one(diag.SigOpsAccessUnhealthy),
			Failure: []diag.Failure{diag.TCPTimeout},
			Green: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS,
				diag.HopAppUserRoute},
		},
		{
			Name: "terminal-upgrade-unanswered", Hop: diag.HopBrowserTerminalWS, Signal: one(diag.SigConnectingStuck),
			Green: append(management(), workload...),
		},
		{
			Name: "terminal-edge-timeout", Hop: diag.HopBrowserTerminalWS, Signal: one(diag.SigStreamCut),
			Failure: []diag.Failure{diag.WSClosed}, Green: append(management(), workload...),
		},
		{
			Name: "terminal-edge-drop", Hop: diag.HopBrowserTerminalWS, Signal: one(diag.SigStreamCut),
			Failure: []diag.Failure{diag.WSSilent, diag.PTYSilent}, Green: append(management(), workload...),
		},
		{
			Name: "terminal-stream-drop", First: []diag.HopID{diag.HopBrowserTerminalWS, diag.HopGatewayNodeStream},
			Hop: diag.HopGatewayNodeStream, Signal: one(diag.SigStreamCut), Green: append(management(), workload...),
		},
		{
			Name: "agent-killed-in-session", First: []diag.HopID{diag.HopBrowserTerminalWS, diag.HopGatewayNodeStream},
			Hop: diag.HopGatewayNodeStream, Signal: one(diag.SigStreamCut), Green: append(management(), workload...),
		},
		{
			Name: "shell-cannot-fork", Hop: diag.HopTerminalStartup, Signal: one(diag.SigPTYFailed),
			Green: append(management(), append(workload, diag.HopBrowserTerminalWS, diag.HopGatewayNodeStream)...),
		},
		{
			Name: "heartbeat-refused", Hop: diag.HopNodeHeartbeat, Signal: one(diag.SigHeartbeatStale),
			Green: append([]diag.HopID{diag.HopNodeOpsAccess, diag.HopNodeRecoveryStatus, diag.HopNodeTaskRoundtrip,
				diag.HopBrowserTerminalWS}, workload...),
		},
		{Name: "workload-stopped", Hop: diag.HopAppRuntimeLiveness, Signal: one(diag.SigAppStopped), Green: management()},
		{Name: "workload-route-broken", Hop: diag.HopAppUserRoute, Signal: one(diag.SigAppRouteFailed),
			Green: append(management(), diag.HopAppRuntimeLiveness)},
		{
			Name: "three-faults", First: stale, Hop: diag.HopNodeReadiness, Signal: one(diag.SigDiskFull),
			Failure: []diag.Failure{diag.DiskFull},
			Others:  []diag.HopID{diag.HopNodeReadiness, diag.HopTerminalPublicRoute},
			Green:   []diag.HopID{diag.HopAppRuntimeLiveness},
		},
	}
}

func one(s diag.Signal) []diag.Signal { return []diag.Signal{s} }

// management lists the hops that decide whether the platform can manage the node.
func management() []diag.HopID { return append([]diag.HopID{}, diag.HopIDs()[:8]...) }

func clone(ids []diag.HopID) []diag.HopID { return append([]diag.HopID{}, ids...) }

const seenFromBothEnds = "both ends saw the stream end; what is between them was not measured, and a session is not " +
	"repeated"

// Supports returns, by path, how well each recording's blame is supported.
func Supports() map[string]Support {
	return map[string]Support{
		"reports/agent-stopped.json":          observed(),
		"reports/agent-frozen.json":           observed(),
		"reports/agent-binary-broken.json":    observed(),
		"reports/agent-network-private.json":  proven("network"),
		"reports/agent-network-other.json":    proven("network"),
		"reports/agent-families-refused.json": observed(),
		"reports/agent-addresses-denied.json": observed(),
		"reports/api-egress-blocked.json":     proven("target"),
		"reports/api-egress-rejected.json":    proven("target"),
		"reports/api-dns-broken.json":         proven("resolve"),
		"reports/api-name-unknown.json":       proven("resolve"),
		"reports/stale-ca-bundle.json":        proven("ca_inline"),
		"reports/ca-bundle-missing.json":      proven("ca_inline"),
		"reports/api-name-elsewhere.json":     proven("resolve"),
		"reports/node-cert-expired.json":      observed(),
		"reports/wrong-public-edge.json":      proven("target"),
		"reports/ingress-ca-drift.json":       proven("target"),
		"reports/disk-full.json":              proven("target"),
		"reports/root-disk-full.json":         proven("target"),
		"reports/result-post-blocked.json":    observed(),
		"reports/edge-rate-limited.json": {diag.Observed, "target",
			"a limiter is not asked more than it has allowed"},
		"reports/terminal-route-missing.json": proven("target"),
		"reports/terminal-upgrade-rejected.json": {diag.Observed, "op",
			"a session is not repeated, and a plain request is refused as well"},
		"reports/redis-binding-lost.json":      observed(),
		"reports/terminal-egress-blocked.json": proven("target"),
		"reports/terminal-url-wrong.json":      proven("target"),
		"reports/terminal-mtls-rejected.json":  proven("target"),
		"reports/allocation-user-missing.json": proven("target"),
		"reports/pty-shell-broken.json":        observed(),
		"reports/pty-delayed.json": neither(diag.Possible,
			"no output comes, and no fact shows what the shell waits for"),
		"reports/ops-path-lost.json": neither(diag.Likely,
			"a refusal comes from a host without a listener and from a packet filter alike"),
		"reports/sshd-frozen.json": neither(diag.Possible,
			"a connection without a banner: what holds the server cannot be seen from outside"),
		"reports/host-key-changed.json": observed(),
		"reports/sudo-refused.json":     observed(),
		"reports/guest-agent-down.json": neither(diag.Possible,
			"a lost guest agent does not show why SSH is silent"),
		"reports/terminal-upgrade-unanswered.json": {diag.Possible, "op",
			"a session is not repeated, and silence has no word"},
		"reports/heartbeat-refused.json":     observed(),
		"reports/terminal-edge-timeout.json": neither(diag.Likely, seenFromBothEnds),
		"reports/terminal-edge-drop.json":    neither(diag.Possible, seenFromBothEnds),
		"reports/terminal-stream-drop.json":  neither(diag.Likely, seenFromBothEnds),
		"reports/agent-killed-in-session.json": neither(diag.Likely,
			"that the agent's unit ended is measured, and not that it did so before its stream"),
		"reports/shell-cannot-fork.json": neither(diag.Possible,
			"a shell's output is its tenant's, and only silence was measured"),
		"reports/workload-stopped.json":      observed(),
		"reports/workload-route-broken.json": proven("target"),
		"reports/three-faults.json":          proven("target"),

		"matrix/app_token_fails.json":                observed(),
		"matrix/cloned_vm_identity.json":             observed(),
		"matrix/control_plane_ca_restart_drift.json": proven("target"),
		"matrix/control_plane_outage.json": {diag.Observed, "target",
			"every route of the edge leads to what is down"},
		"matrix/identity_rejected_after_profile_change.json": observed(),
		"matrix/identity_revoked_or_fenced.json":             observed(),
		"matrix/ip_route_drift.json":                         observed(),
		"matrix/long_outage_beyond_cert_expiry.json":         observed(),
		"matrix/pre_auth_blind_spot.json":                    proven("ca_inline"),
		"matrix/recovery_token_missing.json":                 observed(),
		"matrix/task_backlog_after_outage.json":              observed(),
		"matrix/trust_bundle_drift.json":                     proven("ca_inline"),
		"matrix/trust_drift_blocks_recovery_enrollment.json": proven("ca_inline"),
	}
}
