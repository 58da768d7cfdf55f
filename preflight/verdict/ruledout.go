package verdict

import (
	"fmt"
	"slices"
	"sort"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// excluded is one thing that the facts exclude as the cause: as text, and as the aspect that steps name ("" if none
// does).
type excluded struct {
	about diag.Aspect
	text  string
}

// ruledOut lists what the facts exclude as the cause: phases that the failing probe passed, counter-probes that failed
// the same way, and hops that could have explained it and passed.
func ruledOut(chain []hop.Hop, hops []diag.HopResult, r root, c *hop.Case) []excluded {
	var out []excluded
	if len(r.finding.Evidence) > 0 {
		if f := c.FactByID(r.finding.Evidence[0]); f != nil {
			out = append(out, phasesPassed(f, r.finding.Failure)...)
			if world.Misdirected(c, f) {
				pinned := hop.RequestOf(c, f.ID, reading.CounterPinned).First()
				out = append(out, excluded{diag.AboutPath, "network path: at " + pinned.Request.Resolve + " it answers"})
			}
			for _, text := range sameFailure(f, c) {
				out = append(out, excluded{text: text})
			}
		}
	}
	may := append(hop.Closure(chain, r.hop.ID), r.symptoms...)
	for _, s := range r.symptoms {
		may = append(may, hop.Closure(chain, s)...)
	}
	for i := range hops {
		if h := &hops[i]; h.Status == diag.StatusPass && slices.Contains(may, h.ID) {
			out = append(out, excluded{hop.In(chain, h.ID).Clears, string(h.ID) + ": " + h.Text})
		}
	}
	return out
}

// phasesPassed lists the phases that the failing probe came through; none for a name that leads elsewhere, since
// neither its look-up nor the path to where it leads is sound.
func phasesPassed(f *diag.Fact, as diag.Failure) []excluded {
	if as == diag.DNSMismatch {
		return nil
	}
	var out []excluded
	at := reading.Rung(f.Phase)
	if f.DNS != nil && at > reading.Rung("dns") && f.DNS.Source != "literal" {
		out = append(out, excluded{diag.AboutName,
			fmt.Sprintf("name look-up: %s is %s (%s)", f.DNS.Name, hop.Clip(f.DNS.Addresses), f.DNS.Source)})
	}
	if f.TCP != nil && at > reading.Rung("tcp") {
		out = append(out, excluded{diag.AboutPath, "network path: " + f.TCP.Remote + " accepts connections"})
	}
	if f.TLS != nil && at > reading.Rung("tls") && f.TLS.Verified {
		out = append(out, excluded{diag.AboutServerCert, "server certificate: verified against " + f.TLS.TrustSource})
	}
	return out
}

// sameFailure names the inputs that were changed without any change in the outcome.
func sameFailure(f *diag.Fact, c *hop.Case) []string {
	var out []string
	q := c.StepFactsByID(f.ID)
	if q == nil {
		return nil
	}
	for _, r := range q.Runs {
		k := r.Fact
		if k == f || k.Failure != f.Failure || k.Request.Op != f.Request.Op || reading.Status(k) != reading.Status(f) ||
			reading.Code(k) != reading.Code(f) {
			continue
		}
		changed := diag.Changed(&f.Request, &k.Request)
		switch {
		case k.Vantage != f.Vantage:
			out = append(out, fmt.Sprintf("a fault of this node alone: the %s gets %s as well", k.Vantage, k.Failure))
		case len(changed) == 1:
			out = append(out, fmt.Sprintf("%s: with %s the result is also %s", changed[0], inWords(&k.Request, changed[0]),
				k.Failure))
		}
	}
	sort.Strings(out)
	return slices.Compact(out) // a repeated probe has many facts
}

// situation returns what the report knows when the steps for a blame are chosen.
func situation(hops []diag.HopResult, r root, out []excluded, c *hop.Case) diag.Situation {
	s := diag.Situation{Side: r.finding.Side, Failure: r.finding.Failure, Cause: r.finding.Cause, Broken: broken(hops, c)}
	for _, e := range out {
		if e.about != "" {
			s.RuledOut = append(s.RuledOut, e.about)
		}
	}
	if len(r.finding.Evidence) > 0 {
		f := c.FactByID(r.finding.Evidence[0])
		if f != nil && f.DNS != nil && f.DNS.Source == "literal" { // a literal address needs no look-up
			s.RuledOut = append(s.RuledOut, diag.AboutName)
		}
		s.Code, s.Network, s.Details = reading.Code(f), networkNamespace(c, f), detailsOf(c, f)
		if f != nil && f.Request.Op == diag.OpSSH && slices.Contains(phasesOfLogin[:], f.Phase) {
			s.RuledOut = append(s.RuledOut, diag.AboutPath) // the server accepted the connection
		}
	}
	if reading.AsksForCert(c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)) {
		s.RuledOut = append(s.RuledOut, diag.AboutListener)
	}
	if c.Fact(diag.HopTerminalStartup, hop.StepUser).Passed() {
		s.RuledOut = append(s.RuledOut, diag.AboutUser)
	}
	if hop := c.Hop(r.hop.ID); hop.NotAbout != nil {
		s.RuledOut = append(s.RuledOut, hop.NotAbout(c)...)
	}
	if world.SessionField(c, "session.task_status") == "failed" { // the agent reported it: its build is not the cause
		s.RuledOut = append(s.RuledOut, diag.AboutBuild)
	}
	return s
}

// phasesOfLogin are those of a login over a connection that the SSH server accepted.
var phasesOfLogin = [...]string{"banner", "host_key", "auth", "exec"}

// networkNamespace returns whose network namespace f is about: the operator's, the node's, or the agent's own if it has
// one. A shortage is the agent's network's only if that is its scope.
func networkNamespace(c *hop.Case, f *diag.Fact) diag.Network {
	switch {
	case f == nil, f.Vantage == hop.Platform:
		return ""
	case f.Vantage != hop.Node || f.Request.Op == diag.OpSSH:
		return diag.NetworkOperator
	case f.Shortage != nil && f.Shortage.Scope != diag.ScopeNetwork, f.Unit != nil && f.Unit.Short != nil:
		return diag.NetworkNode
	case f.OwnNetwork, world.OwnNetwork(c) && f.Request.Network == "" && f.Request.View != diag.ViewHost:
		return diag.NetworkAgent
	}
	return diag.NetworkNode
}

// broken lists what does not work by this report, and steps may not rely on.
func broken(hops []diag.HopResult, c *hop.Case) []diag.Reliance {
	is := func(id diag.HopID, of ...diag.Status) bool {
		return slices.Contains(of, reading.HopNamed(hops, id).Status)
	}
	var out []diag.Reliance
	if is(diag.HopNodeOpsAccess, diag.StatusFail, diag.StatusInconclusive, diag.StatusNotReached) {
		out = append(out, diag.RelyLogin)
	}
	if is(diag.HopControlPlaneAccess, diag.StatusFail, diag.StatusInconclusive) || len(unanswered(hops, c)) > 0 {
		out = append(out, diag.RelyAPI)
	}
	agent := reading.HopNamed(hops, diag.HopNodeReadiness).Signal
	if is(diag.HopNodeHeartbeat, diag.StatusFail) || is(diag.HopNodeTaskRoundtrip, diag.StatusFail) ||
		agent == diag.SigProcessDown || agent == diag.SigBinaryInvalid {
		out = append(out, diag.RelyTasks)
	}
	return out
}
