package drill

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Sight is the result of one walk, as far as a drill needs it.
type Sight struct {
	N             int                        `json:"n"` // the walk's number in the run, from 1
	Stage         Stage                      `json:"stage"`
	Walk          string                     `json:"walk"` // id of its report
	CorrelationID string                     `json:"correlation_id"`
	BeganMS       int64                      `json:"began_ms"` // since the run began
	EndedMS       int64                      `json:"ended_ms"`
	EndedBy       diag.EndedBy               `json:"ended_by"`
	Outcome       diag.Outcome               `json:"outcome"`
	Blame         *diag.Blame                `json:"blame,omitempty"`
	Others        []diag.Blame               `json:"others,omitempty"`
	Unfailed      []diag.Blame               `json:"unfailed,omitempty"` // by hops that warn or are inconclusive
	FirstFailed   diag.HopID                 `json:"first_failed_hop,omitempty"`
	Hops          map[diag.HopID]diag.Status `json:"hops"`
	Reason        diag.ReasonCode            `json:"reason,omitempty"`
	UserState     diag.UserState             `json:"user_state,omitempty"`
	// the error that a tenant saw, where that was measured
	UserSaw string `json:"user_saw,omitempty"`
	Spinner bool   `json:"spinner,omitempty"` // his terminal stayed silent past every deadline
	// hops of a tenant that failed, and what he got was not measured
	Untold []diag.HopID `json:"untold,omitempty"`
	// hops that failed, and the platform's own row of the session shows that it ended well
	Unnamed  []diag.HopID `json:"unnamed,omitempty"`
	Unlinked []string     `json:"unlinked,omitempty"` // who dealt with the walk and did not write down its id
	// by task of the run: the id under which the agent's record has it
	AgentSays map[string]string `json:"agent_says,omitempty"`
	// what the platform reported of node, allocation, task and session
	ReadModel map[string]string   `json:"read_model,omitempty"`
	Evidence  []diag.EvidenceLine `json:"evidence,omitempty"` // what it wrote down under the walk's id
}

// See takes out of a report what a drill asks for.
func See(r *diag.Report, stage Stage) Sight {
	s := Sight{
		Stage: stage, Walk: r.Run.ID, CorrelationID: r.Run.CorrelationID, EndedBy: r.Run.EndedBy, Outcome: r.Verdict.Outcome,
		Blame: faulty(r.Verdict.Blame), Others: r.Verdict.OtherFindings, FirstFailed: r.Verdict.FirstFailedHop,
		Hops: map[diag.HopID]diag.Status{}, Reason: r.Verdict.Reason, UserState: r.Verdict.UserState,
		Unlinked: unlinked(r), AgentSays: agentSays(r), ReadModel: readModel(r), Evidence: r.Evidence,
	}
	for _, h := range r.Hops {
		s.Hops[h.ID] = h.Status
		if (h.Status == diag.StatusWarn || h.Status == diag.StatusInconclusive) && h.Signal != "" {
			s.Unfailed = append(s.Unfailed, diag.Blame{Hop: h.ID, Status: h.Status, Signal: h.Signal, Failure: h.Failure})
		}
	}
	s.noteTenant(r)
	s.Unnamed = unnamed(s)
	return s
}

// faulty is a walk's blame where something failed: a hop that only did not answer is not what a drill looks for.
func faulty(b *diag.Blame) *diag.Blame {
	if b != nil && b.Status != "" {
		return nil
	}
	return b
}

// unfailed is the blame of a hop that did not fail, if it matches this finding.
func (s Sight) unfailed(f chaos.Finding) *diag.Blame {
	if i := slices.IndexFunc(s.Unfailed, func(b diag.Blame) bool { return f.Status != "" && fits(f, b) }); i >= 0 {
		return &s.Unfailed[i]
	}
	return nil
}

// Green reports whether a whole walk found nothing, and asks for no action. What the platform will see to by itself,
// and what is merely old, does not count against it.
func (s Sight) Green() bool {
	return s.EndedBy == diag.EndedCompleted && s.passed() && !s.asks()
}

func (s Sight) passed() bool { return s.Outcome == diag.OutcomePass || s.Outcome == diag.OutcomeWarn }

// asks reports whether no hop need fail for an action to be due: of an identity that two machines have, the hops of one
// know nothing.
func (s Sight) asks() bool {
	return s.UserState == diag.UserOperator || s.UserState == diag.UserSecurity
}

// Says is the walk's verdict in one line.
func (s Sight) Says() string {
	switch {
	case s.Blame != nil:
		text := fmt.Sprintf("%s %s", s.Blame.Hop, s.Blame.Signal)
		if s.Blame.Failure != diag.OK {
			text += fmt.Sprintf(" (%s)", s.Blame.Failure)
		}
		return text
	case s.EndedBy != diag.EndedCompleted:
		return fmt.Sprintf("%s, ended by %s", s.Outcome, s.EndedBy)
	case s.passed() && s.asks():
		return fmt.Sprintf("%s, and %s (%s)", s.Outcome, s.UserState, s.Reason)
	case len(s.Unfailed) > 0:
		return fmt.Sprintf("%s %s (%s)", s.Unfailed[0].Hop, s.Unfailed[0].Signal, s.Unfailed[0].Status)
	}
	return string(s.Outcome)
}

// readModel is what the platform itself reported, by the names of the profile's mapping.
func readModel(r *diag.Report) map[string]string {
	said := map[string]string{}
	for i := range r.Facts {
		f := &r.Facts[i]
		if f.HTTP == nil {
			continue
		}
		for name, value := range f.HTTP.Fields {
			if what, _, _ := strings.Cut(name, "."); slices.Contains([]string{"node", "allocation", "task", "session"}, what) &&
				value != "" {
				said[name] = value
			}
		}
	}
	return said
}

// unnamed are hops of the terminal that failed, and of which the platform reports in the session's own row that they
// did not: it must name what failed where it can know it. It cannot of a session that never reached it, and has not yet
// of one that is still open.
func unnamed(s Sight) []diag.HopID {
	if s.ReadModel["session.browser_connected_at"] == "" || s.ReadModel["session.close_reason"] != sessionOver {
		return nil
	}
	var all []diag.HopID
	for _, h := range []diag.HopID{diag.HopBrowserTerminalWS, diag.HopGatewayNodeStream, diag.HopTerminalStartup} {
		if s.Hops[h] == diag.StatusFail {
			all = append(all, h)
		}
	}
	return all
}

// sessionOver is how the platform reports that a terminal's shell was ended by its user.
const sessionOver = "exit"

// unlinked are those who dealt with the walk, by what the walk itself measured, and of whom the platform has no line
// under the walk's id.
func unlinked(r *diag.Report) []string {
	var missing []string
	for _, p := range parties() {
		if p.dealt(r) && !slices.ContainsFunc(r.Evidence, func(l diag.EvidenceLine) bool {
			return l.CorrelationID == r.Run.CorrelationID && p.wrote(l)
		}) {
			missing = append(missing, p.name)
		}
	}
	return missing
}
