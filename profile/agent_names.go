package profile

import (
	"cmp"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Settings of gpuaas-agent that a profile may name otherwise.
var (
	envAPI      = DefaultAgentNames().API
	envTerminal = DefaultAgentNames().Terminal
	envNodeID   = DefaultAgentNames().NodeID
	envToken    = DefaultAgentNames().Token
)

// AgentNames are the names of an agent's settings, see Setting.Name.
type AgentNames = diag.AgentNames

// DefaultAgentNames returns the names of gpuaas-agent's settings.
func DefaultAgentNames() AgentNames { return diag.DefaultAgentNames() }

// Names returns the names of the agent's settings; call it on a profile with defaults.
func (a Agent) Names() AgentNames {
	n := DefaultAgentNames()
	n.API, n.Terminal, n.NodeID = a.API.Name(), a.Terminal.Name(), a.NodeID.Name()
	return n
}

// ToRead returns the names of the settings that are read on the node, and that of gpuaas-agent's token where the agent
// may be that; call it on a profile with defaults.
func (a Agent) ToRead() (names []string) {
	for _, s := range []Setting{a.API, a.Terminal, a.NodeID} {
		if !s.Absent() && s.Literal == "" {
			names = append(names, s.Name())
		}
	}
	if a.NodeID.Env == envNodeID {
		names = append(names, envToken)
	}
	return names
}

// Expected returns what a report keeps of the agent by key: where it has what, and of its settings and files only what
// differs from gpuaas-agent's, so that a report without any is about that. Absent is the value of what there is not.
func (a Agent) Expected() map[string]string {
	out, n, d := map[string]string{}, a.Names(), DefaultAgentNames()
	of := Agent{Dir: cmp.Or(a.Dir, DefaultAgentDir)}
	for key, v := range map[string][2]string{
		"agent_api_setting": {n.API, d.API}, "agent_terminal_setting": {n.Terminal, d.Terminal},
		"agent_node_id_setting": {n.NodeID, d.NodeID}, "agent_process": {a.located(), ""},
		"agent_cert": {a.Cert, of.inDir(certFile)}, "agent_key": {a.Key, of.inDir(keyFile)},
		"agent_ca_bundle": {a.CABundle, of.inDir(bundleFile)}, "agent_log": {a.Log.File, ""},
	} {
		if v[0] != v[1] && a.settled {
			out[key] = cmp.Or(v[0], Absent)
		}
	}
	for key, v := range map[string]string{"agent_unit": a.Unit, "agent_env_file": a.EnvFile, "agent_dir": a.Dir,
		"agent_binary": a.Binary, "agent_record": a.Record} {
		if v != "" || a.settled {
			out[key] = cmp.Or(v, Absent)
		}
	}
	if a.Absent() {
		out["agent"] = Absent
	}
	return out
}

// Files of gpuaas-agent in its folder.
const (
	certFile   = diag.DefaultAgentCert
	keyFile    = diag.DefaultAgentKey
	bundleFile = diag.DefaultAgentBundle
)

func (a Agent) inDir(name string) string { return diag.AgentFile(a.Dir, name) }
