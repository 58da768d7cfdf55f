package host

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// ParseEnvFile parses the text of an environment file as systemd does.
func ParseEnvFile(text string) map[string]string { return parseEnvFile(text) }

// parseEnvFile parses systemd's EnvironmentFile= syntax with a state machine like systemd's own: comments with # and ;,
// lines continued by a backslash, values unquoted, in single or in double quotes. Like systemd, it skips what it cannot
// parse.
func parseEnvFile(text string) map[string]string {
	p := envParser{vars: map[string]string{}, state: beforeKey}
	for i := range len(text) {
		p.state = p.state(&p, text[i])
	}
	p.endOfText()
	return p.vars
}

// envState handles one byte and returns the next state.
type envState func(*envParser, byte) envState

type envParser struct {
	vars  map[string]string
	state envState
	inKey bool // a key has begun, and has no '=' yet
	inVal bool
	key   strings.Builder
	value strings.Builder
	solid int // length of value before trailing blanks that may be removed
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func beforeKey(p *envParser, c byte) envState {
	switch {
	case c == '#' || c == ';':
		return comment
	case blank(c) || c == '\n':
		return beforeKey
	}
	p.key.Reset()
	p.value.Reset()
	p.solid, p.inKey = 0, true
	p.key.WriteByte(c)
	return key
}

func key(p *envParser, c byte) envState {
	switch c {
	case '\n':
		p.inKey = false
		return beforeKey
	case '=':
		p.inKey, p.inVal = false, true
		return beforeValue
	}
	p.key.WriteByte(c)
	return key
}

func beforeValue(p *envParser, c byte) envState {
	switch {
	case c == '\n':
		return p.put()
	case c == '\'':
		return singleQuoted
	case c == '"':
		return doubleQuoted
	case c == '\\':
		return escaped
	case blank(c):
		return beforeValue
	}
	return value(p, c)
}

func value(p *envParser, c byte) envState {
	switch c {
	case '\n':
		return p.put()
	case '\\':
		return escaped
	}
	p.value.WriteByte(c)
	if !blank(c) {
		p.solid = p.value.Len()
	}
	return value
}

func escaped(p *envParser, c byte) envState {
	if c != '\n' { // otherwise the line continues
		p.value.WriteByte(c)
		p.solid = p.value.Len()
	}
	return value
}

func singleQuoted(p *envParser, c byte) envState {
	if c == '\'' {
		return beforeValue
	}
	p.value.WriteByte(c)
	p.solid = p.value.Len()
	return singleQuoted
}

func doubleQuoted(p *envParser, c byte) envState {
	switch c {
	case '"':
		return beforeValue
	case '\\':
		return doubleEscaped
	}
	p.value.WriteByte(c)
	p.solid = p.value.Len()
	return doubleQuoted
}

func doubleEscaped(p *envParser, c byte) envState {
	if c == '\n' {
		return doubleQuoted
	}
	if !strings.ContainsRune("\"\\`$", rune(c)) {
		p.value.WriteByte('\\')
	}
	p.value.WriteByte(c)
	p.solid = p.value.Len()
	return doubleQuoted
}

func comment(p *envParser, c byte) envState {
	switch c {
	case '\n':
		return beforeKey
	case '\\':
		return commentEscaped
	}
	return comment
}

// commentEscaped ends a comment at the end of its line, even after a backslash, as systemd does since 254.
func commentEscaped(_ *envParser, c byte) envState {
	if c == '\n' {
		return beforeKey
	}
	return comment
}

// put stores the variable if its name is valid.
func (p *envParser) put() envState {
	p.inVal = false
	if name := strings.TrimRight(p.key.String(), " \t\r"); validName(name) {
		p.vars[name] = p.value.String()[:p.solid]
	}
	return beforeKey
}

func (p *envParser) endOfText() {
	if p.inVal {
		p.put()
	}
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z')
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// EnvNames are the names of gpuaas-agent's settings, which any request may use as ${NAME}: they are expanded from the
// environment with which the running agent was started. None of them is secret.
var EnvNames = [...]string{"GPUAAS_API_URL", "GPUAAS_TERMINAL_API_URL", "GPUAAS_NODE_ID"}

// Expand returns req with every ${NAME} in Target, Resolve, ServerName, Body, NodeID and Header replaced by a setting
// of the agent. Without others, only those of EnvNames are; with others, which an operator's own helper may use, any
// variable that is no secret, and any FILE#KEY. The error names the first name that may not be used or has no value.
func Expand(req diag.Request, agent *AgentView, others bool) (diag.Request, error) {
	var missing error
	value := func(name string) string {
		v, err := agent.setting(name, others)
		if missing == nil {
			missing = err
		}
		return v
	}
	expand := func(s string) string { return replaceRefs(s, value) }
	for _, field := range []*string{&req.Resolve, &req.ServerName, &req.Body, &req.NodeID} {
		*field = expand(*field)
	}
	if strings.HasPrefix(req.Target, "${") {
		req.Target = replaceRefs(req.Target, func(name string) string {
			v := value(name)
			if v == "" || slices.Contains(EnvNames[:], name) {
				return v
			}
			return strings.TrimRight(asURL(v), "/")
		})
	} else {
		req.Target = expand(req.Target)
	}
	if req.Header != nil {
		req.Header = maps.Clone(req.Header)
		for k, v := range req.Header {
			req.Header[k] = expand(v)
		}
	}
	return req, missing
}

// replaceRefs returns s with every ${NAME} replaced. Other text is unchanged.
func replaceRefs(s string, value func(name string) string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		if closed && (validName(name) || ofFile(name)) {
			out.WriteString(value(name))
			s = after
			continue
		}
		out.WriteString("${")
		s = rest
	}
}
