package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// evidenceOf returns the evidence of a case in the format of a file of cases.
func evidenceOf(t interface{ Fatal(...any) }, text string) policy.Evidence {
	c, err := policy.LoadCases("c.yaml", []byte("version: 1\ncases:\n- {name: a, "+text+", expect: {health: UNKNOWN}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Cases[0].Evidence
}

// rules returns a policy of conditions and results, given in pairs.
func rules(pairs ...string) string {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "  - {name: r%d, condition: %q, result: %s}\n", i/2, pairs[i], pairs[i+1])
	}
	return b.String()
}

// TestRulesThatCannotBeEvaluated: an error is a finding of its own. No later milder rule decides, a later rule that is
// as bad does, and without one the health is UNKNOWN.
func TestRulesThatCannotBeEvaluated(t *testing.T) {
	const errs = "gpu.ecc_dbe_volatile > 0" // which could not be read
	const gpu = "gpus: [{signals: {temperature: 96, ecc_dbe_volatile: {failed: 999}}}]"
	for name, tc := range map[string]struct {
		policy string
		health policy.Health
		rule   string
		failed int // number of rules that could not be evaluated
	}{
		"alone":                  {rules(errs, "UNHEALTHY"), policy.Unknown, "", 1},
		"as HEALTHY":             {rules(errs, "HEALTHY"), policy.Unknown, "", 1},
		"before a milder one":    {rules(errs, "UNHEALTHY", "gpu.temperature > 90", "DEGRADED"), policy.Unknown, "", 1},
		"before HEALTHY":         {rules(errs, "DEGRADED", "gpu.temperature > 90", "HEALTHY"), policy.Unknown, "", 1},
		"HEALTHY before HEALTHY": {rules(errs, "HEALTHY", "gpu.temperature > 90", "HEALTHY"), policy.Unknown, "", 1},
		"before one as bad": {rules(errs, "UNHEALTHY", "gpu.temperature > 90", "UNHEALTHY"), policy.Unhealthy, "r1",
			1},
		"before a worse one": {rules(errs, "DEGRADED", "gpu.temperature > 90", "UNHEALTHY"), policy.Unhealthy, "r1",
			1},
		"behind the one that holds": {rules("gpu.temperature > 90", "DEGRADED", errs, "UNHEALTHY"), policy.Degraded, "r0", 0},
		"all of them":               {rules(errs, "UNHEALTHY", errs, "DEGRADED"), policy.Unknown, "", 2},
		"two, and one as the milder": {rules(errs, "UNHEALTHY", errs, "DEGRADED", "gpu.temperature > 90", "DEGRADED"),
			policy.Unknown, "", 2},
		"that cannot matter":    {rules("gpu.temperature > 200 && "+errs, "UNHEALTHY"), policy.Healthy, "", 0},
		"asked for with has":    {rules("has(gpu.ecc_dbe_volatile) && "+errs, "UNHEALTHY"), policy.Unknown, "", 1},
		"absent, not asked for": {rules("gpu.ecc_mode", "DEGRADED"), policy.Unknown, "", 1},
		"absent, asked for":     {rules("has(gpu.ecc_mode) && gpu.ecc_mode", "DEGRADED"), policy.Healthy, "", 0},
		"division by zero":      {rules("1 / (gpu.temperature - 96) > 0", "HEALTHY"), policy.Unknown, "", 1},
	} {
		j := load(t, tc.policy).Judge(evidenceOf(t, gpu), policy.Enforce, true)
		f := j.Findings[0]
		if j.Health != tc.health || f.Rule != tc.rule || len(f.Errors) != tc.failed {
			t.Errorf("%s: %s, %+v; want %s by %q with %d errors", name, j.Health, f, tc.health, tc.rule, tc.failed)
		}
	}
}

// TestNoRuleIsAboutIt: an event that no rule matches is not judged, and does not count as HEALTHY.
func TestNoRuleIsAboutIt(t *testing.T) {
	const gpu = "gpus: [{signals: {temperature: 40}}], "
	p := load(t, rules("event.code == 79", "UNHEALTHY", "gpu.temperature > 90", "UNHEALTHY"))
	if j := p.Judge(evidenceOf(t, gpu+"events: []"), policy.Enforce, false); j.Health != policy.Healthy {
		t.Errorf("without an event: %+v", j)
	}
	j := p.Judge(evidenceOf(t, gpu+"events: [{type: xid, code: 48}]"), policy.Enforce, false)
	if j.Health != policy.Unknown || !strings.Contains(j.Decided.Why, "no rule") {
		t.Errorf("%+v", j)
	}
	// A lost GPU has no code: using the code is an error, which does not count as "not 79".
	j = p.Judge(evidenceOf(t, gpu+"events: [{type: lost}]"), policy.Enforce, false)
	if j.Health != policy.Unknown || !strings.Contains(j.Decided.Why, "there is no event.code here") {
		t.Errorf("%+v", j)
	}
	// "true" applies to every event and every GPU, but not to what was not measured.
	all := load(t, rules("true", "HEALTHY"))
	if j := all.Judge(evidenceOf(t, gpu+"events: [{type: xid, code: 48}]"), policy.Enforce,
		false); j.Health != policy.Healthy {
		t.Errorf("%+v", j.Decided)
	}
}

// TestNothingTurnsGreen: with any policy, missing evidence is not HEALTHY.
func TestNothingTurnsGreen(t *testing.T) {
	all := load(t, rules("true", "HEALTHY", "node.gpus_lost >= 0", "HEALTHY"))
	const gpu = "gpus: [{signals: {temperature: 40}}]"
	for name, text := range map[string]string{
		"no sample": "no_sample: true", "no library": "library: library_not_found", "no driver": "library: driver_not_loaded",
		"Init failed": "library: init_failed", "no NVML": "library: built_without", "no GPU": "gpus: []",
		"stuck": "probe: stuck", "ended": "probe: ended", "missing": "probe: missing",
		"not allowed": "probe: unstartable", "garbled": "probe: garbled",
		"stale": gpu + ", age: 76s", "fewer": gpu + ", gpus_expected: 8", "no log": gpu + ", kernel_log: not_watched",
		"blind": gpu + ", kernel_log: blind", "gap": gpu + ", kernel_log: lost",
		"lost":  "gpus: [{signals: {temperature: 40, power: {failed: 15}}}]",
		"reset": "gpus: [{signals: {temperature: 40, reset_required: true}}]",
	} {
		if j := all.Judge(evidenceOf(t, text), policy.Enforce, false); j.Health != policy.Unknown || j.Decided == nil {
			t.Errorf("%s: %s %+v", name, j.Health, j.Decided)
		}
	}
	if j := all.Judge(evidenceOf(t, gpu+", age: 75s"), policy.Enforce, false); j.Health != policy.Healthy {
		t.Errorf("a sample of 75 s: %+v", j.Decided)
	}
	if j := all.Judge(policy.Evidence{}, policy.Enforce, false); j.Health != policy.Unknown {
		t.Errorf("no evidence at all: %+v", j)
	}
}

// TestHealthOfEachGPU: an event counts for its GPU, whichever of the driver's two names it has.
func TestHealthOfEachGPU(t *testing.T) {
	text, _ := policy.BuiltinText("default")
	j := load(t, string(text)).Judge(evidenceOf(t, `gpus: [{uuid: GPU-a, pci: "0000:3b:00.0", signals: {temperature: 40}},
  {uuid: GPU-b, pci: "0000:5e:00.0", signals: {temperature: 86}}, {uuid: GPU-c, pci: "0000:86:00.0", signals: {temperature: 40}}],
  events: [{type: xid, code: 79, pci: "0000:3b:00.0"}, {type: xid, code: 31, uuid: GPU-c}]`), policy.Enforce, false)
	var got []policy.Health
	for _, g := range j.GPUs {
		got = append(got, g.Health)
	}
	if fmt.Sprint(got) != "[UNHEALTHY DEGRADED HEALTHY]" || j.Health != policy.Unhealthy || *j.Decided.Subject.Index != 0 {
		t.Errorf("%v, %+v", got, j.Decided)
	}
}

// TestOverriddenRulesAreNoted: a rule for HEALTHY that precedes a worse one is the author's intent, and is noted.
func TestOverriddenRulesAreNoted(t *testing.T) {
	p := load(t, rules("gpu.index == 1", "HEALTHY", "gpu.temperature > 90", "UNHEALTHY"))
	hot := "gpus: [{signals: {temperature: 40}}, {signals: {temperature: 99}}], gpus_expected: 2"
	j := p.Judge(evidenceOf(t, hot), policy.Enforce, false)
	if j.Health != policy.Healthy || len(j.Notes) != 1 || !strings.Contains(j.Notes[0], "precedes r1 for UNHEALTHY") {
		t.Errorf("%s %v", j.Health, j.Notes)
	}
	p = load(t, strings.Replace(rules("gpu.index == 1", "HEALTHY", "gpu.temperature > 90", "UNHEALTHY"),
		"result: UNHEALTHY}", "result: UNHEALTHY, otherwise: true}", 1))
	j = p.Judge(evidenceOf(t, hot), policy.Enforce, false)
	if j.Health != policy.Healthy || len(j.Notes) != 0 {
		t.Errorf("otherwise: %s %v", j.Health, j.Notes)
	}
	j = p.Judge(evidenceOf(t, "gpus: [{signals: {temperature: 99}}], gpus_expected: 1"), policy.Enforce, false)
	if j.Health != policy.Unhealthy {
		t.Errorf("otherwise, alone: %s %+v", j.Health, j.Decided)
	}
}

// TestWorstWins: for any policy and evidence, HEALTHY needs every finding to be HEALTHY, an error is never HEALTHY,
// more events never improve the health unless one of them reports a reset by the driver, and the result is
// deterministic.
func TestWorstWins(t *testing.T) {
	conditions := []string{
		"true", "event.code == 79", `event.class == "app"`, `has(event.code) && event.code in [31, 48]`,
		"gpu.temperature >= 85",
		"has(gpu.temperature) && gpu.temperature < 50", "gpu.lost", "gpu.ecc_mode", "node.gpus < 2", "gpu.power / 0 == 1",
		`event.type == "lost"`, "has(node.gpus_expected) && node.gpus < node.gpus_expected",
	}
	gpus := []string{"temperature: 40", "temperature: 99", "temperature: {failed: 15}", "temperature: {failed: 6}",
		"ecc_mode: true", "power: 1000, temperature: 60", "temperature: not_supported"}
	events := []string{"type: xid, code: 79", "type: xid, code: 31", "type: xid, code: 48", "type: lost",
		"type: xid, code: 9999",
		"type: xid, code: 45, caused_by: 79", "type: sxid, code: 20034"}
	rapid.Check(t, func(t *rapid.T) {
		var pairs []string
		for range rapid.IntRange(1, 6).Draw(t, "rules") {
			pairs = append(pairs, rapid.SampledFrom(conditions).Draw(t, "condition"),
				string(rapid.SampledFrom(policy.Healths()).Draw(t, "result")))
		}
		p, err := policy.Load("p.yaml", []byte(rules(pairs...)))
		if err != nil {
			t.Fatal(err)
		}
		prog, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		var gpu []string
		for _, s := range rapid.SliceOfN(rapid.SampledFrom(gpus), 0, 3).Draw(t, "gpus") {
			gpu = append(gpu, "{signals: {"+s+"}}")
		}
		some := rapid.SliceOfN(rapid.SampledFrom(events), 0, 4).Draw(t, "events")
		text := func(events []string) string {
			var all []string
			for _, e := range events {
				all = append(all, "{"+e+"}")
			}
			return "gpus: [" + strings.Join(gpu, ", ") + "], events: [" + strings.Join(all, ", ") + "]"
		}
		j := prog.Judge(evidenceOf(t, text(some)), policy.Enforce, true)
		for _, f := range j.Findings {
			if policy.Worse(f.Health, j.Health) || (j.Health == policy.Healthy && len(f.Errors) > 0) {
				t.Fatalf("%s with %+v", j.Health, f)
			}
			if len(f.Errors) > 0 && f.Health == policy.Healthy {
				t.Fatalf("green by an error: %+v", f)
			}
		}
		if len(gpu) == 0 && j.Health == policy.Healthy {
			t.Fatal("green without a GPU")
		}
		more := prog.Judge(evidenceOf(t, text(append(some[:len(some):len(some)], events[0]))), policy.Enforce, true)
		if policy.Worse(j.Health, more.Health) {
			t.Fatalf("%s, and with one more event %s", j.Health, more.Health)
		}
		again, _ := json.Marshal(prog.Judge(evidenceOf(t, text(some)), policy.Enforce, true))
		if first, _ := json.Marshal(j); string(first) != string(again) {
			t.Fatalf("%s\n%s", first, again)
		}
	})
}

// TestEmptyFile: a file without text is a file, not the built-in policy of its name.
func TestEmptyFile(t *testing.T) {
	q, err := json.Marshal(policy.Request{Schema: policy.Schema, Op: policy.OpCheck,
		Policy: policy.File{Path: "default", Text: []byte{}}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Serve(bytes.NewReader(append(q, '\n')), &out, "dev"); err != nil ||
		!strings.Contains(out.String(), `"mistakes":[{"path":"default"`) {
		t.Errorf("%s, %v", out.String(), err)
	}
}
