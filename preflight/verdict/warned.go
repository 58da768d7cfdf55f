package verdict

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// warnedRow ties a warning to the failures that it explains. A warning is about something that works now; if what rests
// on it fails in the same walk, the warning was of the cause.
type warnedRow struct {
	signal   diag.Signal // of the warning
	failures words       // of the warning; none: any
	explains signals
	holds    func(c *hop.Case, warned, failed *diag.Fact) bool // by the facts that decided the two
}

// warnedRows is the closed list. Warnings that are not in it explain nothing: a health page, an old observation, an
// expired task and a degraded GPU break no other hop, and the platform's own checklist contradicts what was measured.
var warnedRows = [...]warnedRow{
	// The agent starts each session with its own program.
	{diag.SigBinaryInvalid, words{diag.BinaryExecFormat, diag.BinaryNotExecutable, diag.NotPermitted},
		signals{diag.SigPTYFailed}, agentStartedNoShell},
	// The node has one certificate, and the other listener takes it.
	{diag.SigAuthFailed, words{diag.MTLSCertExpired, diag.MTLSCertNotYetValid, diag.FileMismatch},
		signals{diag.SigNodeStreamMTLS}, refusesTheCertificate},
	// A session takes processes, memory and files of the agent's unit.
	{diag.SigNodeExhausted, words{diag.HostExhausted}, signals{diag.SigPTYFailed}, agentStartedNoShell},
	// The operator's clock decides whether a server's certificate is in date.
	{diag.SigOperatorClockSkew, words{diag.ClockSkew}, signals{diag.SigAppRouteFailed, diag.SigPublicRouteMissing,
		diag.SigTerminalEdgeTLS, diag.SigControlPlaneUnreachable}, datesByOperator},
}

// agentStartedNoShell holds if the agent reports that it could not start the terminal's program.
func agentStartedNoShell(_ *hop.Case, _, failed *diag.Fact) bool {
	return failed.WS != nil && failed.WS.FrameCode == diag.CodePTYFailed
}

func refusesTheCertificate(_ *hop.Case, warned, failed *diag.Fact) bool {
	return reading.RefusesCert(failed) && failed.Request.Cert == warned.Request.Cert
}

func datesByOperator(_ *hop.Case, _, failed *diag.Fact) bool {
	return failed.Vantage == hop.Operator && slices.Contains(servedDates, failed.Failure)
}

// promotion is a warning that takes the blame for a failure: the hop and signal of each.
type promotion struct{ warned, failed named }

type named struct {
	hop    diag.HopID
	signal diag.Signal
}

// promotions are all of a walk.
type promotions []promotion

// promoted reports whether a finding of a hop was a warning.
func (all promotions) promoted(id diag.HopID, f *diag.Finding) bool {
	return slices.ContainsFunc(all, func(p promotion) bool { return p.warned == named{id, f.Signal} })
}

// explains returns the hop whose warning explains a finding of a hop; "" if none does.
func (all promotions) explains(id diag.HopID, f *diag.Finding) diag.HopID {
	for _, p := range all {
		if p.failed == (named{id, f.Signal}) {
			return p.warned.hop
		}
	}
	return ""
}

// promote makes failing findings of the warnings that explain a failure, and returns which: the hop of the warning then
// fails. What else fails is not its symptom.
func promote(hops []diag.HopResult, c *hop.Case) (all promotions) {
	for i := range hops {
		for w := range FindingsOf(&hops[i]) {
			if w.Status != diag.StatusWarn {
				continue
			}
			for k := range hops {
				if f := explained(&hops[k], w, c); f != nil && k != i {
					w.Text += fmt.Sprintf("; %s fails by it: %s", hops[k].ID, f.Text)
					w.Status, w.Direct, w.Evidence = diag.StatusFail, true, append(slices.Clone(w.Evidence), f.Evidence[0])
					if w.Reason == diag.ReasonNone {
						w.Reason = ""
					}
					all = append(all, promotion{named{hops[i].ID, w.Signal}, named{hops[k].ID, f.Signal}})
					break
				}
			}
		}
		leadWithFailure(&hops[i])
	}
	return all
}

// explained returns the failing finding of a hop that a warning explains; nil if there is none.
func explained(h *diag.HopResult, w *diag.Finding, c *hop.Case) *diag.Finding {
	for f := range FindingsOf(h) {
		if f.Status != diag.StatusFail || len(f.Evidence) == 0 || len(w.Evidence) == 0 {
			continue
		}
		warned, failed := c.FactByID(w.Evidence[0]), c.FactByID(f.Evidence[0])
		if warned != nil && failed != nil && slices.ContainsFunc(warnedRows[:], func(row warnedRow) bool {
			return row.signal == w.Signal && (len(row.failures) == 0 || slices.Contains(row.failures, w.Failure)) &&
				slices.Contains(row.explains, f.Signal) && row.holds(c, warned, failed)
		}) {
			return f
		}
	}
	return nil
}

// leadWithFailure makes a failing finding the hop's own, if one of the others became one.
func leadWithFailure(h *diag.HopResult) {
	i := slices.IndexFunc(h.Also, func(f diag.Finding) bool { return f.Status == diag.StatusFail })
	if i >= 0 && h.Status != diag.StatusFail {
		h.Finding, h.Also[i] = h.Also[i], h.Finding
	}
}
