package policy

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// builtins are the policies of this program.
var builtins = [...]string{"default", "strict", "permissive"}

// Builtins returns the names of the built-in policies; the first is the default.
func Builtins() []string { return slices.Clone(builtins[:]) }

// BuiltinText returns the file of a built-in policy; false for another name.
func BuiltinText(name string) ([]byte, bool) { return builtinFile(name, ".yaml") }

// BuiltinCases returns the file of a built-in policy's cases; false for another name.
func BuiltinCases(name string) ([]byte, bool) { return builtinFile(name, ".cases.yaml") }

func builtinFile(name, ending string) ([]byte, bool) {
	if !slices.Contains(builtins[:], name) {
		return nil, false
	}
	data, err := builtin.ReadFile("builtin/" + name + ending)
	return data, err == nil
}

// file is a policy's file.
type file struct {
	Version int    `yaml:"version"`
	Rules   []Rule `yaml:"rules"`
}

// Load parses the file of a policy. Its error has a line "FILE:LINE: MISTAKE" for each mistake. It does not check
// conditions; package judge does.
func Load(path string, data []byte) (Policy, error) {
	p := Policy{Name: path, Digest: fmt.Sprintf("%x", sha256.Sum256(data))}
	doc, err := strictyaml.Parse(path, data)
	if err != nil {
		return p, err
	}
	var f file
	found := append(doc.Decode(&f), f.mistakes()...)
	if err := doc.Error(found); err != nil {
		return p, err
	}
	for i := range f.Rules {
		key := fmt.Sprintf("rules[%d]", i)
		f.Rules[i].Line = doc.LineOf(key)
		f.Rules[i].CondLine = doc.LineOf(key + ".condition")
		if isBlock(doc.Root, i) {
			f.Rules[i].CondLine++ // the text begins on the line after "condition: |"
		}
	}
	p.Rules = f.Rules
	return p, nil
}

// isBlock reports whether the condition of the i-th rule is a literal block, whose lines correspond to those of the
// file.
func isBlock(root *yaml.Node, i int) bool {
	rules := child(root, "rules")
	if rules == nil || i >= len(rules.Content) {
		return false
	}
	c := child(rules.Content[i], "condition")
	return c != nil && c.Style&yaml.LiteralStyle != 0
}

func child(n *yaml.Node, name string) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// fileVersion is the version of the files of policies and of cases.
const fileVersion = 1

// mistakes returns the mistakes of a file whose fields and types are right.
func (f *file) mistakes() (found []strictyaml.Problem) {
	bad := func(key, format string, args ...any) {
		found = append(found, strictyaml.Problem{Key: key, Text: fmt.Sprintf(format, args...)})
	}
	if f.Version != fileVersion {
		bad("version", "want %d, not %d", fileVersion, f.Version)
	}
	if len(f.Rules) == 0 {
		bad("rules", "a policy without rules judges nothing")
	}
	if len(f.Rules) > MaxRules {
		bad("rules", "holds %d rules; at most %d", len(f.Rules), MaxRules)
	}
	seen := map[string]int{}
	for i, r := range f.Rules {
		key := fmt.Sprintf("rules[%d]", i)
		if first, twice := seen[r.Name]; twice {
			bad(key+".name", "%q is the name of rules[%d], too", r.Name, first)
		} else {
			seen[r.Name] = i
		}
		if !isName(r.Name) {
			bad(key+".name", "want 1 to %d letters, digits, - and _, not %q", MaxName, cut(r.Name))
		}
		if len(r.Description) > MaxText {
			bad(key+".description", "is longer than %d bytes", MaxText)
		}
		switch {
		case strings.TrimSpace(r.Condition) == "":
			bad(key+".condition", "is missing")
		case len(r.Condition) > MaxCondition:
			bad(key+".condition", "is longer than %d bytes", MaxCondition)
		}
		if problem := wrongHealth(r.Result); problem != "" {
			bad(key+".result", "%s", problem)
		}
	}
	return found
}

// wrongHealth explains why a text is not a health; "" if it is.
func wrongHealth(h Health) string {
	if slices.Contains(healths[:], h) {
		return ""
	}
	var known []string
	for _, k := range healths {
		known = append(known, string(k))
	}
	near := strictyaml.Nearest(strings.ToUpper(string(h)), known)
	if slices.Contains(known, strings.ToUpper(string(h))) {
		near = fmt.Sprintf(" (did you mean %q?)", strings.ToUpper(string(h)))
	}
	return fmt.Sprintf("want one of %s, not %q%s", strings.Join(known, ", "), cut(string(h)), near)
}

func isName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for _, c := range []byte(s) {
		letter := (c|0x20 >= 'a' && c|0x20 <= 'z') || (c >= '0' && c <= '9')
		if !letter && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// cut shortens a quoted text.
func cut(s string) string {
	if len(s) > MaxName {
		return s[:MaxName] + "..."
	}
	return s
}
