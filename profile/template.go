package profile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Template returns a commented profile file with the API, the terminal gateway, the token's file, the login and the
// nodes of p. All other settings are there as examples: each such line is valid without its #. As in every profile, p
// must not contain a secret. The error means that a value is invalid.
func Template(name string, p Profile) ([]byte, error) {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	set := func(indent, key, value, example string) {
		if value == "" {
			say("%s#%s: %s", indent, key, example)
			return
		}
		say("%s%s: %s", indent, key, scalar(value))
	}
	say("# The environment %s. A key that begins with # is not set: take the # away to set it.", strconv.Quote(name))
	say("# \"gpuaasctl profile validate\" checks this file, \"gpuaasctl profile show --all\" lists every key and default.")
	say("\n# The control plane's API, and the terminal gateway as browsers reach it.")
	set("", "api_base", p.APIBase, "https://api.example")
	set("", "terminal_base", p.TerminalBase, "https://term.example")
	say("\n# Their addresses, where this machine cannot look their names up.")
	set("", "api_resolve_address", "", "203.0.113.10")
	set("", "terminal_resolve_address", "", "203.0.113.10")
	say("\n# What nodes should use, where it is another URL or has an address of its own there.")
	set("", "node_runtime_api_url", "", "https://node-api.example")
	set("", "node_runtime_resolve_address", "", "10.0.0.9")
	set("", "node_terminal_url", "", "https://term.example:18443")
	set("", "node_terminal_resolve_address", "", "10.0.0.9")
	say("\n# Secrets are never in this file. It names a file that only its owner can read; token_command in its place " +
		"is a")
	say("# program with its arguments, as a list, that prints the token.")
	if p.Auth.TokenFile == "" {
		say("#auth: {token_file: ~/.config/gpuaasctl/token}")
	} else {
		say("auth:\n  token_file: %s", scalar(p.Auth.TokenFile))
	}
	say("\n# How to log in on nodes. What is not set comes from ~/.ssh/config.")
	if p.SSH.User == "" {
		say("#ssh: {user: ubuntu, identity: ~/.ssh/id_ed25519}")
	} else {
		say("ssh:\n  user: %s", scalar(p.SSH.User))
		say("  #identity: ~/.ssh/id_ed25519")
	}
	say("\n# Nodes by the id that the platform gives them, and where each is reached by SSH.")
	if len(p.Nodes) == 0 {
		say("#nodes: {compute-node-01: {host: 10.0.0.5}}")
	} else {
		say("nodes:")
	}
	for _, id := range slices.Sorted(maps.Keys(p.Nodes)) {
		say("  %s:\n    host: %s", scalar(id), scalar(p.Nodes[id].Host))
	}
	say("\n# CA certificates in PEM, where the system's roots do not have them.")
	say("#trust: {operator_ca: edge-ca.pem, node_ca: node-ca.pem}")
	say("\n# Drills break things on purpose: they need this permission, and that of the machine's owner.")
	say("#chaos: {allow: true, windows: [\"Mon-Fri 08:00-17:00 UTC\"]}")
	_, _, err := parse(name, []byte(b.String()))
	return []byte(b.String()), err
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
