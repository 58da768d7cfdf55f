package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
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

// everyEvent returns each event that a driver can report: each code with each of its words, and what has no code.
func everyEvent() (all []report.Event) {
	add := func(t report.EventType, code int, x report.XID) {
		x.Times = 1
		if code != 0 {
			x.Code = &code
		}
		all = append(all, report.Event{Type: t, Source: report.FromKernelLog, XID: &x})
	}
	severities, resets := []string{"", "Fatal", "Non-fatal", "Always fatal"}, []string{"", "none", "gpu_reset",
		"drain_and_reset"}
	causes := []int{31, 45, 79, 94, 149, 9999}
	for code := 1; code <= 200; code++ {
		for i := range 4 {
			for _, injected := range []bool{false, true} {
				add(report.XIDEvent, code, report.XID{Severity: severities[i], Injected: injected})
				add(report.XIDEvent, code, report.XID{Reset: resets[i], Injected: injected})
			}
		}
	}
	for i := range causes {
		add(report.XIDEvent, 45, report.XID{CausedBy: &causes[i]})
	}
	for _, r := range xid.SwitchRows() {
		for _, severity := range severities {
			add(report.SXIDEvent, r.Code, report.XID{Severity: severity})
		}
	}
	for _, r := range xid.Uncoded() {
		add(report.EventType(r.Word), 0, report.XID{})
	}
	for action := int64(-1); action < 12; action++ {
		add(report.XIDEvent, 154, report.XID{Recovery: &action})
		all = append(all, report.Event{Type: report.RecoveryEvent, Source: report.FromNVML,
			Action: &report.Recovery{To: action, Action: report.ActionOf(action)}})
	}
	return all
}

// TestBuiltinsDoNotWarnOfThemselves: no event and no case makes a built-in policy note that one of its rules hides
// another, and no event is without a rule.
func TestBuiltinsDoNotWarnOfThemselves(t *testing.T) {
	var cases []policy.Case
	for _, name := range policy.Builtins() {
		data, _ := policy.BuiltinCases(name)
		c, err := policy.LoadCases(name, data)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c.Cases...)
	}
	events := everyEvent()
	for _, e := range events {
		cases = append(cases, policy.Case{Evidence: policy.Evidence{Events: []report.Event{e}}})
	}
	if len(events) < 3000 || len(cases) < len(events)+50 {
		t.Fatalf("%d events, %d cases", len(events), len(cases))
	}
	for _, name := range policy.Builtins() {
		text, _ := policy.BuiltinText(name)
		prog := load(t, string(text))
		for _, c := range cases {
			j := prog.Judge(c.Evidence, policy.Enforce, false)
			if i := slices.IndexFunc(j.Notes, func(n string) bool { return strings.Contains(n, "precedes") }); i >= 0 {
				t.Errorf("%s, %s: %s", name, c.Name, j.Notes[i])
			}
			for _, f := range j.Findings {
				if f.Subject.About == policy.AboutEvent && f.Rule == "" {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
	}
}
