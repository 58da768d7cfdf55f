package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// portHolder returns the process that answers at the workload's port on the node, if that is known and not of the
// workload's unit.
func portHolder(c *hop.Case) *diag.Listener {
	unit, port := c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit), c.Fact(diag.HopAppRuntimeLiveness, hop.StepPort)
	if !port.Passed() || port.TCP == nil || port.TCP.Listener == nil || unit == nil || ListensAt(unit, AppPort(c)) {
		return nil
	}
	if h := port.TCP.Listener; h.Unit != unit.Request.Target {
		return h
	}
	return nil
}

// HeldByOther describes the holder of the workload's port, if it is not of the workload's unit: another unit, or what
// forwards to a container.
func HeldByOther(c *hop.Case) string {
	h := portHolder(c)
	if h == nil {
		return ""
	}
	return fmt.Sprintf("; port %s is held by %s", AppPort(c), h)
}

// SayHolder adds who answers at the workload's port in place of the workload. If that runs and listens nowhere, the
// fault is on the node.
func SayHolder(c *hop.Case, out *diag.Finding) {
	unit, h := c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit), portHolder(c)
	out.Text += HeldByOther(c)
	if h == nil || !unit.Passed() || unit.Unit == nil || len(unit.Unit.Listening) > 0 || ListensApart(unit) ||
		mayServe(h) {
		return
	}
	out.Side = diag.SideNode
	out.Text += fmt.Sprintf(", and %s listens on no port", unit.Request.Target)
}

// mayServe reports whether a holder may serve a workload whose own processes listen nowhere: a container's processes
// are in a scope of its own or in no unit, systemd listens for units that it starts, and some programs pass connections
// on.
func mayServe(h *diag.Listener) bool {
	apart := !strings.HasSuffix(h.Unit, ".service") && !strings.HasPrefix(h.Unit, "session-")
	return apart || slices.Contains(forwarders[:], h.Name)
}

// forwarders are programs that hold a port for a container or pass connections on, by the kernel's names (15 bytes).
var forwarders = [...]string{"docker-proxy", "containerd-shim", "rootlessport", "rootlesskit", "slirp4netns", "pasta",
	"pasta.avx2", "conmon", "systemd-socket-", "socat", "nginx", "haproxy", "envoy", "caddy", "traefik"}
