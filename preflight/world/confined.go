package world

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

const (
	// culpritConfined is the culprit if the node's own settings keep the agent from the network: every hop over it
	// fails for the same reason.
	culpritConfined = "node agent confined"

	// ViewEntered is the AgentView of a fact that was measured inside the agent's namespaces.
	ViewEntered = "namespace"

	// ViewLoginNetwork is the AgentView of a fact that was measured in the login's own network namespace.
	ViewLoginNetwork = "login's network"
)

// BlockedByNamespace is the finding that only the agent's network namespace prevents what f asked: the machine's
// network passes. It is nil if f itself passed, or if the machine's network fails as well, or loses packets.
func BlockedByNamespace(c *hop.Case, f *diag.Fact) *diag.Finding {
	other := hop.RequestOf(c, f.ID, reading.CounterHostNetwork)
	if f.Passed() || other == nil || !other.All(passing(c, f.ID)) ||
		(reading.GotNoAnswer(f) && LossSeen(c, f.Vantage) != "") {
		return nil
	}
	out := reading.Fail(diag.SigAgentConfined, f, "the agent is in its own network namespace%s, "+
		"and gets %s from %s there: %s; the same request from the machine's network passes", byUnit(c), Gets(f),
		reading.Where(f), reading.Saw(f))
	out.Culprit, out.Direct = culpritConfined, true
	return &out
}

// byUnit names the unit's setting that gives its process its own network namespace.
func byUnit(c *hop.Case) string {
	k := confinementOf(c)
	switch {
	case k == nil:
		return ""
	case k.NetworkPath != "":
		return " (NetworkNamespacePath=" + k.NetworkPath + ")"
	case k.JoinsNetworkOf != "":
		return " (JoinsNamespaceOf=" + k.JoinsNetworkOf + ")"
	case k.PrivateNetwork:
		return " (PrivateNetwork=yes)"
	}
	return " (its unit does not set it)"
}

// OwnNetwork reports whether the agent has its own network namespace: by the kernel or, if a login may not read that,
// by its unit.
func OwnNetwork(c *hop.Case) bool {
	k := confinementOf(c)
	return k != nil && (k.OwnNetwork || k.PrivateNetwork || k.NetworkPath != "")
}

func confinementOf(c *hop.Case) *diag.Confinement {
	f := c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	if f == nil || f.Unit == nil {
		return nil
	}
	return f.Unit.Confined
}

// BlockedByUnit is the finding that the agent's unit keeps it from an address that a probe, which the unit does not
// restrict, can reach. It is nil while the platform hears from the agent (unheard is false), whatever its unit says
// now, and for an agent with a proxy, which does not connect there itself.
func BlockedByUnit(c *hop.Case, f *diag.Fact, unheard bool) *diag.Finding {
	k, process := confinementOf(c), c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	if k == nil || f == nil || len(k.Proxies) > 0 || !unheard {
		return nil
	}
	for _, to := range addressesOf(f) {
		why := refusedBy(k, to)
		if why == "" {
			continue
		}
		out := reading.Fail(diag.SigAgentConfined, process, "the agent's unit blocks %s, which is needed for %s: %s; "+
			"a probe outside the unit's restrictions reaches it", to, reading.Where(f), why)
		out.Failure, out.Culprit, out.Direct = diag.TCPDenied, culpritConfined, true
		out.Evidence = append(out.Evidence, f.ID)
		return &out
	}
	return nil
}

// AgentNetworkUnseen is the finding for a probe that passes in the machine's network, while the agent's unit gives the
// agent its own network namespace that this login may not enter: what the agent gets there was not measured.
func AgentNetworkUnseen(c *hop.Case, f *diag.Fact, unheard bool) *diag.Finding {
	if f == nil || !unheard || !OwnNetwork(c) {
		return nil
	}
	if f.Request.Network != "" || f.OwnNetwork || f.AgentView == ViewEntered {
		return nil
	}
	out := reading.Undecided(f,
		"the agent's unit gives it its own network namespace%s, which this login does not enter (%s), so "+
			"the agent's access to %s was not measured", byUnit(c), f.AgentView, reading.Where(f))
	out.Signal = diag.SigAgentConfined
	return &out
}

// AgentUnheard reports whether the platform has not heard from the agent: it has no result of this walk's task or,
// without a task, no recent contact. A claim is not enough: it may be the last request of an agent that has ended
// since.
func AgentUnheard(c *hop.Case) bool {
	switch TaskStatus(c) {
	case "completed", "failed":
		return false
	case "queued", "dispatched":
		return true
	}
	return SilentNode(c)
}

// StreamMissing reports whether the gateway gave up waiting for the agent's stream.
func StreamMissing(c *hop.Case) bool {
	return SessionField(c, "session.close_reason") == StreamLate && !StreamCame(c)
}

// addressesOf returns the addresses that a probe needed: its DNS server, and the one that it connected to.
func addressesOf(f *diag.Fact) (all []netip.Addr) {
	var found []string
	if f.DNS != nil {
		found = append(found, f.DNS.Server)
	}
	if f.TCP != nil {
		found = append(found, f.TCP.Remote)
	}
	for _, s := range found {
		if a, err := netip.ParseAddrPort(s); err == nil {
			all = append(all, a.Addr().Unmap())
		}
	}
	return all
}

// refusedBy names the unit's setting that keeps its process from an address; "" if none does. A systemd property counts
// only as far as the kernel shows it in force: a unit may have changed since its process was started.
func refusedBy(k *diag.Confinement, to netip.Addr) string {
	denied, why := within(k.IPDeny, to) && !within(k.IPAllow, to), "IPAddressDeny="+hop.Clip(k.IPDeny)
	filtered := k.Seccomp == "filter" || k.Seccomp == "strict" || k.Seccomp == ""
	switch {
	case denied && slices.Contains(k.CgroupFilters, "egress"):
		return why + ", and its cgroup has an egress filter"
	case filtered && refusesFamilyOf(k.AddressFamilies, to):
		return "RestrictAddressFamilies=" + k.AddressFamilies
	case filtered && k.SystemCalls:
		return "its SystemCallFilter forbids socket or connect"
	case denied && k.FiltersUnread != "":
		return why + " (whether it is in force was not read: " + k.FiltersUnread + ")"
	}
	return ""
}

// UnitRefuses returns the unit's fact if a setting that keeps the agent from an address is in force, and not only
// configured.
func UnitRefuses(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	k := confinementOf(c)
	if k == nil || f.Unit == nil || k.FiltersUnread != "" {
		return nil, ""
	}
	for _, probe := range []*diag.Fact{
		c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach), c.Fact(diag.HopNodeTerminalReachability, hop.StepStream),
	} {
		if probe == nil {
			continue
		}
		for _, to := range addressesOf(probe) {
			if why := refusedBy(k, to); why != "" {
				return f, fmt.Sprintf("%s runs with %s, which blocks %s", f.Request.Target, why, to)
			}
		}
	}
	return nil, ""
}

// refusesFamilyOf reports whether RestrictAddressFamilies excludes the family of an address.
func refusesFamilyOf(families string, to netip.Addr) bool {
	if families == "" {
		return false
	}
	want := "AF_INET"
	if to.Is6() {
		want = "AF_INET6"
	}
	list, refused := strings.CutPrefix(families, "~")
	return slices.Contains(strings.Fields(list), want) == refused
}

func within(prefixes []string, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return err == nil && p.Contains(a)
	})
}

func loginsNetwork(d *doubted) string {
	if d.fact.AgentView != ViewLoginNetwork || d.fact.Passed() {
		return ""
	}
	return fmt.Sprintf("this login runs in its own network namespace and may not enter the machine's, so access of the "+
		"machine and its agent to %s was not measured; from the login's network: %s", reading.Where(d.fact),
		reading.Saw(d.fact))
}
