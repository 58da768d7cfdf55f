package preflight

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// recordings returns all recorded walks, judged by today's rules.
func recordings(t *testing.T) map[string]*diag.Report {
	t.Helper()
	out := map[string]*diag.Report{}
	for _, dir := range []string{"reports", "matrix"} {
		files, err := filepath.Glob(filepath.Join("..", "golden", dir, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no recordings in %s: %v", dir, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r diag.Report
			if err := json.Unmarshal(data, &r); err != nil {
				t.Fatal(err)
			}
			again, err := verdict.Replay(hops.BuiltIn(), &r)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			out[dir+"/"+filepath.Base(file)] = again
		}
	}
	return out
}

// breaks are ways in which a measurement fails, as any probe reports them.
var breaks = []struct {
	name string
	do   func(*diag.Fact)
}{
	{"dns", failWith(diag.DNSTimeout, "dns")},
	{"nxdomain", failWith(diag.DNSNXDomain, "dns")},
	{"tcp timeout", failWith(diag.TCPTimeout, "tcp")},
	{"refused", failWith(diag.TCPRefused, "tcp")},
	{"untrusted", failWith(diag.TLSUnknownCA, "tls")},
	{"http timeout", failWith(diag.HTTPTimeout, "http")},
	{"502", answerOf(502, diag.HTTPEdgePage)},
	{"503", answerOf(503, diag.HTTPStatus)},
	{"429", answerOf(429, diag.HTTPRateLimited)},
	{"403", answerOf(403, diag.HTTPStatus)},
	{"404", answerOf(404, diag.HTTPStatus)},
	{"login", answerOf(302, diag.HTTPEdgeAuth)},
	{"timeout", func(f *diag.Fact) { failWith(diag.Timeout, "")(f); f.TCP, f.SSH = nil, nil }},
	{"denied", func(f *diag.Fact) { failWith(diag.NotPermitted, "")(f); f.TCP = nil }},
	{"stale", func(f *diag.Fact) {
		if f.HTTP != nil && f.HTTP.Fields["node.last_seen_at"] != "" {
			f.HTTP.Fields["node.last_seen_at"] = "2026-01-02T11:00:00Z"
		}
	}},
	{"no stream", func(f *diag.Fact) {
		switch f.ID {
		case "browser_terminal_ws/session":
			streamTimeout(f)
		case "terminal_open_task/session":
			noStream(f)
		}
	}},
}

func answerOf(code int, failure diag.Failure) func(*diag.Fact) {
	return func(f *diag.Fact) {
		failWith(failure, "http")(f)
		f.HTTP = &diag.HTTPFacts{Status: code}
	}
}

// masked returns the judged report of a healthy walk in which some facts are broken. It has all other facts, even those
// that a walk would not have measured after the failure.
func masked(t testing.TB, healthyFacts []diag.Fact, broken map[string]func(*diag.Fact)) *diag.Report {
	t.Helper()
	e := testEnv()
	r := &diag.Report{
		Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: testPlan(e),
		Run: diag.Run{ID: "run-1", CorrelationID: e.CorrelationID, StartedAt: diag.At(noon), EndedAt: diag.At(noon),
			EndedBy: diag.EndedCompleted},
	}
	for _, f := range healthyFacts {
		again := healthy(f.Request)
		again.Vantage = f.Vantage
		if do := broken[f.ID]; do != nil {
			do(&again)
		}
		r.Facts = append(r.Facts, again)
	}
	verdict.Judge(hops.BuiltIn(), r)
	return r
}

// drawn returns random reports with one to three things broken: most are walked step by step, and some are judged as
// they are.
func drawn(t *testing.T, n int) map[string]*diag.Report {
	t.Helper()
	out := map[string]*diag.Report{}
	rng := rand.New(rand.NewPCG(8, 11)) // a failure names its row, which holds what was broken
	base := walkWith(t, nil).Facts
	for i := range n {
		broken, name := answers{}, ""
		for range 1 + rng.IntN(3) {
			f, b := base[rng.IntN(len(base))], breaks[rng.IntN(len(breaks))]
			if f.SSH != nil && b.name != "timeout" && b.name != "refused" && b.name != "tcp timeout" {
				continue
			}
			broken[f.ID] = b.do
			name += f.ID + " " + b.name + "; "
			if f.SSH != nil && rng.IntN(2) == 0 {
				broken["node_heartbeat/read_model"] = setField("node.last_seen_at", "2026-01-02T11:00:00Z")
				name += "and stale; "
			}
			if rng.IntN(3) == 0 { // requests to one endpoint mostly break together
				for _, k := range base {
					if k.Vantage == f.Vantage && hop.HostPortOf(reading.Target(&k)) != "" &&
						hop.HostPortOf(reading.Target(&k)) == hop.HostPortOf(reading.Target(&f)) {
						broken[k.ID] = b.do
					}
				}
				name += "all there; "
			}
		}
		if i%4 == 0 {
			out[name+"as it is"] = masked(t, base, broken)
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(broken)) { // a counter-probe mostly gets the result of its probe
			do := broken[id]
			if rng.IntN(3) > 0 {
				for _, k := range []string{reading.CounterPinned, reading.CounterHostView, reading.CounterFromOperator,
					reading.CounterProfileURL} {
					broken[id+"~"+k] = do
				}
				name += id + " for all; "
			}
		}
		out[name] = walkWith(t, broken)
	}
	return out
}

// everyReport returns the reports to which the rules of this file apply.
func everyReport(t *testing.T) map[string]*diag.Report {
	t.Helper()
	draws := 500
	if testing.Short() {
		draws = 80
	}
	out := drawn(t, draws)
	out["the machine is gone"] = walkWith(t, answers{
		"node_heartbeat/read_model": setField("node.last_seen_at", "2026-01-02T11:00:00Z"),
		"node_ops_access/ssh":       func(f *diag.Fact) { failWith(diag.TCPTimeout, "tcp")(f); f.SSH = nil },
		"node_task_roundtrip/task":  nobodyClaims,
	})
	for name, r := range recordings(t) {
		out[name] = r
	}
	return out
}

// orders match steps that use the platform's API.
var orders = regexp.MustCompile(`recovery bundle|re-enroll|self-update task|app runtime`)

// repeated match a line of ruled_out, and steps that look for what it excludes.
var repeated = []struct{ line, step *regexp.Regexp }{
	{regexp.MustCompile(`^name look-up: `), regexp.MustCompile(`\bDNS\b|look-up|getent ahosts|resolver`)},
	{regexp.MustCompile(`^network path: `), regexp.MustCompile(`\broute\b|\bVPN\b|firewall`)},
	{regexp.MustCompile(`^server certificate: `), regexp.MustCompile(`operator_ca|-CAfile|certificate that it shows`)},
	{regexp.MustCompile(`^allocation_binding: `), regexp.MustCompile(`allocation's state`)},
	{regexp.MustCompile(`^node_terminal_reachability: `), regexp.MustCompile(`node-facing terminal endpoint`)},
	{regexp.MustCompile(`^node_recovery_status: `), regexp.MustCompile(`node's certificate`)},
	{regexp.MustCompile(`^node_runtime_api_reachability: `), regexp.MustCompile(`repair route, DNS`)},
}

// TestReportsAgreeWithThemselves checks all recordings, and walks with random breaks.
func TestReportsAgreeWithThemselves(t *testing.T) {
	all := everyReport(t)
	t.Run("steps", func(t *testing.T) { stepsFit(t, all) })
	t.Run("ruled out", func(t *testing.T) { ruledOutIsNotTheProof(t, all) })
	t.Run("texts", func(t *testing.T) { noTextContradictsAPassingFact(t, all) })
}

// stepsFit: every walk that did not pass names an owner and a first step; no step needs what the report says is broken,
// and none looks for what it rules out.
func stepsFit(t *testing.T, all map[string]*diag.Report) {
	t.Helper()
	for name, r := range all {
		v := r.Verdict
		if v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn {
			continue
		}
		if v.Owner == "" || len(v.Recovery) == 0 || v.Recovery[0] == "" {
			t.Errorf("%s: %s, owner %q, steps %q\n%s", name, v.Outcome, v.Owner, v.Recovery, describe(r))
		}
		hops := byID(r.Hops)
		ssh, api := hops[diag.HopNodeOpsAccess].Status, hops[diag.HopControlPlaneAccess].Status
		for _, step := range v.Recovery {
			if (ssh == diag.StatusFail || ssh == diag.StatusInconclusive) && strings.Contains(step, "`ssh ") {
				t.Errorf("%s: no login on the node works (%s), and a step needs one: %s", name, ssh, step)
			}
			if (api == diag.StatusFail || api == diag.StatusInconclusive) && orders.MatchString(step) {
				t.Errorf("%s: the API does not work (%s), and a step needs it: %s", name, api, step)
			}
			for _, line := range v.RuledOut {
				for _, rule := range repeated {
					if rule.line.MatchString(line) && rule.step.MatchString(step) {
						t.Errorf("%s: ruled out is %q, and a step repeats it: %s", name, line, step)
					}
				}
			}
		}
	}
}

// ruledOutIsNotTheProof: ruled_out has each line once, and none says that the input made no difference that the proof
// changed.
func ruledOutIsNotTheProof(t *testing.T, all map[string]*diag.Report) {
	t.Helper()
	for name, r := range all {
		v := r.Verdict
		seen := map[string]bool{}
		for _, line := range v.RuledOut {
			if seen[line] {
				t.Errorf("%s: ruled out twice: %q", name, line)
			}
			seen[line] = true
			if v.Proof != nil && strings.HasPrefix(line, v.Proof.Changed+": with ") {
				t.Errorf("%s: proven by another %s, and ruled out is %q", name, v.Proof.Changed, line)
			}
		}
	}
}

// conclusions are words with which a text claims more than its own fact, and a function that finds a passing fact that
// contradicts the claim. It does not use the table in claim.go.
var conclusions = []struct {
	words  string
	denied func(r *diag.Report, f *diag.Fact) string
}{
	{"the control plane is at fault", func(r *diag.Report, _ *diag.Fact) string {
		return firstFact(r, func(f *diag.Fact) bool {
			node := (f.Vantage == hop.Node && strings.HasPrefix(f.ID, "node_runtime_api_reachability/") &&
				!strings.Contains(f.ID, "~other-listener") && f.Request.Op != diag.OpGetent && // of the API
				(f.Failure == diag.OK || reading.InPhase(f, "mtls"))) ||
				(f.ID == "node_recovery_status/task_wait" && f.HTTP != nil && f.HTTP.Status > 0 && f.HTTP.Status < 500)
			return node || (f.Vantage == hop.Operator && f.Failure == diag.OK && strings.HasPrefix(f.Request.Target,
				"https://api."))
		})
	}},
	{"on the operator's network path", func(_ *diag.Report, f *diag.Fact) string {
		if (f.HTTP != nil && f.HTTP.Status > 0) || (f.TLS != nil && f.TLS.Verified) {
			return f.ID
		}
		return ""
	}},
	{"on this node's path", sameEndpointPasses(hop.Node)},
	{"the fault is not this node's", sameEndpointPasses(hop.Operator)},
	{"the machine or its network", func(r *diag.Report, _ *diag.Fact) string {
		return firstFact(r, func(f *diag.Fact) bool { return f.Vantage == hop.Node && f.Failure == diag.OK && !f.Empty() })
	}},
	{"so it is not down", func(r *diag.Report, _ *diag.Fact) string {
		if st := byID(r.Hops)[diag.HopNodeHeartbeat].Status; st != diag.StatusPass && st != diag.StatusWarn {
			return "node_heartbeat is " + string(st)
		}
		return ""
	}},
	{"so no stream arrived", func(r *diag.Report, _ *diag.Fact) string {
		return firstFact(r, func(f *diag.Fact) bool {
			return f.ID == "node_terminal_reachability/stream" && (f.Failure == diag.OK ||
				reading.Code(f) == "session_not_found")
		})
	}},
	{"the listener answers", func(r *diag.Report, f *diag.Fact) string {
		reach := firstFact(r, func(k *diag.Fact) bool {
			return k.ID == "node_runtime_api_reachability/reach" && (k.Failure == diag.OK || k.HTTP != nil ||
				reading.InPhase(k, "mtls"))
		})
		if reach == "" && (f.HTTP == nil || f.HTTP.Status == 0) {
			return "nothing says that it answers"
		}
		return ""
	}},
}

func firstFact(r *diag.Report, is func(*diag.Fact) bool) string {
	for i := range r.Facts {
		if is(&r.Facts[i]) {
			return r.Facts[i].ID
		}
	}
	return ""
}

func sameEndpointPasses(vantage string) func(*diag.Report, *diag.Fact) string {
	return func(r *diag.Report, f *diag.Fact) string {
		return firstFact(r, func(k *diag.Fact) bool {
			return k.Vantage == vantage && k.Failure == diag.OK && !strings.Contains(k.ID, "~") &&
				hop.HostPortOf(reading.Target(k)) != "" &&
				hop.HostPortOf(reading.Target(k)) == hop.HostPortOf(reading.Target(f))
		})
	}
}

// noTextContradictsAPassingFact: no finding draws a conclusion that a passing fact of its walk forbids.
func noTextContradictsAPassingFact(t *testing.T, all map[string]*diag.Report) {
	t.Helper()
	used := map[string]int{}
	for name, r := range all {
		facts := map[string]*diag.Fact{}
		for i := range r.Facts {
			facts[r.Facts[i].ID] = &r.Facts[i]
		}
		for _, h := range r.Hops {
			for _, f := range append([]diag.Finding{h.Finding}, h.Also...) {
				for _, c := range conclusions {
					if !strings.Contains(f.Text+f.Because, c.words) {
						continue
					}
					used[c.words]++
					if why := c.denied(r, facts[f.Evidence[0]]); why != "" {
						t.Errorf("%s: %s says %q, and %s speaks against it", name, h.ID, f.Text, why)
					}
				}
			}
		}
	}
	for _, c := range conclusions {
		if used[c.words] == 0 && c.words != "so no stream arrived" {
			t.Errorf("nothing here made a walk say %q: the test shows nothing of it", c.words)
		}
	}
	t.Logf("said: %v", used)
}

// locating matches words that claim the location of a fault. They belong in the table of claims, beside the facts that
// forbid them.
var locating = regexp.MustCompile(
	`so (the fault|the gateway|this is the|it is (the|not)|only the|something|that is the|the control plane|the machine)|the fault is`)

// TestClaimsAreInTheirTable: no judge has such words in its own code.
func TestClaimsAreInTheirTable(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	inTable := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "vantage") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || !locating.MatchString(lit.Value) {
				return true
			}
			if filepath.Base(file) == "claim.go" {
				inTable++
			} else {
				t.Errorf("%s: %s locates a fault without its row in claim.go", file, lit.Value)
			}
			return true
		})
	}
	if inTable == 0 {
		t.Error("the table of claims has no such words: the pattern fits nothing")
	}
}

// needsBySteps returns the hops that any step of a hop needs, directly or through others, and the hops in its Behind.
func needsBySteps(chain []hop.Hop, id diag.HopID) []diag.HopID {
	var all []diag.HopID
	next := []diag.HopID{id}
	for len(next) > 0 {
		for i := range chain {
			if chain[i].ID != next[0] {
				continue
			}
			for _, s := range chain[i].Steps {
				for _, n := range s.Needs.Hops {
					if !slices.Contains(all, n) {
						all, next = append(all, n), append(next, n)
					}
				}
			}
		}
		next = next[1:]
	}
	return all
}

// TestSilenceOfANeedIsNoBlameOfWhatNeedsIt breaks every hop in every way, while each hop that it needs, or that may
// explain it, gives no answer. The blame is never a hop with a need that gave no answer, and a missing answer is never
// a fail.
func TestSilenceOfANeedIsNoBlameOfWhatNeedsIt(t *testing.T) {
	chain := hops.BuiltIn().List()
	base := walkWith(t, nil).Facts
	silences := []string{"http timeout", "timeout", "503"}
	masks, silentBlames := 0, 0
	for i, broke := range base {
		of, _, _ := strings.Cut(broke.ID, "/")
		if broke.SSH != nil || (testing.Short() && i%6 != 0) { // the race detector's run: the code is the same
			continue
		}
		needs := needsBySteps(chain, diag.HopID(of))
		may := append(append(slices.Clone(needs), hop.Closure(chain, diag.HopID(of))...),
			hop.In(chain, diag.HopID(of)).Behind...)
		for _, b := range breaks {
			for _, quiet := range base {
				by, _, _ := strings.Cut(quiet.ID, "/")
				if by == of || quiet.SSH != nil || !slices.Contains(may, diag.HopID(by)) {
					continue
				}
				for _, s := range breaks {
					if !slices.Contains(silences, s.name) {
						continue
					}
					masks++
					r := masked(t, base, answers{broke.ID: b.do, quiet.ID: s.do})
					name := fmt.Sprintf("%s %s, while %s is silent (%s)", broke.ID, b.name, quiet.ID, s.name)
					if checkSilence(t, name, chain, r, quiet.ID) {
						silentBlames++
					}
				}
			}
		}
	}
	if !testing.Short() && (masks < 500 || silentBlames < 50) {
		t.Errorf("%d masks, of which %d blame a silence: too few to show anything", masks, silentBlames)
	}
	t.Logf("%d masks, %d blame a silence", masks, silentBlames)
}

// checkSilence reports whether the verdict blames a hop that gave no answer.
func checkSilence(t *testing.T, name string, chain []hop.Hop, r *diag.Report, quiet string) bool {
	t.Helper()
	v, hops := r.Verdict, byID(r.Hops)
	by, _, _ := strings.Cut(quiet, "/")
	silent := hops[diag.HopID(by)].Status == diag.StatusInconclusive
	b := v.Blame
	switch {
	case b == nil:
		if silent && v.Outcome != diag.OutcomeInconclusive {
			t.Errorf("%s: outcome %s without a blame\n%s", name, v.Outcome, describe(r))
		}
		return false
	case silent && slices.Contains(needsBySteps(chain, b.Hop), diag.HopID(by)):
		t.Errorf("%s: the blame lies at %s, which needs it\n%s", name, b.Hop, describe(r))
	case b.Status == diag.StatusInconclusive && v.Outcome != diag.OutcomeInconclusive,
		b.Status == "" && v.Outcome != diag.OutcomeFail:
		t.Errorf("%s: the blame is %q and the outcome %s\n%s", name, b.Status, v.Outcome, describe(r))
	case b.Status == "" && hops[b.Hop].Status != diag.StatusFail,
		b.Status == diag.StatusInconclusive && hops[b.Hop].Status != diag.StatusInconclusive:
		t.Errorf("%s: the blame is %q, and %s is %s", name, b.Status, b.Hop, hops[b.Hop].Status)
	}
	for _, s := range v.Symptoms {
		if hops[s].Status != diag.StatusFail {
			t.Errorf("%s: %s is a symptom, and is %s", name, s, hops[s].Status)
		}
	}
	if v.Outcome == diag.OutcomeInconclusive { // every failure is a symptom of another
		explained := slices.Clone(v.Symptoms)
		for _, o := range v.OtherFindings {
			explained = append(explained, o.Symptoms...)
		}
		for _, h := range r.Hops {
			if h.Status == diag.StatusFail && !slices.Contains(explained, h.ID) {
				t.Errorf("%s: inconclusive, and nothing explains %s\n%s", name, h.ID, describe(r))
			}
		}
	}
	return b.Status == diag.StatusInconclusive
}
