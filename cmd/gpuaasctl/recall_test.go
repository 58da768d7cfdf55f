package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
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
		if err := b.read(a, failOn); err != nil {
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
