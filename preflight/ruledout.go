package preflight

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// excluded is one thing that the facts exclude as the cause, in words, and as the aspect that steps name ("" where none
// does).
type excluded struct {
	about diag.Aspect
	text  string
}

// aspectOf is what a hop's pass rules out.
var aspectOf = map[diag.HopID]diag.Aspect{
	diag.HopAllocationBinding:        diag.AboutAllocation,
	diag.HopNodeRuntimeAPI:           diag.AboutAPIWay,
	diag.HopNodeRecoveryStatus:       diag.AboutIdentity,
	diag.HopNodeTerminalReachability: diag.AboutTerminalWay,
}

// ruledOut lists what the facts exclude as the cause: the phases that the failing probe came through, the
// counter-probes that failed just the same, and the hops that could have explained it and passed.
func ruledOut(chain []Hop, hops []diag.HopResult, r root, c *Case) []excluded {
	var out []excluded
	if len(r.finding.Evidence) > 0 {
		if f := c.facts[r.finding.Evidence[0]]; f != nil {
			out = append(out, phasesPassed(f, r.finding.Failure)...)
			if misdirected(c, f) {
				pinned := c.facts[f.ID+"~"+counterPinned]
				out = append(out, excluded{diag.AboutPath, "network path: at " + pinned.Request.Resolve + " it answers"})
			}
			for _, text := range sameFailure(f, c) {
				out = append(out, excluded{text: text})
			}
		}
	}
	may := append(closure(chain, r.hop.ID), r.symptoms...)
	for _, s := range r.symptoms {
		may = append(may, closure(chain, s)...)
	}
	for _, h := range hops {
		if h.Status == diag.StatusPass && slices.Contains(may, h.ID) {
			out = append(out, excluded{aspectOf[h.ID], fmt.Sprintf("%s: %s", h.ID, h.Text)})
		}
	}
	return out
}

// phasesPassed lists the phases that the failing probe came through. A name that leads elsewhere was looked up, and is
// the fault all the same; so is the path to where it leads.
func phasesPassed(f *diag.Fact, as diag.Failure) []excluded {
	if as == diag.DNSMismatch {
		return nil
	}
	var out []excluded
	at := rung(f.Phase)
	if f.DNS != nil && at > rung("dns") && f.DNS.Source != "literal" {
		out = append(out, excluded{diag.AboutName, fmt.Sprintf("name look-up: %s is %s (%s)", f.DNS.Name, clip(f.DNS.Addresses), f.DNS.Source)})
	}
	if f.TCP != nil && at > rung("tcp") {
		out = append(out, excluded{diag.AboutPath, "network path: " + f.TCP.Remote + " accepts connections"})
	}
	if f.TLS != nil && at > rung("tls") && f.TLS.Verified {
		out = append(out, excluded{diag.AboutServerCert, "server certificate: verified against " + f.TLS.TrustSource})
	}
	return out
}

// sameFailure names the inputs that were changed without any change in the outcome.
func sameFailure(f *diag.Fact, c *Case) []string {
	var out []string
	for id, k := range c.facts {
		if !strings.HasPrefix(id, f.ID+"~") || k.Failure != f.Failure || k.Request.Op != f.Request.Op {
			continue
		}
		changed := diag.Changed(f.Request, k.Request)
		switch {
		case k.Vantage != f.Vantage:
			out = append(out, fmt.Sprintf("this node alone: from the %s it is %s, too", k.Vantage, k.Failure))
		case len(changed) == 1:
			out = append(out, fmt.Sprintf("%s: with %s it is %s, too", changed[0], inWords(k.Request, changed[0]), k.Failure))
		}
	}
	sort.Strings(out)
	return out
}
