package strictyaml

import (
	"strings"
	"testing"
	"time"
)

type inner struct {
	Port  int           `yaml:"port"`
	Every time.Duration `yaml:"every"`
}

type sample struct {
	Name  string           `yaml:"name"`
	On    bool             `yaml:"on"`
	Parts []inner          `yaml:"parts"`
	Named map[string]inner `yaml:"named"`
	Plain float64
	inner `yaml:",inline"`
}

func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"good":              {"name: a\non: true\nparts: [{port: 1}]\nnamed: {x: {every: 5s}}\nplain: 1.5\nport: 2\n", ""},
		"empty":             {"# nothing yet\n", ""},
		"unknown":           {"nam: a\n", `f:1: nam: unknown field (did you mean "name"?)`},
		"unknown in a list": {"parts:\n- port: 1\n- prot: 1\n", `f:3: parts[1].prot: unknown field (did you mean "port"?)`},
		"unknown in a map":  {"named:\n  x:\n    evry: 1s\n", `f:3: named.x.evry: unknown field (did you mean "every"?)`},
		"unknown, far":      {"zzzzzzzzz: 1\n", "f:1: zzzzzzzzz: unknown field"},
		"in a merged part": {"named:\n  x: &x {prot: 1}\nparts:\n- <<: *x\n",
			"f:2: named.x.prot: unknown field (did you mean \"port\"?)\nf:2: parts[0].prot: unknown field (did you mean " +
				"\"port\"?)"},
		"in one of several merged": {"named:\n  x: &x {prot: 1}\n  y: {<<: [*x]}\n",
			"f:2: named.x.prot: unknown field (did you mean \"port\"?)\nf:2: named.y.prot: unknown field (did you mean " +
				"\"port\"?)"},
		"merged into a map":  {"named:\n  <<: {x: {port: 1}}\n  y: {port: 2}\n", ""},
		"an alias as a name": {"name: &port prot\n*port : 5\n", `f:2: prot: unknown field (did you mean "port"?)`},
		"no name": {"{\"\": 1, port: x}\n",
			"f:1: unknown field (did you mean \"on\"?)\nf:1: port: want a whole number, not \"x\""},
		"twice in a list": {"parts:\n- port: 1\n- port: 1\n  port: 2\n",
			`f:4: parts[1].port: mapping key "port" already defined at line 3`},
		"twice by an alias": {"name: &n port\nport: 1\n*n : 2\n",
			`f:3: port: mapping key "port" already defined at line 2`},
		"an endless alias and twice": {"name: a\nname: b\nparts: &a [*a]\n", "f:3: anchor 'a' value contains itself"},
		"an endless merge and twice": {"name: a\nname: b\n<<: &a {<<: *a}\n", "f:3: anchor 'a' value contains itself"},
		"a mapping called null":      {"--- !!null\nnam: a\n", `f:2: nam: unknown field (did you mean "name"?)`},
		"number":                     {"port: many\n", `f:1: port: want a whole number, not "many"`},
		"duration":                   {"every: 5\n", `f:1: every: want a duration with its unit (5s, 500ms), not "5"`},
		"truth":                      {"on: maybe\n", `f:1: on: want true or false, not "maybe"`},
		"text":                       {"name:\n- a\n", "f:2: name[0]: want text here, not a list"},
		"fraction":                   {"plain: x\n", `f:1: plain: want a number, not "x"`},
		"list":                       {"parts: {}\n", "f:1: parts: want a list here, not a mapping"},
		"mapping":                    {"named: [1]\n", "f:1: named: want a mapping here, not a list"},
		"several on a line": {"{on: 1, port: x}\n",
			"f:1: want a whole number, not \"x\"\nf:1: want true or false, not \"1\""},
		"twice":            {"name: a\nname: b\n", `f:2: name: mapping key "name" already defined at line 1`},
		"two documents":    {"name: a\n---\nname: b\n", "f: holds more than one YAML document"},
		"not YAML":         {"name: [\n", "f:1: did not find expected node content"},
		"an endless alias": {"parts: &a [*a]\n", "f:1: anchor 'a' value contains itself"},
		"in order of lines": {"port: x\nnam: a\non: 1\n",
			"f:1: port: want a whole number, not \"x\"\nf:2: nam: unknown field (did you mean \"name\"?)\nf:3: on: want true " +
				"or false, not \"1\""},
		"not a mapping":      {"[a]\n", "f:1: want a mapping here, not a list"},
		"only the root null": {"null\n", ""},
	} {
		doc, err := Parse("f", []byte(tc.text))
		if err == nil {
			var s sample
			err = doc.Error(doc.Decode(&s))
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

// TestManyAliases: a short text that expands to a long one is an error, and soon.
func TestManyAliases(t *testing.T) {
	text := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), "aliasing") {
		t.Error(err)
	}
}

// TestHostile: no text takes more than a moment, and no error is longer than a page.
func TestHostile(t *testing.T) {
	long := strings.Repeat("k", 100_000)
	for name, tc := range map[string]struct{ text, want string }{
		"a long name around many values": {"? " + long + "\n: [" + strings.Repeat("1,", 50_000) + "]\n",
			"f:2: the names of its fields are too long"},
		"a long name, repeated": {"a: &a\n  ? " + long + "\n  : 1\nb: [" + strings.Repeat("*a,", 50_000) + "]\n",
			"the names of its fields are too long"},
		"one name, many times": {strings.Repeat("a: 1\n", 9_000), "f: and 8949 more"},
		"nested lists":         {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "f:1: is nested more than 100 deep"},
		"nested mappings": {strings.Repeat("{a: ", 9000) + strings.Repeat("}", 9000),
			"f:1: is nested more than 100 deep"},
		"many wrong values": {"parts:\n" + strings.Repeat("- port: x\n", 20_000), "f: and 19950 more mistakes"},
		"many on one line":  {"parts: [" + strings.Repeat("{port: x},", 20_000) + "]", "f: and 19950 more mistakes"},
		"many values":       {"parts: [" + strings.Repeat("1,", 200_000) + "]", "f:1: holds more than 100000 values"},
		"many fields":       {"{" + strings.Repeat("? a,", 20_000) + "}", "f:1: holds more than 10000 fields"},
		"much text":         {strings.Repeat("#", 3<<20), "f: is larger than 2097152 bytes"},
	} {
		began := time.Now()
		doc, err := Parse("f", []byte(tc.text))
		if err == nil {
			err = doc.Error(doc.Decode(new(sample)))
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 10_000 {
			t.Errorf("%s: %.300v", name, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: %s", name, took)
		}
	}
}

func TestLineOf(t *testing.T) {
	doc, err := Parse("f", []byte("# first\nname: a\nparts:\n- port: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"name": 2, "parts[0].port": 4, "parts[0].every": 4, "parts[7]": 3, "on": 1,
		"": 1} {
		if got := doc.LineOf(key); got != want {
			t.Errorf("%s: %d", key, got)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"node.heartbeat_stale_after_seconds", "user", "port"}
	for word, want := range map[string]string{"usr": "user", "user": "", "prot": "port", "node.heartbeat": known[0],
		"quite another": ""} {
		got := Nearest(word, known)
		if (want == "" && got != "") || (want != "" && got != ` (did you mean "`+want+`"?)`) {
			t.Errorf("%s:%s", word, got)
		}
	}
	if got := NearestOf("c", []string{"bbbb", "d", "a", "cc", "ee", "fff"}); strings.Join(got, " ") != "a cc d ee fff" {
		t.Errorf("%q", got)
	}
}
