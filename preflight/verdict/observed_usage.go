package verdict

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// notForClients holds if the node's own certificate may not be used by clients.
func notForClients(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Cert == nil || reading.NotForClients(&f.Cert.Leaf) == "" {
		return nil, ""
	}
	return f, world.NotForClients(c)
}
