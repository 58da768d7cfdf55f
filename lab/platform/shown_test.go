package platform

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// workloads are the states of an allocation's workload, by what a completed status probe saw.
var workloads = map[diag.Mark]store.App{
	diag.MarkPass: {Status: appRunning, ObservedAt: time.Unix(1, 0)},
	diag.MarkFail: {Status: appStopped, ObservedAt: time.Unix(1, 0)},
	"":            {},
}

// shownBy returns what the platform shows of an allocation with a workload like that of the evidence.
func shownBy(code diag.ReasonCode, m diag.Seen) tenantView {
	a := store.Allocation{State: store.StateActive, App: workloads[m[diag.FactWorkload]]}
	return tenantRead(a, recoveryView{Reason: code, seen: m}, nil, time.Now())
}

// TestTenantsAndReportsAreShownTheSame: for every combination of reason, workload, route and token, what the platform
// shows a tenant is what a report of equal evidence says that users are shown.
func TestTenantsAndReportsAreShownTheSame(t *testing.T) {
	marks := []diag.Mark{diag.MarkPass, diag.MarkFail, ""}
	for _, row := range diag.Reasons() {
		for _, workload := range marks {
			for _, route := range marks {
				for _, token := range []classify.TokenState{classify.TokenCurrent, classify.TokenGone} {
					e := classify.Evidence{Node: &classify.NodeEvidence{Reason: row.Code}, Token: token,
						Probes: slices.Concat(probe(diag.HopAppRuntimeLiveness, diag.SigAppStopped, workload),
							probe(diag.HopAppUserRoute, diag.SigAppRouteFailed, route))}
					c := classify.Classify(e)
					if c.Reason == row.Code {
						same(t, string(row.Code)+" "+string(workload)+" "+string(route), &c, shownBy(row.Code, e.Seen()))
					}
				}
			}
		}
	}
}

func probe(hop diag.HopID, signal diag.Signal, is diag.Mark) []classify.Probed {
	switch is {
	case diag.MarkPass:
		return []classify.Probed{{Hop: hop, Status: diag.StatusPass}}
	case diag.MarkFail:
		return []classify.Probed{{Hop: hop, Status: diag.StatusFail, Signal: signal, Text: "red"}}
	}
	return nil
}

func same(t *testing.T, name string, c *diag.Classification, v tenantView) {
	t.Helper()
	if v.State != c.UserState || v.UserText != c.UserText || !slices.Equal(v.Actions, c.UserActions) {
		t.Errorf("%s: the platform shows %s %q %v, the report %s %q %v", name, v.State, v.UserText, v.Actions, c.UserState,
			c.UserText, c.UserActions)
	}
}

// TestTenantsAreShownWhatRecordingsSay: the same for the evidence of every recorded walk.
func TestTenantsAreShownWhatRecordingsSay(t *testing.T) {
	files, err := filepath.Glob("../../golden/[rm]*/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := &diag.Report{}
		if err := json.Unmarshal(data, r); err != nil {
			t.Fatal(err)
		}
		if r, err = verdict.Replay(hops.BuiltIn(), r); err != nil {
			t.Fatal(err)
		}
		e, code := verdict.EvidenceOf(hops.BuiltIn(), r), r.Verdict.Reason
		if rule := r.Classification.Rule; rule != nil && rule.Reason == code && r.Classification.Beside != "" {
			code = diag.ReasonFor(r.Verdict.Blame.Signal, r.Verdict.Blame.Failure) // the fault that comes first
		}
		same(t, filepath.Base(file), r.Classification, shownBy(code, e.Seen()))
	}
}
