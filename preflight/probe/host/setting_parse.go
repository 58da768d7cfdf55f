package host

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// maxDepth bounds how deeply settings are nested, and maxSettings how many there are.
const (
	maxDepth    = 32
	maxSettings = 20000
)

// jsonSettings returns the scalars of a JSON text by key.
func jsonSettings(text string) map[string]string {
	var v any
	out := map[string]string{}
	if bounded.Unmarshal([]byte(text), &v, bounded.Limits{
		Bytes: maxSettingsFile, Elements: maxSettings, Values: maxSettings, Depth: maxDepth}) == nil {
		flatten(out, "", v)
	}
	return out
}

func flatten(out map[string]string, at string, v any) {
	in := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			flatten(out, in(name), x)
		}
	case []any:
		for i, x := range v {
			flatten(out, in(strconv.Itoa(i)), x)
		}
	case string:
		out[at] = v
	case json.Number:
		out[at] = v.String()
	case float64:
		out[at] = strconv.FormatFloat(v, 'f', -1, 64)
	}
}

// yamlLine is one line of a YAML text: what it says, and how far it is indented.
type yamlLine struct {
	indent int
	text   string
}

// yamlSettings returns the scalars of a YAML text by key: block mappings and lists, and flow lists and mappings on one
// line. Anchors, aliases and block scalars have no value. It is here, and not a library, for the size of the agent.
func yamlSettings(text string) map[string]string {
	p := yamlReader{out: map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		body := strings.TrimLeft(line, " ")
		if body == "" || body[0] == '#' || body[0] == '%' || body == "---" || body == "..." {
			continue
		}
		p.lines = append(p.lines, yamlLine{len(line) - len(body), body})
	}
	for p.at < len(p.lines) && len(p.out) < maxSettings {
		p.block(p.lines[p.at].indent, "", 0)
	}
	return p.out
}

type yamlReader struct {
	lines []yamlLine
	at    int
	out   map[string]string
}

// block reads the lines of one indent, with what is nested in them.
func (p *yamlReader) block(indent int, at string, depth int) {
	in := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	for item := 0; p.at < len(p.lines) && p.lines[p.at].indent == indent && len(p.out) < maxSettings; {
		line := p.lines[p.at]
		if rest, ok := listItem(line.text); ok {
			key := in(strconv.Itoa(item))
			item++
			if _, _, maps := yamlPair(rest); maps && depth < maxDepth { // its mapping begins on the same line
				p.lines[p.at] = yamlLine{indent + len(line.text) - len(rest), rest}
				p.block(p.lines[p.at].indent, key, depth+1)
				continue
			}
			p.at++
			p.value(rest, key, indent, depth)
			continue
		}
		p.at++
		if name, value, ok := yamlPair(line.text); ok {
			p.value(value, in(name), indent, depth)
		}
	}
	if p.at < len(p.lines) && p.lines[p.at].indent > indent { // what belongs to nothing
		p.at++
	}
}

// value reads the value of a key or of an item: behind it, or nested below it.
func (p *yamlReader) value(text, key string, indent, depth int) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] == '#' || text[0] == '&' {
		if p.at < len(p.lines) && depth < maxDepth {
			next := p.lines[p.at]
			_, list := listItem(next.text)
			if next.indent > indent || (next.indent == indent && list) {
				p.block(next.indent, key, depth+1)
			}
		}
		return
	}
	switch {
	case text[0] == '|' || text[0] == '>':
		for p.at < len(p.lines) && p.lines[p.at].indent > indent {
			p.at++
		}
	case text[0] == '[' && strings.HasSuffix(text, "]"):
		for i, one := range strings.Split(strings.Trim(text, "[]"), ",") {
			p.out[key+"."+strconv.Itoa(i)] = scalarOf(one)
		}
	case text[0] == '{' && strings.HasSuffix(text, "}"):
		for one := range strings.SplitSeq(strings.Trim(text, "{}"), ",") {
			if name, value, ok := yamlPair(strings.TrimSpace(one)); ok {
				p.out[key+"."+name] = scalarOf(value)
			}
		}
	case text[0] != '*':
		p.out[key] = scalarOf(text)
	}
}

// listItem returns what follows the dash of a list's item.
func listItem(text string) (rest string, ok bool) {
	if text == "-" {
		return "", true
	}
	if rest, ok = strings.CutPrefix(text, "- "); ok {
		rest = strings.TrimLeft(rest, " ")
	}
	return rest, ok
}

// yamlPair splits a line of a mapping.
func yamlPair(text string) (name, value string, ok bool) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		end := strings.IndexByte(text[1:], text[0])
		if end < 0 {
			return "", "", false
		}
		rest, ok := strings.CutPrefix(text[end+2:], ":")
		return text[1 : end+1], strings.TrimSpace(rest), ok
	}
	if name, ok = strings.CutSuffix(text, ":"); ok {
		return name, "", !strings.Contains(name, ": ")
	}
	name, value, ok = strings.Cut(text, ": ")
	return name, value, ok && !strings.ContainsAny(name, "{[")
}
