package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// aPolicy returns a file with one valid rule, in which some text is replaced.
func aPolicy(old, text string) string {
	return strings.Replace("version: 1\nrules:\n  - name: a\n    description: why\n    condition: gpu.lost\n"+
		"    result: UNHEALTHY\n", old, text, 1)
}

func rulesNamed(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {name: r%d, condition: gpu.lost, result: DEGRADED}\n", i)
	}
	return "version: 1\nrules:\n" + b.String()
}

// TestLimitsOfPolicies: a policy of just the allowed size is read; one that is larger by one is refused, with a mistake
// for each field that is wrong.
func TestLimitsOfPolicies(t *testing.T) {
	long := strings.Repeat("n", MaxName)
	for name, tc := range map[string]struct {
		text string
		want string // each mistake, in order; "": none
	}{
		"as it should be":         {aPolicy("", ""), ""},
		"the longest description": {aPolicy("why", strings.Repeat("w", 1000)), ""},
		"a longer description": {aPolicy("why", strings.Repeat("w", 1001)),
			"4: rules[0].description: is longer than 1000 bytes"},
		"no description":        {aPolicy("    description: why\n", ""), ""},
		"the longest condition": {aPolicy("gpu.lost", strings.Repeat("c", 2000)), ""},
		"a longer condition": {aPolicy("gpu.lost", strings.Repeat("c", 2001)),
			"5: rules[0].condition: is longer than 2000 bytes"},
		"a blank condition": {aPolicy("gpu.lost", `"  "`), "5: rules[0].condition: is missing"},
		"the longest name":  {aPolicy("name: a", "name: "+long), ""},
		"a longer name": {aPolicy("name: a", "name: "+long+"m"),
			`3: rules[0].name: want 1 to 64 letters, digits, - and _, not "` + long + `..."`},
		"the longest quoted": {aPolicy("name: a", "name: "+long[1:]+"."),
			`3: rules[0].name: want 1 to 64 letters, digits, - and _, not "` + long[1:] + `."`},
		"no name": {aPolicy("name: a", "name: ''"),
			`3: rules[0].name: want 1 to 64 letters, digits, - and _, not ""`},
		"as many rules as allowed": {rulesNamed(200), ""},
		"one rule more":            {rulesNamed(201), "2: rules: holds 201 rules; at most 200"},
		"no rule":                  {"version: 1\nrules: []\n", "2: rules: a policy without rules judges nothing"},
		"another version":          {aPolicy("version: 1", "version: 2"), "1: version: want 1, not 2"},
		"two rules of one name": {aPolicy("", "") + "  - {name: b, condition: a, result: HEALTHY}\n" +
			"  - {name: a, condition: a, result: HEALTHY}\n", `8: rules[2].name: "a" is the name of rules[0], too`},
		"three of one name": {aPolicy("", "") + strings.Repeat("  - {name: a, condition: a, result: HEALTHY}\n", 2),
			`7: rules[1].name: "a" is the name of rules[0], too, 8: rules[2].name: "a" is the name of rules[0], too`},
		"a word that is near": {aPolicy("UNHEALTHY", "UNHEALTY"),
			`6: rules[0].result: want one of HEALTHY, UNKNOWN, DEGRADED, UNHEALTHY, not "UNHEALTY" (did you mean "UNHEALTHY"?)`},
		"a word in small letters": {aPolicy("UNHEALTHY", "unknown"),
			`6: rules[0].result: want one of HEALTHY, UNKNOWN, DEGRADED, UNHEALTHY, not "unknown" (did you mean "UNKNOWN"?)`},
		"a word that is not near": {aPolicy("UNHEALTHY", "perhaps"),
			`6: rules[0].result: want one of HEALTHY, UNKNOWN, DEGRADED, UNHEALTHY, not "perhaps"`},
	} {
		p, err := Load("p", []byte(tc.text))
		got := ""
		if err != nil {
			got = strings.ReplaceAll(strings.ReplaceAll(err.Error(), "p:", ""), "\n", ", ")
		}
		if got != tc.want || (err == nil) != (len(p.Rules) > 0) {
			t.Errorf("%s: %d rules and %q, want %q", name, len(p.Rules), got, tc.want)
		}
	}
}

// TestNamesOfRules: a name has only letters, digits, - and _.
func TestNamesOfRules(t *testing.T) {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for c := range 256 {
		one := string([]byte{byte(c)})
		for _, name := range []string{one, "a" + one, one + "a"} {
			if got, want := isName(name), strings.Contains(allowed, one); got != want {
				t.Errorf("%q is a name: %t, want %t", name, got, want)
			}
		}
	}
	if isName("") || isName("ä") {
		t.Error("an empty name, or one of two bytes that are no letters")
	}
}

// TestLinesOfConditions: a mistake in a condition is reported with the line of the file that has it, also in a block,
// whose text begins on the line after its field. The place of a condition that a rule has by an alias is the rule.
func TestLinesOfConditions(t *testing.T) {
	const rest = ", result: HEALTHY}\n"
	for name, tc := range map[string]struct {
		text  string
		lines string // of each rule and of its condition
	}{
		"on one line":    {aPolicy("", ""), "3:5"},
		"a block":        {aPolicy("gpu.lost", "|\n      gpu.lost &&\n      gpu.lost"), "3:6"},
		"a block, kept":  {aPolicy("gpu.lost", "|+\n      gpu.lost\n"), "3:6"},
		"a folded block": {aPolicy("gpu.lost", ">-\n      gpu.lost &&\n      gpu.lost"), "3:5"},
		"quoted":         {aPolicy("gpu.lost", `"gpu.lost"`), "3:5"},
		"a block second": {"version: 1\nrules:\n  - {name: a, condition: a" + rest +
			"  - name: b\n    result: HEALTHY\n    condition: |\n      b\n", "3:3 4:7"},
		"an alias": {"version: 1\nrules:\n  - &a {name: a, condition: a" + rest + "  - {<<: *a, name: b}\n",
			"3:3 4:4"},
		"a block by alias": {"version: 1\nrules:\n  - &a\n    name: a\n    condition: |\n      a\n    result: " +
			"HEALTHY\n  - {<<: *a, name: b}\n", "3:6 8:8"},
		"all rules by merge": {"version: 1\n<<:\n  rules:\n    - {name: a, condition: a" + rest, "1:1"},
		"all rules by alias": {"version: 1\n<<: {rules: &r [{name: a, condition: a, result: HEALTHY}]}\nrules: *r\n", "2:2"},
	} {
		p, err := Load("p", []byte(tc.text))
		var got []string
		for _, r := range p.Rules {
			got = append(got, fmt.Sprint(r.Line, ":", r.CondLine))
		}
		if strings.Join(got, " ") != tc.lines || err != nil {
			t.Errorf("%s: %v, want %s, %v", name, got, tc.lines, err)
		}
	}
}

// TestBuiltins: each built-in policy and its cases can be read by its name, and by nothing else.
func TestBuiltins(t *testing.T) {
	if got := Builtins(); !slices.Equal(got, []string{"default", "strict", "permissive"}) {
		t.Errorf("%q", got)
	}
	for _, name := range Builtins() {
		text, ok := BuiltinText(name)
		if p, err := Load(name, text); !ok || err != nil || p.Name != name || len(p.Digest) != 64 {
			t.Errorf("%s: %t %v %s", name, ok, err, p.Digest)
		}
		cases, ok := BuiltinCases(name)
		if c, err := LoadCases(name, cases); !ok || err != nil || len(c.Cases) < 3 {
			t.Errorf("%s: %t %v", name, ok, err)
		}
	}
	for _, name := range []string{"", "Default", "default.cases", "../builtin/default", "other"} {
		if text, ok := BuiltinText(name); ok || text != nil {
			t.Errorf("%q is a built-in policy", name)
		}
	}
}
