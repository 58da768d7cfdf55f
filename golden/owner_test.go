package golden

import (
	"bytes"
	"encoding/json"
	"html"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	blocks "github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// TestOneOwnerOneNextStep: for every recording, complete and reduced to every two hops, verdict and classification name
// one owner and one list of steps, and a reason's own row is only beside them, with why.
func TestOneOwnerOneNextStep(t *testing.T) {
	all := walks(t)
	for _, path := range some([]string{"before/agent-stopped.json", "before/healthy.json"}) {
		all[path] = recorded(t, path)
	}
	blamed := 0
	for name, r := range all {
		if r.Verdict.Blame != nil {
			blamed++
		}
		for _, why := range twoOwners(r) {
			t.Errorf("%s: %s", name, why)
		}
		// a bundle's report is classified again, with the record beside it
		if again := verdict.Classify(hops.BuiltIn(), r, nil); asJSON(t, again) != asJSON(t, r.Classification) {
			t.Errorf("%s: classified again: %s\nwant %s", name, asJSON(t, again), asJSON(t, r.Classification))
		}
		for i, a := range diag.HopIDs() {
			for _, b := range diag.HopIDs()[i:] {
				for _, why := range twoOwners(cut(r, a, b)) {
					t.Errorf("%s, %s and %s alone: %s", name, a, b, why)
				}
			}
		}
	}
	if !testing.Short() && blamed < 55 {
		t.Errorf("only %d recordings have a blame", blamed)
	}
}

// twoOwners lists the ways in which a report's classification contradicts its verdict about owner and next steps.
func twoOwners(r *diag.Report) (out []string) {
	v, k := &r.Verdict, r.Classification
	if v.Owner == "" {
		return nil
	}
	if k.Owner != v.Owner || !slices.Equal(k.Owners, v.Owners) {
		out = append(out, "the verdict's owner is "+v.Owner+", the classification's "+k.Owner)
	}
	for i := range v.Steps {
		if len(k.Steps) != len(v.Steps) || k.Steps[i].Prose() != v.Steps[i].Prose() {
			out = append(out, "the next steps differ: "+k.Next)
			break
		}
	}
	if v.UserState != k.UserState || v.Reason != k.Reason {
		out = append(out, "verdict and classification differ in reason or user state")
	}
	if rule := k.Rule; rule != nil && (rule.Because == "" || rule.Owner == "" || rule.Next == "" || rule.Reason == "") {
		out = append(out, "the rule beside the verdict is incomplete")
	}
	return out
}

// anOwner matches a line of a page that names an owner. A further finding, which begins with "also", has its own.
var anOwner = regexp.MustCompile(`(?:^|[^-\w])\**owner\**:?\s+(\S.*)$`)

// TestPagesNameOneOwner: no page of a report in any format, and none of its classification, names an owner or a next
// step other than the verdict's, except a further finding's and the rule beside it, which gives the reason.
func TestPagesNameOneOwner(t *testing.T) {
	for name, r := range walks(t) {
		v, rule := &r.Verdict, r.Classification.Rule
		if v.Blame == nil {
			continue
		}
		owners := []string{v.Owner}
		for _, o := range v.OtherFindings {
			owners = append(owners, o.Owner)
		}
		for format, text := range pagesOf(t, r) {
			for _, line := range strings.Split(text, "\n") {
				beside := strings.Contains(line, "beside") && strings.Contains(line, "because")
				if m := anOwner.FindStringSubmatch(line); m != nil && !beside && !slices.Contains(owners, m[1]) {
					t.Errorf("%s as %s: %q", name, format, line)
				}
				if rule != nil && strings.Contains(line, rule.Next) && !beside {
					t.Errorf("%s as %s, the rule's next step: %q", name, format, line)
				}
			}
			if shown := strings.Contains(text, "by itself has the owner"); shown && rule == nil {
				t.Errorf("%s as %s: a rule beside the verdict that the report does not have", name, format)
			}
		}
	}
}

// pagesOf returns all pages of a report, by format.
func pagesOf(t *testing.T, r *diag.Report) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range []render.Format{render.Table, render.Wide, render.Full, render.Short, render.Markdown, render.HTML,
		render.JUnit} {
		text := walked(t, r, render.Options{Format: f})
		if f == render.HTML { // a label and its text on one line, as in the other formats
			text = html.UnescapeString(strings.NewReplacer("</dt>\n<dd>", " ", "</dd>", "").Replace(text))
		}
		out[string(f)] = text
	}
	var classify bytes.Buffer
	if err := render.Classification(&classify, r.Classification, render.Options{Format: render.Wide}); err != nil {
		t.Fatal(err)
	}
	out["diag classify"] = classify.String()
	var explored strings.Builder
	for _, s := range render.AboutWalk(r, render.Options{}) {
		explored.Write(blocks.Text(blocks.Layout{}, s.Blocks...))
	}
	out["explorer"] = explored.String()
	return out
}

// TestDrillsNameOneOwner: a drill's pages name the drill's owner only.
func TestDrillsNameOneOwner(t *testing.T) {
	paths, err := filepath.Glob("drills/*.ndjson")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range some(paths) {
		r := drilled(t, path)
		for _, f := range []render.Format{render.Table, render.Wide, render.Full, render.Markdown, render.JUnit} {
			for _, line := range strings.Split(drillPage(t, r, render.Options{Format: f}), "\n") {
				if m := anOwner.FindStringSubmatch(line); m != nil && m[1] != r.Drills[0].Owner {
					t.Errorf("%s as %s: %q, want %s", path, f, line, r.Drills[0].Owner)
				}
			}
		}
	}
}

// TestRuleIsNewInJSON: a reader of earlier releases finds beside as text, and the rule is a field of its own.
func TestRuleIsNewInJSON(t *testing.T) {
	r := recorded(t, "matrix/long_outage_beyond_cert_expiry.json")
	var k struct {
		Beside string `json:"beside"`
		Rule   struct {
			Reason, Owner, Because string
			Next                   string `json:"next_action"`
		} `json:"rule"`
	}
	if err := json.Unmarshal([]byte(asJSON(t, r.Classification)), &k); err != nil {
		t.Fatal(err)
	}
	if k.Beside == "" || k.Rule.Because != k.Beside || k.Rule.Reason != string(diag.ReasonCertExpired) ||
		k.Rule.Owner != "PKI, node enrollment" || !strings.HasPrefix(k.Rule.Next, "wait while") {
		t.Errorf("%+v", k)
	}
}
