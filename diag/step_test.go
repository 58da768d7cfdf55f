package diag

import (
	"slices"
	"strings"
	"testing"
)

var (
	allReliances = []Reliance{RelyLogin, RelyAPI, RelyTasks}
	allAspects   = []Aspect{AboutName, AboutPath, AboutServerCert, AboutAPIWay, AboutTerminalWay, AboutListener, AboutIdentity, AboutAgent, AboutBuild, AboutAllocation, AboutUser}
	allSides     = []Side{"", SideOperator, SidePlatform}
)

// TestStepsFitEverySituation: of every row, in every situation, steps that need what is broken are gone, and so are those
// about what is ruled out; there is always one.
func TestStepsFitEverySituation(t *testing.T) {
	for _, r := range Signals() {
		for mask := range 1 << (len(allReliances) + len(allAspects)) {
			s := Situation{}
			for i, n := range allReliances {
				if mask&(1<<i) != 0 {
					s.Broken = append(s.Broken, n)
				}
			}
			for i, a := range allAspects {
				if mask&(1<<(len(allReliances)+i)) != 0 {
					s.RuledOut = append(s.RuledOut, a)
				}
			}
			s.Side = allSides[mask%len(allSides)]
			if mask%5 == 0 {
				s.Cause = "socket: too many open files"
			}
			checkSteps(t, &r, s)
		}
	}
}

func checkSteps(t *testing.T, r *SignalRow, s Situation) {
	t.Helper()
	steps := r.Steps(s)
	if len(steps) == 0 || slices.Contains(steps, "") {
		t.Errorf("%s in %+v: steps %q", r.Signal, s, steps)
	}
	if s.Cause != "" && !strings.Contains(steps[0], "LimitNOFILE") {
		t.Errorf("%s in %+v: the cause is named, and the first step is %q", r.Signal, s, steps[0])
	}
	for _, text := range steps {
		i := slices.IndexFunc(r.Recovery, func(step Step) bool { return step.Text == text })
		tries := i >= 0 && r.Recovery[i].Tries == RelyLogin
		if slices.Contains(s.Broken, RelyLogin) && strings.Contains(text, "{ssh}") && !tries {
			t.Errorf("%s in %+v: %q needs a login", r.Signal, s, text)
		}
		if i < 0 {
			continue // of another table
		}
		step := r.Recovery[i]
		for _, n := range step.Needs {
			if slices.Contains(s.Broken, n) {
				t.Errorf("%s in %+v: %q needs %s", r.Signal, s, text, n)
			}
		}
		if len(step.About) > 0 && !slices.ContainsFunc(step.About, func(a Aspect) bool { return !slices.Contains(s.RuledOut, a) }) {
			t.Errorf("%s in %+v: %q is about what is ruled out", r.Signal, s, text)
		}
		if step.Guess && s.Cause != "" {
			t.Errorf("%s: %q is a guess, and the cause is named", r.Signal, text)
		}
	}
}

// TestStepWordsAreClosed: no step names a need, an aspect or a side that nobody decides.
func TestStepWordsAreClosed(t *testing.T) {
	for _, r := range Signals() {
		for _, step := range r.Recovery {
			for _, n := range step.Needs {
				if !slices.Contains(allReliances, n) {
					t.Errorf("%s: need %q", r.Signal, n)
				}
			}
			for _, a := range step.About {
				if !slices.Contains(allAspects, a) {
					t.Errorf("%s: aspect %q", r.Signal, a)
				}
			}
			if !slices.Contains(allSides, step.Side) || step.When != "" && !slices.Contains(allReliances, step.When) {
				t.Errorf("%s: side %q, when %q", r.Signal, step.Side, step.When)
			}
		}
		for side, owner := range r.Owners {
			if !slices.Contains(allSides, side) || owner == "" {
				t.Errorf("%s: side %q has the owner %q", r.Signal, side, owner)
			}
		}
	}
}

// TestEveryLackHasSomebody: who supplies it, and what is done first.
func TestEveryLackHasSomebody(t *testing.T) {
	var rows []string
	for _, r := range Lacks() {
		rows = append(rows, string(r.Lack))
		if r.Owner == "" || len(r.Steps) == 0 {
			t.Errorf("%s: owner %q, steps %q", r.Lack, r.Owner, r.Steps)
		}
	}
	sameSet(t, "lack", declared(t, "Lack"), rows)
}
