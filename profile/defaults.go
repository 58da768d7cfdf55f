package profile

import "cmp"

// Where the reference platform puts things on a node.
const (
	DefaultAgentUnit    = "gpuaas-node-agent.service"
	DefaultAgentEnvFile = "/etc/gpuaas/agent.env"
	DefaultAgentDir     = "/etc/gpuaas"
	DefaultAgentBinary  = "/usr/local/bin/gpuaas-agent"
	DefaultAgentRecord  = "/var/lib/gpuaas/diag"
	DefaultGPUState     = "/var/lib/gpuaas/agent/gpu.json"

	ourAgent = "gpuaas-agent" // what our agent's program is called
)

// WithDefaults returns p with every unset value that has a default filled in: the agent's places, the whole policy
// and the whole mapping. SSH stays as it is, since what is unset there comes from the operator's ssh_config.
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
