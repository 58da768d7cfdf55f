package diag

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var (
	allReliances = []Reliance{RelyLogin, RelyAPI, RelyTasks}
	allAspects   = []Aspect{AboutName, AboutPath, AboutServerCert, AboutAPIWay, AboutTerminalWay, AboutListener,
		AboutIdentity, AboutAgent, AboutBuild, AboutAllocation, AboutUser, AboutXID, AboutBundle, AboutClientCA}
	allSides = []Side{"", SideOperator, SidePlatform, SideEdge, SideNodeWay, SideAgent, SideNode, SideWorkload,
		SideNetwork}
)

// template is text and commands of a step as one text.
func (step *Step) template() string {
	return step.Text + "`" + strings.Join(step.Commands, "`, `") + "`"
}

// TestStepsFitEverySituation: for every row and situation, steps that need what is broken or check what is ruled out
// are omitted, and at least one step is left.
func TestStepsFitEverySituation(t *testing.T) {
	stride := 7
	if testing.Short() { // the race detector's run is shorter: the code is the same
		stride = 67
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
			t.Errorf("%s in %+v: %q needs %s", r.Signal, s, step.template(), n)
		}
		if reason.NeverReenroll && strings.Contains(step.template(), "node reenroll") {
			t.Errorf("%s in %+v: %q is forbidden by the reason", r.Signal, s, step.template())
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
	for _, d := range AllDetails {
		known[string(d)] = true
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
			all = append(all, step.template())
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
		{SigProcessDown, Situation{Failure: UnitInactive, Details: []Detail{DetailMasked}}, "systemctl unmask",
			"systemctl restart"},
		{SigProcessDown, Situation{Failure: UnitMissing}, "install the agent's package", "systemctl restart"},
		{SigProcessDown, Situation{Failure: ProcessStopped, Details: []Detail{DetailFrozen}}, "systemctl thaw",
			"unmask"},
		{SigBinaryInvalid, Situation{Failure: BinaryNotExecutable}, "make it executable", "uname -m"},
		{SigOpsSSHFailed, Situation{Failure: Timeout, Details: []Detail{DetailAuthStall}, RuledOut: []Aspect{AboutPath}},
			"PAM", "does it listen"},
		{SigAPITLSFailed, Situation{Failure: TLSExpired}, "renew the certificate", "node reenroll"},
		{SigAPITLSFailed, Situation{Failure: TLSNameMismatch}, "its SAN", "node reenroll"},
		{SigAPITLSFailed, Situation{Failure: TLSUnknownCA, Details: []Detail{DetailOtherCAAlike}}, "intercepts TLS",
			"node reenroll"},
		{SigAPITLSFailed, Situation{Failure: TLSUnknownCA}, "node reenroll", "intercepts TLS"},
		{SigNodeStreamMTLS, Situation{Failure: TLSExpired}, "renew the certificate", "node reenroll"},
		{SigAPIUnreachable, Situation{Failure: Timeout, Details: []Detail{DetailTLSStall}}, "don't-fragment", "ip route"},
		{SigAPIUnreachable, Situation{Failure: TCPNoRoute}, "ip route get", "don't-fragment"},
		{SigAgentConfined, Situation{Network: NetworkNode, Details: []Detail{DetailDenyingRoute}}, "ip route get", "nft"},
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
		if says := r.NextAction.AllWordings(); strings.Contains(says, "never re-enroll") && !r.NeverReenroll {
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

// TestConditionsAreNamed: the line of a step names each of its conditions, and a step without one has none.
func TestConditionsAreNamed(t *testing.T) {
	conditional := 0
	for _, r := range Signals() {
		for _, step := range r.Recovery {
			line := step.Condition()
			if line == "" {
				if bare := (Step{Text: step.Text, Commands: step.Commands, Tries: step.Tries}); !reflect.DeepEqual(bare, step) {
					t.Errorf("%s: %q has a condition that its line does not name", r.Signal, step.Text)
				}
				continue
			}
			conditional++
			words := []string{relianceWords[step.When].broken, networkWords[step.Network]}
			for _, w := range slices.Concat(step.Only, step.Except, []string{string(step.On), string(step.Side)}) {
				words = append(words, cmp.Or(sideWords[Side(w)], w))
			}
			for _, a := range step.About {
				words = append(words, cmp.Or(aspectWords[a], "no words for "+string(a)))
			}
			for _, n := range step.Needs {
				words = append(words, cmp.Or(relianceWords[n].works, "no words for "+string(n)))
			}
			for _, w := range words {
				if !strings.Contains(line, w) || !strings.HasSuffix(line, ": ") {
					t.Errorf("%s: the condition of %q is %q, without %q", r.Signal, step.Text, line, w)
				}
			}
		}
	}
	if conditional < 80 {
		t.Errorf("only %d conditional steps", conditional)
	}
	for _, side := range allSides[1:] {
		if side.Words() == "" {
			t.Errorf("the side %s has no words", side)
		}
	}
}

// TestForFailure: a failure keeps the steps for it, in order, and decides only conditions about failures.
func TestForFailure(t *testing.T) {
	for _, r := range Signals() {
		for _, f := range append(slices.Clone(r.Failures), HTTPStatus) {
			for _, step := range r.Recovery {
				got, ok := step.ForFailure(f)
				mine := Situation{Failure: f, Side: step.Side, Network: step.Network, RuledOut: f.excludes(),
					Broken: []Reliance{step.When}}
				if step.fits(&mine) && !ok {
					t.Errorf("%s --for %s lacks %q", r.Signal, f, step.Text)
				}
				if words := codesOf(append(got.Only, got.Except...)); ok && (got.On != "" || got.Side != step.Side ||
					slices.ContainsFunc(words, func(w string) bool { return slices.Contains(Failures[:], Failure(w)) })) {
					t.Errorf("%s --for %s: %q still has the condition %q", r.Signal, f, got.Text, got.Condition())
				}
				if ok && (slices.Contains(step.Except, string(f)) || (step.On != "" && step.On != f)) {
					t.Errorf("%s --for %s has %q", r.Signal, f, step.Text)
				}
			}
		}
	}
}
