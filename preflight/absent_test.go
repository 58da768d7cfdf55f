package preflight

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
)

// mappedOnly is a healthy vantage that answers with the fields that are requested, and fails the test if a request's
// target is not made from a mapped path.
type mappedOnly struct {
	scripted
	t       *testing.T
	set     []string
	mapping profile.Mapping
}

// answeredAt has the paths that each listener of a platform serves, by the listener's base URL at either vantage.
var answeredAt = map[string][]string{
	"https://api.test": {
		profile.PathHealthz, profile.PathAllocation, profile.PathNode, profile.PathNodeGPU, profile.PathNodeTasks,
		profile.PathTask, profile.PathTrust, profile.PathEvidence, profile.PathSessionEvidence, profile.PathTerminalToken,
		profile.PathTerminalSession,
	},
	"https://term.test":          {profile.PathTerminalHealthz, profile.PathTerminalWS},
	"${GPUAAS_API_URL}":          {profile.PathHealthz, profile.PathTaskWait},
	"${GPUAAS_TERMINAL_API_URL}": {profile.PathNodeTerminal},
}

var placeholder = regexp.MustCompile(`\\\{\w+\\\}`)

// mapped reports whether a request's target is made from a mapped path of its listener.
func (v *mappedOnly) mapped(req diag.Request) bool {
	for base, names := range answeredAt {
		rest, ok := strings.CutPrefix(req.Target, base)
		for _, name := range names {
			template := v.mapping.Paths[name]
			form := "^" + placeholder.ReplaceAllString(regexp.QuoteMeta(template), `[^/?&]+`) + "$"
			if ok && template != profile.Absent && regexp.MustCompile(form).MatchString(rest) {
				return true
			}
		}
	}
	return false
}

func (v *mappedOnly) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	for _, req := range reqs {
		switch req.Op {
		case diag.OpHTTP, diag.OpWS, diag.OpSession:
			if !v.mapped(req) && !strings.HasPrefix(req.ID, "app_user_route/") {
				v.t.Errorf("without %v: %s sends %s %q", v.set, req.ID, req.Method, req.Target)
			}
		case "":
			v.t.Errorf("without %v: an empty request is sent as %s", v.set, req.ID)
		}
	}
	facts := v.scripted.Probe(ctx, reqs)
	for i := range facts {
		f := &facts[i]
		if f.HTTP != nil {
			if strings.HasPrefix(f.ID, "allocation_binding/allocation") {
				f.HTTP.Fields["allocation.app_endpoint"] = "http://127.0.0.1:8888"
			}
			if f.ID == "node_heartbeat/read_model" {
				f.HTTP.Fields["node.last_heartbeat_at"] = f.HTTP.Fields["node.last_seen_at"]
			}
			maps.DeleteFunc(f.HTTP.Fields, func(name, _ string) bool { return f.Request.Extract[name] == "" })
		}
		if f.ID == "node_runtime_api_reachability/reach" && f.Request.Op == diag.OpTLS {
			f.Failure, f.Phase, f.HTTP, f.TLS = diag.OK, "", nil, &diag.TLSFacts{Verified: true}
		}
	}
	return facts
}

// walkWithout walks a healthy platform that lacks the named paths and fields.
func walkWithout(t *testing.T, set []string, o hop.Options) *diag.Report {
	e := testEnv()
	for _, n := range set {
		if _, path := e.Profile.Mapping.Paths[n]; path {
			e.Profile.Mapping.Paths[n] = profile.Absent
		} else {
			e.Profile.Mapping.Fields[n] = profile.Absent
		}
	}
	e.Subject.SessionID = "sess-0"
	v := map[string]hop.Vantage{}
	for _, name := range []string{hop.Operator, hop.Node} {
		v[name] = &mappedOnly{scripted{name: name}, t, set, e.Profile.Mapping}
	}
	plan := hops.BuiltIn().NewPlan(e.Profile, e.Subject, o)
	facts, ended := walkPlan(t, e, plan, v, nil)
	walk.Evidence(t.Context(), e, v[hop.Operator])
	r := &diag.Report{Subject: e.Subject, Plan: plan, Facts: facts,
		Run: diag.Run{CorrelationID: e.CorrelationID, EndedBy: ended}}
	verdict.Judge(hops.BuiltIn(), r)
	return r
}

// TestNothingIsSentToAnAbsentPath walks a healthy platform without paths and fields of the mapping: each alone, all,
// and random sets. Every request goes to a mapped path, nothing fails, and no action is due. A walk that lacks one
// thing passes, and its plan and report name that thing wherever they leave out a step or a hop.
func TestNothingIsSentToAnAbsentPath(t *testing.T) {
	d := profile.DefaultMapping()
	paths, fields := slices.Sorted(maps.Keys(d.Paths)), slices.Sorted(maps.Keys(d.Fields))
	every := slices.Concat(paths, fields)
	full := hop.Options{Session: true, Token: true, SSH: true}
	check := func(set []string, o hop.Options) *diag.Report {
		r := walkWithout(t, set, o)
		if r.Verdict.Outcome == diag.OutcomeFail || r.Verdict.Blame != nil || r.Verdict.Reason != diag.ReasonNone {
			t.Fatalf("without %v: %s, reason %s\n%s", set, r.Verdict.Outcome, r.Verdict.Reason, describe(r))
		}
		return r
	}
	for _, set := range [][]string{paths, fields, every} {
		check(set, full)
	}
	lacking := wanted()
	for _, n := range every {
		r := check([]string{n}, full)
		if r.Verdict.Outcome != diag.OutcomePass {
			t.Errorf("without %s: %s\n%s", n, r.Verdict.Outcome, describe(r))
		}
		for _, id := range lacking[n] {
			planned := (&hop.Case{Plan: r.Plan}).Planned(id)
			if plannedText := fmt.Sprint(planned.Skip, planned.Left, planned.Absent); !strings.Contains(plannedText, n) {
				t.Errorf("without %s: the plan of %s says %s", n, id, plannedText)
			}
			if h := hopOf(r, id); !strings.Contains(fmt.Sprint(h.Because, h.Steps), n) {
				t.Errorf("without %s: %s is %s: %s %v", n, id, h.Status, h.Because, h.Steps)
			}
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	draws := 1000
	if testing.Short() { // the race detector's run: the code is the same
		draws = 150
	}
	for range draws {
		share := rng.Float64()
		set := slices.DeleteFunc(slices.Clone(every), func(string) bool { return rng.Float64() > share })
		o := hop.Options{Session: rng.IntN(4) > 0, Token: rng.IntN(4) > 0, SSH: rng.IntN(4) > 0}
		check(set, o)
	}
}

// wanted returns, by path and field of the platform, the hops that need it for a step or a judgement.
func wanted() map[string][]diag.HopID {
	out := map[string][]diag.HopID{}
	for _, h := range hops.BuiltIn().List() {
		names := slices.Clone(h.Fields)
		for _, s := range h.Steps {
			names = append(append(names, s.Needs.Paths...), s.Needs.Fields...)
		}
		for _, n := range names {
			out[n] = append(out[n], h.ID)
		}
	}
	return out
}

// TestTokenAcceptedByNobody: the report calls the token accepted only if a mapped path answered a request with the
// token.
func TestTokenAcceptedByNobody(t *testing.T) {
	for set, want := range map[string]string{"": "the token is accepted", profile.PathTrust: "mapping.paths.trust",
		profile.PathHealthz: "the token is accepted"} {
		var away []string
		if set != "" {
			away = []string{set}
		}
		h := hopOf(walkWithout(t, away, hop.Options{Session: true, Token: true, SSH: true}), diag.HopControlPlaneAccess)
		if h.Status != diag.StatusPass || !strings.Contains(h.Text, want) ||
			(set == profile.PathTrust && strings.Contains(h.Text, "accepted")) {
			t.Errorf("without %q: %s %s", set, h.Status, h.Text)
		}
	}
}

// TestAgentThatNamesNoListener: an agent that runs without GPUAAS_* in its environment is configured in another way;
// steps that need a value are skipped, and nothing is blamed. Our own agent sets its API; a missing terminal URL is a
// fault if the platform has a terminal.
func TestAgentThatNamesNoListener(t *testing.T) {
	unset := func(f *diag.Fact) {
		*f = diag.Fact{ID: f.ID, Vantage: f.Vantage, Request: f.Request, At: f.At, DurationMS: 1, Failure: diag.FileMissing,
			Phase: "env", Detail: "GPUAAS_API_URL is not set in the agent's environment"}
	}
	const reach, stream, process = "node_runtime_api_reachability/reach", "node_terminal_reachability/stream",
		"node_readiness/process"
	down := func(f *diag.Fact) {
		f.Failure, f.Unit = diag.UnitInactive, &diag.UnitFacts{Active: "inactive", Sub: "dead"}
	}
	for name, tc := range map[string]struct {
		answers       answers
		api, terminal diag.Status
	}{
		"a foreign agent":    {answers{reach: unset, stream: unset}, diag.StatusSkipped, diag.StatusSkipped},
		"ours, no terminal":  {answers{stream: unset}, diag.StatusPass, diag.StatusFail},
		"ours, does not run": {answers{reach: unset, stream: unset, process: down}, diag.StatusFail, diag.StatusFail},
	} {
		r := walkWith(t, tc.answers)
		for id, want := range map[diag.HopID]diag.Status{diag.HopNodeRuntimeAPI: tc.api,
			diag.HopNodeTerminalReachability: tc.terminal} {
			h := hopOf(r, id)
			if h.Status != want || (want == diag.StatusSkipped &&
				(h.Steps[0].Status != want || !strings.Contains(h.Because, "GPUAAS_"))) {
				t.Errorf("%s: %s is %s, want %s (%s%s) %v", name, id, h.Status, want, h.Text, h.Because, h.Steps)
			}
		}
		if name == "a foreign agent" && (r.Verdict.Outcome == diag.OutcomeFail || r.Verdict.Reason != diag.ReasonNone) {
			t.Errorf("%s: %s, reason %s", name, r.Verdict.Outcome, r.Verdict.Reason)
		}
	}
}
