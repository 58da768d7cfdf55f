package preflight

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// gpuAnswer changes fields of a healthy admission document; "-" removes one.
func gpuAnswer(fields map[string]string) answers {
	return answers{"gpu_health/admission": func(f *diag.Fact) {
		maps.Copy(f.HTTP.Fields, fields)
		maps.DeleteFunc(f.HTTP.Fields, func(_, v string) bool { return v == "-" })
	}}
}

// refusedGPUs is an HTTP error in place of a document.
func refusedGPUs(status int, code string) answers {
	return answers{"gpu_health/admission": func(f *diag.Fact) {
		f.Failure, f.Phase = diag.HTTPStatus, "http"
		f.HTTP = &diag.HTTPFacts{Status: status, ErrorCode: code}
	}}
}

// fatalXID returns the fields of a document about a GPU that has fallen off the bus.
func fatalXID() map[string]string {
	return map[string]string{"gpu.health": "UNHEALTHY", "gpu.node_status": "UNHEALTHY", "gpu.decided_about": "event",
		"gpu.decided_what": "xid 79", "gpu.decided_index": "3", "gpu.decided_uuid": "GPU-c",
		"gpu.decided_pci": "0000:3b:00.0", "gpu.decided_rule": "fatal-error",
		"gpu.decided_why": "the GPU or the node is not usable"}
}

func butFor(fields map[string]string, more ...string) map[string]string {
	for i := 0; i+1 < len(more); i += 2 {
		fields[more[i]] = more[i+1]
	}
	return fields
}

// twoGPUs is a healthy GPU and one that is lost.
const twoGPUs = `[{"index":0,"uuid":"GPU-a","pci":"0000:3b:00.0","health":"HEALTHY"},` +
	`{"index":1,"uuid":"GPU-b","pci":"0000:5e:00.0","health":"UNHEALTHY","why":"it is lost"}]`

// TestGPUHealth: every health, mode and edge case of an admission document, and the walk's verdict on it.
func TestGPUHealth(t *testing.T) {
	never := map[string]string{"gpu.health": "UNKNOWN", "gpu.gpus": "[]", "gpu.expected": "-", "gpu.sampled_at": "-",
		"gpu.judged_at": "-", "gpu.decided_what": "the judgement",
		"gpu.decided_why": "the node has reported nothing about GPUs"}
	noLibrary := map[string]string{"gpu.health": "UNKNOWN", "gpu.gpus": "[]", "gpu.decided_about": "node",
		"gpu.decided_what": "the probe", "gpu.sampled_at": "-",
		"gpu.decided_why": "no GPU can be looked at: NVIDIA's library is library_not_found, return code 12"}
	long := strings.Repeat("x", 5000) + "\x1b[31m\nend"
	old := noon.Add(-time.Hour).Format(time.RFC3339Nano)
	for name, tc := range map[string]struct {
		answers answers
		status  diag.Status
		signal  diag.Signal
		outcome diag.Outcome
		text    string // in the text or the reason of the hop
	}{
		"healthy": {nil, diag.StatusPass, "", diag.OutcomePass,
			"2 GPUs healthy by the policy default; last sample 12s ago"},
		"one of two": {gpuAnswer(map[string]string{"gpu.expected": "3"}), diag.StatusPass, "", diag.OutcomePass,
			"2 GPUs of 3"},
		"lower case": {gpuAnswer(map[string]string{"gpu.health": "healthy"}),
			diag.StatusPass, "", diag.OutcomePass, "2 GPUs"},
		"degraded": {gpuAnswer(butFor(fatalXID(), "gpu.health", "DEGRADED", "gpu.decided_what", "xid 74")), diag.StatusWarn,
			diag.SigGPUDegraded, diag.OutcomeWarn, "xid 74 of GPU 3, 0000:3b:00.0, GPU-c: the GPU"},
		"unhealthy": {gpuAnswer(fatalXID()), diag.StatusFail, diag.SigGPUUnhealthy, diag.OutcomeFail,
			"xid 79 of GPU 3, 0000:3b:00.0, GPU-c: the GPU or the node is not usable (rule fatal-error)"},
		"no library": {gpuAnswer(noLibrary), diag.StatusInconclusive, diag.SigGPUUnknown, diag.OutcomeInconclusive,
			"library_not_found"},
		"no library, no number": {gpuAnswer(butFor(maps.Clone(noLibrary), "gpu.expected", "-")), diag.StatusInconclusive,
			diag.SigGPUUnknown, diag.OutcomeInconclusive, "library_not_found"},
		"no GPU by enrollment": {gpuAnswer(butFor(maps.Clone(noLibrary), "gpu.expected", "0")), diag.StatusSkipped, "",
			diag.OutcomePass, "should have no GPU"},
		"never reported": {gpuAnswer(never),
			diag.StatusSkipped, "", diag.OutcomePass, "has reported nothing about GPUs"},
		"never reported, two expected": {gpuAnswer(butFor(maps.Clone(never), "gpu.expected", "2")), diag.StatusInconclusive,
			diag.SigGPUUnknown, diag.OutcomeInconclusive, "has reported nothing about GPUs"},
		"an old judgement": {gpuAnswer(map[string]string{"gpu.judged_at": old}), diag.StatusInconclusive, diag.SigGPUUnknown,
			diag.OutcomeInconclusive, "is 1h0m0s old"},
		"shadow, unhealthy": {gpuAnswer(butFor(fatalXID(), "gpu.mode", "shadow")), diag.StatusSkipped, "", diag.OutcomePass,
			"shadow mode, on which nothing acts; it calls the GPUs UNHEALTHY: xid 79"},
		"shadow, healthy": {gpuAnswer(map[string]string{"gpu.mode": "shadow"}), diag.StatusSkipped, "", diag.OutcomePass,
			"it calls the GPUs HEALTHY"},
		"a refused policy": {gpuAnswer(map[string]string{"gpu.policy_refused": `["p.yaml:3: unknown field"]`}),
			diag.StatusPass, "", diag.OutcomePass, "rejected, so the previous one is in use: p.yaml:3: unknown field"},
		"not judged": {refusedGPUs(404, "gpu_not_judged"),
			diag.StatusSkipped, "", diag.OutcomePass, "judges no GPUs"},
		"no such path": {refusedGPUs(404, ""), diag.StatusSkipped, "", diag.OutcomePass, "nothing about GPUs"},
		"no such verb": {refusedGPUs(405, ""), diag.StatusSkipped, "", diag.OutcomePass, "nothing about GPUs"},
		"an error": {refusedGPUs(503, "unavailable"),
			diag.StatusInconclusive, "", diag.OutcomeInconclusive, "HTTP 503"},
		"forbidden": {refusedGPUs(403, "forbidden"),
			diag.StatusInconclusive, "", diag.OutcomeInconclusive, "HTTP 403"},
		"no health": {gpuAnswer(map[string]string{"gpu.health": "-"}),
			diag.StatusInconclusive, "", diag.OutcomeInconclusive, "gpu.health"},
		"another word": {gpuAnswer(map[string]string{"gpu.health": "OK"}),
			diag.StatusInconclusive, "", diag.OutcomeInconclusive, `"OK"`},
		"one of two is lost, and another error decides": {gpuAnswer(butFor(fatalXID(), "gpu.gpus", twoGPUs,
			"gpu.decided_about", "node", "gpu.decided_what", "the node", "gpu.decided_index", "-", "gpu.decided_uuid", "-",
			"gpu.decided_pci", "-", "gpu.expected", "3")),
			diag.StatusFail, diag.SigGPUUnhealthy, diag.OutcomeFail, "; not healthy: GPU 1 (0000:5e:00.0, GPU-b); 1 not " +
				"reported, unlike GPU 0 (0000:3b:00.0, GPU-a), GPU 1 (0000:5e:00.0, GPU-b); last sample"},
		"the lost one decides": {gpuAnswer(butFor(fatalXID(), "gpu.gpus", twoGPUs, "gpu.decided_index", "1",
			"gpu.decided_uuid", "GPU-b", "gpu.decided_pci", "0000:5e:00.0", "gpu.expected", "2")),
			diag.StatusFail, diag.SigGPUUnhealthy, diag.OutcomeFail,
			"xid 79 of GPU 1, 0000:5e:00.0, GPU-b: the GPU or the node is not usable (rule fatal-error); last sample"},
		"hostile words": {gpuAnswer(butFor(fatalXID(), "gpu.decided_why", long, "gpu.decided_uuid", long,
			"gpu.policy", long, "gpu.node_status", long)),
			diag.StatusFail, diag.SigGPUUnhealthy, diag.OutcomeFail, "[31m end"},
		"hostile lists": {gpuAnswer(map[string]string{"gpu.gpus": strings.Repeat("[", 9999), "gpu.policy_refused": `{"a":1}`,
			"gpu.expected": "-7"}),
			diag.StatusPass, "", diag.OutcomePass, "0 GPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, tc.answers)
			h := hopOf(r, diag.HopGPUHealth)
			text := h.Text + h.Because
			if h.Status != tc.status || h.Signal != tc.signal || r.Verdict.Outcome != tc.outcome ||
				!strings.Contains(text, tc.text) {
				t.Errorf("%s %s, the walk %s: %q\nwant %s %s, %s, %q", h.Status, h.Signal, r.Verdict.Outcome, text, tc.status,
					tc.signal, tc.outcome, tc.text)
			}
			if len(text) > 1500 || strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("%d bytes: %q", len(text), text)
			}
			if b := r.Verdict.Blame; (b != nil) != (tc.status == diag.StatusFail) {
				t.Errorf("blame %+v", b)
			}
			again, err := verdict.Replay(hops.BuiltIn(), r)
			if err != nil || !verdict.SameVerdict(verdict.Stated(again), verdict.Stated(r)) {
				t.Errorf("judged again: %v", err)
			}
		})
	}
}

// TestGPUsOfAnotherNode: a walk of nothing but the GPUs passes only if the platform's answer names the node. A platform
// that gives one answer for every id says nothing about it.
func TestGPUsOfAnotherNode(t *testing.T) {
	for name, want := range map[string]diag.Outcome{
		"node-1": diag.OutcomePass, "NODE-1": diag.OutcomePass,
		"node-2": diag.OutcomeInconclusive, "-": diag.OutcomeInconclusive,
	} {
		e := testEnv()
		v := map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator,
			answers: gpuAnswer(map[string]string{"gpu.node": name})}}
		plan := hops.BuiltIn().NewPlan(e.Profile, e.Subject, hop.Options{Only: []diag.HopID{diag.HopGPUHealth}, Token: true})
		facts, ended := walkPlan(t, e, plan, v, nil)
		r := &diag.Report{Subject: e.Subject, Plan: plan, Facts: facts, Run: diag.Run{EndedBy: ended}}
		if verdict.Judge(hops.BuiltIn(), r); r.Verdict.Outcome != want {
			t.Errorf("the answer is about %q: %s\n%s", name, r.Verdict.Outcome, describe(r))
		}
	}
}

// TestGPUBlame: a failed GPU is the blame of a walk in which nothing else fails, observed, with a command that explains
// its XID. A GPU count that is too low is no cause.
func TestGPUBlame(t *testing.T) {
	v := walkWith(t, gpuAnswer(fatalXID())).Verdict
	if v.Blame == nil || v.Blame.Hop != diag.HopGPUHealth || v.Reason != diag.ReasonGPUUnhealthy ||
		v.Confidence != diag.Observed || v.Observation == nil || !strings.Contains(v.Observation.Text, "xid 79") {
		t.Errorf("%+v", v)
	}
	steps := strings.Join(v.Recovery, "\n")
	for _, want := range []string{"gpuaasctl gpu status node-1 --profile test", "gpuaasctl gpu xid explain 79"} {
		if !strings.Contains(steps, want) {
			t.Errorf("no step has %q:\n%s", want, steps)
		}
	}
	v = walkWith(t, gpuAnswer(butFor(fatalXID(), "gpu.decided_about", "node", "gpu.decided_what", "the node",
		"gpu.decided_why", "fewer GPUs than the node was enrolled with"))).Verdict
	if v.Confidence != diag.Likely || v.Observation != nil || strings.Contains(strings.Join(v.Recovery, "\n"), "explain") {
		t.Errorf("%s, %+v: %q", v.Confidence, v.Observation, v.Recovery)
	}
}

// TestGPUAndTerminal: neither a failed nor a degraded GPU is blamed for a terminal, and a terminal's fault hides
// neither.
func TestGPUAndTerminal(t *testing.T) {
	mint := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: 500, ErrorCode: "internal"}
	}
	alone := walkWith(t, answers{"terminal_token_mint/mint": mint}).Verdict
	for _, health := range []string{reading.GPUUnhealthy, reading.GPUDegraded, reading.GPUUnknown} {
		a := gpuAnswer(butFor(fatalXID(), "gpu.health", health))
		a["terminal_token_mint/mint"] = mint
		r := walkWith(t, a)
		v := r.Verdict
		if v.Blame == nil || v.Blame.Hop != diag.HopTerminalTokenMint || v.Reason != alone.Reason ||
			v.Severity != alone.Severity || !slices.Equal(v.Symptoms, alone.Symptoms) {
			t.Errorf("%s: blame %+v, reason %s, symptoms %v; without it %s, %v", health, v.Blame, v.Reason, v.Symptoms,
				alone.Reason, alone.Symptoms)
		}
		other := slices.ContainsFunc(v.OtherFindings, func(b diag.Blame) bool { return b.Signal == diag.SigGPUUnhealthy })
		if other != (health == reading.GPUUnhealthy) {
			t.Errorf("%s: other findings %+v", health, v.OtherFindings)
		}
		if h := hopOf(r, diag.HopGPUHealth); h.Status == diag.StatusPass {
			t.Errorf("%s: the hop is %s", health, h.Status)
		}
	}
}

// TestGPUWarning: a degraded GPU is a warning of P2, and needs no action.
func TestGPUWarning(t *testing.T) {
	r := walkWith(t, gpuAnswer(butFor(fatalXID(), "gpu.health", "DEGRADED")))
	k := r.Classification
	if r.Verdict.Outcome != diag.OutcomeWarn || k.Reason != diag.ReasonGPUDegraded || k.Severity != diag.P2 ||
		k.NeedsSomebody() || r.Verdict.Blame != nil {
		t.Errorf("%s, %s %s, needs somebody: %v", r.Verdict.Outcome, k.Reason, k.Severity, k.NeedsSomebody())
	}
}

// TestGPUStepIsEarly: the document is read as soon as the API is known to answer, together with the node's read model.
func TestGPUStepIsEarly(t *testing.T) {
	gpu, beat := hop.In(hops.BuiltIn().List(), diag.HopGPUHealth).Steps[0], hop.In(hops.BuiltIn().List(),
		diag.HopNodeHeartbeat).Steps[0]
	if !slices.Equal(gpu.Needs.Hops, beat.Needs.Hops) || len(gpu.Needs.Facts) > 0 || gpu.From != beat.From {
		t.Errorf("needs %v after %v from %s", gpu.Needs.Hops, gpu.Needs.Facts, gpu.From)
	}
}
