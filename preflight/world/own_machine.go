package world

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// ownMachineFinding is the finding for a probe that the probing machine itself ended before anything left it: for lack
// of a resource, or by a policy. It is nil for any other fact, and if no policy was read, as in older reports.
func ownMachineFinding(c *hop.Case, f *diag.Fact) *diag.Finding {
	switch {
	case f == nil, hop.Lost(f):
		return nil
	case f.Failure == diag.HostExhausted:
		return exhausted(c, f)
	case f.Failure == diag.TCPDenied && f.Denial != nil && f.Request.Op != diag.OpSSH:
		return denied(c, f)
	}
	return nil
}

// Uncovered returns the findings for steps that the probing machine ended and that no judge covers: they are neither a
// pass nor a missing answer.
func Uncovered(h *hop.Hop, c *hop.Case, findings []diag.Finding) (out []diag.Finding) {
	for i := range h.Steps {
		s := &h.Steps[i]
		if s.Uses != "" || s.Policy.Optional {
			continue
		}
		f := c.JudgedFact(s)
		own := ownMachineFinding(c, f)
		if own == nil || slices.ContainsFunc(append(findings, out...), func(o diag.Finding) bool {
			return slices.Contains(o.Evidence, f.ID) || (o.Signal == own.Signal && o.Status == own.Status)
		}) {
			continue
		}
		out = append(out, *own)
	}
	return out
}

// exhausted blames the node only for a limit that its agent shares. A limit of the probe's own process, user or control
// group is the operator's: on the node, that of the login.
func exhausted(c *hop.Case, f *diag.Fact) *diag.Finding {
	s := f.Shortage
	if s == nil {
		s = &diag.ShortageFacts{Resource: "a resource"}
	}
	if f.Vantage == hop.Node && f.Request.Op != diag.OpSSH && s.Scope.Shared() {
		place := "the node"
		if s.Scope == diag.ScopeNetwork {
			place = networkOf(c, f)
		}
		out := reading.Fail(diag.SigNodeExhausted, f, "%s is out of %s, so nothing can be asked of %s: %s", place, outOf(s),
			askedOf(f), reading.Saw(f))
		out.Culprit, out.Direct = "node out of "+string(s.Resource), true
		return &out
	}
	out := reading.Undecided(f, "%s is out of %s, so nothing was asked of %s: %s", reading.ProberOf(f), outOf(s),
		askedOf(f), reading.Saw(f))
	if f.Vantage != hop.Platform {
		out.Signal = diag.SigOperatorMachine
	}
	return &out
}

// denied is the finding for a connection that a local policy denied, with all policies that were found. The node's
// packet filter and routes apply to its agent as well, unless the agent got there in this walk: a filter may apply to
// some processes only. A rule for the probe's process alone is not evidence about the agent.
func denied(c *hop.Case, f *diag.Fact) *diag.Finding {
	d := f.Denial
	if out := BlockedByNamespace(c, f); out != nil {
		out.Text += "; " + deniers(d)
		return out
	}
	found := len(d.PacketFilters) > 0 || d.Route != "" || len(d.CgroupFilters) > 0 || d.Seccomp == "filter"
	if UnknownRefuser(f) && !found {
		return new(reading.Undecided(f,
			"a policy refuses the %s's connection to %s: its own, or that of a router on the path, "+
				"which is the same errno over IPv6: %s; %s", f.Vantage, askedOf(f), reading.Saw(f), deniers(d)))
	}
	shared := len(d.PacketFilters) > 0 || d.Route != ""
	heard := agentHeard(c, f)
	if f.Vantage == hop.Node && heard == "" && (shared || (len(d.CgroupFilters) == 0 && d.Seccomp != "filter")) {
		out := reading.Fail(diag.SigAgentConfined, f, "%s itself denies the connection to %s%s: %s; %s", networkOf(c, f),
			askedOf(f), byRoute(d), reading.Saw(f), deniers(d))
		out.Culprit, out.Direct = culpritConfined, true
		return &out
	}
	out := reading.Undecided(f, "%s itself denies the connection to %s%s: %s; %s", reading.ProberOf(f), askedOf(f),
		byRoute(d), reading.Saw(f), deniers(d))
	if f.Vantage != hop.Platform {
		out.Signal = diag.SigOperatorMachine
	}
	if f.Vantage == hop.Node && heard != "" {
		out.Because += "; " + heard
	}
	return &out
}

// UnknownRefuser reports whether an EACCES over IPv6 may come from an ICMP error of another machine: the kernel did not
// report who refused.
func UnknownRefuser(f *diag.Fact) bool {
	remote := ""
	switch {
	case f.Errno != "EACCES":
		return false
	case f.TCP != nil && f.TCP.RefusedHere:
		return false
	case f.TCP != nil:
		remote = f.TCP.Remote
	case f.DNS != nil:
		remote = f.DNS.Server
	}
	host, _, err := net.SplitHostPort(remote)
	return err == nil && reading.Six(host)
}

// networkOf names the network in which a probe of the node ran.
func networkOf(c *hop.Case, f *diag.Fact) string {
	if f.OwnNetwork {
		return "the agent's network namespace" + byUnit(c)
	}
	return "the node"
}

// agentHeard describes what shows that the agent itself, in this walk, reached what a probe of the node was denied.
func agentHeard(c *hop.Case, f *diag.Fact) string {
	if hop := c.Hop(hop.OfFact(f.ID)); hop.AgentCame != nil {
		return hop.AgentCame(c)
	}
	return ""
}

// RanOut is the finding for an agent that has used up a limit of its own: a warning while the platform hears from it.
func RanOut(c *hop.Case, f *diag.Fact) *diag.Finding {
	if f.Unit == nil || f.Unit.Short == nil {
		return nil
	}
	out := reading.Fail(diag.SigNodeExhausted, f, "%s is out of %s", f.Request.Target, outOf(f.Unit.Short))
	out.Failure, out.Culprit, out.Direct = diag.HostExhausted, "node agent out of "+string(f.Unit.Short.Resource), true
	if !AgentUnheard(c) {
		out.Status, out.Reason, out.Direct = diag.StatusWarn, diag.ReasonNone, false
		out.Text += "; the platform still has contact with its agent"
	}
	return &out
}

// byRoute names the kind of route that denies the connection, in the clause that no page cuts off.
func byRoute(d *diag.DenialFacts) string {
	if d.Route == "" {
		return ""
	}
	return " by a route (" + d.Route + ")"
}

// deniers describes which policies were found, and which were not read. It is not known which of several refused.
func deniers(d *diag.DenialFacts) string {
	var found []string
	if d.Route != "" {
		found = append(found, "its routes say "+d.Route)
	}
	for _, filter := range d.PacketFilters {
		found = append(found, "packet filter "+filter)
	}
	if len(d.CgroupFilters) > 0 {
		found = append(found, "filters on the control group ("+strings.Join(d.CgroupFilters, ", ")+")")
	}
	switch d.Seccomp {
	case "filter", "strict":
		found = append(found, "a filter of system calls on the process")
	case "machine":
		found = append(found, "a filter of system calls on the whole machine")
	}
	text := "no policy was found that does so, security modules (SELinux, AppArmor) were not checked"
	if len(found) > 0 {
		text = "what was found there: " + strings.Join(found, ", ")
	}
	if len(d.Unread) > 0 {
		text += "; not read: " + strings.Join(d.Unread, ", ")
	}
	return text
}

// askedOf names what a probe was to ask: an endpoint, or the operation.
func askedOf(f *diag.Fact) string {
	if t := reading.Where(f); t != "" {
		return t
	}
	return string(f.Request.Op)
}

// outOf describes a shortage: the resource, its use, the setting with its limit, and the largest consumers.
func outOf(s *diag.ShortageFacts) string {
	text := s.Resource.Words()
	if s.Limit != nil && s.Used != nil {
		text += fmt.Sprintf(" (%s of %s used, %s)", amount(s.Resource, *s.Used), amount(s.Resource, *s.Limit), s.Setting)
	}
	var holders []string
	for _, h := range s.Holders {
		name := cmp.Or(h.Name, "closed connections")
		holders = append(holders, fmt.Sprintf("%s %s", name, amount(s.Resource, h.Held)))
	}
	if len(holders) > 0 {
		text += ", most held by " + hop.Clip(holders)
	}
	return text
}

func amount(r diag.Resource, n int64) string {
	switch r {
	case diag.Memory:
		return fmt.Sprintf("%d MiB", n>>20)
	case diag.NetworkBuffers:
		return fmt.Sprintf("%d pages", n)
	}
	return fmt.Sprint(n)
}

func ownMachine(d *doubted) string {
	if own := ownMachineFinding(d.c, d.fact); own != nil {
		return own.Text + own.Because
	}
	return ""
}
