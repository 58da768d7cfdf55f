package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/history"
)

// TestLookingIsNotAccepting: a walk that regressed does not become the baseline, also where nobody asked what changed: a
// gate that is red stays red when somebody looks at the node in between.
func TestLookingIsNotAccepting(t *testing.T) {
	state := t.TempDir()
	var errs bytes.Buffer
	a := &app{stderr: &errs, env: func(name string) string {
		return map[string]string{"XDG_STATE_HOME": state}[name]
	}}
	began := time.Now().UTC().Truncate(time.Second)
	// walk keeps a walk, and returns what a gate says of it.
	walk := func(run, failOn, address string) int {
		t.Helper()
		errs.Reset()
		text := strings.ReplaceAll(content(t, "../../golden/reports/healthy.json"), `"10.231.77.11"`+"\n", `"`+address+`"`+"\n")
		r, err := parseReport([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		began = began.Add(time.Minute)
		r.Run.ID, r.Run.StartedAt, r.Run.EndedAt = "run-"+run, diag.At(began), diag.At(began.Add(time.Second))
		b := &baselineFlag{}
		if err := b.read(t.Context(), a, failOn); err != nil {
			t.Fatal(err)
		}
		m := a.recall(t.Context(), r.Subject, r.Plan, true)
		defer m.close()
		m.compare(b, r)
		m.keep(t.Context(), a, r)
		return codeOf(judged(r, failOn))
	}
	if code := walk("first", "", "10.231.77.11"); code != exitPass || errs.String() != "" {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	if code := walk("gate", failOnRegression, "10.231.77.12"); code != exitRegression {
		t.Errorf("a gate: exit %d", code)
	}
	if code := walk("look", "", "10.231.77.12"); code != exitPass || !strings.Contains(errs.String(), "history diff run-first run-look") || !strings.Contains(errs.String(), "history accept run-look") {
		t.Errorf("a look: exit %d, %s", code, &errs)
	}
	if code := walk("gate-again", failOnRegression, "10.231.77.12"); code != exitRegression {
		t.Errorf("the gate after somebody looked: exit %d", code)
	}
	if code := walk("mended", failOnRegression, "10.231.77.11"); code != exitPass || errs.String() != "" {
		t.Errorf("the gate once it is mended: exit %d, %s", code, &errs)
	}
}

// TestUnreadGoodWalksCostNoPlace: where only the good walks cannot be read, or not in time, the date is told and the walk
// is kept, as no baseline: it could not be compared.
func TestUnreadGoodWalksCostNoPlace(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	r, err := parseReport([]byte(content(t, "../../golden/reports/healthy.json")))
	if err != nil {
		t.Fatal(err)
	}
	store, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	at := diag.At(time.Now())
	m := &recall{opened: closed, done: make(chan struct{}), store: store, at: at}
	if got := m.lastGoodAt(); !got.Equal(at.Time) {
		t.Errorf("while the good walks are read, the last one was at %v", got)
	}
	m.done, m.goodErr = closed, errors.New("a page is torn")
	b := &baselineFlag{name: diag.LastGood}
	if m.compare(b, r); r.Diff == nil || !strings.Contains(r.Diff.Because, "a page is torn") {
		t.Errorf("diff %+v", r.Diff)
	}
	var errs bytes.Buffer
	m.keep(t.Context(), &app{stderr: &errs}, r)
	runs, err := store.List(t.Context(), history.Filter{})
	if err != nil || len(runs) != 1 || runs[0].Good || !strings.Contains(errs.String(), "history accept "+r.Run.ID) {
		t.Errorf("%v, kept %+v: %s", err, runs, &errs)
	}
}
