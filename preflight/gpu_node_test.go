package preflight

import (
	"context"
	"encoding/json"
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

const gpuNodeID, gpuJudgedID = "gpu_health/node", "gpu_health/judged"

// walkGPU walks an environment with a changed profile.
func walkGPU(t *testing.T, change func(*profile.Profile), of answers) *diag.Report {
	t.Helper()
	return inMadeUpTime(t, func(t *testing.T) *diag.Report {
		e := testEnv()
		change(&e.Profile)
		vantages := map[string]hop.Vantage{}
		for _, v := range []string{hop.Operator, hop.Node, hop.Platform} {
			vantages[v] = &scripted{name: v, answers: of}
		}
		plan := testPlan(e)
		facts, ended := walk.Walk(t.Context(), e, plan, vantages, nil)
		r := &diag.Report{Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
			Run: diag.Run{ID: "run-1", CorrelationID: e.CorrelationID, StartedAt: diag.At(noon), EndedAt: diag.At(noon),
				EndedBy: ended}}
		verdict.Judge(hops.BuiltIn(), r)
		return r
	})
}

func nodeGPUs(change func(*diag.GPUFacts)) answers {
	return answers{gpuNodeID: func(f *diag.Fact) { change(f.GPU) }}
}

// TestTheNodeAndThePlatformDisagree: the node's own evidence keeps the platform's HEALTHY from being a pass, once the
// platform had time to receive it. Missing evidence of the node changes nothing.
func TestTheNodeAndThePlatformDisagree(t *testing.T) {
	gone := func(since time.Duration) answers {
		return nodeGPUs(func(g *diag.GPUFacts) {
			g.Probe, g.ProbeWhy, g.ProbeAt = "unknown", "library_not_found", diag.At(noon.Add(-since))
		})
	}
	one, hour := int64(1), time.Hour.Milliseconds()
	for name, tc := range map[string]struct {
		of     answers
		status diag.Status
		text   string
	}{
		"agree": {nil, diag.StatusPass, "2 GPUs healthy"},
		"the library is missing": {gone(10 * time.Minute), diag.StatusInconclusive,
			"the platform reports HEALTHY with 2 GPUs, but the node contradicts it: its GPU probe is unknown " +
				"(library_not_found) for 10m"},
		"since a moment": {gone(time.Minute), diag.StatusPass, ""},
		"one less": {nodeGPUs(func(g *diag.GPUFacts) { g.Count = &diag.GPUReading{Value: &one} }), diag.StatusInconclusive,
			"its driver counts 1"},
		"one lost": {nodeGPUs(func(g *diag.GPUFacts) { g.GPUs[1].Lost = true }), diag.StatusInconclusive,
			"GPU 1 (0000:02:00.0) is lost"},
		"not sampled": {nodeGPUs(func(g *diag.GPUFacts) { g.AgeMS = &hour }),
			diag.StatusInconclusive, "last sampled 1h"},
		"an earlier boot": {nodeGPUs(func(g *diag.GPUFacts) {
			g.EarlierBoot, g.AgeMS = true, &hour
		}), diag.StatusPass, ""},
		"no file": {answers{gpuNodeID: func(f *diag.Fact) {
			f.GPU, f.Failure, f.Phase = &diag.GPUFacts{Path: "/x"}, diag.FileMissing, "read"
		}}, diag.StatusPass, "2 GPUs healthy"},
		"no login": {answers{"node_ops_access/ssh": func(f *diag.Fact) {
			f.SSH, f.Failure, f.Phase = nil, diag.TCPTimeout, "tcp"
		}}, diag.StatusPass, "2 GPUs healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hopOf(walkWith(t, tc.of), diag.HopGPUHealth)
			if h.Status != tc.status || !strings.Contains(h.Text+h.Because, tc.text) {
				t.Errorf("%s: %q", h.Status, h.Text+h.Because)
			}
			if (h.Signal == diag.SigGPUUnknown) != (tc.status == diag.StatusInconclusive) {
				t.Errorf("signal %q", h.Signal)
			}
		})
	}
	unhealthy := gpuAnswer(fatalXID())
	unhealthy[gpuNodeID] = gone(10 * time.Minute)[gpuNodeID]
	if h := hopOf(walkWith(t, unhealthy), diag.HopGPUHealth); h.Status != diag.StatusFail {
		t.Errorf("a GPU that the platform knows to be bad: %s %q", h.Status, h.Because)
	}
}

// TestGPUsJudgedHere: if the profile names a policy, the node's facts are judged by it, with the texts of a platform's
// judgement, and the platform is not asked.
func TestGPUsJudgedHere(t *testing.T) {
	own := func(p *profile.Profile) { p.GPU.Policy = "strict" }
	judged := func(health, about, what string) answers {
		return answers{gpuJudgedID: func(f *diag.Fact) {
			f.GPUJudged = &diag.GPUJudged{Health: health, Policy: "strict", Document: json.RawMessage(
				`{"gpus":[{"about":"gpu","index":3,"health":"` + health + `"}],"decided_by":{"subject":{"about":"` + about +
					`","what":"` + what + `"},"health":"` + health + `","rule":"r","why":"w"}}`)}
		}}
	}
	for name, tc := range map[string]struct {
		of     answers
		status diag.Status
		text   string
	}{
		"healthy": {nil, diag.StatusPass, "2 GPUs healthy by the policy default; last sample 12s ago"},
		"unhealthy": {judged("UNHEALTHY", "event", "xid 79"), diag.StatusFail,
			"the GPUs are unhealthy by the policy strict: xid 79: w (rule r); not healthy: GPU 3; last sample 12s ago"},
		"degraded": {judged("DEGRADED", "gpu", "GPU 3"), diag.StatusWarn, "degraded by the policy strict: GPU 3"},
		"unknown":  {judged("UNKNOWN", "node", "the kernel log"), diag.StatusInconclusive, "not known: the kernel log: w"},
		"no program": {answers{gpuJudgedID: func(f *diag.Fact) {
			f.GPUJudged, f.Failure, f.Phase, f.Detail = nil, diag.Unknown, "judge", "there is no gpuaas-gpu-policy"
		}}, diag.StatusInconclusive, "could not be judged: there is no gpuaas-gpu-policy"},
		"no evidence":  {nodeGPUs(func(g *diag.GPUFacts) { g.Evidence = nil }), diag.StatusNotReached, "no evidence"},
		"another word": {judged("FINE", "node", "x"), diag.StatusInconclusive, "FINE"},
		"a document that is none": {answers{gpuJudgedID: func(f *diag.Fact) {
			f.GPUJudged = &diag.GPUJudged{Health: "HEALTHY", Document: json.RawMessage(strings.Repeat("[", 9999))}
		}}, diag.StatusInconclusive, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkGPU(t, own, tc.of)
			h := hopOf(r, diag.HopGPUHealth)
			if h.Status != tc.status || !strings.Contains(h.Text+h.Because, tc.text) {
				t.Errorf("%s: %q", h.Status, h.Text+h.Because)
			}
			if diag.FactsByID(r.Facts)["gpu_health/admission"] != nil {
				t.Error("the platform is asked")
			}
			s := diag.FactsByID(r.Facts)[gpuJudgedID]
			if s != nil && (s.Request.Target != "strict" || s.Request.Since.IsZero()) {
				t.Errorf("%+v", s.Request)
			}
		})
	}
	v := walkGPU(t, own, judged("UNHEALTHY", "event", "xid 79")).Verdict
	if v.Blame == nil || v.Blame.Hop != diag.HopGPUHealth || v.Confidence != diag.Observed {
		t.Errorf("%+v, %s", v.Blame, v.Confidence)
	}
}

// TestNobodyJudgesGPUs: without a judging platform and without a policy, the facts are shown and the hop is skipped.
func TestNobodyJudgesGPUs(t *testing.T) {
	r := walkGPU(t, func(p *profile.Profile) { p.Mapping.Paths[profile.PathNodeGPU] = profile.Absent }, nil)
	h := hopOf(r, diag.HopGPUHealth)
	if h.Status != diag.StatusSkipped || !strings.Contains(h.Because, "GPUs are not judged here") ||
		!strings.Contains(h.Because, "the node itself: GPUs 2, driver 535.161.08, probe sampling") {
		t.Errorf("%s: %q", h.Status, h.Because)
	}
	if r.Verdict.Outcome != diag.OutcomePass || diag.FactsByID(r.Facts)[gpuNodeID].Request.Evidence {
		t.Errorf("%s", r.Verdict.Outcome)
	}
	// Without a login the finding is the same.
	r = walkGPU(t, func(p *profile.Profile) { p.Mapping.Paths[profile.PathNodeGPU] = profile.Absent },
		answers{"node_ops_access/ssh": failWith(diag.SSHAuth, "ssh")})
	if h := hopOf(r, diag.HopGPUHealth); h.Status != diag.StatusSkipped {
		t.Errorf("without a login: %s: %q", h.Status, h.Because)
	}
}

// late is a node with a slow login: every request waits for it, and then takes some time itself.
type late struct {
	scripted
	login <-chan struct{}
}

func (l *late) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := l.scripted.Probe(ctx, reqs)
	select {
	case <-l.login:
	case <-ctx.Done():
	}
	if hop, _, _ := strings.Cut(reqs[0].ID, "/"); hop != string(diag.HopNodeOpsAccess) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			facts[0].Failure = diag.Cancelled
		}
	}
	return facts
}

// TestASlowLoginCostsNoGPUs: the platform answers long before the login, which takes longer than the hop's budget. A
// request behind the login has its own time.
func TestASlowLoginCostsNoGPUs(t *testing.T) {
	r := inMadeUpTime(t, func(t *testing.T) *diag.Report {
		login := make(chan struct{})
		time.AfterFunc(8*time.Second, func() { close(login) })
		return walk.Run(t.Context(), testJob(map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator},
			hop.Node: &late{scripted{name: hop.Node}, login}}))
	})
	h := hopOf(r, diag.HopGPUHealth)
	if h.Status != diag.StatusPass || len(h.Steps) < 2 || h.Steps[1].Status != diag.StatusPass {
		t.Errorf("%s %s, %+v", h.Status, h.Because, h.Steps)
	}
	// The hop's time is that of its own steps.
	diag.FactsByID(r.Facts)[gpuNodeID].OffsetMS = 8000
	verdict.Judge(hops.BuiltIn(), r)
	if h = hopOf(r, diag.HopGPUHealth); int64(h.DurationMS) > h.BudgetMS || h.DurationMS < 1 {
		t.Errorf("%d ms of %d", h.DurationMS, h.BudgetMS)
	}
}

// TestPlanNamesWhoJudgesGPUs: the plan reports that the tool does not judge GPUs, and that the platform does where it
// can.
func TestPlanNamesWhoJudgesGPUs(t *testing.T) {
	for path, byPlatform := range map[string]bool{"": true, profile.Absent: false} {
		p := profile.Profile{}
		if path != "" {
			p.Mapping.Paths = map[string]string{profile.PathNodeGPU: path}
		}
		plan := hops.BuiltIn().NewPlan(p, hop.NewSubject(p, "node-1", "10.0.0.1", "", ""), hop.Options{Token: true,
			SSH: true})
		i := slices.IndexFunc(plan.Hops, func(h diag.PlannedHop) bool { return h.ID == diag.HopGPUHealth })
		why := plan.Hops[i].Left[hop.StepGPUJudged]
		if !strings.Contains(why, "no gpu.policy") || strings.Contains(why, "the platform judges") != byPlatform {
			t.Errorf("node_gpu %q: %q", path, why)
		}
	}
}
