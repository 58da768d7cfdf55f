package world

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// endpointIsNodes reports whether the workload's endpoint, as the platform has it, is the port that was asked on the
// node, at the address of the login.
func endpointIsNodes(c *hop.Case) bool {
	host, port, err := net.SplitHostPort(AppEndpoint(c))
	login := c.Fact(diag.HopNodeOpsAccess, hop.StepSSH)
	return err == nil && port == AppPort(c) && (host == c.Subject.NodeHost || (login != nil &&
		host == reading.RemoteIP(login)))
}

// AllocationStates are the states of an allocation that the judge knows; the first is that of one in use.
var AllocationStates = [...]string{
	"active", "requested", "pending", "provisioning", "releasing", "released", "release_failed", "failed", "suspended",
	"stopped", "terminated", "deleted", "expired", "inactive",
}

// AllocationField returns a field of the allocation, as the walk first read it.
func AllocationField(c *hop.Case, name string) string {
	return c.Field(diag.HopAllocationBinding, hop.StepAllocation, name)
}

// AppUnit returns the workload's unit: the platform's name for it, else the reference agent's convention.
func AppUnit(c *hop.Case) string {
	if u := AllocationField(c, "allocation.app_unit"); u != "" {
		return u
	}
	if !c.Fact(diag.HopAllocationBinding, hop.StepAllocation).Passed() {
		return ""
	}
	return "gpuaas-app-" + c.Subject.AllocationID + ".service"
}

// ListensApart reports whether a unit has its own network namespace, so that it listens on none of the machine's ports.
func ListensApart(unit *diag.Fact) bool {
	return unit.Unit != nil && unit.Unit.Confined != nil && unit.Unit.Confined.OwnNetwork
}

// ListensAt reports whether a unit's processes listen on the machine's port, at any address.
func ListensAt(unit *diag.Fact, port string) bool {
	if unit == nil || unit.Unit == nil || ListensApart(unit) {
		return false
	}
	return slices.ContainsFunc(unit.Unit.Listening, func(addr string) bool {
		_, p, err := net.SplitHostPort(addr)
		return err == nil && p == port
	})
}

// OnlyAtLoopback returns where the workload listens if that is why another machine's connection e to its endpoint was
// refused: a port on which nothing listens refuses, and a filter that drops does not. "" for any other failure, for an
// endpoint that is not the node's own port, and if another address is listened at.
func OnlyAtLoopback(c *hop.Case, e *diag.Fact) string {
	if e == nil || e.Failure != diag.TCPRefused || !endpointIsNodes(c) {
		return ""
	}
	return loopbackOnly(c)
}

// loopbackOnly returns where the workload's processes listen on its port if no other machine can connect there; "" if
// one can, or if that is not known.
func loopbackOnly(c *hop.Case) string {
	unit, port := c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit), AppPort(c)
	if !ListensAt(unit, port) {
		return ""
	}
	var at []string
	for _, addr := range unit.Unit.Listening {
		a, err := netip.ParseAddrPort(addr)
		switch {
		case err != nil:
			return ""
		case strconv.Itoa(int(a.Port())) != port:
		case !a.Addr().Unmap().IsLoopback():
			return ""
		default:
			at = append(at, addr)
		}
	}
	return strings.Join(at, ", ")
}

// InTransition reports whether systemd is starting or stopping a unit, as in a deploy: it is neither up nor down. A
// restart after a crash does not count.
func InTransition(f *diag.Fact) bool {
	u := f.Unit
	if u == nil || (u.Result != "" && u.Result != "success") {
		return false
	}
	return (u.Active == "activating" && u.Sub != "auto-restart") || u.Active == "deactivating"
}

// Starting is the finding for a unit in transition.
func Starting(f *diag.Fact) diag.Finding {
	return reading.Undecided(f,
		"%s is being started or stopped (%s/%s), so the result is not known yet; run preflight again",
		f.Request.Target, f.Unit.Active, f.Unit.Sub)
}

// AppPort returns the workload's port: the one that the platform names, else that of its endpoint.
func AppPort(c *hop.Case) string {
	if p := AllocationField(c, "allocation.app_port"); p != "" && p != "0" {
		return p
	}
	_, port, err := net.SplitHostPort(hop.HostPortOf(AllocationField(c, "allocation.app_endpoint")))
	if err != nil {
		return ""
	}
	return port
}

// ReasonIfEmpty returns why if value is empty, else "".
func ReasonIfEmpty(value, why string) string {
	if value == "" {
		return why
	}
	return ""
}

// OtherNodeText returns the text for an allocation on another node than the probed one, whose absence here is not a
// fault; for any other it returns otherwise.
func OtherNodeText(c *hop.Case, otherwise string) string {
	node := c.Field(diag.HopAllocationBinding, hop.StepAllocation, "allocation.node_id")
	if node != "" && c.Subject.NodeID != "" && !strings.EqualFold(node, c.Subject.NodeID) {
		return "the allocation is on " + node
	}
	return otherwise
}

// AppEndpoint returns the workload's endpoint as host:port; "" if the platform names none, or if the allocation is on
// another node.
func AppEndpoint(c *hop.Case) string {
	v := AllocationField(c, "allocation.app_endpoint")
	if v == "" || OtherNodeText(c, "") != "" {
		return ""
	}
	if hp := hop.HostPortOf(v); hp != "" {
		return hp
	}
	if _, _, err := net.SplitHostPort(v); err != nil {
		return ""
	}
	return v
}

// OSUser returns the allocation's user on the node.
func OSUser(c *hop.Case) string {
	return AllocationField(c, "allocation.os_user")
}
