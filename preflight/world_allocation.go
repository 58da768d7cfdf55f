package preflight

import (
	"net"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// endpointIsNodes reports whether the workload's endpoint, as the platform has it, is the port that was asked on the
// node, at the address of the login.
func endpointIsNodes(c *Case) bool {
	host, port, err := net.SplitHostPort(appEndpoint(c))
	login := c.Fact(diag.HopNodeOpsAccess, stepSSH)
	return err == nil && port == appPort(c) && (host == c.Subject.NodeHost || (login != nil && host == remoteIP(login)))
}

// allocationStates are the states of an allocation that the judge knows; the first is that of one in use.
var allocationStates = [...]string{
	"active", "requested", "pending", "provisioning", "releasing", "released", "release_failed", "failed", "suspended",
	"stopped", "terminated", "deleted", "expired", "inactive",
}

// allocationField returns a field of the allocation, as the walk first read it.
func allocationField(c *Case, name string) string {
	return c.Field(diag.HopAllocationBinding, stepAllocation, name)
}

// appUnit returns the workload's unit: the platform's name for it, else the reference agent's convention.
func appUnit(c *Case) string {
	if u := allocationField(c, "allocation.app_unit"); u != "" {
		return u
	}
	if !c.Fact(diag.HopAllocationBinding, stepAllocation).Passed() {
		return ""
	}
	return "gpuaas-app-" + c.Subject.AllocationID + ".service"
}

// listensApart reports whether a unit has its own network namespace, so that it listens on none of the machine's ports.
func listensApart(unit *diag.Fact) bool {
	return unit.Unit != nil && unit.Unit.Confined != nil && unit.Unit.Confined.OwnNetwork
}

// listensAt reports whether a unit's processes listen on the machine's port, at any address.
func listensAt(unit *diag.Fact, port string) bool {
	if unit == nil || unit.Unit == nil || listensApart(unit) {
		return false
	}
	return slices.ContainsFunc(unit.Unit.Listening, func(addr string) bool {
		_, p, err := net.SplitHostPort(addr)
		return err == nil && p == port
	})
}

// inTransition reports whether systemd is starting or stopping a unit, as in a deploy: it is neither up nor down. A
// restart after a crash does not count.
func inTransition(f *diag.Fact) bool {
	u := f.Unit
	if u == nil || (u.Result != "" && u.Result != "success") {
		return false
	}
	return (u.Active == "activating" && u.Sub != "auto-restart") || u.Active == "deactivating"
}

// starting is the finding for a unit in transition.
func starting(f *diag.Fact) diag.Finding {
	return undecided(f, "%s is being started or stopped (%s/%s), so the result is not known yet; run preflight again",
		f.Request.Target, f.Unit.Active, f.Unit.Sub)
}

// appPort returns the workload's port: the one that the platform names, else that of its endpoint.
func appPort(c *Case) string {
	if p := allocationField(c, "allocation.app_port"); p != "" && p != "0" {
		return p
	}
	_, port, err := net.SplitHostPort(hostPortOf(allocationField(c, "allocation.app_endpoint")))
	if err != nil {
		return ""
	}
	return port
}

// reasonIfEmpty returns why if value is empty, else "".
func reasonIfEmpty(value, why string) string {
	if value == "" {
		return why
	}
	return ""
}

// otherNodeText returns the text for an allocation on another node than the probed one, whose absence here is not a
// fault; for any other it returns otherwise.
func otherNodeText(c *Case, otherwise string) string {
	node := c.Field(diag.HopAllocationBinding, stepAllocation, "allocation.node_id")
	if node != "" && c.Subject.NodeID != "" && !strings.EqualFold(node, c.Subject.NodeID) {
		return "the allocation is on " + node
	}
	return otherwise
}

// appEndpoint returns the workload's endpoint as host:port; "" if the platform names none, or if the allocation is on
// another node.
func appEndpoint(c *Case) string {
	v := allocationField(c, "allocation.app_endpoint")
	if v == "" || otherNodeText(c, "") != "" {
		return ""
	}
	if hp := hostPortOf(v); hp != "" {
		return hp
	}
	if _, _, err := net.SplitHostPort(v); err != nil {
		return ""
	}
	return v
}

func osUser(c *Case) string {
	return allocationField(c, "allocation.os_user")
}
