package profile

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// TestANodesOwnLogin: a node's own user and port replace those of ssh for that node alone, and values for one run
// replace both.
func TestANodesOwnLogin(t *testing.T) {
	path := write(t, "p.yaml",
		"ssh: {user: ops, port: 22, identity: /k}\nnodes:\n  n1: {host: a}\n  n2: {host: b, port: 2222}\n  n3: {host: c, "+
			"port: 2223, user: root}\n")
	for _, c := range []struct {
		env        map[string]string
		n1, n2, n3 string
	}{
		{nil, "ops 22", "ops 2222", "root 2223"},
		{map[string]string{"GPUAASCTL_NODE_USER": "me"}, "me 22", "me 2222", "me 2223"},
		{map[string]string{"GPUAASCTL_SSH_PORT": "99"}, "ops 99", "ops 99", "root 99"},
	} {
		p, _, err := Load(path, Sources{Env: func(k string) string { return c.env[k] }})
		if err != nil {
			t.Fatal(err)
		}
		for node, want := range map[string]string{"n1": c.n1, "n2": c.n2, "n3": c.n3, "unknown": c.n1} {
			s := p.SSHOf(node)
			user, port, _ := strings.Cut(want, " ")
			if s.User != user || port != strconv.Itoa(s.Port) || s.Identity != "/k" {
				t.Errorf("%v: %s is reached as %+v, want %s", c.env, node, s, want)
			}
		}
	}
}

// TestWhatIsSuggested: for a field in the wrong section, the suggestion is a field of that section, and never the same
// name.
func TestWhatIsSuggested(t *testing.T) {
	places := map[string]reflect.Type{
		"%s: 1": reflect.TypeFor[Profile](), "nodes: {n1: {host: a, %s: 1}}": reflect.TypeFor[Node](),
		"ssh: {%s: 1}": reflect.TypeFor[SSH](), "auth: {%s: 1}": reflect.TypeFor[Auth](),
		"trust: {%s: 1}": reflect.TypeFor[Trust](), "agent: {%s: 1}": reflect.TypeFor[Agent](),
		"mapping: {%s: 1}": reflect.TypeFor[Mapping](), "chaos: {%s: 1}": reflect.TypeFor[Chaos](),
	}
	fieldsOf := func(t reflect.Type) []string { return slices.Sorted(maps.Keys(strictyaml.Fields(t))) }
	words := []string{"prot", "hosts", "usr", "x"}
	for place, t1 := range places {
		if len(fieldsOf(t1)) == 0 {
			t.Fatalf("%s has no fields", place)
		}
		words = append(words, fieldsOf(t1)...)
	}
	suggested := regexp.MustCompile(`([a-z_]+): unknown field \(did you mean "([a-z_]+)"\?\)`)
	seen := 0
	for text, place := range places {
		known := " " + strings.Join(fieldsOf(place), " ") + " "
		for _, word := range words {
			_, _, err := parse("p.yaml", []byte(strings.Replace(text, "%s", word, 1)))
			if strings.Contains(known, " "+word+" ") {
				if err != nil && strings.Contains(err.Error(), "unknown field") {
					t.Errorf("%s has %s: %v", place, word, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), word+": unknown field") {
				t.Errorf("%s in %s: %v", word, place, err)
				continue
			}
			if m := suggested.FindStringSubmatch(err.Error()); m != nil {
				seen++
				if m[2] == word || !strings.Contains(known, " "+m[2]+" ") {
					t.Errorf("%s in %s: %v", word, place, err)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d suggestions", seen)
	}
}

// TestNodesHaveIDs: ids and hosts are words of command lines and completions, so a character that a shell reads is an
// error with its line.
func TestNodesHaveIDs(t *testing.T) {
	for _, c := range "$`;|&<>(){}*?~'\"\\ \n\t\u202e\x1b" {
		name := strconv.Quote("n" + string(c) + "x")
		for text, want := range map[string]string{
			"nodes:\n  a: {host: h}\n  " + name + ": {host: h}\n":    "p.yaml:3: the id of a node: " + name,
			"nodes:\n  a:\n    user: root\n    host: " + name + "\n": "p.yaml:4: the host of a node: " + name,
			"platform_ssh:\n  host: " + name + "\n":                  "p.yaml:2: the platform's host: " + name,
		} {
			if _, _, err := Load(write(t, "p.yaml", text), Sources{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		}
	}
	for _, text := range []string{"nodes: {-x: {host: h}}\n", "nodes: {\"\": {host: h}}\n", "nodes: {a: {host: -oX}}\n"} {
		if _, _, err := Load(write(t, "p.yaml", text), Sources{}); err == nil {
			t.Errorf("accepted: %s", text)
		}
	}
	good := "nodes: {compute-node-01.a_b: {host: \"fd00::5\"}, \"n:1@x\": {host: box.example}}\n"
	if _, _, err := Load(write(t, "p.yaml", good), Sources{}); err != nil {
		t.Error(err)
	}
}
