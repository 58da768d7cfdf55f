package profile

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestANodesOwnLogin: a node's own user and port stand in place of those of ssh, for that node alone, and what is given
// for one run in place of both.
func TestANodesOwnLogin(t *testing.T) {
	path := write(t, "p.yaml", "ssh: {user: ops, port: 22, identity: /k}\nnodes:\n  n1: {host: a}\n  n2: {host: b, port: 2222}\n  n3: {host: c, port: 2223, user: root}\n")
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

// TestWhatIsSuggested: whatever field of whatever place is given in whatever other place, what is suggested is a field of
// that place, and never the word itself.
func TestWhatIsSuggested(t *testing.T) {
	all := reflect.TypeFor[Profile]()
	places := map[string]string{
		"profile.Profile": "%s: 1", "profile.Node": "nodes: {n1: {host: a, %s: 1}}", "profile.SSH": "ssh: {%s: 1}", "profile.Auth": "auth: {%s: 1}",
		"profile.Trust": "trust: {%s: 1}", "profile.Agent": "agent: {%s: 1}", "profile.Mapping": "mapping: {%s: 1}", "profile.Chaos": "chaos: {%s: 1}",
	}
	words := []string{"prot", "hosts", "usr", "x"}
	for place := range places {
		if len(fieldsOf(all, place)) == 0 {
			t.Fatalf("%s has no fields", place)
		}
		words = append(words, fieldsOf(all, place)...)
	}
	suggested := regexp.MustCompile(`unknown field "([a-z_]+)" \(did you mean "([a-z_]+)"\?\)`)
	seen := 0
	for place, text := range places {
		known := " " + strings.Join(fieldsOf(all, place), " ") + " "
		for _, word := range words {
			_, _, err := parse("p.yaml", []byte(strings.Replace(text, "%s", word, 1)))
			if strings.Contains(known, " "+word+" ") {
				if err != nil && strings.Contains(err.Error(), "unknown field") {
					t.Errorf("%s has %s: %v", place, word, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), `unknown field "`+word+`"`) {
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
