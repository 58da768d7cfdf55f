package judge

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// nothing returns evidence for which no policy can return HEALTHY.
func nothing() policy.Evidence { return policy.Evidence{} }

// FuzzPolicy: any file is either refused with its mistakes, or judges, and never turns missing evidence green.
func FuzzPolicy(f *testing.F) {
	for _, name := range policy.Builtins() {
		text, _ := policy.BuiltinText(name)
		f.Add(text)
	}
	f.Add([]byte("version: 1\nrules:\n- &a {name: a, condition: gpu.lost, result: UNHEALTHY}\n- <<: *a\n  name: b\n"))
	full := evidenceOf(f, `gpus: [{signals: {temperature: 96, ecc_dbe_volatile: {failed: 999}}}], gpus_expected: 1,
  events: [{type: xid, code: 79, text: "a b c"}, {type: lost}, {type: recovery_action, recovery: 7}]`)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policy.Load("p.yaml", text)
		var prog *Program
		if err == nil {
			prog, err = Compile(p)
		}
		if err != nil {
			if len(mistakes(err)) == 0 {
				t.Errorf("not a mistake of the file: %v", err)
			}
			return
		}
		prog.Judge(full, policy.Enforce, true)
		if j := prog.Judge(nothing(), policy.Enforce, true); j.Health == policy.Healthy {
			t.Errorf("HEALTHY without evidence: %+v", j)
		}
	})
}

// FuzzCondition: any condition is either refused, or its evaluation ends with a value or an error.
func FuzzCondition(f *testing.F) {
	for _, name := range policy.Builtins() {
		text, _ := policy.BuiltinText(name)
		p, err := policy.Load(name, text)
		if err != nil {
			f.Fatal(err)
		}
		for _, r := range p.Rules {
			f.Add(r.Condition)
		}
	}
	f.Add(`event.text.matches("^(a|b)*$") || size(event.text + event.text) > 3 || string(event.code).startsWith("7")`)
	f.Add(`timestamp("2026-01-01T00:00:00Z").getFullYear() == 2026 ? gpu.lost : {"a": [1]}["a"][0] in [1]`)
	full := evidenceOf(f, `gpus: [{signals: {temperature: 96, ecc_dbe_volatile: {failed: 999}}}],
  events: [{type: xid, code: 79, text: `+strings.Repeat("ab ", 170)+`}]`)
	f.Fuzz(func(t *testing.T, condition string) {
		p := policy.Policy{Name: "p", Rules: []policy.Rule{{Name: "a", Condition: condition, Result: policy.Healthy,
			CondLine: 1}}}
		prog, err := Compile(p)
		if err != nil {
			return
		}
		prog.Judge(full, policy.Enforce, true)
	})
}

// FuzzRequests: any line gets one reply, which is a list of mistakes, an error or an answer.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"schema":1,"op":"test","policy":{"path":"strict"}}`))
	f.Add([]byte(`{"schema":1,"op":"judge","policy":{"path":"default"},"case":"warning heat","shadow":{"path":"strict"}}`))
	f.Add([]byte(`{"schema":1,"op":"show","policy":{"path":"default"}}`))
	f.Add([]byte(`{"schema":1,"op":"test","policy":{"path":"a","text":"` + "dmVyc2lvbjogMQo=" + `"}}`))
	f.Add([]byte("{}\n\n[]\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if err := Serve(bytes.NewReader(in), &out, "dev"); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			var r policy.Reply
			if err := json.Unmarshal(line, &r); err != nil || r.Schema != policy.Schema || r.Version != "dev" {
				t.Fatalf("%v: %s", err, line)
			}
			said := 0
			for _, is := range []bool{r.Error != "", len(r.Mistakes) > 0, r.Policy != nil, r.Text != nil} {
				if is {
					said++
				}
			}
			if said != 1 {
				t.Errorf("%s", line)
			}
		}
	})
}

// FuzzCases: any file of cases is either refused with its mistakes, or each case can be judged.
func FuzzCases(f *testing.F) {
	for _, name := range policy.Builtins() {
		text, _ := policy.BuiltinCases(name)
		f.Add(text)
	}
	text, _ := policy.BuiltinText("default")
	p, err := policy.Load("default", text)
	if err != nil {
		f.Fatal(err)
	}
	prog, err := Compile(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := policy.LoadCases("c.yaml", text)
		if err != nil {
			if len(mistakes(err)) == 0 {
				t.Errorf("not a mistake of the file: %v", err)
			}
			return
		}
		for _, one := range c.Cases {
			prog.test(one)
		}
	})
}
