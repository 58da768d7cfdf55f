package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// tenantNotices reports whether a tenant notices a failure of the hop.
func tenantNotices(h diag.HopID) bool { return tenantOperation(h) != "" }

// tenantOperation names the operation at which a tenant notices a failure of the hop, "" if no tenant does.
func tenantOperation(h diag.HopID) string {
	row, _ := diag.LookupHop(h)
	return row.Tenants
}

// noteTenant records the errors that the tenant saw at failed hops: what reached the browser, and never the
// chain's interpretation. A walk uses the tenant's own endpoints, from outside, so it gets the same responses.
func (s *WalkView) noteTenant(r *diag.Report) {
	var saw []string
	for _, h := range r.Hops {
		if h.Status != diag.StatusFail || !tenantNotices(h.ID) {
			continue
		}
		text, spinner := gotAt(r, h)
		s.Spinner = s.Spinner || spinner
		switch {
		case text == "":
			s.Unseen = append(s.Unseen, h.ID)
		case !slices.Contains(saw, text):
			saw = append(saw, text)
		}
	}
	s.UserSaw = strings.Join(saw, "; ")
}

// gotAt returns what the tenant saw at a hop, "" if that was not measured, and whether it was a spinner. It uses
// the session that the hop checked, else the response that the hop found faulty.
func gotAt(r *diag.Report, h diag.HopResult) (text string, spinner bool) {
	looked := func(f diag.Fact) bool {
		return f.Request.Op == diag.OpSession &&
			slices.ContainsFunc(h.Steps, func(s diag.StepResult) bool { return s.Fact == f.ID })
	}
	faulty := func(f diag.Fact) bool { return f.Request.Op == diag.OpHTTP && slices.Contains(h.Evidence, f.ID) }
	for _, is := range []func(diag.Fact) bool{looked, faulty} {
		if i := slices.IndexFunc(r.Facts, is); i >= 0 {
			if text, spinner = got(&r.Facts[i]); text != "" {
				text = tenantOperation(h.ID) + ": " + text
			}
			return text, spinner
		}
	}
	return "", false
}

// got describes one response as a browser shows it. It is empty for a fact that did not fail, and for one whose
// timeout was shorter than a browser's. The wait for a terminal is longer than the gateway's, so a silent terminal
// stays silent.
func got(f *diag.Fact) (text string, spinner bool) {
	switch {
	case f.Passed():
		return "", false
	case f.WS != nil && f.WS.FrameCode+f.WS.FrameMessage != "":
		return cmp.Or(f.WS.FrameCode, f.WS.FirstFrame) + orNothing(": ", f.WS.FrameMessage), false
	case f.WS != nil && f.WS.CloseCode != 0:
		return strings.TrimSpace(fmt.Sprintf("closed with %d %s", f.WS.CloseCode, f.WS.CloseReason)), false
	case f.Failure == diag.WSSilent || f.Failure == diag.PTYSilent:
		return fmt.Sprintf("nothing for %d ms, a spinner", f.DurationMS), true
	case f.WS != nil && f.WS.Status != 0 && !f.WS.Upgraded:
		return fmt.Sprintf("HTTP %d", f.WS.Status), false
	case f.HTTP != nil && f.HTTP.Status != 0:
		return fmt.Sprintf("HTTP %d", f.HTTP.Status) + orNothing(" ", f.HTTP.ErrorCode) + orNothing(": ",
			f.HTTP.ErrorMessage), false
	case slices.Contains([]string{"dns", "tcp", "tls"}, f.Phase):
		return fmt.Sprintf("cannot be reached (%s)", f.Failure), false
	}
	return "", false
}
