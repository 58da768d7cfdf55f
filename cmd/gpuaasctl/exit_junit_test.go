package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/xunit"
)

// TestJUnitAgreesWithTheExitCode: for every gate, a CI that reads the file fails exactly if the exit code does.
func TestJUnitAgreesWithTheExitCode(t *testing.T) {
	for _, outcome := range []diag.Outcome{diag.OutcomePass, diag.OutcomeWarn, diag.OutcomeFail, diag.OutcomeInconclusive,
		""} {
		for _, ended := range []diag.EndedBy{diag.EndedCompleted, diag.EndedDeadline, diag.EndedInterrupted,
			diag.EndedError} {
			for _, diff := range []*diag.Diff{nil, {}, {Comparable: true},
				{Comparable: true, Changes: []diag.Change{{Kind: diag.ChangeRoute, Regression: true}}}} {
				for _, failOn := range []string{"", cmdutil.FailOnWarn, cmdutil.FailOnRegression} {
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
					if code := cmdutil.CodeOf(cmdutil.Judged(r, failOn)); (code == 0) != (s.Failures+s.Errors == 0) {
						t.Errorf("%q ended by %s under %q with diff %+v: exit code %d, %d failures, %d errors", outcome, ended, failOn,
							diff, code, s.Failures, s.Errors)
					}
				}
			}
		}
	}
}

// TestJUnitOfEveryRecording: Jenkins accepts the file for each recorded walk. It is green if the exit code is 0, and
// has one failure or error for the blame and for each further finding, but none for their symptoms.
func TestJUnitOfEveryRecording(t *testing.T) {
	walks, _ := filepath.Glob("../../golden/reports/*.json")
	if len(walks) < 20 {
		t.Fatalf("%d walks are recorded", len(walks))
	}
	a := &cmdutil.App{Stderr: io.Discard, Env: func(string) string { return "" }}
	for _, path := range walks {
		data, err := a.ReadAll(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Rejudge(data)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, failOn := range []string{"", cmdutil.FailOnWarn, cmdutil.FailOnRegression} {
			var b bytes.Buffer
			if err := render.Report(&b, r, render.Options{Format: render.JUnit, FailOn: failOn}); err != nil {
				t.Fatal(err)
			}
			var s render.JUnitSuites
			if err := errors.Join(xunit.Check(b.Bytes()), xml.Unmarshal(b.Bytes(), &s)); err != nil {
				t.Errorf("%s %s: %v", path, failOn, err)
			}
			if code := cmdutil.CodeOf(cmdutil.Judged(r, failOn)); (code == 0) != (s.Failures+s.Errors == 0) {
				t.Errorf("%s %s: exit code %d, %d failures, %d errors", path, failOn, code, s.Failures, s.Errors)
			}
			if v := &r.Verdict; failOn == "" && v.Outcome == diag.OutcomeFail && s.Failures > 1+len(v.OtherFindings) {
				t.Errorf("%s: %d failures of one cause and %d others", path, s.Failures, len(v.OtherFindings))
			}
		}
	}
}
