package drill

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
)

// WalkView is the part of a walk's report that a drill needs.
type WalkView struct {
	N             int                        `json:"n"` // the walk's number in the run, from 1
	Stage         Stage                      `json:"stage"`
	Walk          string                     `json:"walk"` // id of its report
	CorrelationID string                     `json:"correlation_id"`
	BeganMS       int64                      `json:"began_ms"` // since the run began
	EndedMS       int64                      `json:"ended_ms"`
	EndedBy       diag.EndedBy               `json:"ended_by"`
	InsecureHTTP  bool                       `json:"insecure_http,omitempty"` // as in the walk's plan
	Outcome       diag.Outcome               `json:"outcome"`
	Blame         *diag.Blame                `json:"blame,omitempty"`
	Others        []diag.Blame               `json:"others,omitempty"`
	Unfailed      []diag.Blame               `json:"unfailed,omitempty"`  // of hops that warn or are inconclusive
	Undecided     string                     `json:"undecided,omitempty"` // the first inconclusive hop of such a walk, and why
	FirstFailed   diag.HopID                 `json:"first_failed_hop,omitempty"`
	Hops          map[diag.HopID]diag.Status `json:"hops"`
	Reason        diag.ReasonCode            `json:"reason,omitempty"`
	UserState     diag.UserState             `json:"user_state,omitempty"`
	// the error that the tenant saw, if that was measured
	UserSaw string `json:"user_saw,omitempty"`
	Spinner bool   `json:"spinner,omitempty"` // the tenant's terminal stayed silent past every deadline
	// failed hops that a tenant notices, and for which the tenant's view was not measured
	Unseen []diag.HopID `json:"untold,omitempty"`
	// failed hops for which the platform's own session record shows a normal end
	Unnamed  []diag.HopID `json:"unnamed,omitempty"`
	Unlinked []string     `json:"unlinked,omitempty"` // components that handled the walk and did not log its id
	// by task of the run: the correlation id in the agent's record
	AgentSays map[string]string `json:"agent_says,omitempty"`
	// the platform's view of node, allocation, task and session
	ReadModel map[string]string   `json:"read_model,omitempty"`
	Evidence  []diag.EvidenceLine `json:"evidence,omitempty"` // the platform's log lines under the walk's id
}

// NewWalkView extracts from a report what a drill needs.
func NewWalkView(r *diag.Report, stage Stage) WalkView {
	s := WalkView{
		Stage: stage, Walk: r.Run.ID, CorrelationID: r.Run.CorrelationID, EndedBy: r.Run.EndedBy, Outcome: r.Verdict.Outcome,
		InsecureHTTP: r.Plan.InsecureHTTP, Blame: faulty(r.Verdict.Blame), Others: r.Verdict.OtherFindings,
		FirstFailed: r.Verdict.FirstFailedHop,
		Hops:        map[diag.HopID]diag.Status{}, Reason: r.Verdict.Reason, UserState: r.Verdict.UserState,
		Unlinked: unlinked(r), AgentSays: agentSays(r), ReadModel: readModel(r), Evidence: r.Evidence,
	}
	for _, h := range r.Hops {
		s.Hops[h.ID] = h.Status
		if (h.Status == diag.StatusWarn || h.Status == diag.StatusInconclusive) && h.Signal != "" {
			s.Unfailed = append(s.Unfailed, diag.Blame{Hop: h.ID, Status: h.Status, Signal: h.Signal, Failure: h.Failure})
		}
		if h.Status == diag.StatusInconclusive && s.Outcome == diag.OutcomeInconclusive && s.Undecided == "" {
			s.Undecided = string(h.ID) + ": " + cmp.Or(h.Text, h.Because)
		}
	}
	s.noteTenant(r)
	s.Unnamed = unnamed(s)
	return s
}

// HopIDs lists the hops of the walk: those of the catalogue in their order, then others by name.
func (s WalkView) HopIDs() []diag.HopID {
	return slices.SortedFunc(maps.Keys(s.Hops), func(a, b diag.HopID) int {
		return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), cmp.Compare(a, b))
	})
}

// Number returns the position of a hop in the chain of the walk, from 1.
func (s WalkView) Number(id diag.HopID) int {
	return 1 + slices.Index(diag.HopsAnd(maps.Keys(s.Hops)), id)
}

// faulty returns a walk's blame if it is for a failure: a drill is not about a hop that was merely inconclusive.
func faulty(b *diag.Blame) *diag.Blame {
	if b != nil && b.Status != "" {
		return nil
	}
	return b
}

// saidOf returns ": " and the walk's text about a hop, "" if it reported no finding there.
func (s WalkView) saidOf(h diag.HopID) string {
	found := s.Others
	if s.Blame != nil {
		found = append([]diag.Blame{*s.Blame}, found...)
	}
	if i := slices.IndexFunc(found, func(b diag.Blame) bool { return b.Hop == h && b.Text != "" }); i >= 0 {
		return ": " + found[i].Text
	}
	return ""
}

// unfailed returns the blame of a hop that did not fail, if it matches this finding.
func (s WalkView) unfailed(f chaos.Finding) *diag.Blame {
	if i := slices.IndexFunc(s.Unfailed, func(b diag.Blame) bool { return f.Status != "" && fits(f, b) }); i >= 0 {
		return &s.Unfailed[i]
	}
	return nil
}

// Green reports whether a complete walk found nothing that needs action. Warnings about what the platform repairs
// by itself, or about old events, do not count.
func (s WalkView) Green() bool {
	return s.EndedBy == diag.EndedCompleted && s.passed() && !s.asks()
}

func (s WalkView) passed() bool {
	return s.Outcome == diag.OutcomePass || s.Outcome == diag.OutcomeWarn
}

// asks reports whether an operator has to act. That may be the case without a failed hop: if two machines share an
// identity, the hops of one do not show it.
func (s WalkView) asks() bool {
	return s.UserState == diag.UserOperator || s.UserState == diag.UserSecurity
}

// VerdictLine returns the walk's verdict in one line.
func (s WalkView) VerdictLine() string {
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
	case s.Undecided != "":
		return string(s.Outcome) + ", " + s.Undecided
	}
	return string(s.Outcome)
}

// readModel returns what the platform itself reported, by the names of the profile's mapping.
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

// unnamed returns the failed hops that end a session, if the platform's own record of the session shows a normal end:
// the platform must name a failure that it can know. It cannot know of a session that never reached it, or that is
// still open.
func unnamed(s WalkView) []diag.HopID {
	if s.ReadModel["session.browser_connected_at"] == "" || s.ReadModel["session.close_reason"] != sessionOver {
		return nil
	}
	var all []diag.HopID
	for _, h := range s.HopIDs() {
		if row, _ := diag.LookupHop(h); row.EndsSession && s.Hops[h] == diag.StatusFail {
			all = append(all, h)
		}
	}
	return all
}

// sessionOver is the platform's close reason for a shell that its user ended.
const sessionOver = "exit"

// unlinked returns the components that handled the walk, by its own measurements, but have no log line under the
// walk's id on the platform.
func unlinked(r *diag.Report) []string {
	var missing []string
	for _, p := range components() {
		if slices.ContainsFunc(r.Facts, p.handled) && !slices.ContainsFunc(r.Evidence, func(l diag.EvidenceLine) bool {
			return l.CorrelationID == r.Run.CorrelationID && p.logged(l)
		}) {
			missing = append(missing, p.name)
		}
	}
	return missing
}
