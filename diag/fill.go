package diag

import (
	"net"
	"net/url"
	"strings"
	"unicode"
)

// Placeholders lists what a template may name, each as {name}. A value that is not given and has no default stays
// readable as <name>.
//
// ssh, ssh_trust and preflight are command lines, already quoted (make them with Command); every other value is plain.
// ssh is what comes before a command that runs on the node, e.g. Command("ssh", "ops@10.0.0.7", "sudo", "-n").
var Placeholders = [...]string{
	"ssh", "ssh_trust", "preflight",
	"profile", "node_id", "node_host", "allocation_id", "session_id", "correlation_id",
	"api_base", "terminal_base", "api_url", "terminal_url", "api_host", "api_addr", "terminal_host", "terminal_addr",
	"unit", "env_file", "ca_bundle", "cert", "key", "binary", "diag_dir",
	"os_user", "app_unit", "app_url", "full_dir",
}

// placeholderDefault is the text of a placeholder that was not given. It may name other placeholders.
func placeholderDefault(name string) string {
	switch name {
	case "ssh":
		return "ssh {node_host}"
	case "ssh_trust":
		return "gpuaasctl ssh trust {node_id} --profile {profile}"
	case "preflight":
		return "gpuaasctl preflight --profile {profile} --node-id {node_id}"
	case "unit":
		return "gpuaas-node-agent.service"
	case "env_file":
		return "/etc/gpuaas/agent.env"
	case "ca_bundle":
		return "/etc/gpuaas/ca-bundle.crt"
	case "cert":
		return "/etc/gpuaas/cert.pem"
	case "key":
		return "/etc/gpuaas/key.pem"
	case "binary":
		return "/usr/local/bin/gpuaas-agent"
	case "diag_dir":
		return "/var/lib/gpuaas/diag"
	case "full_dir":
		return "/var"
	}
	return ""
}

// Fill replaces the {placeholders} of a template by vars. Between backticks is a command, and a template that begins
// with {ssh} or {preflight} is one as a whole: a value is quoted for the shell there, and twice behind {ssh}, because
// the node's shell reads it again. A value that no quoting makes safe (it begins with a dash, or holds control
// characters) is not filled in, nor is one that is missing: both read <name>.
func Fill(template string, vars map[string]string) string {
	var b strings.Builder
	if strings.HasPrefix(template, "{ssh}") || strings.HasPrefix(template, "{preflight}") {
		fillPart(&b, template, vars, true, false)
		return b.String()
	}
	for i, part := range strings.Split(template, "`") {
		if i > 0 {
			b.WriteByte('`')
		}
		fillPart(&b, part, vars, i%2 == 1, false)
	}
	return b.String()
}

func fillPart(b *strings.Builder, part string, vars map[string]string, command, remote bool) {
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
		fillOne(b, name, vars, command, remote)
		remote = remote || name == "ssh" // all that follows on this command line is read by two shells
		part = after
	}
}

func fillOne(b *strings.Builder, name string, vars map[string]string, command, remote bool) {
	value := lookupVar(name, vars)
	whole := name == "ssh" || name == "ssh_trust" || name == "preflight"
	switch {
	case value == "" && placeholderDefault(name) != "":
		fillPart(b, placeholderDefault(name), vars, command, remote)
	case value == "" || unsafeValue(value):
		b.WriteString("<" + name + ">")
	case !command || whole:
		b.WriteString(value)
	case remote:
		b.WriteString(Quote(Quote(value)))
	default:
		b.WriteString(Quote(value))
	}
}

// lookupVar derives hosts and addresses from the URLs where they are not given themselves.
func lookupVar(name string, vars map[string]string) string {
	if v := vars[name]; v != "" {
		return v
	}
	base, what, ok := strings.Cut(name, "_")
	if !ok || what != "host" && what != "addr" || base != "api" && base != "terminal" {
		return ""
	}
	u, err := url.Parse(vars[base+"_url"])
	if err != nil || u.Hostname() == "" {
		return ""
	}
	if what == "host" {
		return u.Hostname()
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func isPlaceholder(name string) bool {
	for _, p := range Placeholders {
		if p == name {
			return true
		}
	}
	return false
}

func unsafeValue(v string) bool {
	return strings.HasPrefix(v, "-") || strings.ContainsFunc(v, unicode.IsControl) || strings.Contains(v, "`")
}

// Quote makes one word of s for a POSIX shell. Words that need no quotes stay as they are.
func Quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
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
