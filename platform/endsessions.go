package platform

import (
	"context"

	"github.com/gpuaas/gpuaasctl/platform/gateway"
	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/wire"
)

// endSessions ends the terminal sessions that a stored decision on a node's identity leaves no ground for, and returns how
// many. A host that is fenced loses its own; with a new identity nobody's certificate counts any more.
func (p *Platform) endSessions(ctx context.Context, d store.Decision) int {
	of := gateway.OfNode(d.NodeID)
	switch {
	case d.Action == store.Fence && d.InstanceID != "":
		return p.gateway.Review(ctx, d.NodeID)
	case d.Action == store.Reactivate && d.NewIdentity:
		return p.gateway.End(of, wire.EndIdentityReplaced)
	case d.Action == store.Fence:
		return p.gateway.End(of, wire.EndNodeFenced)
	case d.Action == store.Revoke:
		return p.gateway.End(of, wire.EndNodeRevoked)
	case d.Action == store.Retire:
		return p.gateway.End(of, wire.EndNodeRetired)
	}
	return 0
}
