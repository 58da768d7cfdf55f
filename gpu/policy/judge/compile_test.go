package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// TestMistakes: an invalid policy is refused before it judges, with file and line.
func TestMistakes(t *testing.T) {
	rule := func(condition string) string {
		return "version: 1\nrules:\n  - name: good\n    condition: gpu.lost\n    result: UNHEALTHY\n  - name: bad\n" +
			"    condition: " + condition + "\n    result: HEALTHY\n"
	}
	for name, tc := range map[string]struct{ text, want string }{
		"empty file":    {"", "p.yaml:1: version: want 1, not 0"},
		"no rules":      {"version: 1\nrules: []\n", "p.yaml:2: rules: a policy without rules judges nothing"},
		"no YAML":       {"version: [", "p.yaml:1: did not find expected"},
		"a list":        {"- a\n", "p.yaml:1: want a mapping"},
		"two documents": {"version: 1\n---\nversion: 1\n", "p.yaml: holds more than one YAML document"},
		"a newer version": {strings.Replace(rule("gpu.lost"), "version: 1", "version: 2", 1),
			"p.yaml:1: version: want 1, not 2"},
		"unknown field":     {rule("gpu.lost") + "    sverity: 3\n", "p.yaml:9: rules[1].sverity: unknown field"},
		"unknown top field": {rule("gpu.lost") + "rule: []\n", `p.yaml:9: rule: unknown field (did you mean "rules"?)`},
		"a field twice": {rule("gpu.lost") + "    result: HEALTHY\n",
			`p.yaml:9: rules[1].result: mapping key "result" already`},
		"unknown result": {strings.Replace(rule("gpu.lost"), "HEALTHY\n  - name: bad", "SICK\n  - name: bad", 1),
			"p.yaml:5: rules[0].result: want one of"},
		"result in lower case": {strings.Replace(rule("gpu.lost"), "UNHEALTHY", "unhealthy", 1),
			`not "unhealthy" (did you mean "UNHEALTHY"?)`},
		"no result": {"version: 1\nrules:\n  - name: a\n    condition: gpu.lost\n",
			"p.yaml:3: rules[0].result: want one of"},
		"no condition": {"version: 1\nrules:\n  - name: a\n    result: HEALTHY\n",
			"p.yaml:3: rules[0].condition: is missing"},
		"no name": {"version: 1\nrules:\n  - condition: gpu.lost\n    result: HEALTHY\n",
			"p.yaml:3: rules[0].name: want"},
		"a name of two rules": {strings.Replace(rule("gpu.lost"), "name: bad", "name: good", 1),
			`p.yaml:6: rules[1].name: "good" is the name of rules[0], too`},
		"a name with a blank": {strings.Replace(rule("gpu.lost"), "name: bad", "name: b d", 1),
			"p.yaml:6: rules[1].name: want"},
		"condition is a list": {rule("[gpu.lost]"), "p.yaml:7: rules[1].condition: want text"},
		"condition is a bool": {rule("true"), ""},
		"long condition": {rule(strings.Repeat("gpu.lost||", 300) + "gpu.lost"),
			"p.yaml:7: rules[1].condition: is longer than 2000 bytes"},
		"too many rules": {"version: 1\nrules:\n" + manyRules(policy.MaxRules+1),
			"p.yaml:2: rules: holds 201 rules; at most 200"},
		"as many as there may": {"version: 1\nrules:\n" + manyRules(policy.MaxRules), ""},

		"no CEL":              {rule("event.code =="), "p.yaml:7: rules[1].condition: mismatched input"},
		"a text with no end":  {rule(`'event.text == "a'`), "p.yaml:7: rules[1].condition: "},
		"no bool":             {rule("event.code + 1"), "p.yaml:7: rules[1].condition: is int, and must be true or false"},
		"dyn":                 {rule("dyn(true)"), "is dyn, and must be"},
		"other types":         {rule(`event.code == "79"`), "no matching overload for '_==_' applied to '(int, string)'"},
		"a list of two types": {rule(`event.code in [79, "48"]`), "p.yaml:7: "},
		"number as bool":      {rule("gpu.temperature && gpu.lost"), "expected type 'bool'"},
		"no such field": {rule("gpu.temprature > 1"),
			`p.yaml:7: rules[1].condition: undefined field 'temprature' (did you mean "temperature"?)`},
		"no such field in has": {rule("has(gpu.temprature)"), "undefined field"},
		"no such object":       {rule("node2.driver == 'x'"), "undeclared reference to 'node2'"},
		"no such function":     {rule("now() > 3"), "undeclared reference to 'now'"},
		"a word never used": {rule(`event.type == "xdi"`),
			`p.yaml:7: rules[1].condition: event.type is never "xdi" (did you mean "xid"?)`},
		"a word in a list":     {rule(`event.class in ["app", "gpu_rest"]`), `event.class is never "gpu_rest"`},
		"a word on the left":   {rule(`'"resett" != gpu.recovery_action'`), "gpu.recovery_action is never"},
		"an event and a GPU":   {rule("gpu.lost || event.code == 79"), "asks for an event and a GPU"},
		"an object":            {rule("gpuaas.event{} == event"), "makes an object"},
		"a loop":               {rule("'[1, 2].all(x, x > 0)'"), "undeclared reference to 'all'"},
		"a regular expression": {rule(`event.text.matches("(")`), "invalid matches argument"},
		"a large one":          {rule(`event.text.matches("((a{30}){30}){30}")`), "p.yaml:7: "},
		"deep":                 {rule(strings.Repeat("(", 500) + "gpu.lost" + strings.Repeat(")", 500)), "p.yaml:7: "},
		"costly": {rule(strings.TrimSuffix(strings.Repeat(`event.text.matches("a.*b.*c.*d.*e") && `, 50), " && ")),
			"units of CEL; at most 1000"},
		"costly together": {"version: 1\nrules:\n" + strings.ReplaceAll(manyRules(100), "gpu.lost",
			`'event.text.matches("a.*b.*c")'`), "may cost more than 5000 units of CEL"},
		"has of a word":      {rule(`'has(gpu.recovery_action) == true'`), ""},
		"a word of a number": {rule(`event.code != 79`), ""},
		"two mistakes": {rule(`'event.type == "a" || event.class == "b"'`),
			"p.yaml:7: rules[1].condition: event.class is never"},
		"a field and a field": {rule("event.class == event.type"), ""},
		"a second line":       {rule(`"gpu.lost &&\n gpu.cold"`), "p.yaml:8: "},
		"a line of several": {rule("|\n      gpu.lost &&\n        gpu.cold"),
			"p.yaml:9: rules[1].condition: undefined field 'cold'"},
		"good": {rule("gpu.lost && node.gpus > 1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := policy.Load("p.yaml", []byte(tc.text))
			if err == nil {
				_, err = Compile(p)
			}
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			case err != nil && len(mistakes(err)) == 0:
				t.Errorf("not a mistake of a file: %v", err)
			}
		})
	}
}

func manyRules(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {name: r%d, condition: gpu.lost, result: UNHEALTHY}\n", i)
	}
	return b.String()
}

// TestQuotedLines: a message quotes the line of the condition that it is about, up to 60 bytes.
func TestQuotedLines(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, tc := range []struct {
		condition string
		line      int
		want      string
	}{
		{"a\n  b \nc", 1, "a"}, {"a\n  b \nc", 2, "b"}, {"a\n  b \nc", 3, "c"}, {"a\nb", 0, "a"}, {"a\nb", 9, "b"},
		{long, 1, long}, {long + "b", 1, long + "..."},
	} {
		if got := around(tc.condition, tc.line); got != tc.want {
			t.Errorf("line %d of %q: %q, want %q", tc.line, tc.condition, got, tc.want)
		}
	}
}
