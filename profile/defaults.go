package profile

import (
	"maps"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Paths and names of the reference platform on a node.
const (
	DefaultAgentUnit    = "gpuaas-node-agent.service"
	DefaultAgentEnvFile = "/etc/gpuaas/agent.env"
	DefaultAgentDir     = diag.DefaultAgentDir
	DefaultAgentBinary  = "/usr/local/bin/gpuaas-agent"
	DefaultAgentRecord  = "/var/lib/gpuaas/diag"
	DefaultGPUState     = "/var/lib/gpuaas/agent/gpu.json"

	ourAgent = "gpuaas-agent" // file name of our agent's program
)

// WithDefaults returns p with every unset value that has a default filled in: the agent's paths, the whole policy and
// the whole mapping. SSH stays as it is, since unset values come from the operator's ssh_config.
func (p Profile) WithDefaults() Profile {
	p.Agent = p.Agent.withDefaults(p.Kind)
	p.Policy = withDefaultPolicy(p.Policy)
	p.Terminal = p.Terminal.withDefaults()
	if p.Terminal.Kind == diag.TerminalExec && p.TerminalBase == "" { // the API is the terminal's server
		p.TerminalBase, p.TerminalResolveAddress = p.APIBase, p.APIResolveAddress
	}
	paths := maps.Clone(p.Mapping.Paths)
	if own := p.Terminal.paths(paths); len(own) > 0 {
		if paths == nil {
			paths = map[string]string{}
		}
		maps.Copy(paths, own)
		p.Mapping.Paths = paths
	}
	p.Mapping = p.Mapping.withDefaults(p.Kind)
	return p
}
