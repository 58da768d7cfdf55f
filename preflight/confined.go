package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	// culpritConfined is the culprit if the node's own settings keep the agent from the network: every hop over it
	// fails for the same reason.
	culpritConfined = "node agent confined"

	// viewEntered is the AgentView of a fact that was measured inside the agent's namespaces.
	viewEntered = "namespace"

	// viewLoginNetwork is the AgentView of a fact that was measured in the login's own network namespace.
	viewLoginNetwork = "login's network"
)

// loginNetworkFinding is the finding for a probe that failed in the login's own network namespace, which neither the
// machine nor its agent is known to use. It is nil for any other fact.
func loginNetworkFinding(f *diag.Fact) *diag.Finding {
	if f == nil || f.AgentView != viewLoginNetwork || f.Passed() {
		return nil
	}
	out := undecided(f, "this login runs in its own network namespace and may not enter the machine's, so access of the "+
		"machine and its agent to %s was not measured; from the login's network: %s", where(f), saw(f))
	out.Lack = diag.LackRights
	return &out
}

// blockedByNamespace is the finding that only the agent's network namespace prevents what f asked: the machine's
// network passes. It is nil if the machine's network fails as well, or loses packets.
func blockedByNamespace(c *Case, f *diag.Fact) *diag.Finding {
	other := question(c, f.ID, counterHostNetwork)
	if other == nil || !other.all(passing(c, f.ID)) || (gotNoAnswer(f) && lossSeen(c, f.Vantage) != "") {
		return nil
	}
	out := fail(diag.SigAgentConfined, f, "the agent is in its own network namespace%s, "+
		"and gets %s from %s there: %s; the same request from the machine's network passes", byUnit(c), gets(f),
		where(f), saw(f))
	out.Culprit, out.Direct = culpritConfined, true
	return &out
}

// byUnit names the unit's setting that gives its process its own network namespace.
func byUnit(c *Case) string {
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

// ownNetwork reports whether the agent has its own network namespace: by the kernel or, if a login may not read that,
// by its unit.
func ownNetwork(c *Case) bool {
	k := confinementOf(c)
	return k != nil && (k.OwnNetwork || k.PrivateNetwork || k.NetworkPath != "")
}

func confinementOf(c *Case) *diag.Confinement {
	f := c.Fact(diag.HopNodeReadiness, stepProcess)
	if f == nil || f.Unit == nil {
		return nil
	}
	return f.Unit.Confined
}

// blockedByUnit is the finding that the agent's unit keeps it from an address that a probe, which the unit does not
// restrict, can reach. It is nil while the platform hears from the agent (unheard is false), whatever its unit says
// now, and for an agent with a proxy, which does not connect there itself.
func blockedByUnit(c *Case, f *diag.Fact, unheard bool) *diag.Finding {
	k, process := confinementOf(c), c.Fact(diag.HopNodeReadiness, stepProcess)
	if k == nil || f == nil || len(k.Proxies) > 0 || !unheard {
		return nil
	}
	for _, to := range addressesOf(f) {
		why := refusedBy(k, to)
		if why == "" {
			continue
		}
		out := fail(diag.SigAgentConfined, process, "the agent's unit blocks %s, which is needed for %s: %s; "+
			"a probe outside the unit's restrictions reaches it", to, where(f), why)
		out.Failure, out.Culprit, out.Direct = diag.TCPDenied, culpritConfined, true
		out.Evidence = append(out.Evidence, f.ID)
		return &out
	}
	return nil
}

// agentNetworkUnseen is the finding for a probe that passes in the machine's network, while the agent's unit gives the
// agent its own network namespace that this login may not enter: what the agent gets there was not measured.
func agentNetworkUnseen(c *Case, f *diag.Fact, unheard bool) *diag.Finding {
	if f == nil || !unheard || !ownNetwork(c) {
		return nil
	}
	if f.Request.Network != "" || f.OwnNetwork || f.AgentView == viewEntered {
		return nil
	}
	out := undecided(f, "the agent's unit gives it its own network namespace%s, which this login does not enter (%s), so "+
		"the agent's access to %s was not measured", byUnit(c), f.AgentView, where(f))
	out.Signal = diag.SigAgentConfined
	return &out
}

// agentUnheard reports whether the platform has not heard from the agent: it has no result of this walk's task or,
// without a task, no recent contact. A claim is not enough: it may be the last request of an agent that has ended
// since.
func agentUnheard(c *Case) bool {
	switch c.Field(diag.HopNodeTaskRoundtrip, stepTask, "task.status") {
	case "completed", "failed":
		return false
	case "queued", "dispatched":
		return true
	}
	return silentNode(c)
}

// streamMissing reports whether the gateway gave up waiting for the agent's stream.
func streamMissing(c *Case) bool {
	return sessionField(c, "session.close_reason") == streamLate && !streamCame(c)
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
	denied, why := within(k.IPDeny, to) && !within(k.IPAllow, to), "IPAddressDeny="+clip(k.IPDeny)
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

// unitRefuses returns the unit's fact if a setting that keeps the agent from an address is in force, and not only
// configured.
func unitRefuses(c *Case, f *diag.Fact) (*diag.Fact, string) {
	k := confinementOf(c)
	if k == nil || f.Unit == nil || k.FiltersUnread != "" {
		return nil, ""
	}
	for _, probe := range []*diag.Fact{
		c.Fact(diag.HopNodeRuntimeAPI, stepReach), c.Fact(diag.HopNodeTerminalReachability, stepStream),
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
