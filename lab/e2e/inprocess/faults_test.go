//go:build linux

package inprocess

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/golden"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// fault is one way to break a world, and the expected verdict.
type fault struct {
	name    string
	options options
	do      func(t *testing.T, w *world)

	hop        diag.HopID
	signal     diag.Signal
	failure    diag.Failure // of the blame; "" where any will do
	confidence diag.Confidence
	reason     diag.ReasonCode // "" where any will do
	others     []diag.HopID    // further findings of their own
	green      []diag.HopID    // must pass whatever else fails
}

func (f fault) check(t *testing.T, r *diag.Report) {
	t.Helper()
	v := r.Verdict
	bad := func(format string, args ...any) { t.Helper(); t.Errorf(format, args...) }
	if v.Outcome != diag.OutcomeFail || v.Blame == nil {
		t.Fatalf("outcome %s, want fail\n%s", v.Outcome, describe(r))
	}
	if v.Blame.Hop != f.hop || v.Blame.Signal != f.signal {
		bad("blame %s %s, want %s %s", v.Blame.Hop, v.Blame.Signal, f.hop, f.signal)
	}
	if f.failure != "" && v.Blame.Failure != f.failure {
		bad("failure %s, want %s", v.Blame.Failure, f.failure)
	}
	if v.Confidence != f.confidence || (v.Confidence == diag.Proven) != (v.Proof != nil) {
		bad("confidence %s with proof %v, want %s", v.Confidence, v.Proof, f.confidence)
	}
	if f.reason != "" && v.Reason != f.reason {
		bad("reason %s, want %s", v.Reason, f.reason)
	}
	if v.Owner == "" || len(v.Recovery) == 0 || v.Reason == "" {
		bad("owner %q, recovery %v, reason %q: each must say something", v.Owner, v.Recovery, v.Reason)
	}
	var others []diag.HopID
	for _, o := range v.OtherFindings {
		others = append(others, o.Hop)
	}
	if !slices.Equal(others, f.others) {
		bad("other findings at %v, want %v", others, f.others)
	}
	for _, s := range golden.UnknownAddresses(r) {
		bad("nobody named that place: %s", s)
	}
	for _, id := range f.green {
		if h := resultOf(t, r, id); h.Status != diag.StatusPass {
			bad("%s is %s, and must stay green: %s%s", id, h.Status, h.Text, h.Because)
		}
	}
	if t.Failed() {
		t.Logf("\n%s", describe(r))
	}
}

func (f fault) run(t *testing.T) {
	t.Parallel()
	w := start(t, f.options)
	if f.do != nil {
		f.do(t, w)
	}
	began := time.Now()
	f.walked(t, w.walk(t))
	t.Logf("the walk took %s", time.Since(began))
}

// walked checks a report, and that a second judgement gives the same verdict.
func (f fault) walked(t *testing.T, r *diag.Report) {
	t.Helper()
	f.check(t, r)
	again, err := verdict.Replay(hops.BuiltIn(), r)
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	if b, a := r.Verdict, again.Verdict; b.Outcome != a.Outcome || b.Confidence != a.Confidence ||
		!slices.Equal(b.Symptoms, a.Symptoms) {
		t.Errorf("%s %s, and %s %s when it is judged again", b.Outcome, b.Confidence, a.Outcome, a.Confidence)
	}
}

// runTwice is run with two walks at once, which must name the same fault.
func (f fault) runTwice(t *testing.T) {
	t.Parallel()
	w := start(t, f.options)
	if f.do != nil {
		f.do(t, w)
	}
	for _, r := range w.atOnce(t, 2) {
		if r.Run.EndedBy != diag.EndedCompleted {
			t.Errorf("the walk ended by %s", r.Run.EndedBy)
		}
		f.walked(t, r)
	}
}

// runtime and node are hops that a fault elsewhere must not touch.
var (
	runtime = []diag.HopID{diag.HopAppRuntimeLiveness, diag.HopAppUserRoute}
	remote  = []diag.HopID{diag.HopControlPlaneAccess, diag.HopAllocationBinding, diag.HopNodeHeartbeat,
		diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS, diag.HopTerminalOpenTask, diag.HopGatewayNodeStream,
		diag.HopAppUserRoute}
)

// answer makes a front respond in place of the platform, to requests whose URL path contains path.
func answer(f *platformtest.Front, path string, status int, header ...string) {
	f.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, path) {
			return false
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"error":{"code":"made_up","message":"by a test"}}`))
		return true
	})
}

// short reduces the time limit of hops that wait for a silent peer.
func short(hops ...diag.HopID) func(*profile.Profile) {
	return func(p *profile.Profile) {
		for _, h := range hops {
			p.Budgets[h] = 5 * time.Second
		}
	}
}

// TestOperatorThrottled: a rate limiter in front of the API is not blamed on the API or the node.
func TestOperatorThrottled(t *testing.T) {
	t.Parallel()
	w := start(t, options{})
	answer(w.platform.APIEdge, "/", 429, "Retry-After", "7")
	r := w.walk(t)
	first := resultOf(t, r, diag.HopControlPlaneAccess)
	if r.Verdict.Outcome != diag.OutcomeInconclusive || r.Verdict.Blame != nil ||
		!strings.Contains(first.Because, "throttles this operator") {
		t.Errorf("%s: %s\n%s", r.Verdict.Outcome, first.Because, describe(r))
	}
	for _, id := range []diag.HopID{diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus, diag.HopNodeTerminalReachability} {
		if h := resultOf(t, r, id); h.Status != diag.StatusPass {
			t.Errorf("%s is %s: %s%s", id, h.Status, h.Text, h.Because)
		}
	}
}

// TestFaults: two walks at once name the same fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		t.Run(f.name, f.runTwice)
	}
}

// faults are those of the platform, its edge, the allocation and the workload.
func faults() []fault {
	noStream := options{noStream: true, profile: short(diag.HopNodeTaskRoundtrip)}
	// The agent has to take the task within it.
	roundtrip := options{profile: func(p *profile.Profile) { p.Budgets[diag.HopNodeTaskRoundtrip] = 15 * time.Second }}
	return []fault{
		{
			name: "control plane stopped", do: func(t *testing.T, w *world) {
				if err := w.platform.Stop(); err != nil {
					t.Fatal(err)
				}
			},
			// The gateway is down as well; only its own silence shows that.
			hop: diag.HopControlPlaneAccess, signal: diag.SigControlPlaneUnreachable, confidence: diag.Observed,
			others: []diag.HopID{diag.HopTerminalPublicRoute, diag.HopNodeTerminalReachability},
			green:  []diag.HopID{diag.HopNodeReadiness},
		},
		{
			name: "operator's token wrong", do: func(t *testing.T, w *world) {
				write(t, w.platform.OperatorTokenFile, "not-the-token")
			},
			hop: diag.HopControlPlaneAccess, signal: diag.SigOperatorAuthFailed, confidence: diag.Observed,
		},
		{
			name:    "allocation released",
			options: options{platform: func(o *platformtest.Options) { o.Allocations[0].State = "released" }},
			hop:     diag.HopAllocationBinding, signal: diag.SigAllocationNotActive, confidence: diag.Observed,
		},
		{
			name: "node throttled", options: noStream, do: func(_ *testing.T, w *world) {
				answer(w.platform.Ingress, "/", 429, "Retry-After", "7")
			},
			hop: diag.HopNodeRecoveryStatus, signal: diag.SigEdgeRateLimited, failure: diag.HTTPRateLimited,
			confidence: diag.Observed, green: runtime,
		},
		{
			name: "result post blocked", options: roundtrip, do: func(_ *testing.T, w *world) {
				answer(w.platform.Ingress, "/result", 503)
			},
			hop: diag.HopNodeTaskRoundtrip, signal: diag.SigResultPostFailed, confidence: diag.Likely, green: runtime,
		},
		{
			name: "mint broken", do: func(_ *testing.T, w *world) { answer(w.platform.APIEdge, "/terminal-token", 500) },
			hop: diag.HopTerminalTokenMint, signal: diag.SigTokenMintFailed, failure: diag.HTTPStatus, confidence: diag.Likely,
			green: runtime,
		},
		{
			name: "terminal route missing", do: func(_ *testing.T, w *world) { answer(w.platform.TerminalEdge, "/", 404) },
			hop: diag.HopTerminalPublicRoute, signal: diag.SigPublicRouteMissing, confidence: diag.Likely, green: runtime,
		},
		{
			name: "upgrade rejected", do: func(_ *testing.T, w *world) { answer(w.platform.TerminalEdge, "/v1/terminal/", 403) },
			hop: diag.HopBrowserTerminalWS, signal: diag.SigUpgradeFailed, failure: diag.WSUpgradeRejected,
			confidence: diag.Likely, green: runtime,
		},
		{
			name: "redis lost", do: func(t *testing.T, w *world) { w.loseRedis(t) },
			hop: diag.HopBrowserTerminalWS, signal: diag.SigUpgradeFailed, confidence: diag.Observed, green: runtime,
		},
		{
			name: "terminal refuses certificates", options: options{noStream: true, platform: func(o *platformtest.Options) {
				inner := o.Config
				o.Config = func(c *platform.Config) { inner(c); c.PKI.TerminalClientCA = c.PKI.NodeCABundle }
			}},
			hop: diag.HopNodeTerminalReachability, signal: diag.SigNodeStreamMTLS, failure: diag.MTLSUnknownCA,
			confidence: diag.Proven, green: runtime,
		},
		{
			name: "user missing", options: options{osUser: "gone"},
			hop: diag.HopTerminalStartup, signal: diag.SigPTYFailed, failure: diag.UserMissing, confidence: diag.Proven,
			green: runtime,
		},
		{
			name: "workload stopped", do: func(t *testing.T, w *world) {
				w.workload.pid = 0
				w.workload.run(t, "inactive/dead")
			},
			hop: diag.HopAppRuntimeLiveness, signal: diag.SigAppStopped, failure: diag.UnitInactive, confidence: diag.Likely,
			green: []diag.HopID{diag.HopNodeTaskRoundtrip},
		},
		{
			name: "product route broken", do: func(_ *testing.T, w *world) { answer(w.platform.AppEdge, "/", 502) },
			hop: diag.HopAppUserRoute, signal: diag.SigAppRouteFailed, confidence: diag.Likely,
			green: []diag.HopID{diag.HopAppRuntimeLiveness, diag.HopNodeTaskRoundtrip},
		},
		{
			name:    "agent's process gone",
			options: options{noAgent: true, noStream: true, profile: short(diag.HopNodeTaskRoundtrip)},
			do: func(t *testing.T, w *world) {
				w.credential(w.platform.Issue(nodeID, platformtest.IssueOptions{}))
				w.agent.pid = 0
				w.agent.run(t, "inactive/dead")
			},
			hop: diag.HopNodeReadiness, signal: diag.SigProcessDown, failure: diag.UnitInactive,
			confidence: diag.Observed, green: runtime,
		},
		{
			name: "three at once", do: func(t *testing.T, w *world) {
				answer(w.platform.AppEdge, "/", 502)
				answer(w.platform.TerminalEdge, "/", 404)
				answer(w.platform.APIEdge, "/terminal-token", 500)
			},
			hop: diag.HopTerminalTokenMint, signal: diag.SigTokenMintFailed, confidence: diag.Likely,
			others: []diag.HopID{diag.HopTerminalPublicRoute, diag.HopAppUserRoute},
			green:  []diag.HopID{diag.HopAppRuntimeLiveness},
		},
	}
}

// TestIdentityFaults: faults of a node's credential, and of the platform's opinion of it.
func TestIdentityFaults(t *testing.T) {
	t.Parallel()
	quick := options{noStream: true, profile: short(diag.HopNodeTaskRoundtrip)}
	issue := func(o platformtest.IssueOptions) func(*testing.T, *world) {
		return func(_ *testing.T, w *world) { w.credential(w.platform.Issue(nodeID, o)) }
	}
	faults := []fault{
		{
			name: "certificate expired",
			do: issue(platformtest.IssueOptions{NotBefore: time.Now().Add(-2 * time.Hour),
				NotAfter: time.Now().Add(-time.Hour)}), confidence: diag.Observed, signal: diag.SigAuthFailed,
			failure: diag.MTLSCertExpired,
		},
		{
			name: "certificate not yet valid", do: issue(platformtest.IssueOptions{NotBefore: time.Now().Add(time.Hour)}),
			confidence: diag.Observed, signal: diag.SigAuthFailed, failure: diag.MTLSCertNotYetValid,
		},
		{name: "certificate of strangers", do: issue(platformtest.IssueOptions{OtherCA: true}),
			confidence: diag.Observed, signal: diag.SigAuthFailed, failure: diag.MTLSIngress400},
		{name: "certificate of another node", do: issue(platformtest.IssueOptions{CommonName: "compute-node-77"}),
			confidence: diag.Observed, signal: diag.SigAuthFailed, failure: diag.FileMismatch},
		{name: "key of another certificate", do: func(t *testing.T, w *world) {
			key, err := os.ReadFile(w.platform.Issue(nodeID, platformtest.IssueOptions{}).KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(w.dir, "key.pem"), string(key))
		}, confidence: diag.Observed, signal: diag.SigAuthFailed},
		{
			name:    "listener that does not ask",
			options: options{nodeEnv: func(w *world, env map[string]string) { env["GPUAAS_API_URL"] = w.platform.APIBase }},
			signal:  diag.SigEndpointProfileDrift, reason: diag.ReasonEndpointProfileDrift, confidence: diag.Proven,
		},
	}
	for code, want := range map[string]struct {
		signal     diag.Signal
		reason     diag.ReasonCode
		confidence diag.Confidence
	}{
		wire.DenyExpired: {diag.SigAuthFailed, diag.ReasonRecoveryTokenMissing, diag.Likely},
		// its one token was used to enroll
		wire.DenyNotNodeBound:    {diag.SigAuthFailed, "", diag.Likely},
		wire.DenyRevoked:         {diag.SigAuthFailed, diag.ReasonIdentityRevokedOrFenced, diag.Observed},
		wire.DenyFenced:          {diag.SigAuthFailed, diag.ReasonIdentityRevokedOrFenced, diag.Observed},
		wire.DenyRetired:         {diag.SigAuthFailed, diag.ReasonIdentityRevokedOrFenced, diag.Observed},
		wire.DenyCloned:          {diag.SigIdentityCloned, "", diag.Observed},
		wire.DenyProfileMismatch: {diag.SigAuthFailed, diag.ReasonEndpointProfileDrift, diag.Likely},
	} {
		faults = append(faults, fault{name: "denied " + code, signal: want.signal, reason: want.reason,
			confidence: want.confidence, do: func(t *testing.T, w *world) {
				w.platform.SetIdentity(nodeID, code)
			}})
	}
	for _, f := range faults {
		f.hop, f.green = diag.HopNodeRecoveryStatus, runtime
		if f.confidence == "" {
			f.confidence = diag.Likely
		}
		if f.options.nodeEnv == nil {
			f.options = quick
		}
		t.Run(f.name, f.run)
	}
}

// TestTrustFaults: faults of a node's trust bundle, and of its peers.
func TestTrustFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{
			name: "stale bundle", options: options{noStream: true, profile: short(diag.HopNodeTaskRoundtrip)},
			do: func(t *testing.T, w *world) {
				other := platformtest.StartPlatform(t, platformtest.Options{})
				write(t, filepath.Join(w.dir, "ca-bundle.crt"), other.CAPEM)
			},
			hop: diag.HopNodeRuntimeAPI, signal: diag.SigAPITLSFailed, failure: diag.TLSUnknownCA, confidence: diag.Proven,
			green: runtime,
		},
		{
			name: "terminal URL of the public edge", options: options{nodeEnv: func(w *world, env map[string]string) {
				env["GPUAAS_TERMINAL_API_URL"] = w.platform.TerminalBase
			}},
			hop: diag.HopNodeTerminalReachability, signal: diag.SigTerminalProfileDrift, confidence: diag.Proven, green: runtime,
		},
		{
			name: "API port closed", options: options{nodeEnv: func(_ *world, env map[string]string) {
				env["GPUAAS_API_URL"] = "https://127.0.0.1:1"
			}},
			hop: diag.HopNodeRuntimeAPI, signal: diag.SigAPIUnreachable, failure: diag.TCPRefused, confidence: diag.Proven,
			green: runtime, reason: diag.ReasonEndpointProfileDrift,
		},
		{
			// Nothing listens at the API's address of agent and profile. The other listener responds, so the API's
			// listener is the fault.
			name: "API listener gone", options: options{
				nodeEnv: func(_ *world, env map[string]string) { env["GPUAAS_API_URL"] = "https://127.0.0.1:1" },
				profile: func(p *profile.Profile) { p.NodeRuntimeAPIURL = "https://127.0.0.1:1" },
			},
			hop: diag.HopNodeRuntimeAPI, signal: diag.SigAPIUnreachable, failure: diag.TCPRefused, confidence: diag.Proven,
			green: runtime,
		},
		{
			name: "API name unknown",
			options: options{nodeEnv: func(_ *world, env map[string]string) {
				env["GPUAAS_API_URL"] = "https://node-api.invalid"
			}}, hop: diag.HopNodeRuntimeAPI, signal: diag.SigAPIUnreachable, confidence: diag.Proven, green: runtime,
			reason: diag.ReasonEndpointProfileDrift,
		},
		{
			name: "ingress trusts another CA", options: options{noStream: true, profile: short(diag.HopNodeTaskRoundtrip)},
			do: func(_ *testing.T, w *world) {
				w.platform.Ingress.Trust([]byte(w.platform.CAPEM))
				w.platform.WriteIngressCA([]byte(w.platform.CAPEM))
			},
			hop: diag.HopNodeRecoveryStatus, signal: diag.SigIngressCADrift, confidence: diag.Proven, green: runtime,
		},
	} {
		t.Run(f.name, f.run)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
