package preflight

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// culpritAgentEnv is at fault where nobody can say what the agent's environment is.
const culpritAgentEnv = "node agent environment"

// narrow adds to a finding of f what its counter-probes say of where the fault is. It reports false when the operator,
// too, gets no answer where the node got none.
func narrow(c *Case, f *diag.Fact, out *diag.Finding) bool {
	if misdirected(c, f) {
		pinned := c.facts[f.ID+"~"+counterPinned]
		if inPhase(f, "dns") {
			claim(c, out, claimOnlyLookup, pinned.Request.Resolve)
			if plain := c.facts[f.ID+"~"+counterHostView]; plain != nil && passesWhere(plain, f) {
				claim(c, out, claimOnlyAgentSees)
			}
			return true
		}
		out.Failure, out.Culprit = diag.DNSMismatch, f.Vantage+" name "+f.DNS.Name
		out.Text += fmt.Sprintf("; the name is %s here (%s), the profile says %s, and there it answers",
			clip(f.DNS.Addresses), source(f.DNS), pinned.Request.Resolve)
		if plain := c.facts[f.ID+"~"+counterHostView]; plain != nil && passesWhere(plain, f) {
			claim(c, out, claimAgentView)
		}
		return true
	}
	control := c.facts[f.ID+"~"+counterFromOperator]
	switch {
	case control == nil || control.Failure == diag.Cancelled:
	case passesWhere(control, f):
		claim(c, out, claimNodeWay)
	default:
		return !claim(c, out, claimNotThisNode)
	}
	return true
}

// misdirected reports whether f gets further at the address that the profile knows for its name.
func misdirected(c *Case, f *diag.Fact) bool {
	pinned := c.facts[f.ID+"~"+counterPinned]
	return pinned != nil && f.DNS != nil && passesWhere(pinned, f)
}

// source says where an address came from.
func source(d *diag.DNSFacts) string {
	var parts []string
	for _, s := range []string{d.Source, d.SourceLine, d.Server} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

// distrusts reports whether f ended at the server's certificate, or at the bundle to judge it by.
func distrusts(f *diag.Fact) bool {
	switch f.Failure {
	case diag.TLSClosed, diag.TLSNotTLS, diag.Timeout:
		return false
	}
	return inPhase(f, "trust", "tls")
}

// noURL is the text for a target that the agent's environment should have named.
func noURL(f *diag.Fact, name string) string {
	return fmt.Sprintf("nobody can say which %s the agent uses: %s", name, f.Detail)
}

// foreignAgent reports whether the agent's process runs and knows nothing of GPUAAS_API_URL, without which ours does
// not start: it is configured in another way, and nobody can say by these names whom it talks to.
func foreignAgent(c *Case) bool {
	reach := c.Fact(diag.HopNodeRuntimeAPI, stepReach)
	return reach != nil && inPhase(reach, "env") && !notAllowed(reach) && c.Fact(diag.HopNodeReadiness, stepProcess).Passed()
}

// notNamed is the finding of a hop whose listener the agent's environment does not name, by the variable that it would
// name it by.
func notNamed(f *diag.Fact, variable string) []diag.Finding {
	return []diag.Finding{{
		Status: diag.StatusSkipped, Evidence: []string{f.ID},
		Because: fmt.Sprintf("%s is not set in the agent's environment, so there is no listener to ask", variable),
	}}
}

// notAllowed reports whether f says only what this login may not read: nothing about the node. Root may read all.
func notAllowed(f *diag.Fact) bool {
	return f.Failure == diag.NotPermitted ||
		inPhase(f, "env", "trust", "cert", "key") && (f.Errno == "EACCES" || f.Errno == "EPERM")
}
