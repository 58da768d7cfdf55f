package policy

import (
	"fmt"
	"strings"
	"testing"
)

// TestWorse: a known fault is worse than UNKNOWN, which is worse than HEALTHY; a word that is no health counts as
// UNKNOWN, so that it is never green.
func TestWorse(t *testing.T) {
	order := [][]Health{{Healthy}, {Unknown, "SICK", ""}, {Degraded}, {Unhealthy}} // the best first
	for i, as := range order {
		for _, a := range as {
			for j, bs := range order {
				for _, b := range bs {
					if got := Worse(a, b); got != (i > j) {
						t.Errorf("%q is worse than %q: %t", a, b, got)
					}
					want := b
					if i > j {
						want = a
					}
					if got := Worst(a, b); got != want {
						t.Errorf("the worst of %q and %q is %q", a, b, got)
					}
				}
			}
		}
	}
}

// TestJudged: a judgement is stored without the result of each rule; an incomplete reply has none.
func TestJudged(t *testing.T) {
	rules := []RuleResult{{Rule: "r"}}
	finding := func(about About, h Health) Finding {
		return Finding{Subject: Subject{About: about, What: "it"}, Health: h, Why: "why", Rules: rules, Errors: rules}
	}
	one := func() Judgement {
		f := finding(AboutNode, Healthy)
		return Judgement{Health: Healthy, Decided: &f, Findings: []Finding{f, f}, Past: []Finding{f}, Notes: []string{"n"}}
	}
	for name, tc := range map[string]struct {
		of   func(r *Reply)
		want string // the error
	}{
		"complete":         {func(*Reply) {}, ""},
		"nothing decided":  {func(r *Reply) { r.Judgement.Decided = nil }, ""},
		"a mistake":        {func(r *Reply) { r.Mistakes = []Mistake{{"p", 3, "no"}} }, "p:3: no"},
		"without a line":   {func(r *Reply) { r.Mistakes = []Mistake{{"p", 0, "no"}, {"p", 4, "nor this"}} }, "p: no"},
		"no judgement":     {func(r *Reply) { r.Judgement = nil }, "the program's reply has no judgement"},
		"no health":        {func(r *Reply) { r.Judgement.Health = "" }, "the program's reply has no judgement"},
		"an unknown word":  {func(r *Reply) { r.Judgement.Health = "SICK" }, "the program's reply has no judgement"},
		"a known fault":    {func(r *Reply) { r.Judgement.Health = Unhealthy }, ""},
		"could not decide": {func(r *Reply) { r.Judgement.Health = Unknown }, ""},
	} {
		of := one()
		r := Reply{Judgement: &of}
		tc.of(&r)
		j, err := r.Judged()
		if (err == nil) != (tc.want == "") || (err != nil && err.Error() != tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if err != nil {
			continue
		}
		if len(j.Findings) != 2 || j.Findings[0].Rules != nil || j.Findings[1].Rules != nil || len(j.Past) != 1 ||
			j.Past[0].Rules != nil ||
			(j.Decided != nil && j.Decided.Rules != nil) || len(j.Notes) != 1 || len(j.Findings[0].Errors) != 1 {
			t.Errorf("%s: %+v", name, j)
		}
	}
}

// TestJudgedGPUs: if the node could not be read, no GPU of it is known to be healthy. Another finding changes no GPU.
func TestJudgedGPUs(t *testing.T) {
	for _, about := range []About{AboutNode, AboutGPU, AboutEvent} {
		for _, found := range Healths() {
			for _, gpu := range Healths() {
				r := Reply{Judgement: &Judgement{Health: found,
					GPUs:     []GPUHealth{{Health: gpu, Why: "its own"}},
					Findings: []Finding{{Subject: Subject{About: about, What: "the log"}, Health: found, Why: "is blind"}}}}
				want, why := gpu, "its own"
				if about == AboutNode && found == Unknown && gpu == Healthy {
					want, why = Unknown, "the log: is blind"
				}
				j, err := r.Judged()
				if err != nil || j.GPUs[0].Health != want || j.GPUs[0].Why != why {
					t.Errorf("a GPU that is %s, and %s is %s: %+v, %v; want %s", gpu, about, found, j.GPUs, err, want)
				}
			}
		}
	}
}

// TestJudgedFindings: the worst hundred are kept, and a note counts the others.
func TestJudgedFindings(t *testing.T) {
	for n, want := range map[int]string{0: "", 99: "", 100: "", 101: "101 findings, of which the 100 worst are kept"} {
		r := Reply{Judgement: &Judgement{Health: Degraded}}
		for i := range n {
			r.Judgement.Findings = append(r.Judgement.Findings, Finding{Why: fmt.Sprint(i)})
		}
		j, err := r.Judged()
		if got := strings.Join(j.Notes, ";"); err != nil || got != want || len(j.Findings) != min(n, 100) ||
			(n > 0 && j.Findings[len(j.Findings)-1].Why != fmt.Sprint(min(n, 100)-1)) {
			t.Errorf("%d findings: %d are kept, %q, %v", n, len(j.Findings), got, err)
		}
	}
}

// TestJudgedPast: what is over is kept with the judgement, the newest of it.
func TestJudgedPast(t *testing.T) {
	of := Judgement{Health: Healthy, Findings: []Finding{{Health: Healthy}}}
	for i := range MaxPast + 3 {
		of.Past = append(of.Past, Finding{Subject: Subject{About: AboutEvent, Event: i + 1}, Why: "of an earlier boot"})
	}
	j, err := (&Reply{Judgement: &of}).Judged()
	if err != nil || len(j.Past) != MaxPast || j.Past[0].Subject.Event != 4 ||
		!strings.Contains(strings.Join(j.Notes, "; "), "19 events that are over, of which the last 16") {
		t.Errorf("%+v, %v", j, err)
	}
}
