package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Longer than 300 lines: the claims are a table, in the order of a run, each with the function that judges it.

// Names of probes in plans.
const (
	ProbeInjected = "injected"
	ProbeControl  = "control"
	ProbeProof    = "recovered"
	// a tenant's terminal that is open when the fault is injected: it passes if it ends as expected
	ProbeTerminal = "terminal"
)

// finding is a claim's state, judged from the story so far. The zero finding is NotSeen.
type finding struct {
	state State
	word  Word
	text  string
}

func held(format string, args ...any) finding {
	return finding{Held, "", fmt.Sprintf(format, args...)}
}

func violated(w Word, format string, args ...any) finding {
	return finding{Violated, w, fmt.Sprintf(format, args...)}
}

// unknown is the finding for a machine that was touched and whose state is unknown. It outweighs a pass of
// everything else.
func unknown(format string, args ...any) finding {
	return finding{NotSeen, Infra, fmt.Sprintf(format, args...)}
}

// unmeasured is the finding of a claim for which no probe ran: it is not held.
func unmeasured(format string, args ...any) finding {
	return finding{NotSeen, Infra, "not measured: " + fmt.Sprintf(format, args...)}
}

// ClaimRow is the text of a claim, independent of a run. The rows are in diag/catalogue/claims.yaml, in the order
// of a run.
type ClaimRow struct {
	ID    string
	Title string
	Held  string // condition under which the claim is held, in Markdown
	Else  []Word // verdicts of a drill that violates the claim, or in which it was not seen
}

// ClaimRows returns every row. The Else slices are shared: do not modify them.
func ClaimRows() []ClaimRow { return slices.Clone(claimRows[:]) }

// judges maps each claim's id to the function that judges it.
func judges() map[string]func(*Story) finding {
	return map[string]func(*Story) finding{
		ClaimGuards:      (*Story).claimGuards,
		ClaimGreenBefore: (*Story).claimBefore,
		ClaimProbes:      (*Story).claimProbes,
		ClaimArmed:       (*Story).claimArmed,
		ClaimInjected:    (*Story).claimInjected,
		ClaimControl:     (*Story).claimControl,
		ClaimDetected:    (*Story).claimDetected,
		ClaimInTime:      (*Story).claimInTime,
		ClaimSpared:      (*Story).claimSpared,
		ClaimTold:        (*Story).claimTold,
		ClaimKept:        (*Story).claimKept,
		ClaimReverted:    (*Story).claimReverted,
		ClaimProof:       (*Story).claimProof,
		ClaimGreenAfter:  (*Story).claimAfter,
		ClaimClean:       (*Story).claimClean,
		ClaimClosed:      (*Story).claimClosed,
	}
}

// Claims returns the state of every claim.
func (s *Story) Claims() []Claim {
	var all []Claim
	judge := judges()
	for _, c := range claimRows {
		f := judge[c.ID](s)
		f.state = cmp.Or(f.state, NotSeen)
		claim := Claim{ID: c.ID, Title: c.Title, State: f.state, Word: f.word, Text: f.text}
		if f.state == NotApplicable {
			claim.State, claim.NotApplicable = NotSeen, true
		}
		all = append(all, claim)
	}
	return all
}

func (s *Story) claimGuards() finding {
	switch {
	case len(s.Refused) > 0:
		return violated(AbortedGuard, "%s", join(s.Refused, chaos.Refusal.String))
	case s.Stopped != "":
		return violated(AbortedGuard, "%s", s.Stopped)
	case !s.touched() || s.unlogged():
		return finding{}
	}
	return held("")
}

// unlogged reports whether the tool's log is missing, so that its refusals and other machines are unknown.
func (s *Story) unlogged() bool { return s.Plan.Hash == "" }

// claimProbes detects probes that pass whatever happens, and a control probe that failed from the start.
func (s *Story) claimProbes() finding {
	fault, control := s.LastProbe(Before, ProbeInjected), s.LastProbe(Before, ProbeControl)
	proof := s.LastProbe(During, ProbeProof)
	switch {
	case proof != nil && proof.Held:
		return violated(AbortedGuard, "what is to prove the repair holds while the fault is there, so it would prove nothing")
	case fault != nil && fault.Held:
		return violated(AbortedGuard,
			"what is to show the fault shows it before anything is touched, so it would prove nothing")
	case control != nil && !control.Held && !control.NotRun:
		return violated(AbortedGuard, "what must still work does not, before anything is touched: %s", control.Why)
	case fault == nil || control == nil || fault.NotRun || control.NotRun ||
		(proof == nil && s.detected() != nil && !s.Plan.Scenario.Expect.Blame.None):
		return finding{}
	}
	return held("")
}

// touched reports whether the run touched any machine.
func (s *Story) touched() bool {
	return slices.ContainsFunc(s.Machines, func(p MachineStory) bool { return p.Touched })
}

func (s *Story) claimBefore() finding {
	before := s.walks(Before)
	if len(before) == 0 {
		return finding{}
	}
	if w := before[len(before)-1]; !w.Green() {
		return finding{Violated, AbortedGuard, "the chain is not green before anything is touched: " + w.VerdictLine()}
	}
	if s.uncontrolled() {
		return violated(AbortedGuard, "nothing is green before anything is touched but what is to fail: there is no control")
	}
	return held("")
}

// broken reports whether a fault was injected, or may have been.
func (s *Story) broken() bool {
	return slices.ContainsFunc(s.Machines, func(p MachineStory) bool { return p.Broken })
}

func (s *Story) claimArmed() finding {
	if !s.ready() || s.unlogged() {
		return finding{}
	}
	return held("%s", join(s.Machines, func(p MachineStory) string { return p.ID }))
}

func (s *Story) claimInjected() finding {
	for _, p := range s.Machines {
		if p.Against != "" {
			return violated(NotInjected, "%s: %s", p.ID, p.Against)
		}
	}
	return s.looked(During, ProbeInjected, NotInjected)
}

func (s *Story) claimControl() finding { return s.looked(During, ProbeControl, NotInjected) }

// looked judges a claim that rests on one probe. A probe whose tool could not run proves nothing.
func (s *Story) looked(stage Stage, name string, otherwise Word) finding {
	switch l := s.LastProbe(stage, name); {
	case l == nil:
		return finding{}
	case l.NotRun:
		return finding{NotSeen, Infra, l.Why}
	case !l.Held:
		return violated(otherwise, "%s", l.Why)
	default:
		return held("after %s", Seconds(int64(l.TookMS)))
	}
}

func (s *Story) claimDetected() finding {
	if lost := s.estranged(); lost != "" && s.Plan.Scenario.Expect.SameCorrelationID {
		return violated(Collateral, "%s", lost)
	}
	if w := s.detected(); w != nil {
		return held("%s%s", w.VerdictLine(), s.noIDs(w))
	}
	during := s.walks(During)
	if _, placed := s.InPlace(); !placed || len(during) == 0 || s.cutShort() {
		return finding{}
	}
	word, text := Judge(s.expect(), during[len(during)-1])
	if word == Pass { // once, where it takes two
		return finding{}
	}
	return violated(word, "the chain %s", text)
}

// cutShort reports whether the chain had less than its full time to detect the fault.
func (s *Story) cutShort() bool {
	return s.Interrupted != "" || s.Stopped != "" || s.lost() != nil || s.claimInjected().word != "" ||
		s.claimControl().word != ""
}

func (s *Story) lost() *MachineStory {
	for i, p := range s.Machines {
		if p.Lost != "" {
			return &s.Machines[i]
		}
	}
	return nil
}

func (s *Story) claimInTime() finding {
	t := s.detect()
	switch {
	case !t.Seen:
		return finding{}
	case t.over():
		return violated(Late, "seen %s", t)
	}
	return held("%s", t)
}

func (s *Story) claimSpared() finding {
	if h, w := s.red(); h != "" {
		return violated(Collateral, "%s failed in walk %d, and must stay green%s", h, w.N, w.saidOf(h))
	}
	w := s.detected()
	if w == nil {
		return finding{}
	}
	var left []diag.HopID
	must := s.staysGreen()
	for _, h := range must {
		if w.Hops[h] == diag.StatusSkipped {
			left = append(left, h)
		}
	}
	if len(left) > 0 {
		return unmeasured("%s, which must stay green and was left out of the walk", step.Join(left, " and "))
	}
	return held("%d hops%s", len(must)-len(s.notReached(w)), s.notMeasuredText(w))
}

// claimTold judges what tenants got: an operation that fails for them must end with a readable error, not with a
// spinner.
func (s *Story) claimTold() finding {
	w := s.detected()
	if want := s.Plan.Scenario.Expect.Terminal; want != "" {
		before := s.LastProbe(Before, ProbeTerminal)
		switch l := s.LastProbe(During, ProbeTerminal); {
		case before != nil && before.NotRun:
			return unmeasured("how a terminal ends: %s", before.Why)
		case l == nil && w != nil:
			return unmeasured("how a terminal ends that was open before")
		case l == nil:
		case !l.Held:
			return violated(Collateral, "a terminal that was open before: %s, want %s", l.Why, want)
		case w != nil && !w.Spinner && len(w.Unseen) == 0:
			return held("a terminal that was open before: %s%s", l.Why, orNothing("; then ", w.UserSaw))
		}
	}
	switch {
	case s.tenantless():
		return finding{NotApplicable, "", "not measured here: what a tenant got"}
	case w == nil:
		return finding{}
	case w.Spinner:
		return violated(Collateral, "the user was left without a word: %s", w.UserSaw)
	case len(w.Unseen) > 0:
		return unmeasured("what the user got at %s", step.Join(w.Unseen, " and "))
	case w.UserSaw == "" && slices.ContainsFunc(w.HopIDs(), func(h diag.HopID) bool {
		return tenantNotices(h) && w.Hops[h] == diag.StatusFail
	}):
		return unmeasured("what the user got") // the log is older than this measurement
	case w.UserSaw == "":
		return held("nothing of a user's failed")
	}
	return held("%s", w.UserSaw)
}

func (s *Story) claimKept() finding {
	if p := s.lost(); p != nil {
		return violated(RevertedEarly, "%s reverted itself: %s", p.ID, p.Lost)
	}
	for _, p := range s.Machines {
		if l := s.LastProbe(During, ProbeInjected); l != nil && l.Held && p.RevertedMS > 0 && p.State == step.Lost {
			return violated(RevertedEarly, "%s was restored before its revert began, and not by the drill: %s", p.ID,
				against(p))
		}
	}
	if _, placed := s.InPlace(); !placed {
		return finding{}
	}
	return held("")
}

// claimReverted judges every machine that was touched; a machine that was never armed has nothing to revert.
func (s *Story) claimReverted() finding {
	var open []string
	for _, p := range s.Machines {
		switch {
		case !p.Touched || (p.Closed && !p.Armed):
		case p.State == step.Conflict:
			return violated(Conflict, "%s: %s", p.ID, against(p))
		case p.State == step.Failed:
			return violated(Residue, "%s could not revert everything yet: %s", p.ID, against(p))
		case !p.back():
			open = append(open, p.ID)
		}
	}
	switch {
	case len(open) > 0:
		return unknown("whether %s is reverted is not known; it does so by itself after %s", strings.Join(open, ", "),
			s.Plan.Budgets.Lease)
	case !s.touched():
		return finding{}
	}
	return held("%s", join(s.Machines, func(p MachineStory) string {
		return fmt.Sprintf("%s in %.0f ms", p.ID, float64(p.UndoUS)/1000)
	}))
}

// against names the first change of the machine that was not reverted cleanly, or else the machine's state.
func against(p MachineStory) string {
	for _, st := range p.Steps {
		for _, c := range st.Changes {
			if slices.Contains([]step.State{step.Conflict, step.Failed, step.Lost}, c.State) {
				return c.Place + orNothing(": ", c.Text)
			}
		}
	}
	return string(p.State)
}

func (s *Story) claimProof() finding {
	if s.Decided != nil && *s.Decided != "" {
		return violated(NoRecovery, "the platform did not take the decision: %s", *s.Decided)
	}
	if s.Plan.Decision != nil && s.Decided == nil {
		return finding{}
	}
	if l := s.LastProbe(After, ProbeProof); l != nil && !l.Held {
		if _, back := s.RevertedAt(); !back { // then it proves nothing
			return finding{}
		}
	}
	return s.looked(After, ProbeProof, NoRecovery)
}

func (s *Story) claimAfter() finding {
	after := s.walks(After)
	t := s.recovered()
	switch {
	case t.Seen && t.over():
		return violated(NoRecovery, "green %s", t)
	case t.Seen:
		return held("%s", t)
	case len(after) == 0 || s.Interrupted != "":
		return finding{}
	}
	if zero, back := s.RevertedAt(); !back || after[len(after)-1].BeganMS < zero {
		return finding{}
	}
	if s.recoveredIn(after[len(after)-1]) {
		return violated(NoRecovery, "the chain was green less than %d times in a row", s.Plan.Scenario.Recovery.Green)
	}
	return violated(NoRecovery, "the chain is not green: %s", after[len(after)-1].VerdictLine())
}

func (s *Story) claimClean() finding {
	var open []string
	for _, p := range s.Machines {
		switch {
		case p.Clean != nil && !*p.Clean:
			return violated(Residue, "%s: %s", p.ID, join(step.Unexplained(p.Residue), step.Residue.String))
		case p.Clean == nil && (p.Armed || p.RevertedMS > 0):
			open = append(open, p.ID)
		}
	}
	switch {
	case len(open) > 0:
		return unknown("%s was not compared with before", strings.Join(open, ", "))
	case !slices.ContainsFunc(s.Machines, func(p MachineStory) bool { return p.Armed }):
		return finding{}
	}
	return held("")
}

func (s *Story) claimClosed() finding {
	var open []string
	for _, p := range s.Machines {
		if p.Touched && !p.Closed {
			open = append(open, p.ID+orNothing(": ", p.NotClosed))
		}
	}
	switch {
	case len(open) > 0:
		return unknown("the drill is still on %s", strings.Join(open, ", "))
	case !s.touched():
		return finding{}
	}
	return held("")
}

func orNothing(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}

func join[T any](all []T, text func(T) string) string {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = text(v)
	}
	return strings.Join(words, "; ")
}
