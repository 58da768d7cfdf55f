package diag

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Placeholders lists what a template may name, each as {name}. A value that is not given and has no default is missing:
// a command that lacks one is not shown at all.
//
// ssh, target and preflight are parts of a command line, already quoted (make them with Command); every other value is
// unquoted. target is the node as this tool's commands take it: NODE and the connection flags. exec is not given: it
// prefixes a command that runs on the node. ssh is the same login with the ssh client.
var Placeholders = [...]string{
	"ssh", "target", "exec", "preflight",
	"profile", "node_id", "node_host", "allocation_id", "session_id", "correlation_id",
	"api_base", "terminal_base", "api_url", "terminal_url", "api_host", "api_addr", "terminal_host", "terminal_addr",
	"unit", "env_file", "api_variable", "terminal_variable", "ca_bundle", "cert", "key", "binary", "diag_dir",
	"os_user", "app_unit", "full_dir", "agent_address", "agent_pid", "known_as", "known_hosts", "xid", "address",
}

// placeholderDefaults are the values of placeholders that were not given. They may contain other placeholders.
var placeholderDefaults = map[string]string{
	"ssh":       "ssh {node_host}",
	"target":    "{node_id} --profile {profile}",
	"exec":      "gpuaasctl ssh exec {target} --",
	"preflight": "gpuaasctl preflight --profile {profile} --node-id {node_id}",
	"unit":      "gpuaas-node-agent.service",
	"env_file":  "/etc/gpuaas/agent.env",
	// the variables of gpuaas-agent
	"api_variable": "GPUAAS_API_URL", "terminal_variable": "GPUAAS_TERMINAL_API_URL",
	"ca_bundle":   "/etc/gpuaas/ca-bundle.crt",
	"cert":        "/etc/gpuaas/cert.pem",
	"key":         "/etc/gpuaas/key.pem",
	"binary":      "/usr/local/bin/gpuaas-agent",
	"diag_dir":    "/var/lib/gpuaas/diag",
	"full_dir":    "/var",
	"known_as":    "{node_host}",
	"known_hosts": "~/.ssh/known_hosts",
}

// Values returns the value of a placeholder by name, "" if it is unknown. It is called only for placeholders that occur
// in the text. A nil Values knows none.
type Values func(name string) string

// MapValues returns Values that reads a map.
func MapValues(values map[string]string) Values {
	return func(name string) string { return values[name] }
}

func (v Values) of(name string) string {
	if v == nil {
		return ""
	}
	return v(name)
}

// NoValue is the value of a placeholder that has none here, not even its default.
const NoValue = "-"

// General is the Values of pages without a report: a value reads as its name in capitals, like an argument in a
// command's help. Unlike <name>, a shell does not take that for a redirection.
func General(name string) string {
	switch {
	case placeholderDefaults[name] != "":
		return ""
	case name == "node_id":
		return "NODE"
	}
	return strings.ToUpper(name)
}

// FillCommand replaces the {placeholders} of a command line by vars, quoted for the shell. It returns false, and no
// command, if a value is missing.
func FillCommand(command string, vars Values) (string, bool) {
	f := filling{vars: vars, command: true}
	f.b.Grow(2 * len(command))
	if f.part(command); f.lacks {
		return "", false
	}
	return f.b.String(), true
}

// fillText replaces the {placeholders} of a text by vars, and {1}, {2} by commands. A part in [brackets] that lacks a
// value is left out, or reads as the alternative behind its |. It returns false if another value is missing: not given,
// or unsafe to print (it begins with a dash, or has control characters or backticks).
func fillText(text string, vars Values, commands []string) (string, bool) {
	if !strings.Contains(text, "{") {
		return text, true
	}
	f := filling{vars: vars, commands: commands}
	f.b.Grow(2 * len(text))
	for {
		before, rest, found := strings.Cut(text, "[")
		f.part(before)
		if !found {
			return f.b.String(), !f.lacks
		}
		option, after, _ := strings.Cut(rest, "]")
		f.option(option)
		text = after
	}
}

// filling is a template that is being filled.
type filling struct {
	vars     Values
	command  bool     // the template is a command: values are quoted
	commands []string // for {1}, {2}, ... of a text; none if they cannot be shown
	lacks    bool     // a value is missing
	b        strings.Builder
}

// option writes the first alternative that lacks no value, or nothing.
func (f *filling) option(alternatives string) {
	for way := range strings.SplitSeq(alternatives, "|") {
		g := filling{vars: f.vars, commands: f.commands}
		if g.part(way); !g.lacks {
			f.b.WriteString(g.b.String())
			return
		}
	}
}

func (f *filling) part(part string) {
	for {
		before, rest, found := strings.Cut(part, "{")
		f.b.WriteString(before)
		if !found {
			return
		}
		name, after, closed := strings.Cut(rest, "}")
		placeholder, n := closed && isPlaceholder(name), 0
		if closed && !placeholder && !f.command {
			n, _ = strconv.Atoi(name)
		}
		switch {
		case placeholder:
			f.one(name)
		case n > 0:
			f.place(n)
		default:
			f.b.WriteByte('{')
			part = rest
			continue
		}
		part = after
	}
}

// place writes the n-th command into a text.
func (f *filling) place(n int) {
	if n > len(f.commands) {
		f.lacks = true
		return
	}
	f.b.WriteString("`" + f.commands[n-1] + "`")
}

func (f *filling) one(name string) {
	value := lookupVar(name, f.vars)
	whole := name == "ssh" || name == "target" || name == "preflight"
	switch {
	case value == NoValue:
		f.lacks = true
	case value == "" && placeholderDefaults[name] != "":
		f.part(placeholderDefaults[name])
	case value == "" || unsafeValue(value):
		f.lacks = true
	case !f.command || whole:
		f.b.WriteString(value)
	default:
		f.b.WriteString(Quote(value))
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
