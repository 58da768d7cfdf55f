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

// otherName requires the environment of the running process: a file may never have been read.
func otherName(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	name := c.AgentNames().NodeID
	if f.Env == nil || f.Env.Source != "process" || f.Env.Values[name] == "" {
		return nil, ""
	}
	return f, name + " of the running agent is " + f.Env.Values[name]
}

// fieldOfNode is the field of the setting that names the agent's node, without its name.
const fieldOfNode = "env.values."
