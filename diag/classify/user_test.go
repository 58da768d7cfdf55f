package classify

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"slices"
	"testing"
)

// marks are the results that a measurement can have: green, red, not measured.
var marks = [...]diag.Mark{diag.MarkPass, diag.MarkFail, ""}

// namedWith is evidence of a node that was measured and of which the platform names a reason, with results of its
// workload and of the route to it.
func namedWith(code diag.ReasonCode, workload, route diag.Mark, token TokenState) Evidence {
	e := Evidence{Node: &NodeEvidence{Reason: code}, Token: token}
	for _, p := range [...]struct {
		hop diag.HopID
		is  diag.Mark
		sig diag.Signal
	}{{diag.HopAppRuntimeLiveness, workload, diag.SigAppStopped}, {diag.HopAppUserRoute, route, diag.SigAppRouteFailed}} {
		switch p.is {
		case diag.MarkPass:
			e.Probes = append(e.Probes, Probed{Hop: p.hop, Status: diag.StatusPass})
		case diag.MarkFail:
			e.Probes = append(e.Probes, Probed{Hop: p.hop, Status: diag.StatusFail, Signal: p.sig, Text: "red"})
		}
	}
	return e
}

// TestUsersAreShownWhatTheirEvidenceIs: for all combinations of reason, workload and route, users are shown the
// reason's own state, and a softer one only while both are green, with a text of its own.
func TestUsersAreShownWhatTheirEvidenceIs(t *testing.T) {
	for _, row := range diag.Reasons() {
		for _, workload := range marks {
			for _, route := range marks {
				for _, token := range []TokenState{TokenCurrent, TokenGone, TokenUnknown} {
					checkShown(t, row, workload, route, token)
				}
			}
		}
	}
}

func checkShown(t *testing.T, row diag.Reason, workload, route diag.Mark, token TokenState) {
	t.Helper()
	e := namedWith(row.Code, workload, route, token)
	c := Classify(e)
	if row.Code == diag.ReasonNone || c.Reason != row.Code { // it does not hold beside this evidence
		return
	}
	green := workload == diag.MarkPass && route == diag.MarkPass
	softer := diag.Urgency(c.UserState) < diag.Urgency(c.State)
	switch {
	case softer && (!green || row.Layer != diag.LayerManagement || c.UserState != diag.UserTemporary ||
		c.State == diag.UserSecurity):
		t.Errorf("%s, workload %q, route %q: users are shown %s, the reason is %s", row.Code, workload, route, c.UserState,
			c.State)
	case !softer && green && row.Layer == diag.LayerManagement &&
		diag.Urgency(c.State) > diag.Urgency(diag.UserTemporary) &&
		c.State != diag.UserSecurity && row.Code != diag.ReasonReleaseCleanupStuck:
		t.Errorf("%s: users are served, and shown %s", row.Code, c.UserState)
	case softer != (c.UserText == "The workload can be reached; changes to it may be delayed") && c.UserText != "":
		t.Errorf("%s, workload %q, route %q: users are shown %s %q", row.Code, workload, route, c.UserState, c.UserText)
	case softer && c.UserText != "" &&
		slices.Contains([]string{row.UserText.AllWordings(), row.Unrecovered.AllWordings()}, c.UserText):
		t.Errorf("%s: the text of %s beside %s: %q", row.Code, c.State, c.UserState, c.UserText)
	case (workload == diag.MarkFail || route == diag.MarkFail) && c.UserText == "":
		t.Errorf("%s, workload %q, route %q: the failure is not shown", row.Code, workload, route)
	}
	seen := e.Seen()
	if s := diag.ForUser(row.Code, seen); s.State != c.UserState || s.Text != c.UserText {
		t.Errorf("%s: %+v, and the classification shows %s %q", row.Code, s, c.UserState, c.UserText)
	}
}

// TestOnlyTheReasonCounts: a second reason that holds changes nothing of what users are shown.
func TestOnlyTheReasonCounts(t *testing.T) {
	second := Probed{Hop: diag.HopNodeTerminalReachability, Status: diag.StatusFail, Signal: diag.SigNodeStreamTimeout,
		Reason: diag.ReasonTerminalEndpointDrift, Text: "no stream"}
	for _, row := range diag.Reasons() {
		e := namedWith(row.Code, diag.MarkPass, diag.MarkPass, TokenCurrent)
		alone := Classify(e)
		e.Probes = append(e.Probes, second)
		both := Classify(e)
		if alone.Reason != both.Reason || row.Code == diag.ReasonNone {
			continue
		}
		if alone.UserState != both.UserState || alone.UserText != both.UserText {
			t.Errorf("%s: %s %q became %s %q", row.Code, alone.UserState, alone.UserText, both.UserState, both.UserText)
		}
	}
}
