package diag

import (
	"slices"
	"strings"
	"testing"
)

var (
	allReliances = []Reliance{RelyLogin, RelyAPI, RelyTasks}
	allAspects   = []Aspect{AboutName, AboutPath, AboutServerCert, AboutAPIWay, AboutTerminalWay, AboutListener,
		AboutIdentity, AboutAgent, AboutBuild, AboutAllocation, AboutUser, AboutXID}
	allSides = []Side{"", SideOperator, SidePlatform, SideEdge, SideNodeWay, SideAgent, SideNode, SideNetwork}
)

// TestStepsFitEverySituation: for every row and situation, steps that need what is broken or check what is ruled out
// are omitted, and at least one step is left.
func TestStepsFitEverySituation(t *testing.T) {
	stride := 1
	if testing.Short() { // the race detector's run is shorter: the code is the same
		stride = 11
	}
	for _, r := range Signals() {
		for mask := 0; mask < 1<<(len(allReliances)+len(allAspects)); mask += stride {
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
			s.Reason = reasonRows[mask%len(reasonRows)].Code
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
	if s.Cause != "" && !strings.Contains(steps[0].Text, "LimitNOFILE") {
		t.Errorf("%s in %+v: the cause is named, and the first step is %q", r.Signal, s, steps[0].Text)
	}
	if !slices.ContainsFunc(steps, func(step *Step) bool { return step.runs(toolWords[:]...) }) {
		t.Errorf("%s in %+v: no step has a command of this tool", r.Signal, s)
	}
	reason, _ := LookupReason(s.Reason)
	for _, step := range steps {
		if step.Text == "" {
			t.Errorf("%s in %+v: an empty step", r.Signal, s)
		}
		if n := step.lacks(s.Broken); n != "" {
			t.Errorf("%s in %+v: %q needs %s", r.Signal, s, step.Template(), n)
		}
		if reason.NeverReenroll && strings.Contains(step.Template(), "node reenroll") {
			t.Errorf("%s in %+v: %q is forbidden by the reason", r.Signal, s, step.Template())
		}
		if len(step.About) > 0 && !slices.ContainsFunc(step.About, func(a Aspect) bool {
			return !slices.Contains(s.RuledOut, a)
		}) {
			t.Errorf("%s in %+v: %q is about what is ruled out", r.Signal, s, step.Text)
		}
		if step.Guess && s.Cause != "" {
			t.Errorf("%s: %q is a guess, and the cause is named", r.Signal, step.Text)
		}
	}
}

// TestStepsOfABlamesWords: a step for one failure, reason, side or error code is given for that alone, and replaces the
// others; every word is one that a blame can have.
func TestStepsOfABlamesWords(t *testing.T) {
	known := map[string]bool{"session_store_unavailable": true, "upgrade_required": true} // error codes of the gateway
	for _, f := range Failures {
		known[string(f)] = true
	}
	for _, r := range Reasons() {
		known[string(r.Code)] = true
	}
	for _, side := range allSides {
		known[string(side)] = true
	}
	for _, r := range Signals() {
		for _, step := range r.Recovery {
			for _, w := range slices.Concat(step.Only, step.Except) {
				if !known[w] || w == "" {
					t.Errorf("%s: no blame has the word %q", r.Signal, w)
				}
			}
		}
	}
	given := func(sig Signal, s Situation) string {
		row, _ := LookupSignal(sig)
		var all []string
		for _, step := range row.Steps(s) {
			all = append(all, step.Template())
		}
		return strings.Join(all, "\n")
	}
	for _, c := range []struct {
		sig       Signal
		s         Situation
		has, lack string
	}{
		{SigAuthFailed, Situation{Reason: ReasonIdentityRevokedOrFenced}, "reactivate it", "diag trust"},
		{SigAuthFailed, Situation{Reason: ReasonCertExpired}, "node reenroll", "reactivate it"},
		{SigOpsSSHFailed, Situation{Reason: ReasonIPRouteDrift, Failure: TCPTimeout}, "--node-host {agent_address}",
			"firewall"},
		{SigOpsSSHFailed, Situation{Reason: ReasonOpsAccessUnhealthy, Failure: TCPTimeout}, "firewall", "{agent_address}"},
		{SigUpgradeFailed, Situation{Code: "session_store_unavailable"}, "Redis", "whichever"},
		{SigUpgradeFailed, Situation{Code: "upgrade_required"}, "Connection headers", "whichever"},
		{SigUpgradeFailed, Situation{}, "whichever", "restore the gateway's session store"},
		{SigAPITLSFailed, Situation{Failure: FileMissing}, "node reenroll", "openssl"},
		{SigConnectingStuck, Situation{Side: SideEdge}, "in front of the gateway", "make the gateway"},
		{SigConnectingStuck, Situation{}, "make the gateway", "in front of the gateway"},
		{SigAgentConfined, Situation{Network: NetworkAgent}, "-t {agent_pid} -n nft list", "{exec} nft list"},
		{SigAgentConfined, Situation{Network: NetworkNode}, "{exec} nft list", "nsenter"},
		{SigOperatorMachine, Situation{Network: NetworkOperator, Failure: TCPDenied}, "`nft list", "{exec} nft list"},
		{SigOperatorMachine, Situation{Network: NetworkNode, Failure: TCPDenied}, "{exec} nft list", "`nft list"},
	} {
		if got := given(c.sig, c.s); !strings.Contains(got, c.has) || strings.Contains(got, c.lack) {
			t.Errorf("%s in %+v: want %q and no %q:\n%s", c.sig, c.s, c.has, c.lack, got)
		}
	}
}

// TestOwnersFollowTheSide: if an edge answers the upgrade instead of the gateway, the gateway's team is not called.
func TestOwnersFollowTheSide(t *testing.T) {
	row, _ := LookupSignal(SigConnectingStuck)
	if at, elsewhere := row.OwnersOn(SideEdge), row.OwnersOn(""); !slices.Contains(at, "edge and route profile") ||
		slices.Contains(elsewhere, "edge and route profile") {
		t.Errorf("at the edge %q, elsewhere %q", at, elsewhere)
	}
}

// TestReenrollmentIsForbidden: a reason whose next action says never to re-enroll forbids the step.
func TestReenrollmentIsForbidden(t *testing.T) {
	for _, r := range Reasons() {
		if says := r.NextAction.Whole(); strings.Contains(says, "never re-enroll") && !r.NeverReenroll {
			t.Errorf("%s: %s", r.Code, says)
		}
	}
}

// TestStepWordsAreClosed: no step names a need, an aspect or a side outside the closed lists, or a side without owners.
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
			if !slices.Contains(allSides, step.Side) || (step.When != "" && !slices.Contains(allReliances, step.When)) {
				t.Errorf("%s: side %q, when %q", r.Signal, step.Side, step.When)
			}
			if step.Side != "" && !slices.ContainsFunc(r.BySide, func(o SideOwners) bool { return o.Side == step.Side }) {
				t.Errorf("%s has a step for the side %s, which has no owners", r.Signal, step.Side)
			}
		}
		for _, o := range r.BySide {
			if !slices.Contains(allSides, o.Side) || len(o.Owners) == 0 {
				t.Errorf("%s: side %q has the owners %q", r.Signal, o.Side, o.Owners)
			}
		}
	}
}

// TestEveryLackHasSomebody: every lack names who can supply it, and the first step.
func TestEveryLackHasSomebody(t *testing.T) {
	var rows []string
	for _, r := range lackRows {
		rows = append(rows, string(r.Lack))
		if len(r.Owners) == 0 || len(r.Recovery) == 0 {
			t.Errorf("%s: owners %q, steps %v", r.Lack, r.Owners, r.Recovery)
		}
	}
	sameSet(t, "lack", declared(t, "Lack"), rows)
}

// TestNextStepIsItsTemplate: for every row, with and without values, a step with separate commands reads like its
// template.
func TestNextStepIsItsTemplate(t *testing.T) {
	var all []Step
	for _, row := range Signals() {
		all = append(all, row.Recovery...)
	}
	for i := range causeSteps {
		all = append(all, causeSteps[i].step)
	}
	all = append(all, stepCause, stepConsole, stepAPIFirst, stepBundle, stepReadReport)
	for _, vars := range []map[string]string{nil, {"target": "n1 --profile lab", "preflight": "gpuaasctl preflight n1",
		"node_host": "a b", "unit": "x'.service", "correlation_id": "-bad"}} {
		for i := range all {
			next := all[i].Filled(Given(vars))
			if want := Fill(all[i].Template(), Given(vars)); next.Prose() != want {
				t.Errorf("%q, want %q", next.Prose(), want)
			}
			if len(next.Commands()) != len(all[i].Commands) {
				t.Errorf("%q has the commands %q", all[i].Template(), next.Commands())
			}
		}
	}
}
