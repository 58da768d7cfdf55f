package golden

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// madeBy returns the version of the rules at the time of a recording.
func madeBy(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Run struct {
			Rules string `json:"rules_version"`
		} `json:"run"`
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Run.Rules == "" {
		t.Fatalf("%s: rules %q, %v", path, r.Run.Rules, err)
	}
	return r.Run.Rules
}

// TestNoFaultLosesItsWord: every recording with a blame has the support of its row in the table, and the table has no
// other row.
func TestNoFaultLosesItsWord(t *testing.T) {
	table, share, old := Supports(), Share{}, 0
	for _, path := range recordings(t) {
		r := recorded(t, path)
		want, listed := table[path]
		if listed != (r.Verdict.Blame != nil) {
			t.Errorf("%s: blame %v, and a row of the table: %v", path, r.Verdict.Blame, listed)
			continue
		}
		if !listed {
			continue
		}
		delete(table, path)
		share.Add(path, &r.Verdict)
		rules := madeBy(t, path)
		if beforeRepeats(rules) && want.Word == diag.Proven && r.Verdict.Confidence != diag.Proven {
			old++
		}
		if why := want.Check(r, rules); why != "" {
			t.Errorf("%s: %s", path, why)
		}
	}
	for path := range table {
		t.Errorf("%s: no such recording", path)
	}
	t.Logf("%s\n%d to be recorded again, for their proofs", share.String(), old)
}

// TestSupportReachesItsGoals: enough walks of current rules are proven or observed, and each row that is neither, or
// has an input and no proof, has a reason.
func TestSupportReachesItsGoals(t *testing.T) {
	share := Share{}
	for path, s := range Supports() {
		v := diag.Verdict{Blame: &diag.Blame{}, Confidence: s.Word}
		share.Add(path, &v)
		weak := s.Word != diag.Proven && s.Word != diag.Observed
		if (weak || (s.Input != "" && s.Word != diag.Proven)) != (s.Why != "") {
			t.Errorf("%s is %s, its input is %q: why %q", path, s.Word, s.Input, s.Why)
		}
		if (s.Word == diag.Proven && s.Input == "") || !slices.Contains(diag.Confidences[:], s.Word) {
			t.Errorf("%s is %q by the input %q", path, s.Word, s.Input)
		}
	}
	if share.Supported() < 80 || share.OfInput() < 80 {
		t.Errorf("want 80 %% of each:\n%s", share.String())
	}
}

// TestSupportIsChecked: a lost confidence, a proof by another input, and an observation without its fact are found, in
// walks with repeated probes and, except for proofs, in older ones.
func TestSupportIsChecked(t *testing.T) {
	with := func(c diag.Confidence, p *diag.Proof, o *diag.Observation) *diag.Report {
		return &diag.Report{Verdict: diag.Verdict{Confidence: c, Proof: p, Observation: o}}
	}
	pair, seen := &diag.Proof{Changed: "target"}, &diag.Observation{Fact: "f"}
	for _, tc := range []struct {
		want  Support
		r     *diag.Report
		rules string
		right bool
	}{
		{proven("target"), with(diag.Proven, pair, nil), "5", true},
		{proven("resolve"), with(diag.Proven, pair, nil), "5", false},
		{proven("target"), with(diag.Proven, nil, nil), "5", false},
		{proven("target"), with(diag.Observed, nil, seen), "5", false},
		{proven("target"), with(diag.Likely, nil, nil), "3", true},
		{proven("target"), with(diag.Likely, nil, nil), "10", false},
		{observed(), with(diag.Observed, nil, seen), "3", true},
		{observed(), with(diag.Observed, nil, nil), "5", false},
		{observed(), with(diag.Likely, nil, nil), "3", false},
		{neither(diag.Likely, "x"), with(diag.Proven, pair, nil), "5", false},
	} {
		if why := tc.want.Check(tc.r, tc.rules); (why == "") != tc.right {
			t.Errorf("%+v, %s by rules %s: %q", tc.want, tc.r.Verdict.Confidence, tc.rules, why)
		}
	}
}

// shareLines formats the shares as at the end of verdicts.txt.
func shareLines(s *Share) string { return "== share\n" + strings.TrimSpace(s.String()) + "\n" }
