package chaos

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Variable is a name that a scenario may use as ${name}, so that one file works in every environment.
type Variable struct {
	Name   string
	About  string
	sample string // its substitute while a file is only checked
	need   Need   // of the environment, in order to have a value
}

// Variables is the complete list.
func Variables() []Variable {
	return []Variable{
		{"run", "names this run: /var/lib/gpuaasctl/drill/${run} is on every machine that it breaks, from arming to closing",
			anyRun, ""},
		{"node_id", "the node that is walked", "node-1", ""},
		{"node_address", "how it is reached by SSH", "192.0.2.1", ""},
		{"ssh_user", "whom the operator logs in as", "ops", NeedLogin},
		{"ssh_identity", "the file of the operator's key", "/home/op/.ssh/id_ed25519", NeedLogin},
		{"ssh_known_hosts", "the operator's known hosts", "/home/op/.ssh/known_hosts", NeedLogin},
		{"peer_id", "another node of the profile", "node-2", NeedPeer},
		{"allocation_id", "the allocation that is walked", "alloc-1", NeedAllocation},
		{"os_user", "its user on the node", "tenant", NeedAllocation},
		{"app_unit", "its workload's unit", "app.service", NeedAllocation},
		{"app_port", "the workload's port on the node", "8888", NeedAllocation},
		{"app_url", "its product URL", "https://app.example.test/", NeedAllocation},
		{"app_host", "the host in it", "app.example.test", NeedAllocation},
		{"api_url", "where nodes reach the API", "https://node-api.example.test", NeedNodeAPI},
		{"api_host", "the host in it", "node-api.example.test", NeedNodeAPI},
		{"api_port", "the port in it", "443", NeedNodeAPI},
		{"api_address", "the address that the profile gives for it, else the host", "192.0.2.11", NeedNodeAPI},
		{"terminal_url", "where nodes reach the terminal gateway", "https://term.example.test:18443", NeedNodeTerminal},
		{"terminal_host", "the host in it", "term.example.test", NeedNodeTerminal},
		{"terminal_port", "the port in it", "18443", NeedNodeTerminal},
		{"terminal_address", "the address that the profile gives for it, else the host", "192.0.2.10", NeedNodeTerminal},
		{"edge_api_url", "where browsers and operators reach the API", "https://api.example.test", NeedAPI},
		{"edge_api_host", "the host in it", "api.example.test", NeedAPI},
		{"edge_api_address", "the address that the profile gives for it, else the host", "192.0.2.10", NeedAPI},
		{"edge_terminal_url", "where browsers reach the terminal gateway", "https://term.example.test", NeedTerminal},
		{"edge_terminal_host", "the host in it", "term.example.test", NeedTerminal},
		{"edge_terminal_address", "the address that the profile gives for it, else the host", "192.0.2.10", NeedTerminal},
		{"app_address", "the address that the profile gives for it, else the host", "192.0.2.10", NeedAllocation},
		{"node_ca", "the operator's copy of what nodes trust", "/etc/ssl/certs/ca-certificates.crt", ""},
		{"operator_ca", "the file by which the operator verifies the public edge", "/etc/ssl/certs/ca-certificates.crt", ""},
		{"agent_unit", "the agent's unit", profile.DefaultAgentUnit, NeedAgent},
		{"agent_dir", "its folder", profile.DefaultAgentDir, NeedAgent},
		{"agent_env", "its environment file", profile.DefaultAgentEnvFile, NeedAgent},
		{"agent_binary", "its program", profile.DefaultAgentBinary, NeedAgent},
		{"agent_record", "where it keeps its diagnostic record", profile.DefaultAgentRecord, NeedAgent},
	}
}

// samples are values for a file that is only checked.
func samples() map[string]string {
	m := map[string]string{}
	for _, v := range Variables() {
		m[v.Name] = v.sample
	}
	return m
}

// fill replaces ${names} by their values. A name that is not in the list, or has no value here, is an error.
func fill(text string, values map[string]string) (string, error) {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		out.WriteString(before)
		if !ok {
			return out.String(), nil
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return "", fmt.Errorf("${%s is not closed", rest)
		}
		value, known := values[name]
		switch {
		case !isVariable(name):
			return "", fmt.Errorf("unknown variable ${%s}%s", name, strictyaml.Nearest(name, variableNames()))
		case !known || value == "":
			return "", fmt.Errorf("${%s} (%s) is not known here", name, aboutVariable(name))
		}
		out.WriteString(value)
		text = after
	}
}

// fillPath is fill for the path of a URL: a value cannot leave its path segment or query field.
func fillPath(text string, values map[string]string) (string, error) {
	path, query, asks := strings.Cut(text, "?")
	path, err := fill(path, escaped(values, url.PathEscape))
	if err != nil || !asks {
		return path, err
	}
	query, err = fill(query, escaped(values, url.QueryEscape))
	return path + "?" + query, err
}

func escaped(values map[string]string, escape func(string) string) map[string]string {
	all := make(map[string]string, len(values))
	for name, v := range values {
		all[name] = escape(v)
	}
	return all
}

func isVariable(name string) bool { return aboutVariable(name) != "" }

func aboutVariable(name string) string {
	for _, v := range Variables() {
		if v.Name == name {
			return v.About
		}
	}
	return ""
}

func variableNames() (names []string) {
	for _, v := range Variables() {
		names = append(names, v.Name)
	}
	return names
}

// anyRun is the name of a run that has no name yet.
const anyRun = "plan"

// values returns the variables of one plan, from the profile and the facts.
func values(p profile.Profile, node, peer string, a *Allocation) map[string]string {
	const system = "/etc/ssl/certs/ca-certificates.crt"
	m := map[string]string{
		"run": anyRun, "node_id": node, "node_address": p.Nodes[node].Host, "peer_id": peer,
		"operator_ca": cmp.Or(p.Trust.OperatorCA, system), "node_ca": cmp.Or(p.Trust.NodeCA, system),
		"agent_unit": p.Agent.Unit, "agent_dir": p.Agent.Dir, "agent_env": p.Agent.EnvFile, "agent_binary": p.Agent.Binary,
		"agent_record": p.Agent.Record,
	}
	login := p.SSHOf(node)
	m["ssh_user"], m["ssh_identity"], m["ssh_known_hosts"] = login.User, login.Identity, login.KnownHosts
	for prefix, place := range map[string][2]string{
		"api":      {p.NodeRuntimeAPIURL, p.NodeRuntimeResolveAddress},
		"terminal": {p.NodeTerminalURL, p.NodeTerminalResolveAddress}, "edge_api": {p.APIBase, p.APIResolveAddress},
		"edge_terminal": {p.TerminalBase, p.TerminalResolveAddress},
	} {
		putURL(m, prefix, place[0])
		if m[prefix+"_address"] = place[1]; place[1] == "" {
			m[prefix+"_address"] = m[prefix+"_host"]
		}
	}
	if a != nil {
		m["allocation_id"], m["os_user"], m["app_unit"], m["app_port"] = a.ID, a.OSUser, a.AppUnit, a.AppPort
		putURL(m, "app", a.AppURL)
		m["app_port"] = a.AppPort // the node's port, not the edge's
		m["app_address"] = cmp.Or(p.AppResolveAddress, m["app_host"])
	}
	return m
}

func putURL(m map[string]string, prefix, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	m[prefix+"_url"], m[prefix+"_host"], m[prefix+"_port"] = text, u.Hostname(), port
}
