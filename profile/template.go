package profile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Draft is a profile to be written for the first time.
type Draft struct {
	Profile
	// Seen says of a setting, by its dotted key, what was seen of the environment; it is written above the setting.
	Seen map[string][]string
}

// Template returns a commented profile file with the settings of d that a first profile has: the kind, the API and its
// health page, the terminal gateway, the token's file, the CA, logins and nodes, the agent. All other settings are
// there as examples: each such line is valid without its #. As in every profile, d must not contain a secret. The error
// means that a value is invalid.
func Template(name string, d Draft) ([]byte, error) {
	w := &draftWriter{seen: d.Seen}
	w.emit("# The environment %s. A key that begins with # is not set: take the # away to set it.", strconv.Quote(name))
	w.emit("# \"gpuaasctl profile validate\" checks this file, " +
		"\"gpuaasctl profile show --all\" lists every key and default.")
	w.emit("\n# Which platform it is: %s.", strings.Join(Kinds(), ", "))
	w.set("kind", d.Kind, "ssh-https")
	w.emit("\n# The control plane's API, and the terminal gateway as browsers reach it.")
	w.set("api_base", d.APIBase, "https://api.example")
	w.set("terminal_base", d.TerminalBase, "https://term.example")
	w.emit("\n# Their addresses, where this machine cannot look their names up.")
	w.set("api_resolve_address", "", "203.0.113.10")
	w.set("terminal_resolve_address", "", "203.0.113.10")
	w.emit("\n# What nodes should use, where it is another URL or has an address of its own there.")
	w.set("node_runtime_api_url", "", "https://node-api.example")
	w.set("node_runtime_resolve_address", "", "10.0.0.9")
	w.set("node_terminal_url", "", "https://term.example:18443")
	w.set("node_terminal_resolve_address", "", "10.0.0.9")
	w.emit("\n# Pages of the API that differ from the reference platform's; \"-\" is one that it does not have.")
	w.group("mapping", "{paths: {healthz: /healthz}}", "mapping.paths.healthz", d.Mapping.Paths[PathHealthz])
	w.emit("\n# Secrets are never in this file. It names a file that only its owner can read; token_command in its place")
	w.emit("# is a program with its arguments, as a list, that prints the token.")
	w.group("auth", "{token_file: ~/.config/gpuaasctl/token}", "auth.token_file", d.Auth.TokenFile)
	w.emit("\n# CA certificates in PEM, where the system's roots do not have them.")
	w.group("trust", "{operator_ca: edge-ca.pem, node_ca: node-ca.pem}", "trust.operator_ca", d.Trust.OperatorCA)
	w.emit("\n# How to log in on nodes. What is not set comes from ~/.ssh/config.")
	sudo := ""
	if d.SSH.Sudo != nil {
		sudo = strconv.FormatBool(*d.SSH.Sudo)
	}
	w.group("ssh", "{user: ubuntu, identity: ~/.ssh/id_ed25519}", "ssh.user", d.SSH.User, "ssh.sudo", sudo)
	w.emit("\n# Nodes by the id that the platform gives them, and where each is reached by SSH.")
	w.nodes(d.Nodes)
	w.emit("\n# The agent that the platform has on its nodes.")
	present := ""
	if d.Agent.Absent() {
		present = "false"
	}
	w.group("agent", "{unit: gpuaas-node-agent.service}", "agent.present", present, "agent.unit", d.Agent.Unit)
	w.emit("\n# Drills break things on purpose: they need this permission, and that of the machine's owner.")
	w.emit("#chaos: {allow: true, windows: [\"Mon-Fri 08:00-17:00 UTC\"]}")
	_, _, err := parse(name, []byte(w.text.String()))
	return []byte(w.text.String()), err
}

// draftWriter writes settings of a draft, each below what was seen of it.
type draftWriter struct {
	text strings.Builder
	seen map[string][]string
}

func (w *draftWriter) emit(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

// about writes what was seen of the settings.
func (w *draftWriter) about(indent string, keys ...string) {
	for _, key := range keys {
		for _, line := range w.seen[key] {
			w.emit("%s# %s", indent, strings.Join(strings.Fields(strings.Map(printable, line)), " "))
		}
	}
}

// printable returns r, or ? for what would end a comment or obey a terminal: servers choose some of the words.
func printable(r rune) rune {
	if unicode.IsPrint(r) || unicode.IsSpace(r) {
		return r
	}
	return '?'
}

// set writes one setting of the top level, as an example if it has no value.
func (w *draftWriter) set(key, value, example string) {
	w.about("", key)
	if value == "" {
		w.emit("#%s: %s", key, example)
		return
	}
	w.emit("%s: %s", key, scalar(value))
}

// group writes the settings of one block, given as dotted keys with their values; as an example if none has a value.
func (w *draftWriter) group(name, example string, pairs ...string) {
	open := []string{}
	for i := 0; i < len(pairs); i += 2 {
		key, value := pairs[i], pairs[i+1]
		if value == "" {
			w.about("", key)
			continue
		}
		path := strings.Split(key, ".")
		for depth, part := range path[:len(path)-1] {
			if depth < len(open) && open[depth] == part {
				continue
			}
			w.emit("%s%s:", strings.Repeat("  ", depth), part)
			open = append(open[:depth], part)
		}
		indent := strings.Repeat("  ", len(path)-1)
		w.about(indent, key)
		if value != "true" && value != "false" {
			value = scalar(value)
		}
		w.emit("%s%s: %s", indent, path[len(path)-1], value)
	}
	if len(open) == 0 {
		w.emit("#%s: %s", name, example)
	}
}

func (w *draftWriter) nodes(nodes map[string]Node) {
	if len(nodes) == 0 {
		w.emit("#nodes: {compute-node-01: {host: 10.0.0.5}}")
		return
	}
	w.emit("nodes:")
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		w.about("  ", "nodes."+id)
		w.emit("  %s:\n    host: %s", scalar(id), scalar(nodes[id].Host))
	}
}

// plain matches what YAML reads as text without quotes.
var plain = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(https?://|/|~/|[a-z][a-z0-9]*[-.])[A-Za-z0-9._~/:-]*[A-Za-z0-9/]$`)
})

// scalar returns text as a YAML value.
func scalar(s string) string {
	if plain().MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}
