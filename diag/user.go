package diag

import "slices"

// Shown is what the users of an allocation are shown, besides the allocation itself.
type Shown struct {
	// the reason that it is about: the one asked for, or the workload's where that one has no text for users
	Reason  ReasonCode
	State   UserState
	Text    string       // "": nothing is shown
	Actions []UserAction // what a user interface does besides
}

// StateOf returns the state family of a reason, which operators are shown. An expired certificate recovers by itself
// only with a current token, a rejected one not without any.
func StateOf(code ReasonCode, m Seen) UserState {
	row, _ := LookupReason(code)
	switch {
	case code == ReasonCertExpired && m[FactToken] != MarkPass,
		code == ReasonIdentityRejectedRecoverable && m[FactToken] == MarkFail:
		return UserOperator
	}
	return row.State
}

// ForUser returns what users are shown while a reason holds, by the measured facts m. Reports and the reference
// platform both call it, so that equal evidence is shown equally.
//
// It is the reason's own state and text, except:
//   - A fault of managing the node is at most temporary while the workload was measured to run and its route to answer,
//     and the text then says so. A security state is never softened. A stuck clean-up is about the allocation itself.
//   - A reason without a text for users does not hide a workload or a route that was measured to fail.
//   - The state is unknown if too little was measured: without a reason, if neither the workload and its route nor a
//     contact with the node; with one that passes by itself, if nothing of the node.
func ForUser(code ReasonCode, m Seen) Shown {
	row, _ := LookupReason(code)
	out := Shown{Reason: code, State: StateOf(code, m), Text: row.userText(m), Actions: row.UserActions}
	if out.Text == "" {
		out.ofWorkload(m)
	}
	served := m[FactWorkload] == MarkPass && m[FactRoute] == MarkPass
	softened := row.Layer == LayerManagement && code != ReasonReleaseCleanupStuck && out.State != UserSecurity &&
		Urgency(out.State) > Urgency(UserTemporary)
	switch {
	case code == ReasonNone && out.Reason == ReasonNone:
		if !served && !m.inContact() {
			out.State = UserUnknown
		}
	case Urgency(out.State) < Urgency(UserOperator) && m[FactNode] != MarkPass:
		out.State, out.Text = UserUnknown, ""
	case served && softened:
		out.State = UserTemporary
		if out.Text != "" {
			out.Text = servedText
		}
	}
	return out
}

// servedText is what users are shown instead of a reason's own text while they are served.
const servedText = "The workload can be reached; changes to it may be delayed"

// ofWorkload adds a measured failure of the workload or of its route.
func (s *Shown) ofWorkload(m Seen) {
	for _, at := range [...]struct {
		fact   string
		reason ReasonCode
	}{{FactWorkload, ReasonAppRuntimeFailed}, {FactRoute, ReasonAppRouteFailed}} {
		if m[at.fact] != MarkFail {
			continue
		}
		row, _ := LookupReason(at.reason)
		s.Reason, s.Text = at.reason, row.userText(m)
		if Urgency(row.State) > Urgency(s.State) {
			s.State = row.State
		}
		return
	}
}

// userText is the text for users, limited to what m supports.
func (r *Reason) userText(m Seen) string {
	if r.State == UserRecovery && StateOf(r.Code, m) == UserOperator { // nothing reconnects by itself
		return r.Unrecovered.Render(m)
	}
	return r.UserText.Render(m)
}

// inContact reports whether the platform is in contact with the node, and no point of the checklist fails.
func (m Seen) inContact() bool {
	return (m[FactContact] == MarkPass || m[string(PointHeartbeat)] == MarkPass) &&
		!slices.ContainsFunc(Points[:], func(id PointID) bool { return m[string(id)] == MarkFail })
}

// Urgency orders the states, the least urgent first; -1 for one that is not known.
func Urgency(s UserState) int {
	return slices.Index([]UserState{UserNormal, UserTemporary, UserRecovery, UserOperator, UserSecurity}, s)
}
