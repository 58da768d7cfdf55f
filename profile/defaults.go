package profile

import "cmp"

// Paths and names of the reference platform on a node.
const (
	DefaultAgentUnit    = "gpuaas-node-agent.service"
	DefaultAgentEnvFile = "/etc/gpuaas/agent.env"
	DefaultAgentDir     = "/etc/gpuaas"
	DefaultAgentBinary  = "/usr/local/bin/gpuaas-agent"
	DefaultAgentRecord  = "/var/lib/gpuaas/diag"
	DefaultGPUState     = "/var/lib/gpuaas/agent/gpu.json"

	ourAgent = "gpuaas-agent" // file name of our agent's program
)

// WithDefaults returns p with every unset value that has a default filled in: the agent's paths, the whole policy and
// the whole mapping. SSH stays as it is, since unset values come from the operator's ssh_config.
func (p Profile) WithDefaults() Profile {
	p.Agent.Unit = cmp.Or(p.Agent.Unit, DefaultAgentUnit)
	p.Agent.EnvFile = cmp.Or(p.Agent.EnvFile, DefaultAgentEnvFile)
	p.Agent.Dir = cmp.Or(p.Agent.Dir, DefaultAgentDir)
	p.Agent.Binary = cmp.Or(p.Agent.Binary, DefaultAgentBinary)
	p.Agent.Record = cmp.Or(p.Agent.Record, DefaultAgentRecord)
	p.Agent.GPUState = cmp.Or(p.Agent.GPUState, DefaultGPUState)
	p.Policy = withDefaultPolicy(p.Policy)
	p.Mapping = p.Mapping.withDefaults()
	return p
}
