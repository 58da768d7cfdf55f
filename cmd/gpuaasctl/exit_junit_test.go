package main

import (
	"bytes"
	"encoding/xml"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// TestJUnitAgreesWithTheExitCode: whatever a gate stops at, a CI that reads the file stops at the same.
func TestJUnitAgreesWithTheExitCode(t *testing.T) {
	for _, outcome := range []diag.Outcome{diag.OutcomePass, diag.OutcomeWarn, diag.OutcomeFail, diag.OutcomeInconclusive, ""} {
		for _, ended := range []diag.EndedBy{diag.EndedCompleted, diag.EndedDeadline, diag.EndedInterrupted, diag.EndedError} {
			for _, diff := range []*diag.Diff{nil, {}, {Comparable: true}, {Comparable: true, Changes: []diag.Change{{Kind: diag.ChangeRoute, Regression: true}}}} {
				for _, failOn := range []string{"", failOnWarn, failOnRegression} {
					r := &diag.Report{Run: diag.Run{EndedBy: ended}, Verdict: diag.Verdict{Outcome: outcome}, Diff: diff}
					r.Hops = []diag.HopResult{{ID: diag.HopControlPlaneAccess, Finding: diag.Finding{Status: diag.StatusPass}}}
					if outcome != "" && outcome != diag.OutcomePass {
						r.Hops[0].Status = diag.Status(outcome)
					}
					var b bytes.Buffer
					if err := render.Report(&b, r, render.Options{Format: render.JUnit, FailOn: failOn}); err != nil {
						t.Fatal(err)
					}
					var s render.JUnitSuites
					if err := xml.Unmarshal(b.Bytes(), &s); err != nil {
						t.Fatal(err)
					}
					if code := codeOf(judged(r, failOn)); (code == 0) != (s.Failures+s.Errors == 0) {
						t.Errorf("%q ended by %s under %q with diff %+v: exit code %d, %d failures, %d errors", outcome, ended, failOn, diff, code, s.Failures, s.Errors)
					}
				}
			}
		}
	}
}
