package golden

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// TestMatrixIsTheModels: the expectations have the matrix's rows, no more and no fewer.
func TestMatrixIsTheModels(t *testing.T) {
	wanted := map[string]bool{}
	for _, w := range Matrix() {
		wanted[w.Scenario] = true
	}
	for _, m := range diag.Scenarios() {
		if !wanted[m.ID] {
			t.Errorf("%s: nothing is expected of it", m.ID)
		}
		delete(wanted, m.ID)
	}
	for id := range wanted {
		t.Errorf("%s is no row of the matrix", id)
	}
}

// TestMatrix classifies each row's evidence: recorded on lab machines, or literal if no lab can produce it.
func TestMatrix(t *testing.T) {
	for _, want := range Matrix() {
		t.Run(want.Scenario, func(t *testing.T) {
			e, typed := typedEvidence()[want.Scenario]
			if typed != (want.Recording == "") {
				t.Fatalf("typed %v, recording %q: one of the two", typed, want.Recording)
			}
			c := classify.Classify(e)
			if !typed {
				c = want.Classify(recorded(t, want.Recording))
			}
			for _, problem := range want.Check(c) {
				t.Error(problem)
			}
			if t.Failed() {
				text, _ := json.MarshalIndent(c, "", "  ")
				t.Logf("%s", text)
			}
		})
	}
}

// typedEvidence is the evidence of rows that no lab can produce, since the lab's machines share their host's clock.
func typedEvidence() map[string]classify.Evidence {
	soon := 2 * time.Second
	return map[string]classify.Evidence{
		"clock_skew": {
			Node: &classify.NodeEvidence{HeartbeatAge: &soon, StaleAfter: 2 * time.Minute, Identity: "accepted"},
			Probes: []classify.Probed{
				{Hop: diag.HopNodeReadiness, Status: diag.StatusFail, Signal: diag.SigClockSkew, Failure: diag.ClockSkew,
					Text: "the node's clock is 26h0m0s off (bearable: 5s)"},
				{Hop: diag.HopNodeRecoveryStatus, Status: diag.StatusFail, Signal: diag.SigAuthFailed,
					Failure: diag.MTLSCertExpired, Text: "the node's own credential does not hold"},
			},
			Record: []*diag.RecordEntry{
				{Seq: 1, BootID: "b", Reason: diag.RecCertExpired, About: "identity", Decision: "retry"},
				{Seq: 2, BootID: "b", Reason: diag.RecClockSkew, About: "agent", Decision: "report"},
			},
		},
	}
}

// TestNoNameIsAnInput: evidence has no field for a scenario's name, and the caller, the time and the report's name do
// not change the classification.
func TestNoNameIsAnInput(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type, string)
	look = func(typ reflect.Type, path string) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || typ == reflect.TypeFor[time.Time]() {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			if n := strings.ToLower(f.Name); strings.Contains(n, "scenario") || strings.Contains(n, "drill") || n == "name" {
				t.Errorf("%s.%s could carry a scenario's name", path, f.Name)
			}
			look(f.Type, path+"."+f.Name)
		}
	}
	look(reflect.TypeFor[classify.Evidence](), "Evidence")

	for _, want := range Matrix() {
		if want.Recording == "" {
			continue
		}
		r := recorded(t, want.Recording)
		first := *r.Classification
		r.Run = diag.Run{EndedBy: r.Run.EndedBy, ID: "x"}
		r.Subject.CorrelationID, r.Subject.EnvironmentProfile, r.Plan.Profile = "x", "x", "x"
		verdict.Judge(hops.BuiltIn(), r)
		again := *r.Classification
		first.Next, first.Steps, again.Next, again.Steps = "", nil, "", nil // their commands have the profile and the ids
		if !reflect.DeepEqual(first, again) {
			t.Errorf("%s: another name, another classification", want.Recording)
		}
	}
}

// TestContactIsOneWord: the classifier and the record's format use the same value for a good contact.
func TestContactIsOneWord(t *testing.T) {
	if classify.DecisionContact != record.DecisionContact {
		t.Errorf("%q, %q", classify.DecisionContact, record.DecisionContact)
	}
}
