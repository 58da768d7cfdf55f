package ops

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// journaled is a machine with one drill. If its own program fails, ours reads the journal.
type journaled struct {
	known, broken bool // known: the journal can be parsed; broken: the drill's own program is gone
	conflict      bool
	asked         []string
}

func (j *journaled) FaultOf(_ context.Context, _ string, args ...string) (step.Reply, error) {
	if j.broken {
		return step.Reply{Error: "exec format error"}, nil
	}
	return j.answer("its own", args)
}

func (j *journaled) Fault(_ context.Context, _ []byte, args ...string) (step.Reply, error) {
	if i := slices.Index(args, "--run"); i < 0 || args[i+1] != "r" {
		return step.Reply{Error: "which drill?"}, nil
	}
	return j.answer("ours", args[:len(args)-2])
}

func (j *journaled) answer(program string, args []string) (step.Reply, error) {
	j.asked = append(j.asked, program+" "+strings.Join(args, " "))
	st := aDrill(step.PhaseOver, step.Reverted)
	if j.conflict {
		st.State = step.Conflict
	}
	switch {
	case args[0] == "revert" && !j.known:
		return step.Reply{Status: &step.Status{Phase: step.PhaseArming},
			Refused: step.Refuse(step.RefusedNone, "the journal holds no drill")}, nil
	case args[0] == "verify":
		return step.Reply{Status: st, Clean: is(true)}, nil
	}
	return step.Reply{Status: st}, nil
}

// TestUndo: a drill whose program is gone is reverted by ours if there is a journal. Only a drill without a journal is
// removed without reverting, and a conflict never is.
func TestUndo(t *testing.T) {
	dead := remote.KeptRun{Run: "r", Error: "its folder has no program"}
	alive := remote.KeptRun{Run: "r", Status: aDrill(step.PhaseArmed, step.Done)}
	for name, c := range map[string]struct {
		on     journaled
		found  remote.KeptRun
		asked  string
		closed bool
		left   string
	}{
		"its own program": {journaled{known: true}, alive,
			"its own revert --why asked for, its own verify, its own close", true, ""},
		"its program is gone": {journaled{known: true, broken: true}, dead,
			"ours revert --why asked for, ours verify, ours close", true, ""},
		"and somebody changed something": {journaled{known: true, broken: true, conflict: true}, dead,
			"ours revert --why asked for, ours verify", false,
			"manual changes were left alone; its journal (then: gpuaasctl chaos " +
				"revert r --force)"},
		"no journal": {journaled{broken: true}, dead, "ours revert --why asked for, ours close --force",
			true, ""},
		"a program and no journal": {journaled{}, alive, "its own revert --why asked for, its own close --force", true,
			""},
		"its program broke meanwhile": {journaled{known: true, broken: true}, alive, "", false, "it may not be reverted"},
	} {
		x := undo(t.Context(), &c.on, c.found, false)
		if got := strings.Join(c.on.asked, ", "); got != c.asked || x.Closed != c.closed || x.Left != c.left {
			t.Errorf("%s: asked %q, want %q; %+v", name, got, c.asked, x)
		}
	}
}

func aDrill(phase string, state step.State) *step.Status {
	return &step.Status{Phase: phase, State: state}
}

func is(b bool) *bool { return &b }
