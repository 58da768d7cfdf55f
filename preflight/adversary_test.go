package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestFaultsOffTheList has faults that no table of drills has, found by breaking machines by hand. Each row has the
// facts as they were measured there, and the verdict that they must give.
func TestFaultsOffTheList(t *testing.T) {
	missingBundle := failWith(diag.FileMissing, "trust")
	elsewhereBy := func(source string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			failWith(diag.TCPRefused, "tcp")(f)
			f.TCP = &diag.TCPFacts{Remote: "192.0.2.102:443"}
			f.DNS = &diag.DNSFacts{Name: "node-api.test", Addresses: []string{"192.0.2.102"}, Source: source}
		}
	}
	noRoot := func(f *diag.Fact) {
		uid := 1000
		f.SSH.UID = &uid
	}
	silent := with(silentAgent(), answers{
		"node_ops_access/ssh": func(f *diag.Fact) { failWith(diag.TCPTimeout, "tcp")(f); f.SSH = nil },
		"app_user_route/route": func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPEdgePage, "http", &diag.HTTPFacts{Status: 504}
		},
	})
	for _, tc := range []struct {
		name    string
		answers answers
		blame   diag.HopID
		signal  diag.Signal
		failure diag.Failure
		text    string // in the blame's text
		others  []diag.HopID
		notPass []diag.HopID
	}{
		{
			name: "no CA bundle", blame: diag.HopNodeRuntimeAPI, signal: diag.SigAPITLSFailed, failure: diag.FileMissing,
			answers: with(silentAgent(), answers{
				"node_runtime_api_reachability/reach": missingBundle, "node_terminal_reachability/stream": missingBundle,
			}),
		}, {
			name: "a name that points elsewhere", blame: diag.HopNodeRuntimeAPI, signal: diag.SigAPIUnreachable,
			failure: diag.DNSMismatch, text: "at the profile's address 192.0.2.11 the request passes",
			answers: answers{
				"node_runtime_api_reachability/reach":           elsewhereBy("hosts_manual"),
				"node_runtime_api_reachability/reach~host-view": elsewhereBy("hosts_manual"),
			},
		}, {
			name: "a name that points elsewhere for the agent only", blame: diag.HopNodeRuntimeAPI,
			signal: diag.SigAPIUnreachable, failure: diag.DNSMismatch, text: "something overlays the files that the agent sees",
			answers: answers{"node_runtime_api_reachability/reach": elsewhereBy("hosts_manual")},
		}, {
			name: "an operator who is asked for a certificate got through", blame: diag.HopNodeTerminalReachability,
			signal: diag.SigNodeStreamTimeout, text: "on this node's path",
			answers: answers{
				"node_terminal_reachability/stream":               failWith(diag.TCPTimeout, "tcp"),
				"node_terminal_reachability/stream~from-operator": failWith(diag.MTLSCertRequired, "mtls"),
			},
		}, {
			name: "another node's name", blame: diag.HopNodeRecoveryStatus, signal: diag.SigAuthFailed,
			failure: diag.FileMismatch, text: "GPUAAS_NODE_ID is node-2",
			answers: with(silentAgent(), answers{
				"node_recovery_status/profile": func(f *diag.Fact) { f.Env.Values["GPUAAS_NODE_ID"] = "node-2" },
			}),
		}, {
			name: "no environment file", blame: diag.HopNodeReadiness, signal: diag.SigProcessDown,
			text: "environment file is missing", answers: with(silentAgent(), answers{
				"node_readiness/process": unitDown,
				"node_recovery_status/profile": func(f *diag.Fact) {
					f.Failure, f.Phase, f.Env = diag.FileMissing, "env", nil
				},
				"node_runtime_api_reachability/reach": failWith(diag.FileMissing, "env"),
				"node_terminal_reachability/stream":   failWith(diag.FileMissing, "env"),
			}),
		}, {
			name: "sudo refused", blame: diag.HopNodeOpsAccess, signal: diag.SigOpsSSHFailed, failure: diag.NotPermitted,
			answers: answers{"node_ops_access/ssh": noRoot},
			notPass: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus,
				diag.HopNodeTerminalReachability},
		}, {
			name: "the machine is gone", answers: silent, blame: diag.HopNodeHeartbeat, signal: diag.SigHeartbeatStale,
			text: "the machine or its network",
		}, {
			name: "the node goes in the middle of the walk", blame: diag.HopNodeOpsAccess, signal: diag.SigOpsSSHFailed,
			failure: diag.SSHTransport, text: "in the middle of the walk",
			answers: answers{"node_terminal_reachability/stream": func(f *diag.Fact) {
				failWith(diag.SSHTransport, "ssh")(f)
				f.TCP, f.Target = nil, ""
			}},
			notPass: []diag.HopID{diag.HopNodeTerminalReachability},
		}, {
			name: "an edge that swallows the upgrade", blame: diag.HopBrowserTerminalWS, signal: diag.SigConnectingStuck,
			failure: diag.WSSilent, text: "something in front of the gateway answered the upgrade",
			answers: answers{
				"browser_terminal_ws/session": func(f *diag.Fact) {
					f.Failure, f.Phase, f.PTY, f.WS = diag.WSSilent, "ws", nil, &diag.WSFacts{Upgraded: true, Status: 101}
				},
				"terminal_open_task/session": func(f *diag.Fact) {
					f.HTTP.Fields = map[string]string{}
					f.Failure = diag.HTTPTimeout
				},
			},
		}, {
			name: "one edge, nothing answers", blame: diag.HopControlPlaneAccess, signal: diag.SigControlPlaneUnreachable,
			text: "the control plane is at fault",
			answers: answers{
				"control_plane_access/healthz":                      failWith(diag.TCPRefused, "tcp"),
				"terminal_public_route/healthz":                     failWith(diag.TCPRefused, "tcp"),
				"control_plane_access/auth":                         failWith(diag.TCPRefused, "tcp"),
				"node_runtime_api_reachability/reach":               failWith(diag.TCPRefused, "tcp"),
				"node_runtime_api_reachability/reach~from-operator": failWith(diag.TCPRefused, "tcp"),
				"node_runtime_api_reachability/reach~bare":          failWith(diag.TCPRefused, "tcp"),
			},
		}, {
			name: "an allocation of another node", blame: diag.HopAllocationBinding, signal: diag.SigAllocationNodeMismatch,
			answers: answers{
				"allocation_binding/allocation": setField("allocation.node_id", "node-2"),
				"app_runtime_liveness/unit":     func(f *diag.Fact) { f.Failure = diag.UnitMissing },
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := walkWith(t, tc.answers)
			v := r.Verdict
			if v.Blame == nil || v.Blame.Hop != tc.blame || v.Blame.Signal != tc.signal {
				t.Fatalf("blame is %+v\n%s", v.Blame, describe(r))
			}
			if tc.failure != "" && v.Blame.Failure != tc.failure {
				t.Errorf("failure is %s, want %s", v.Blame.Failure, tc.failure)
			}
			if !strings.Contains(v.Blame.Text, tc.text) {
				t.Errorf("%q does not say %q", v.Blame.Text, tc.text)
			}
			var others []diag.HopID
			for _, o := range v.OtherFindings {
				others = append(others, o.Hop)
			}
			if !slices.Equal(others, tc.others) {
				t.Errorf("other findings at %v, want %v\n%s", others, tc.others, describe(r))
			}
			for _, id := range tc.notPass {
				if h := hopOf(r, id); h.Status == diag.StatusPass || h.Status == diag.StatusFail {
					t.Errorf("%s is %s, and was not measured", id, h.Status)
				}
			}
		})
	}
}
