package diag

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Placeholders lists what a template may name, each as {name}. A value that is not given and has no default stays
// readable as <name>.
//
// ssh, target and preflight are parts of a command line, already quoted (make them with Command); every other value is
// unquoted. target is the node as this tool's commands take it: NODE and the connection flags. exec is not given: it
// prefixes a command that runs on the node. ssh is the same login with the ssh client.
var Placeholders = [...]string{
	"ssh", "target", "exec", "preflight",
	"profile", "node_id", "node_host", "allocation_id", "session_id", "correlation_id",
	"api_base", "terminal_base", "api_url", "terminal_url", "api_host", "api_addr", "terminal_host", "terminal_addr",
	"unit", "env_file", "ca_bundle", "cert", "key", "binary", "diag_dir",
	"os_user", "app_unit", "app_url", "full_dir", "agent_address", "agent_pid", "known_as", "known_hosts", "xid",
}

// placeholderDefaults are the values of placeholders that were not given. They may contain other placeholders.
var placeholderDefaults = map[string]string{
	"ssh":         "ssh {node_host}",
	"target":      "{node_id} --profile {profile}",
	"exec":        "gpuaasctl ssh exec {target} --",
	"preflight":   "gpuaasctl preflight --profile {profile} --node-id {node_id}",
	"unit":        "gpuaas-node-agent.service",
	"env_file":    "/etc/gpuaas/agent.env",
	"ca_bundle":   "/etc/gpuaas/ca-bundle.crt",
	"cert":        "/etc/gpuaas/cert.pem",
	"key":         "/etc/gpuaas/key.pem",
	"binary":      "/usr/local/bin/gpuaas-agent",
	"diag_dir":    "/var/lib/gpuaas/diag",
	"full_dir":    "/var",
	"known_as":    "{node_host}",
	"known_hosts": "~/.ssh/known_hosts",
}

// Values returns the value of a placeholder by name, "" if it is unknown. Fill calls it only for placeholders that
// occur in the text. A nil Values knows none.
type Values func(name string) string

// Given returns Values that reads a map.
func Given(values map[string]string) Values { return func(name string) string { return values[name] } }

func (v Values) of(name string) string {
	if v == nil {
		return ""
	}
	return v(name)
}

// Fill replaces the {placeholders} of a template by vars. Text between backticks is a command, and so is a whole
// template that begins with {preflight}: values in commands are quoted for the shell. A missing value, and one that
// quoting cannot make safe (it begins with a dash, or holds control characters), is not filled in: it reads <name>.
func Fill(template string, vars Values) string {
	if strings.HasPrefix(template, "{preflight}") {
		return fillCommand(template, vars)
	}
	if !strings.Contains(template, "{") {
		return template
	}
	var b strings.Builder
	b.Grow(2 * len(template))
	for command := false; ; command = !command {
		part, rest, more := strings.Cut(template, "`")
		fillPart(&b, part, vars, command)
		if !more {
			return b.String()
		}
		b.WriteByte('`')
		template = rest
	}
}

// fillCommand is Fill for a template that is one command.
func fillCommand(template string, vars Values) string {
	var b strings.Builder
	b.Grow(2 * len(template))
	fillPart(&b, template, vars, true)
	return b.String()
}

func fillPart(b *strings.Builder, part string, vars Values, command bool) {
	for {
		before, rest, found := strings.Cut(part, "{")
		b.WriteString(before)
		if !found {
			return
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !isPlaceholder(name) {
			b.WriteByte('{')
			part = rest
			continue
		}
		fillOne(b, name, vars, command)
		part = after
	}
}

func fillOne(b *strings.Builder, name string, vars Values, command bool) {
	value := lookupVar(name, vars)
	whole := name == "ssh" || name == "target" || name == "preflight"
	switch {
	case value == "" && placeholderDefaults[name] != "":
		fillPart(b, placeholderDefaults[name], vars, command)
	case value == "" || unsafeValue(value):
		b.WriteString("<" + name + ">")
	case !command || whole:
		b.WriteString(value)
	default:
		b.WriteString(Quote(value))
	}
}

// lookupVar derives hosts and addresses from URLs if they are not given themselves.
func lookupVar(name string, vars Values) string {
	if v := vars.of(name); v != "" {
		return v
	}
	base, what, ok := strings.Cut(name, "_")
	if !ok || (what != "host" && what != "addr") || (base != "api" && base != "terminal") {
		return ""
	}
	u, err := url.Parse(vars.of(base + "_url"))
	if err != nil || u.Hostname() == "" {
		return ""
	}
	if what == "host" {
		return u.Hostname()
	}
	port := cmp.Or(u.Port(), "443")
	return net.JoinHostPort(u.Hostname(), port)
}

func isPlaceholder(name string) bool {
	return slices.Contains(Placeholders[:], name)
}

func unsafeValue(v string) bool {
	return strings.HasPrefix(v, "-") || strings.ContainsFunc(v, unicode.IsControl) || strings.Contains(v, "`")
}

// Quote returns s as one word for a POSIX shell. A word that needs no quotes is unchanged.
func Quote(s string) string {
	plain := func(r rune) bool {
		return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') ||
			strings.ContainsRune("@%+=:,./_-", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Command quotes and joins argv into one line for a POSIX shell.
func Command(argv ...string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = Quote(w)
	}
	return strings.Join(words, " ")
}
