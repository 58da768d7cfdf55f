package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/history"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// TestLookingIsNotAccepting: a walk that regressed does not become the baseline, even if it was not compared: a red
// gate stays red after another walk of the node in between.
func TestLookingIsNotAccepting(t *testing.T) {
	kept := History{Path: filepath.Join(t.TempDir(), "reports.db")}
	began := time.Now().UTC().Truncate(time.Second)
	read := 0 // number of good walks that the last walk read
	// walk stores a walk, and returns the number of regressions for a gate, -1 if it was not compared.
	walk := func(run, baseline, address string) (int, Kept) {
		t.Helper()
		r := recorded(t, strings.ReplaceAll(golden(t, "healthy.json"), `"10.231.77.11"`+"\n", `"`+address+`"`+"\n"))
		began = began.Add(time.Minute)
		r.Run.ID, r.Run.StartedAt, r.Run.EndedAt = "run-"+run, diag.At(began), diag.At(began.Add(time.Second))
		m := kept.ReadGood(t.Context(), r.Subject, r.Plan, baseline != "", true)
		defer m.Close()
		m.Compare(Baseline{Name: baseline}, r)
		k := m.Save(t.Context(), r)
		read = len(m.good)
		if r.Diff == nil || !r.Diff.Comparable {
			return -1, k
		}
		return r.Diff.Regressions(), k
	}
	if _, k := walk("first", "", "10.231.77.11"); k != (Kept{}) {
		t.Fatalf("%+v", k)
	}
	if n, _ := walk("gate", diag.LastGood, "10.231.77.12"); n < 1 {
		t.Errorf("a gate: %d regressions", n)
	}
	if n, k := walk("look", "", "10.231.77.12"); n != -1 || k.Better == nil || k.Better.Run.ID != "run-first" {
		t.Errorf("a look: %d regressions, %+v", n, k)
	}
	if n, _ := walk("gate-again", diag.LastGood, "10.231.77.12"); n < 1 {
		t.Errorf("the gate after somebody looked: %d regressions", n)
	}
	if n, k := walk("mended", diag.LastGood, "10.231.77.11"); n != 0 || k != (Kept{}) {
		t.Errorf("the gate once it is mended: %d regressions, %+v", n, k)
	}
	for i := range 3 {
		if _, k := walk(fmt.Sprint("again-", i), "", "10.231.77.11"); k != (Kept{}) || read != 1 {
			t.Errorf("a walk like the one before it: %d good walks were read, %+v", read, k)
		}
	}
	if _, k := walk("other", "", "10.231.77.12"); read < 5 || k.Better == nil {
		t.Errorf("a walk unlike the one before it: %d good walks were read, %+v", read, k)
	}
}

// TestANewLabBeginsItsOwnHistory: walks of an older lab with the same name, but another CA and other machines, are not
// compared with the new lab's, nor the reverse.
func TestANewLabBeginsItsOwnHistory(t *testing.T) {
	kept := History{Path: filepath.Join(t.TempDir(), "reports.db")}
	began := time.Now().UTC().Truncate(time.Second)
	walk := func(run, lab string) (*diag.Diff, Kept) {
		t.Helper()
		r := recorded(t, golden(t, "healthy.json"))
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{r.Subject.NodeInstanceID, r.Subject.Expected["signing_ca_fingerprint"]} {
			text = bytes.ReplaceAll(text, []byte(of), []byte(lab+of[len(lab):]))
		}
		r = recorded(t, string(text))
		began = began.Add(time.Minute)
		r.Run.ID, r.Run.StartedAt, r.Run.EndedAt = "run-"+run, diag.At(began), diag.At(began.Add(time.Second))
		m := kept.ReadGood(t.Context(), r.Subject, r.Plan, true, true)
		defer m.Close()
		m.Compare(Baseline{Name: diag.LastGood}, r)
		return r.Diff, m.Save(t.Context(), r)
	}
	for _, w := range []struct{ run, lab, baseline string }{
		{"1", "aa", ""}, {"2", "aa", "run-1"}, {"3", "bb", ""}, {"4", "bb", "run-3"}, {"5", "aa", "run-2"},
	} {
		d, k := walk(w.run, w.lab)
		if d.Baseline.RunID != w.baseline || k != (Kept{}) {
			t.Errorf("walk %s of lab %s is compared with %q, want %q (%s): %+v", w.run, w.lab, d.Baseline.RunID, w.baseline,
				d.Because, k)
		}
	}
}

// TestToolsOfOtherRules: two tools with different rules alternately store walks of one node. A different judgement of
// the same facts does not count as a change of the node, for either gate, and the history changes no verdict.
func TestToolsOfOtherRules(t *testing.T) {
	kept := History{Path: filepath.Join(t.TempDir(), "reports.db")}
	began := time.Now().UTC().Truncate(time.Second)
	// walk returns a walk of a node whose agent's program was replaced by one that cannot be started, which is a
	// warning today.
	walk := func(run string) *diag.Report {
		r := recorded(t, golden(t, "healthy.json"))
		began = began.Add(time.Minute)
		r.Run.ID, r.Run.StartedAt, r.Run.EndedAt = "run-"+run, diag.At(began), diag.At(began.Add(time.Second))
		for i := range r.Facts {
			if f := &r.Facts[i]; f.ID == "node_readiness/binary" {
				f.Failure, f.Phase = diag.BinaryExecFormat, "format"
			}
		}
		verdict.Judge(hops.BuiltIn(), r)
		return r
	}
	now := walk("now")
	if now.Verdict.Outcome != diag.OutcomeWarn {
		t.Fatalf("the walk's outcome is %s", now.Verdict.Outcome)
	}
	for _, c := range []struct {
		rules  string
		states diag.Status
	}{{"4", diag.StatusPass}, {verdict.RulesVersion, diag.StatusWarn}, {"99", diag.StatusPass}, {"4", diag.StatusPass}} {
		other := walk("of-rules-" + c.rules + "-" + fmt.Sprint(began.Minute()))
		if c.rules != verdict.RulesVersion { // that tool's judgement of the same facts, and its own text
			other.Run.RulesVersion = c.rules
			other.Verdict = diag.Verdict{Outcome: diag.OutcomePass, Confidence: "a word of rules " + diag.Confidence(c.rules)}
			for i := range other.Hops {
				if h := &other.Hops[i]; h.Status == diag.StatusWarn {
					h.Status, h.Signal = c.states, ""
				}
			}
		}
		store, err := history.Open(t.Context(), kept.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.Save(t.Context(), other, true, true), store.Close()); err != nil {
			t.Fatal(err)
		}
		r := walk("after-" + c.rules + "-" + fmt.Sprint(began.Minute()))
		m := kept.ReadGood(t.Context(), r.Subject, r.Plan, true, true)
		m.Compare(Baseline{Name: diag.LastGood}, r)
		k := m.Save(t.Context(), r)
		m.Close()
		if !r.Diff.Comparable || r.Diff.Regressions() > 0 || k != (Kept{}) {
			t.Errorf("after a tool of rules %s: %+v, %+v", c.rules, r.Diff.Changes, k)
		}
		said := slices.ContainsFunc(r.Diff.Changes, func(ch diag.Change) bool { return ch.Field == "run.rules_version" })
		if said != (c.rules != verdict.RulesVersion) {
			t.Errorf("after a tool of rules %s, the diff says that the rules changed: %v", c.rules, said)
		}
		if got, want := verdict.Stated(r), verdict.Stated(now); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after a tool of rules %s: %+v, alone %+v", c.rules, got, want)
		}
	}
}

// TestUnreadGoodWalksCostNoPlace: if only the good walks cannot be read, or not in time, the date is shown and the walk
// is stored, but not as a baseline, since it could not be compared.
func TestUnreadGoodWalksCostNoPlace(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	r := recorded(t, golden(t, "healthy.json"))
	store, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	last := recorded(t, golden(t, "healthy.json"))
	m := &Recent{opened: closed, done: make(chan struct{}), store: store, last: last}
	if got := m.lastGoodAt(r); !got.Equal(last.Run.EndedAt.Time) {
		t.Errorf("while the good walks are read, the last one was at %v", got)
	}
	last.Subject.NodeInstanceID = "i-earlier"
	last.Subject.Expected = map[string]string{"signing_ca_fingerprint": "of another CA"}
	if got := m.lastGoodAt(r); !got.IsZero() {
		t.Errorf("a machine of the same name passed at %v, which is given as this one's time", got)
	}
	m.done, m.goodErr = closed, errors.New("a page is torn")
	if m.Compare(Baseline{Name: diag.LastGood}, r); r.Diff == nil || !strings.Contains(r.Diff.Because, "a page is torn") {
		t.Errorf("diff %+v", r.Diff)
	}
	k := m.Save(t.Context(), r)
	runs, err := store.List(t.Context(), history.Filter{})
	if err != nil || len(runs) != 1 || runs[0].Good || !k.Unread {
		t.Errorf("%v, kept %+v: %+v", err, runs, k)
	}
}

// golden returns the text of a recording in golden/reports.
func golden(t *testing.T, name string) string {
	t.Helper()
	return content(t, filepath.Join("..", "golden", "reports", name))
}

// content is a file's text.
func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// recorded parses a report.
func recorded(t *testing.T, text string) *diag.Report {
	t.Helper()
	r := &diag.Report{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		t.Fatal(err)
	}
	return r
}
