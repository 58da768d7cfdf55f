package chaos

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// row is one drill of the catalogue. The expected values are repeated here, so that no file can change them by
// itself. Blame nil: nothing may be found.
type row struct {
	id     string
	tier   string // the weakest tier that the drill may promise
	hops   []diag.HopID
	signal []diag.Signal
	word   string // prefix of every failure word; "" = any
}

func catalogue() []row {
	hop := func(h ...diag.HopID) []diag.HopID { return h }
	sig := func(s ...diag.Signal) []diag.Signal { return s }
	const t0, t1, t2, t3 = step.TierKernel, step.TierWatchdog, step.TierBoot, step.TierPersistent
	ready, api, recovery, trip := hop(diag.HopNodeReadiness), hop(diag.HopNodeRuntimeAPI), hop(diag.HopNodeRecoveryStatus),
		hop(diag.HopNodeTaskRoundtrip)
	browser, term, route := hop(diag.HopBrowserTerminalWS), hop(diag.HopNodeTerminalReachability),
		hop(diag.HopTerminalPublicRoute)
	gpu, login := hop(diag.HopGPUHealth), hop(diag.HopNodeOpsAccess)
	return []row{
		{"agent-stopped", t2, ready, sig(diag.SigProcessDown), ""},
		{"agent-frozen", t1, ready, sig(diag.SigProcessDown), "process_stopped"},
		{"agent-binary-incompatible", t2, ready, sig(diag.SigBinaryInvalid), ""},
		{"api-egress-blocked", t0, api, sig(diag.SigAPIUnreachable), "tcp_timeout"},
		{"api-egress-rejected", t0, api, sig(diag.SigAPIUnreachable), "tcp_refused"},
		{"api-resolve-removed", t2, api, sig(diag.SigAPIUnreachable), "dns_"},
		{"api-dns-broken", t0, api, sig(diag.SigAPIUnreachable), "dns_"},
		{"api-dns-nxdomain", t0, api, sig(diag.SigAPIUnreachable), "dns_nxdomain"},
		{"api-dns-servfail", t0, api, sig(diag.SigAPIUnreachable), "dns_servfail"},
		{"stale-ca-bundle", t2, api, sig(diag.SigAPITLSFailed), ""},
		{"node-cert-expired", t2, recovery, sig(diag.SigAuthFailed), ""},
		{"node-cert-expired-recovers", t3, nil, nil, ""},
		{"cert-rotated-live", t3, nil, nil, ""},
		{"wrong-public-edge", t2, recovery, sig(diag.SigEndpointProfileDrift, diag.SigAuthFailed), ""},
		{"ingress-ca-drift", t3, recovery, sig(diag.SigIngressCADrift), ""},
		{"disk-full", t1, ready, sig(diag.SigDiskFull), ""},
		{"disk-pressure", t1, ready, sig(diag.SigDiskPressure), ""},
		{"result-post-blocked", t3, append(trip, recovery...), sig(diag.SigResultPostFailed), ""},
		{"edge-rate-limited", t3, api, sig(diag.SigEdgeRateLimited), ""},
		{"terminal-route-missing", t3, route, sig(diag.SigPublicRouteMissing), ""},
		{"terminal-route-mispointed", t3, route, sig(diag.SigPublicRouteMissing), ""},
		{"terminal-upgrade-rejected", t3, browser, sig(diag.SigUpgradeFailed), ""},
		{"terminal-subprotocol-stripped", t3, browser, sig(diag.SigUpgradeFailed), ""},
		{"redis-binding-lost", t0, browser, sig(diag.SigUpgradeFailed, diag.SigOpenWithoutStream), ""},
		{"terminal-egress-blocked", t0, term, sig(diag.SigNodeStreamTimeout), ""},
		{"terminal-resolve-removed", t2, term, sig(diag.SigNodeStreamTimeout), ""},
		{"terminal-url-wrong", t2, term, sig(diag.SigTerminalProfileDrift, diag.SigNodeStreamTimeout), ""},
		{"terminal-mtls-rejected", t3, hop(diag.HopNodeTerminalReachability, diag.HopGatewayNodeStream),
			sig(diag.SigNodeStreamMTLS), ""},
		{"terminal-open-without-stream", t2, hop(diag.HopGatewayNodeStream), sig(diag.SigOpenWithoutStream), ""},
		{"allocation-user-missing", t2, hop(diag.HopTerminalStartup), sig(diag.SigPTYFailed), "user_missing"},
		{"pty-shell-broken", t2, hop(diag.HopTerminalStartup), sig(diag.SigPTYFailed), ""},
		{"pty-delayed", t2, hop(diag.HopTerminalStartup, diag.HopBrowserTerminalWS),
			sig(diag.SigPTYFailed, diag.SigNodeStreamTimeout), ""},
		{"token-mint-failing", t3, hop(diag.HopTerminalTokenMint), sig(diag.SigTokenMintFailed), ""},
		{"task-backlog-stale", t3, trip, sig(diag.SigTaskBacklogStale), ""},
		{"task-unverifiable", t3, trip, sig(diag.SigTaskClaimFailed), ""},
		{"cloned-identity", t3, recovery, sig(diag.SigIdentityCloned), ""},
		{"ops-path-lost", t2, hop(diag.HopNodeOpsAccess), sig(diag.SigOpsSSHFailed), ""},
		{"workload-stopped", t2, hop(diag.HopAppRuntimeLiveness), sig(diag.SigAppStopped), ""},
		{"workload-route-broken", t3, hop(diag.HopAppUserRoute), sig(diag.SigAppRouteFailed), ""},
		{"release-with-open-terminal", t2, hop(diag.HopAllocationBinding), sig(diag.SigAllocationNotActive), ""},
		{"gpu-xid-fatal", t2, gpu, sig(diag.SigGPUUnhealthy), ""},
		{"gpu-xid-app", t2, nil, nil, ""},
		{"gpu-heat-warning", t2, gpu, sig(diag.SigGPUDegraded), ""},
		{"gpu-heat-critical", t2, gpu, sig(diag.SigGPUUnhealthy), ""},
		{"gpu-ecc-double-bit", t2, gpu, sig(diag.SigGPUUnhealthy), ""},
		{"gpu-remap-pending", t2, gpu, sig(diag.SigGPUDegraded), ""},
		{"gpu-remap-failure", t2, gpu, sig(diag.SigGPUUnhealthy), ""},
		{"gpu-nvlink-down", t2, gpu, sig(diag.SigGPUDegraded), ""},
		{"gpu-lost", t2, gpu, sig(diag.SigGPUUnhealthy), ""},
		{"gpu-reset-asked", t2, gpu, sig(diag.SigGPUUnhealthy), ""},
		{"gpu-probe-hang", t2, gpu, sig(diag.SigGPUUnknown), ""},
		{"gpu-library-missing", t2, gpu, sig(diag.SigGPUUnknown), ""},
		{"gpu-several", t2, gpu, sig(diag.SigGPUUnhealthy), ""},
		{"root-disk-full", t1, ready, sig(diag.SigDiskFull), "disk_full"},
		{"root-disk-pressure", t1, ready, sig(diag.SigDiskPressure), ""},
		{"root-inodes-exhausted", t1, ready, sig(diag.SigDiskFull), "disk_inodes"},
		{"ssh-stopped", t2, login, sig(diag.SigOpsSSHFailed), "tcp_refused"},
		{"ssh-frozen", t1, login, sig(diag.SigOpsSSHFailed), "timeout"},
		{"ssh-port-moved", t2, login, sig(diag.SigOpsSSHFailed), "tcp_refused"},
		{"ssh-key-refused", t2, login, sig(diag.SigOpsSSHFailed), "ssh_auth"},
		{"ssh-user-denied", t2, login, sig(diag.SigOpsSSHFailed), "ssh_auth"},
		{"ssh-account-denied", t2, login, sig(diag.SigOpsSSHFailed), "ssh_transport"},
		{"ssh-kex-mismatch", t2, login, sig(diag.SigOpsSSHFailed), "ssh_transport"},
		{"ssh-forced-command", t2, login, sig(diag.SigOpsSSHFailed), "ssh_exec"},
		{"ssh-sessions-refused", t2, login, sig(diag.SigOpsSSHFailed), "ssh_exec"},
		{"sudo-refused", t2, login, sig(diag.SigOpsSSHFailed), "not_permitted"},
		{"login-shell-unusable", t2, login, sig(diag.SigOpsSSHFailed), "ssh_exec"},
		{"ssh-command-hangs", t2, login, sig(diag.SigOpsSSHFailed), ""},
		{"three-faults", t2, ready, sig(diag.SigDiskFull), "disk_full"}, // several things at once
	}
}

func builtin(t *testing.T) map[string]Scenario {
	t.Helper()
	all, err := Load(os.DirFS("../scenarios"), "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]Scenario{}
	for _, s := range all {
		byID[s.Metadata.ID] = s
	}
	return byID
}

// TestCatalogue compares every file with its row, and allows no file without one.
func TestCatalogue(t *testing.T) {
	files := builtin(t)
	for _, want := range catalogue() {
		s, ok := files[want.id]
		if !ok {
			t.Errorf("%s: no file", want.id)
			continue
		}
		delete(files, want.id)
		e := s.Expect
		if want.hops == nil {
			if !e.Blame.None {
				t.Errorf("%s: blames %s, want nothing", want.id, e.Blame)
			}
			continue
		}
		status := map[diag.Signal]diag.Status{diag.SigGPUDegraded: diag.StatusWarn,
			diag.SigGPUUnknown: diag.StatusInconclusive}[want.signal[0]] // of others: a failing hop
		if e.Blame.None || !slices.Equal(e.Blame.Hop, want.hops) || !slices.Equal(e.Blame.Signal, want.signal) ||
			e.Blame.Status != status {
			t.Errorf("%s: blames %s, want %v %v", want.id, e.Blame, want.hops, want.signal)
		}
		for _, w := range e.Blame.Failure {
			if !strings.HasPrefix(string(w), want.word) {
				t.Errorf("%s: failure %s, want %s", want.id, w, want.word)
			}
		}
		if want.word != "" && len(e.Blame.Failure) == 0 {
			t.Errorf("%s: any failure will do, want %s", want.id, want.word)
		}
	}
	for id := range files {
		t.Errorf("%s: the catalogue has no such drill", id)
	}
}

// TestCatalogueSaysMore checks the catalogue's further details of single rows, in addition to their blame.
func TestCatalogueSaysMore(t *testing.T) {
	browser := []diag.HopID{diag.HopBrowserTerminalWS}
	first := map[string][]diag.HopID{
		"agent-stopped":            {diag.HopNodeHeartbeat, diag.HopNodeReadiness}, // the first once it is stale
		"terminal-egress-blocked":  browser,
		"terminal-resolve-removed": browser,
	}
	reason := map[string]diag.ReasonCode{
		"wrong-public-edge": diag.ReasonEndpointProfileDrift,
		"ingress-ca-drift":  diag.ReasonCertUntrustedByIngress,
		"cloned-identity":   diag.ReasonClonedIdentity,
	}
	gravest := []string{"ingress-ca-drift", "cloned-identity"}
	for id, s := range builtin(t) {
		if want, said := first[id]; said && !slices.Equal(s.Expect.FirstFailedHop, want) {
			t.Errorf("%s: %v fails first, want %v", id, s.Expect.FirstFailedHop, want)
		}
		if want, named := reason[id]; named && !slices.Equal(s.Expect.Reason, []diag.ReasonCode{want}) {
			t.Errorf("%s: reason %v, want %s", id, s.Expect.Reason, want)
		}
		if is, want := s.Metadata.Severity == string(diag.P0), slices.Contains(gravest, id); is != want {
			t.Errorf("%s: severity %s", id, s.Metadata.Severity)
		}
	}
}

// TestTiers: no planned step has a weaker tier than the catalogue has for its drill, or than its kind declares,
// unless the scenario says that the machine may be lost.
func TestTiers(t *testing.T) {
	files := builtin(t)
	for _, want := range catalogue() {
		s := files[want.id]
		for _, target := range planned(t, &s).Targets {
			for _, st := range target.Drill.Steps {
				if st.Tier > want.tier {
					t.Errorf("%s: %s on %s is %s, the catalogue says %s", want.id, st.ID, target.ID, st.Tier, want.tier)
				}
				if k, _ := KindOf(st.Fault); st.Tier > k.Tier && !s.Target.Disposable {
					t.Errorf("%s: %s on %s is %s, its kind says %s", want.id, st.ID, target.ID, st.Tier, k.Tier)
				}
			}
		}
	}
}

// TestEveryDrillAssertsWhatAllMust: every drill has a time limit, one correlation id, a control probe, a proof of
// the repair, and an existing section in the runbook.
func TestEveryDrillAssertsWhatAllMust(t *testing.T) {
	runbook, err := fs.ReadFile(os.DirFS("../docs"), "runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for id, s := range builtin(t) {
		page, anchor, _ := strings.Cut(s.Metadata.Runbook, "#")
		if page != "docs/runbook.md" || !strings.Contains(string(runbook), "\n### "+anchor+"\n") {
			t.Errorf("%s: the runbook has no %s", id, s.Metadata.Runbook)
		}
		if !s.Expect.SameCorrelationID || s.Expect.MustStayGreen.IsZero() {
			t.Errorf("%s: want one correlation id, and something that stays green", id)
		}
		if slices.Equal(s.VerifyInjected.Probe.Probe, s.VerifyInjected.Control.Probe) &&
			s.VerifyInjected.View == s.VerifyInjected.Control.View {
			t.Errorf("%s: the control is the probe itself", id)
		}
		if len(s.Recovery.AllowedChanges) > 0 && !s.Target.Disposable {
			t.Errorf("%s: changes are left on a machine that is not disposable", id)
		}
	}
}
