package judge

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

func load(t *testing.T, text string) *Program {
	t.Helper()
	p, err := policy.Load("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	prog, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// TestBuiltinCases: each built-in policy judges its cases as expected.
func TestBuiltinCases(t *testing.T) {
	for _, name := range policy.Builtins() {
		text, ok := policy.BuiltinText(name)
		if !ok {
			t.Fatal(name)
		}
		prog := load(t, string(text))
		data, ok := policy.BuiltinCases(name)
		if !ok {
			t.Fatalf("%s has no cases", name)
		}
		cases, err := policy.LoadCases(name, data)
		if err != nil {
			t.Fatal(err)
		}
		if name == "default" && len(cases.Cases) < 40 {
			t.Errorf("%d cases", len(cases.Cases))
		}
		for _, c := range cases.Cases {
			j := prog.Judge(c.Evidence, policy.Enforce, true)
			rule := ""
			if j.Decided != nil {
				rule = j.Decided.Rule
			}
			if j.Health != c.Health || (c.Rule != "" && rule != c.Rule) {
				t.Errorf("%s, %s: %s by %q, want %s by %q: %+v", name, c.Name, j.Health, rule, c.Health, c.Rule, j.Decided)
			}
		}
	}
}
