package compare

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// recorded returns a report of a real machine.
func recorded(t *testing.T, name string) *diag.Report {
	t.Helper()
	data, err := os.ReadFile("../../golden/reports/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	r := &diag.Report{}
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// changed returns the healthy recording after change.
func changed(t *testing.T, change func(r *diag.Report)) *diag.Report {
	t.Helper()
	r := recorded(t, "healthy")
	change(r)
	return r
}

// factOf returns one fact of r.
func factOf(t *testing.T, r *diag.Report, id string) *diag.Fact {
	t.Helper()
	f := diag.FactsByID(r.Facts)[id]
	if f == nil {
		t.Fatalf("no fact %s", id)
	}
	return f
}

const (
	reachID   = "node_runtime_api_reachability/reach"
	binaryID  = "node_readiness/binary"
	processID = "node_readiness/process"
	healthzID = "control_plane_access/healthz"
)

// TestDiffNamesWhatWasBroken: between a healthy machine and a broken one, the thing that was broken is among the
// changes, and is listed before the hops that fail because of it.
func TestDiffNamesWhatWasBroken(t *testing.T) {
	base := recorded(t, "healthy")
	for _, c := range []struct {
		fault string
		kind  diag.ChangeKind
		after string
	}{
		{"stale-ca-bundle", diag.ChangeTrustBundle, "1 certificates"},
		{"api-name-elsewhere", diag.ChangeDNSAnswer, "10.231.77.102"},
		{"terminal-url-wrong", diag.ChangeEndpoint, "https://term.gpuaas.test:18444"},
		{"wrong-public-edge", diag.ChangeEndpoint, "https://api.gpuaas.test"},
		{"host-key-changed", diag.ChangeHostKey, "SHA256:"},
		{"ingress-ca-drift", diag.ChangeIngressCAs, "CN=somebody-else"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			d := Diff(base, recorded(t, c.fault), nil)
			at := slices.IndexFunc(d.Changes, func(ch diag.Change) bool {
				return ch.Kind == c.kind && ch.Regression && strings.HasPrefix(ch.After, c.after)
			})
			failed := slices.IndexFunc(d.Changes, func(ch diag.Change) bool {
				return ch.Kind == diag.ChangeStatus && ch.After == "fail"
			})
			if !d.Comparable || at < 0 || failed < at {
				t.Errorf("change %d, first failed hop %d of %+v", at, failed, d.Changes)
			}
		})
	}
}

// TestDiffOfItself: a walk compared with itself, and every recording with itself, has no change.
func TestDiffOfItself(t *testing.T) {
	for _, name := range []string{"healthy", "three-faults", "stale-ca-bundle", "ops-path-lost"} {
		r := recorded(t, name)
		if d := Diff(r, r, nil); !d.Comparable || len(d.Changes) != 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestEveryKindOfChange: one value is changed, and the diff has exactly that change. Every kind of the table has its
// row here.
func TestEveryKindOfChange(t *testing.T) {
	seen := map[diag.ChangeKind]bool{}
	for _, c := range []struct {
		name       string
		kind       diag.ChangeKind
		regression bool
		change     func(r *diag.Report)
	}{
		{"a hop fails", diag.ChangeStatus, true, func(r *diag.Report) { r.Hops[0].Status = diag.StatusFail }},
		{"a hop warns", diag.ChangeStatus, true, func(r *diag.Report) { r.Hops[0].Status = diag.StatusWarn }},
		{"another issuer", diag.ChangeServerIssuer, true, func(r *diag.Report) {
			factOf(t, r, reachID).TLS.Chain[0].Issuer = "CN=other"
		}},
		{"a renewed certificate", diag.ChangeServerCert, false, func(r *diag.Report) {
			factOf(t, r, reachID).TLS.Chain[0].Fingerprint = "ab"
		}},
		{"an older protocol", diag.ChangeTLSVersion, true, func(r *diag.Report) {
			factOf(t, r, reachID).TLS.Version = "TLS 1.2"
		}},
		{"another bundle", diag.ChangeTrustBundle, true, func(r *diag.Report) {
			f := factOf(t, r, reachID)
			f.TLS.TrustRoots = f.TLS.TrustRoots[:1]
		}},
		{"another signing CA", diag.ChangePlatformCA, true, func(r *diag.Report) {
			factOf(t, r, "control_plane_access/auth").HTTP.Fields["trust.signing_ca"] = "ab"
		}},
		{"another ingress CA", diag.ChangeIngressCAs, true, func(r *diag.Report) {
			factOf(t, r, reachID).TLS.AcceptableCAs = []string{"CN=x"}
		}},
		{"another node CA", diag.ChangeNodeIssuer, true, func(r *diag.Report) {
			factOf(t, r, "node_recovery_status/identity").Cert.Leaf.Issuer = "CN=x"
		}},
		{"a renewed node certificate", diag.ChangeNodeCert, false, func(r *diag.Report) {
			factOf(t, r, "node_recovery_status/identity").Cert.Leaf.Serial = "ab"
		}},
		{"another host key", diag.ChangeHostKey, true, func(r *diag.Report) {
			factOf(t, r, "node_ops_access/ssh").SSH.HostKeySHA256 = "SHA256:x"
		}},
		{"another answer", diag.ChangeDNSAnswer, true, func(r *diag.Report) {
			factOf(t, r, reachID).DNS.Addresses = []string{"10.231.77.12"}
		}},
		{"another resolver", diag.ChangeResolver, true, func(r *diag.Report) {
			factOf(t, r, reachID).DNS.Server = "10.231.77.12:53"
		}},
		{"another source address", diag.ChangeRoute, true, func(r *diag.Report) {
			factOf(t, r, reachID).TCP.Local = "10.231.77.102:1"
		}},
		{"another URL", diag.ChangeEndpoint, true, func(r *diag.Report) {
			factOf(t, r, "node_recovery_status/profile").Env.Values["GPUAAS_API_URL"] = "https://x.test"
		}},
		{"another machine", diag.ChangeInstance, true, func(r *diag.Report) {
			factOf(t, r, "node_heartbeat/read_model").HTTP.Fields["node.instance_id"] = "ab"
		}},
		{"another program, the same version", diag.ChangeAgentBuild, true, func(r *diag.Report) {
			factOf(t, r, binaryID).Binary.SHA256 = "ab"
		}},
		{"a drop-in", diag.ChangeUnit, false, func(r *diag.Report) {
			factOf(t, r, processID).Unit.DropIns = []string{"/x.conf"}
		}},
		{"another shell", diag.ChangeUser, false, func(r *diag.Report) {
			factOf(t, r, "workload_terminal_startup_failure/user").User.Shell = "/bin/zsh"
		}},
		{"another nginx", diag.ChangeServer, false, func(r *diag.Report) { factOf(t, r, reachID).HTTP.Server = "nginx/2" }},
		{"a restart", diag.ChangeBoot, false, func(r *diag.Report) {
			factOf(t, r, "node_readiness/clock").Clock.BootID = "ab"
		}},
		{"an expectation", diag.ChangeProfile, false, func(r *diag.Report) {
			r.Subject.Expected["node_terminal_url"] = "https://x.test"
		}},
		{"a threshold", diag.ChangePolicy, false, func(r *diag.Report) { r.Plan.Policy["node.disk_pressure_percent"] = 80 }},
		{"a budget", diag.ChangeBudget, false, func(r *diag.Report) { r.Plan.Hops[0].BudgetMS++ }},
		{"this tool", diag.ChangeTool, false, func(r *diag.Report) { r.Run.ToolVersion = "v9" }},
	} {
		seen[c.kind] = true
		t.Run(c.name, func(t *testing.T) {
			d := Diff(recorded(t, "healthy"), changed(t, c.change), nil)
			if len(d.Changes) != 1 || d.Changes[0].Kind != c.kind || d.Changes[0].Regression != c.regression {
				t.Errorf("want one %s, regression %v: %+v", c.kind, c.regression, d.Changes)
			}
		})
	}
	for _, row := range diag.Changes() {
		gpu := strings.HasPrefix(string(row.Kind), "gpu")                         // TestGPUsCompareByGPU
		optional := row.Kind == diag.ChangeMachine || row.Kind == diag.ChangeLink // TestMachinesAndLinksCompare
		elsewhere := gpu || optional || row.Kind == diag.ChangeTiming || row.Kind == diag.ChangeFile
		if !seen[row.Kind] && !elsewhere {
			t.Errorf("no change of kind %s is tried", row.Kind)
		}
	}
}

// TestMachinesAndLinksCompare: what the optional hops measure of a machine and of its links.
func TestMachinesAndLinksCompare(t *testing.T) {
	with := func(kernel string, mtu int) *diag.Report {
		return changed(t, func(r *diag.Report) {
			f := factOf(t, r, "node_readiness/clock")
			f.Machine, f.Path = &diag.MachineFacts{Hostname: "n1", Kernel: kernel}, &diag.PathFacts{Interface: "eth0", MTU: mtu}
		})
	}
	for kind, after := range map[diag.ChangeKind]*diag.Report{
		diag.ChangeMachine: with("6.2", 1500), diag.ChangeLink: with("6.1", 9000),
	} {
		if d := Diff(with("6.1", 1500), after, nil); len(d.Changes) != 1 || d.Changes[0].Kind != kind {
			t.Errorf("want one %s: %+v", kind, d.Changes)
		}
	}
}

// TestSeenBefore: a change that a good walk has already seen is not a regression; an upgrade is not one either.
func TestSeenBefore(t *testing.T) {
	base := recorded(t, "healthy")
	moved := changed(t, func(r *diag.Report) { factOf(t, r, reachID).DNS.Addresses = []string{"10.231.77.12"} })
	d := Diff(base, moved, []*diag.Report{base, moved})
	if len(d.Changes) != 1 || d.Regressions() != 0 || !d.Changes[0].Known {
		t.Errorf("a second answer of a pool: %+v", d.Changes)
	}
	pool := func(addresses ...string) *diag.Report {
		return changed(t, func(r *diag.Report) { factOf(t, r, reachID).DNS.Addresses = addresses })
	}
	good := []*diag.Report{pool("192.0.2.1", "192.0.2.2"), pool("192.0.2.3", "192.0.2.2")}
	if d := Diff(good[0], pool("192.0.2.3", "192.0.2.1"), good); d.Regressions() != 0 || len(d.Changes) != 1 {
		t.Errorf("some of a pool that is known: %+v", d.Changes)
	}
	if d := Diff(good[0], pool("192.0.2.4", "192.0.2.1"), good); d.Regressions() != 1 {
		t.Errorf("one that no good walk has seen: %+v", d.Changes)
	}
	upgraded := changed(t, func(r *diag.Report) {
		b := factOf(t, r, binaryID).Binary
		b.SHA256, b.Running, b.Version = "ab", "ab", "v9"
	})
	if d := Diff(base, upgraded, nil); d.Regressions() != 0 || len(d.Changes) == 0 {
		t.Errorf("an upgrade: %+v", d.Changes)
	}
	better := Diff(changed(t, func(r *diag.Report) { r.Hops[0].Status = diag.StatusWarn }), base, nil)
	if len(better.Changes) != 1 || better.Regressions() != 0 {
		t.Errorf("a warning that is gone: %+v", better.Changes)
	}
}

// TestNotMeasuredIsNoChange: a measurement that one of the walks lacks is listed as not compared, and is not a change.
func TestNotMeasuredIsNoChange(t *testing.T) {
	base := recorded(t, "healthy")
	for i := range base.Facts {
		id := base.Facts[i].ID
		lacks := changed(t, func(r *diag.Report) { r.Facts = slices.Delete(r.Facts, i, i+1) })
		for _, d := range []*diag.Diff{Diff(base, lacks, nil), Diff(lacks, base, nil)} {
			listed := slices.ContainsFunc(d.NotCompared, func(n diag.NotCompared) bool { return n.Fact == id })
			if len(d.Changes) != 0 || !listed {
				t.Errorf("without %s: said %v, %+v", id, listed, d.Changes)
			}
		}
	}
	cut := changed(t, func(r *diag.Report) {
		f := factOf(t, r, reachID)
		f.TCP, f.TLS, f.HTTP, f.Failure, f.Phase = nil, nil, nil, diag.DNSTimeout, "dns"
	})
	d := Diff(base, cut, nil)
	if len(d.Changes) != 0 || d.NotCompared[0].What != "tcp, tls, http" ||
		!strings.Contains(d.NotCompared[0].Because, "did not answer in dns") {
		t.Errorf("a look-up that failed: %+v %+v", d.Changes, d.NotCompared)
	}
	gone := Diff(base, changed(t, func(r *diag.Report) {
		r.Hops[3].Status, r.Hops[3].Because = diag.StatusNotReached, "x"
	}), nil)
	if len(gone.Changes) != 0 || gone.NotCompared[0].Hop != base.Hops[3].ID {
		t.Errorf("a hop that was not reached: %+v", gone)
	}
}

// TestOnlyTheSameCompares: another subject, or a walk that leaves out what the baseline has, is not comparable; a walk
// that has more is comparable.
func TestOnlyTheSameCompares(t *testing.T) {
	base := recorded(t, "healthy")
	for _, c := range []struct {
		why    string
		change func(r *diag.Report)
	}{
		{"another node", func(r *diag.Report) { r.Subject.NodeID = "x" }},
		{"another allocation", func(r *diag.Report) { r.Subject.AllocationID = "" }},
		{"another profile", func(r *diag.Report) { r.Subject.EnvironmentProfile = "x" }},
		{"another environment of this name", func(r *diag.Report) {
			r.Subject.NodeInstanceID, r.Subject.Expected["signing_ca_fingerprint"] = "x", "x"
		}},
		{"leaves out node_readiness (in --skip)", func(r *diag.Report) {
			planned(r.Plan, diag.HopNodeReadiness).Skip = hop.SkipSkip
		}},
		{"leaves out node_readiness/disk (why)", func(r *diag.Report) {
			planned(r.Plan, diag.HopNodeReadiness).Left = map[string]string{"disk": "why"}
		}},
	} {
		d := Diff(base, changed(t, c.change), nil)
		if d.Comparable || !strings.Contains(d.Because, c.why) || len(d.Changes) != 0 {
			t.Errorf("%s: %+v", c.why, d)
		}
	}
	partial := changed(t, func(r *diag.Report) { planned(r.Plan, diag.HopNodeReadiness).Skip = hop.SkipSkip })
	if d := Diff(partial, base, nil); !d.Comparable {
		t.Errorf("more than the baseline: %+v", d)
	}
	for _, renewed := range []*diag.Report{
		changed(t, func(r *diag.Report) { r.Subject.NodeInstanceID = "x" }),
		changed(t, func(r *diag.Report) { r.Subject.Expected["signing_ca_fingerprint"] = "x" }),
		changed(t, func(r *diag.Report) {
			r.Subject.NodeInstanceID, r.Subject.Expected["signing_ca_fingerprint"] = "", "x"
		}),
	} {
		if d := Diff(base, renewed, nil); !d.Comparable {
			t.Errorf("the same environment with another machine or another CA: %+v", d)
		}
	}
	elsewhere := changed(t, func(r *diag.Report) {
		r.Vantages[0].Host = "laptop"
		factOf(t, r, healthzID).TCP.Local = "192.0.2.1:1"
	})
	if d := Diff(base, elsewhere, nil); !d.Comparable || len(d.Changes) != 0 ||
		!strings.Contains(d.NotCompared[0].Because, "laptop") {
		t.Errorf("from another machine: %+v", d)
	}
}

// runs returns n healthy walks whose times are base's, multiplied by noise.
func runs(t *testing.T, n int, noise func() float64) []*diag.Report {
	t.Helper()
	base := recorded(t, "healthy")
	factOf(t, base, reachID).DurationMS = 20 // however busy the machine of the recording was
	var out []*diag.Report
	for range n {
		r := *base
		r.Facts = slices.Clone(base.Facts)
		for i := range r.Facts {
			r.Facts[i].DurationMS = diag.Millis(math.Ceil(float64(r.Facts[i].DurationMS) * noise()))
		}
		out = append(out, &r)
	}
	return out
}

// TestSlowerThanNoise: one slow fact among steady ones is found, with the phase that grew; with fewer than five good
// walks times are not compared, which the diff states.
func TestSlowerThanNoise(t *testing.T) {
	steady := func() float64 { return 1 }
	slow := changed(t, func(r *diag.Report) {
		f := factOf(t, r, reachID)
		f.DurationMS, f.TLS.DurationMS = 300, 290
	})
	base := recorded(t, "healthy")
	before := factOf(t, base, reachID).TLS.DurationMS
	d := Diff(base, slow, runs(t, leastRuns, steady))
	if len(d.Changes) != 1 || d.Changes[0].Kind != diag.ChangeTiming || d.Changes[0].Field != "tls.duration_ms" ||
		!d.Changes[0].Regression ||
		d.Changes[0].Before != strconv.Itoa(int(before)) || d.Changes[0].After != "290" ||
		d.Changes[0].Noise.BoundMS != before+100 {
		t.Errorf("%+v", d.Changes)
	}
	few := Diff(base, slow, runs(t, leastRuns-1, steady))
	if len(few.Changes) != 0 ||
		!slices.ContainsFunc(few.NotCompared, func(n diag.NotCompared) bool {
			return n.What == "timing" && strings.Contains(n.Because, "4 kept")
		}) {
		t.Errorf("from four samples: %+v", few)
	}
	reused := changed(t, func(r *diag.Report) { // a new connection is not compared with a reused one
		f := factOf(t, r, reachID)
		f.DurationMS, f.TCP.Reused = 300, true
	})
	if d := Diff(base, reused, runs(t, leastRuns, steady)); len(d.Changes) != 0 {
		t.Errorf("unlike measurements: %+v", d.Changes)
	}
}

// TestNoiseIsNoNews draws walks from one noisy distribution, and counts how often a gate would give a false alarm, and
// how often it would miss a hop that takes five times as long and 200 ms more.
func TestNoiseIsNoNews(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) // the same draws in every run
	for _, c := range []struct {
		name   string
		kept   int
		sigma  float64 // of the logarithm
		alarms float64 // at most, per walk of 27 times
	}{
		{"a quiet network, five walks", 5, 0.2, 0},
		{"a quiet network, twenty walks", 20, 0.2, 0},
		{"a noisy network, five walks", 5, 0.4, 0.2},
		{"a noisy network, twenty walks", 20, 0.4, 0.08},
	} {
		// ten times the lab's times: tens to hundreds of ms
		noise := func() float64 { return 10 * math.Exp(c.sigma*rng.NormFloat64()) }
		rounds := 200
		if testing.Short() { // the race detector's run: the code is the same, and too few for a share
			rounds = 20
		}
		alarms, missed := 0, 0
		for range rounds {
			good := runs(t, c.kept, noise)
			now := runs(t, 1, noise)[0]
			if Diff(good[0], now, good).Regressions() > 0 {
				alarms++
				if !MayRegress(good[0], now) {
					t.Errorf("%s: a regression that the newest good walk rules out", c.name)
				}
			}
			f := factOf(t, now, reachID)
			f.DurationMS = f.DurationMS*5 + 200
			if Diff(good[0], now, good).Regressions() > 0 && !MayRegress(good[0], now) {
				t.Errorf("%s: a slow hop that the newest good walk rules out", c.name)
			}
			if !slices.ContainsFunc(Diff(good[0], now, good).Changes, func(ch diag.Change) bool {
				return slices.Contains(ch.Facts, reachID)
			}) {
				missed++
			}
		}
		t.Logf("%s: %d false alarms and %d misses in %d walks", c.name, alarms, missed, rounds)
		if !testing.Short() && (float64(alarms) > c.alarms*float64(rounds) || missed > rounds/10) {
			t.Errorf("%s: %d false alarms, %d misses in %d walks", c.name, alarms, missed, rounds)
		}
	}
}

// TestDiffIsPure: Diff changes neither report, returns the same diff each time, and does not depend on the order of the
// facts.
func TestDiffIsPure(t *testing.T) {
	base, now := recorded(t, "healthy"), recorded(t, "three-faults")
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := append(text(base), text(now)...)
	first := text(Diff(base, now, nil))
	if !bytes.Equal(before, append(text(base), text(now)...)) {
		t.Error("a report was changed")
	}
	if !bytes.Equal(first, text(Diff(base, now, nil))) {
		t.Error("twice is not the same")
	}
	slices.Reverse(base.Facts)
	if !bytes.Equal(first, text(Diff(base, now, nil))) {
		t.Error("the order of the baseline's facts matters")
	}
}

// TestReplayKeepsTheDiff: a replay keeps the diff, and the time of the last good walk comes from the report.
func TestReplayKeepsTheDiff(t *testing.T) {
	r := recorded(t, "stale-ca-bundle")
	r.Run.LastGoodAt = diag.At(noon)
	r.Diff = Diff(recorded(t, "healthy"), r, nil)
	again, err := verdict.Replay(hops.BuiltIn(), r)
	if err != nil {
		t.Fatal(err)
	}
	if again.Diff != r.Diff || !again.Dashboard.LastSuccessfulPreflightAt.Equal(noon) {
		t.Errorf("diff %v, last good %v", again.Diff, again.Dashboard.LastSuccessfulPreflightAt)
	}
	if fine, err := verdict.Replay(hops.BuiltIn(), changed(t,
		func(r *diag.Report) { r.Run.LastGoodAt = diag.At(noon) })); err != nil ||
		!fine.Dashboard.LastSuccessfulPreflightAt.Equal(fine.Run.EndedAt.Time) {
		t.Errorf("a walk that passes is the last good one itself: %v %v", fine.Dashboard, err)
	}
}

// noon is when the facts of tests were measured.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
