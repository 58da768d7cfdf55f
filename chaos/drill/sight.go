package drill

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Sight is what one walk said, as far as a drill asks.
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
	FirstFailed   diag.HopID                 `json:"first_failed_hop,omitempty"`
	Hops          map[diag.HopID]diag.Status `json:"hops"`
	Reason        diag.ReasonCode            `json:"reason,omitempty"`
	UserState     diag.UserState             `json:"user_state,omitempty"`
	UserSaw       string                     `json:"user_saw,omitempty"`   // the error in a tenant's browser, where there was one
	Unlinked      []string                   `json:"unlinked,omitempty"`   // who dealt with the walk and did not write down its id
	ReadModel     map[string]string          `json:"read_model,omitempty"` // what the platform said of node, allocation, task and session
	Evidence      []diag.EvidenceLine        `json:"evidence,omitempty"`   // what it wrote down under the walk's id
}

// See takes out of a report what a drill asks for.
func See(r *diag.Report, stage Stage) Sight {
	s := Sight{
		Stage: stage, Walk: r.Run.ID, CorrelationID: r.Run.CorrelationID, EndedBy: r.Run.EndedBy, Outcome: r.Verdict.Outcome,
		Blame: r.Verdict.Blame, Others: r.Verdict.OtherFindings, FirstFailed: r.Verdict.FirstFailedHop,
		Hops: map[diag.HopID]diag.Status{}, Reason: r.Verdict.Reason, UserState: r.Verdict.UserState,
		UserSaw: userSaw(r), Unlinked: unlinked(r), ReadModel: readModel(r), Evidence: r.Evidence,
	}
	for _, h := range r.Hops {
		s.Hops[h.ID] = h.Status
	}
	return s
}

// Green says whether a whole walk found nothing.
func (s Sight) Green() bool {
	return s.EndedBy == diag.EndedCompleted && (s.Outcome == diag.OutcomePass || s.Outcome == diag.OutcomeWarn)
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
	}
	return string(s.Outcome)
}

// userSaw is what a tenant was told: by the terminal in a browser, or by the workload's own route.
func userSaw(r *diag.Report) string {
	for i := range r.Facts {
		f := &r.Facts[i]
		if f.Request.Op != diag.OpSession {
			continue
		}
		switch {
		case f.WS != nil && f.WS.FirstFrame == "error":
			return fmt.Sprintf("terminal: %s: %s", f.WS.FrameCode, f.WS.FrameMessage)
		case f.WS != nil && f.WS.CloseCode > 1001:
			return fmt.Sprintf("terminal: closed with %d %s", f.WS.CloseCode, f.WS.CloseReason)
		case f.WS != nil && !f.WS.Upgraded && f.WS.Status != 0:
			return fmt.Sprintf("terminal: HTTP %d", f.WS.Status)
		case f.Failure != diag.OK:
			return fmt.Sprintf("terminal: %s", f.Failure)
		}
	}
	for _, h := range r.Hops {
		if slices.Contains(userHops(), h.ID) && h.Status == diag.StatusFail {
			return h.Text
		}
	}
	return ""
}

// userHops are those whose failure a tenant sees.
func userHops() []diag.HopID {
	return []diag.HopID{diag.HopTerminalTokenMint, diag.HopTerminalPublicRoute, diag.HopBrowserTerminalWS, diag.HopTerminalStartup, diag.HopAppUserRoute}
}

// readModel is what the platform itself said, by the names of the profile's mapping.
func readModel(r *diag.Report) map[string]string {
	said := map[string]string{}
	for i := range r.Facts {
		f := &r.Facts[i]
		if f.HTTP == nil {
			continue
		}
		for name, value := range f.HTTP.Fields {
			if what, _, _ := strings.Cut(name, "."); slices.Contains([]string{"node", "allocation", "task", "session"}, what) && value != "" {
				said[name] = value
			}
		}
	}
	return said
}

// unlinked are those who dealt with the walk, by what the walk itself measured, and of whom the platform has no line under
// the walk's id.
func unlinked(r *diag.Report) []string {
	var missing []string
	for _, p := range parties() {
		if p.dealt(r) && !slices.ContainsFunc(r.Evidence, func(l diag.EvidenceLine) bool { return l.CorrelationID == r.Run.CorrelationID && p.wrote(l) }) {
			missing = append(missing, p.name)
		}
	}
	return missing
}
