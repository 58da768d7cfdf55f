package diag

import (
	"cmp"
	"strings"
)

// Absent is what a profile declares, and a report keeps of it, for what a platform does not have.
const Absent = "-"

// SystemCAs as an agent's CA bundle are the machine's own root certificates.
const SystemCAs = "system"

// DefaultAgentDir is the folder of gpuaas-agent.
const DefaultAgentDir = "/etc/gpuaas"

// Files of gpuaas-agent in its folder.
const (
	DefaultAgentCert   = "cert.pem"
	DefaultAgentKey    = "key.pem"
	DefaultAgentBundle = "ca-bundle.crt"
)

// AgentNames are the names of an agent's settings, as requests and facts have them. The last three are gpuaas-agent's
// alone.
type AgentNames struct{ API, Terminal, NodeID, Token, RecoveryAPI, RecoveryBundle string }

// DefaultAgentNames returns the names of gpuaas-agent's settings.
func DefaultAgentNames() AgentNames {
	return AgentNames{
		API: "GPUAAS_API_URL", Terminal: "GPUAAS_TERMINAL_API_URL", NodeID: "GPUAAS_NODE_ID",
		Token:       "GPUAAS_ENROLLMENT_TOKEN",
		RecoveryAPI: "GPUAAS_RECOVERY_API_URL", RecoveryBundle: "GPUAAS_RECOVERY_CA_BUNDLE_PATH",
	}
}

// AgentNamesIn returns the names of the agent's settings by what a report keeps of its profile (Subject.Expected).
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
	at := func(key, standard string) string {
		if v := cmp.Or(expected[key], AgentFile(dir, standard)); v != Absent && v != SystemCAs {
			return v
		}
		return ""
	}
	return at("agent_cert", DefaultAgentCert), at("agent_key", DefaultAgentKey), at("agent_ca_bundle", DefaultAgentBundle)
}

// AgentFile returns the path of a file in an agent's folder; "" if the agent has no folder.
func AgentFile(dir, name string) string {
	if dir == "" {
		return ""
	}
	return strings.TrimRight(dir, "/") + "/" + name
}
