package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// compared returns a diff with every kind of entry, and with control characters for a terminal.
func compared() *diag.Diff {
	digest := strings.Repeat("ab", 32)
	return &diag.Diff{
		Baseline:   diag.Baseline{From: diag.LastGood, RunID: "run-1", Outcome: diag.OutcomePass, Runs: 7},
		Comparable: true,
		Changes: []diag.Change{
			{Kind: diag.ChangeServerIssuer, Hop: diag.HopNodeRuntimeAPI, Facts: []string{"a/b", "c/d", "e/f"},
				Field: "tls.chain[0].issuer", Before: "CN=a", After: "CN=\x1b[31mb", Regression: true},
			{Kind: diag.ChangeTrustBundle, Field: "tls.trust_roots", Before: digest, After: "", Known: true},
			{Kind: diag.ChangePolicy, Field: "plan.policy.node.task_wait_seconds", Before: "5", After: "6"},
			{Kind: diag.ChangeStatus, Hop: diag.HopNodeHeartbeat, Field: "status", Before: "pass", After: "warn",
				Regression: true},
			{Kind: diag.ChangeStatus, Hop: diag.HopNodeReadiness, Field: "status", Before: "pass", After: "warn",
				Regression: true},
			{Kind: diag.ChangeTiming, Hop: diag.HopNodeReadiness, Facts: []string{"a/b"}, Field: "tls.duration_ms", Before: "7",
				After: "1290", Regression: true, Noise: &diag.NoiseBounds{Runs: 7, BoundMS: 107}},
		},
		NotCompared: []diag.NotCompared{
			{Hop: diag.HopNodeOpsAccess, What: "hop", Because: "not reached now"},
			{Fact: "a/b", What: "tls, http", Because: "not measured now"},
			{Fact: "g/h", What: "fact", Because: "not measured now"},
			{What: "timing", Because: "not enough runs"},
		},
	}
}

func TestDiffAlone(t *testing.T) {
	var b bytes.Buffer
	if err := Diff(&b, compared(), Options{Width: 200, ASCII: true}); err != nil {
		t.Fatal(err)
	}
	want := `changed   since the last good walk: 4 regressions, 2 other changes
          ! issuer of the server's certificate: CN=a -> CN=\x1b[31mb (a/b and 2 more)
          . trust bundle: abababababab -> none, as in an earlier good walk
          . policy: node.task_wait_seconds 5 -> 6
          ! pass -> warn: node_heartbeat, node_readiness
          ! time tls.duration_ms: 7 ms -> 1.3 s, noise is up to 107 ms in 7 walks (a/b)
          not compared: times: not enough runs; 3 of the measurements (-o wide)
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	b.Reset()
	if err := Diff(&b, compared(), Options{Format: Wide, Width: 200}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"not compared: node_ops_access: not reached now",
		"not compared: a/b tls, http: not measured now", "not compared: g/h: not measured now"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("wide lacks %q:\n%s", line, b.String())
		}
	}
}

// TestDiffInEveryFormat: each format has the number of regressions, and no control characters of the values.
func TestDiffInEveryFormat(t *testing.T) {
	for format, want := range map[Format]string{
		Table: "4 regressions, 2 other changes", Wide: "4 regressions, 2 other changes",
		Short: "4 regressions: issuer of the server's certificate",
		JSON:  `"kind": "server_issuer"`, NDJSON: `"kind":"server_issuer"`, JUnit: `name="regressions" value="4"`, Markdown: "- ! issuer of the server's certificate",
	} {
		r := &diag.Report{Verdict: diag.Verdict{Outcome: diag.OutcomePass}, Diff: compared()}
		var b bytes.Buffer
		if err := Report(&b, r, Options{Format: format, Width: 120}); err != nil {
			t.Fatal(err)
		}
		if out := b.String(); !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("%s lacks %q, or has an escape:\n%s", format, want, out)
		}
	}
}

// TestNothingToCompare: every format states that nothing was compared, and none reads as "nothing changed".
func TestNothingToCompare(t *testing.T) {
	none := &diag.Diff{Baseline: diag.Baseline{From: diag.LastGood}, Because: "no good walk is kept"}
	for _, format := range []Format{Table, Short, Markdown, JUnit} {
		var b bytes.Buffer
		if err := Report(&b, &diag.Report{Verdict: diag.Verdict{Outcome: diag.OutcomePass}, Diff: none},
			Options{Format: format, Width: 120}); err != nil {
			t.Fatal(err)
		}
		if out := b.String(); !strings.Contains(out, "no good walk is kept") || strings.Contains(out, "nothing") {
			t.Errorf("%s:\n%s", format, out)
		}
	}
	var b bytes.Buffer
	none = &diag.Diff{Baseline: diag.Baseline{From: "x.json"}, Comparable: true}
	if err := Report(&b, &diag.Report{Diff: none}, Options{}); err != nil ||
		!strings.Contains(b.String(), "changed   nothing since x.json") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

// TestDiffShort: a value that was not compared is not reported as unchanged.
func TestDiffShort(t *testing.T) {
	d := &diag.Diff{Comparable: true}
	if got := diffShort(d); got != "nothing changed" {
		t.Error(got)
	}
	d.NotCompared = []diag.NotCompared{{What: "timing", Because: "3 kept good walks, 5 are needed"}}
	if got := diffShort(d); got != "nothing changed, times not compared" {
		t.Error(got)
	}
}
