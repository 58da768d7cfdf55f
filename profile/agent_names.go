package profile

import (
	"cmp"
	"strings"
)

// Names of the settings of gpuaas-agent.
const (
	envAPI      = "GPUAAS_API_URL"
	envTerminal = "GPUAAS_TERMINAL_API_URL"
	envNodeID   = "GPUAAS_NODE_ID"
	envToken    = "GPUAAS_ENROLLMENT_TOKEN"

	envRecoveryAPI    = "GPUAAS_RECOVERY_API_URL"
	envRecoveryBundle = "GPUAAS_RECOVERY_CA_BUNDLE_PATH"
)

// AgentNames are the names of an agent's settings, see Setting.Name. The last three are gpuaas-agent's alone.
type AgentNames struct{ API, Terminal, NodeID, Token, RecoveryAPI, RecoveryBundle string }

// DefaultAgentNames returns the names of gpuaas-agent's settings.
func DefaultAgentNames() AgentNames {
	return AgentNames{envAPI, envTerminal, envNodeID, envToken, envRecoveryAPI, envRecoveryBundle}
}

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

// AgentNamesIn returns the names of the agent's settings by what a report keeps of its profile, see Agent.Expected.
func AgentNamesIn(expected map[string]string) AgentNames {
	n := DefaultAgentNames()
	n.API = cmp.Or(expected["agent_api_setting"], n.API)
	n.Terminal = cmp.Or(expected["agent_terminal_setting"], n.Terminal)
	n.NodeID = cmp.Or(expected["agent_node_id_setting"], n.NodeID)
	return n
}

// AgentFilesIn returns the agent's certificate, key and CA bundle by what a report keeps of its profile; "" for what it
// does not have, and for a bundle that is the machine's own.
func AgentFilesIn(expected map[string]string) (cert, key, bundle string) {
	dir := cmp.Or(expected["agent_dir"], DefaultAgentDir)
	if dir == Absent {
		dir = ""
	}
	of := Agent{Dir: dir}
	at := func(key, standard string) string {
		if v := cmp.Or(expected[key], of.inDir(standard)); v != Absent && v != SystemCAs {
			return v
		}
		return ""
	}
	return at("agent_cert", certFile), at("agent_key", keyFile), at("agent_ca_bundle", bundleFile)
}

// Files of gpuaas-agent in its folder.
const (
	certFile   = "cert.pem"
	keyFile    = "key.pem"
	bundleFile = "ca-bundle.crt"
)

func (a Agent) inDir(name string) string {
	if a.Dir == "" {
		return ""
	}
	return strings.TrimRight(a.Dir, "/") + "/" + name
}
