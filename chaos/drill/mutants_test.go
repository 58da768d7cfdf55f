//go:build mutants

package drill_test

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/mutanttest"
)

// TestMutants breaks the runner and its judgement in the most important ways, and requires the tests to detect
// that. Faults of the environment (an injector without effect, a leaky revert, a false success, a probe that
// always passes, a late signal, a wrong hop) are runs of TestEndings. All mutants are one program, which takes a
// minute, so it has a build tag.
func TestMutants(t *testing.T) {
	const claim, during, judge, log, restore, run, walkView, story, timing, verdict = "chaos/drill/claim.go",
		"chaos/drill/during.go", "chaos/drill/judge.go", "chaos/drill/log.go", "chaos/drill/restore.go", "chaos/drill/run.go",
		"chaos/drill/walk_view.go", "chaos/drill/story.go", "chaos/drill/timing.go", "chaos/drill/verdict.go"
	all := []mutanttest.Mutant{
		{Name: "takes any failure word", File: "chaos/blame.go",
			Old: " &&\n\t\t(len(f.Failure) == 0 || slices.Contains(f.Failure, failure))", New: ""},
		{Name: "takes any hop", File: "chaos/blame.go", Old: "slices.Contains(f.Hop, hop) && ", New: ""},
		{Name: "forgets residue", File: story, Old: "p.Clean, p.Residue = e.Clean, e.Residue",
			New: "p.Clean = new(bool)\n\t\t*p.Clean = true"},
		{Name: "takes a machine as clean", File: claim, Old: "case p.Clean != nil && !*p.Clean:", New: "case false:"},
		{Name: "is in time when it may have been", File: timing, Old: "return t.WithinMS > t.Budget",
			New: "return t.AfterMS > t.Budget"},
		{Name: "believes a proof that always holds", File: claim, Old: "case proof != nil && proof.Held:",
			New: "case false:"},
		{Name: "believes a look that always holds", File: claim, Old: "case fault != nil && fault.Held:", New: "case false:"},
		{Name: "believes a control that never held", File: claim,
			Old: "case control != nil && !control.Held && !control.NotRun:", New: "case false:"},
		{Name: "passes what was not seen", File: verdict, Old: "case len(unseen) > 0:", New: "case false:"},
		{Name: "passes what was interrupted", File: verdict, Test: "TestInterrupted",
			Old: "case s.Interrupted != \"\":\n\t\tv =", New: "case false:\n\t\tv ="},
		{Name: "does not mind a hop that failed in passing", File: claim, Old: `h, w := s.red(); h != ""`,
			New: `h, w := s.red(); h == "none"`},
		{Name: "does not read what the agent wrote", File: claim, Old: "lost := s.estranged(); lost != \"\" && ",
			New: "lost := s.estranged(); false && "},
		{Name: "does not mind an id that was lost", File: judge, Old: "e.SameCorrelationID && ", New: "false && "},
		{Name: "is green while somebody has to act", File: walkView, Old: " && !s.asks()\n", New: "\n"},
		{Name: "takes any reason", File: judge, Old: "len(e.Reason) > 0 && ", New: "false && "},
		{Name: "does not mind that the platform knows nothing", File: judge, Old: "if len(s.Unnamed) > 0 {",
			New: "if false {"},
		{Name: "takes any end of a terminal", File: "chaos/drill/terminal.go", Old: "t.err == nil && t.how.Reason == want",
			New: "t.err == nil && (t.how.Reason == want || true)"},
		{Name: "forgets an open terminal", File: claim, Old: "case !l.Held:\n\t\t\treturn violated(Collateral, \"a terminal",
			New: "case false:\n\t\t\treturn violated(Collateral, \"a terminal"},
		{Name: "takes a spinner for an answer", File: claim, Old: "case w.Spinner:", New: "case false:"},
		{Name: "takes a user that nobody looked at as informed", File: claim, Old: "case len(w.Unseen) > 0:",
			New: "case false:"},
		{Name: "takes a hop that was left out as green", File: claim, Old: "if len(left) > 0 {", New: "if false {"},
		{Name: "takes a conflict as reverted", File: claim, Old: "case p.State == step.Conflict:",
			New: "case p.State == step.Conflict && false:"},
		{Name: "is content with one quiet walk", File: judge, Old: "const calm = 2", New: "const calm = 1"},
		{Name: "is content with one green walk", File: judge, Old: "row >= s.Plan.Scenario.Recovery.Green", New: "row >= 1"},
		{Name: "injects again without reading the journal", File: during,
			Old: "if err == nil && reply.Status != nil && reply.Status.Phase == step.PhaseArmed {", New: "if true {"},
		{Name: "breaks before it is recorded", File: during,
			Old: "\tif r.record(Event{Kind: Breaking, Machine: t.ID, Step: id}); ctx.Err() != nil {\n\t\treturn " +
				"false\n\t}\n\treply, err := try(ctx, m, stepTimeout, \"do\", \"--run\", r.Plan.Run, \"--step\", id)\n",
			New: "\treply, err := try(ctx, m, stepTimeout, \"do\", \"--run\", r.Plan.Run, \"--step\", id)\n" +
				"\tr.record(Event{Kind: Breaking, Machine: t.ID, Step: id})\n"},
		{Name: "does not notice that it is over", File: during,
			Old: "none || (reply.Status != nil && reply.Status.Phase != step.PhaseArmed)", New: "none"},
		{Name: "does not notice that it was over", File: restore, Old: "return reached || ", New: "return reached && "},
		{Name: "asks once to revert", File: restore, Old: "reached = false", New: "return"},
		{Name: "leaves an interrupted run broken", File: restore, Test: "TestInterrupted",
			Old: "if !read(r, (*Story).touched) {", New: "if h.asked.Err() != nil || !read(r, (*Story).touched) {"},
		{Name: "leaves a machine that may yet arm", File: restore, Old: "if r.mayYetArm(t.ID) && ", New: "if false && "},
		{Name: "says that traces are gone that stay", File: restore, Old: "if err = r.abandon(ctx, m, reply); err == nil {",
			New: "if true {"},
		{Name: "takes a session that is still open for one that ended well", File: walkView,
			Old: `s.ReadModel["session.close_reason"] != sessionOver`,
			New: `s.ReadModel["session.close_reason"] != sessionOver && s.ReadModel["session.close_reason"] != ""`},
		{Name: "decides before everything is reverted", File: restore, Old: "d != nil && back {",
			New: "d != nil && (back || true) {"},
		{Name: "tells of walks that were cut short", File: run, Old: "\tif ctx.Err() != nil {\n\t\treturn s\n\t}\n\twalks :=",
			New: "\twalks :="},
		{Name: "breaks although one is not armed", File: run,
			Old: "!slices.ContainsFunc(s.Machines, func(p MachineStory) bool { return !p.Armed })",
			New: "slices.ContainsFunc(s.Machines, func(p MachineStory) bool { return p.Armed })"},
		{Name: "touches what it cannot tell of", File: run, Test: "TestNothingIsTouchedUnlogged", Old: "case r.logFailed:",
			New: "case false:"},
		{Name: "passes over a missing line", File: log, Test: "TestLogThatIsNone", Old: "if e.Seq != n {", New: "if false {"},
		{Name: "hears no second interrupt", File: "chaos/drill/interrupt.go", Test: "TestAbandoned", Old: "case <-r.Abandon:",
			New: "case <-chan struct{}(nil):"},
	}
	for i := range all {
		all[i].Package = "./chaos/drill"
		if all[i].Test == "" {
			all[i].Test = "TestEndings"
		}
	}
	mutanttest.Check(t, "../..", all)
}
