package preflight

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// inquiry has all facts of a step: its own, and those of its counter-probes and repeats.
type inquiry struct {
	step   string     // HOP/STEP
	main   *diag.Fact // of the step itself; nil where it did not run
	own    *diag.Fact // the same; nil, too, where it is not conclusive
	runs   []run      // by question, the step's own first
	family []*asked   // those that were computed so far, see question
	one    [1]run     // place for the first of runs: most steps have no other
}

// inquiriesAtOnce is for how many room is made: most walks have two or three times as many.
const inquiriesAtOnce = 12

func (c *Case) newInquiry(step string) *inquiry {
	q := &c.room.inquiries.take(1, inquiriesAtOnce)[:1][0]
	q.step, q.runs = step, q.one[:0]
	return q
}

// run is one fact of a step's inquiry: of which question it is, and which repeat.
type run struct {
	name string // of the counter-probe, "" for the step's own
	n    int
	fact *diag.Fact
}

func (r run) compare(with run) int {
	return cmp.Or(strings.Compare(r.name, with.name), r.n-with.n, strings.Compare(r.fact.ID, with.fact.ID))
}

// conclusive also excludes repeats that a helper does not support.
func (r run) conclusive() bool {
	return conclusive(r.fact) && (r.n == 0 || r.fact.Failure != diag.Unsupported)
}

// put adds a run, in place of one with its id.
func (q *inquiry) put(r run) {
	q.family = nil
	i, known := slices.BinarySearchFunc(q.runs, r, run.compare)
	if known {
		q.runs[i] = r
		return
	}
	q.runs = slices.Insert(q.runs, i, r)
}

func (q *inquiry) fact(id string) *diag.Fact {
	for _, r := range q.runs {
		if r.fact.ID == id {
			return r.fact
		}
	}
	return nil
}

// byQuestion are some runs, which are in order, question by question.
func byQuestion(runs []run) iter.Seq[[]run] {
	return func(yield func([]run) bool) {
		for len(runs) > 0 {
			n := 1
			for n < len(runs) && runs[n].name == runs[0].name {
				n++
			}
			if !yield(runs[:n]) {
				return
			}
			runs = runs[n:]
		}
	}
}

// asked is one question of a step's family, as often as it was asked: the step's own probe with its repeats, or one of
// its counter-probes with theirs.
type asked struct {
	name string // of the counter-probe, "" for the step's own
	runs []*diag.Fact
}

func (a *asked) first() *diag.Fact { return a.runs[0] }

// all reports whether every run satisfies is.
func (a *asked) all(is func(*diag.Fact) bool) bool {
	return !slices.ContainsFunc(a.runs, func(f *diag.Fact) bool { return !is(f) })
}

// repeatID is the id of the n-th time that a question is asked; the first is the question's own.
func repeatID(id string, n int) string { return id + "~" + strconv.Itoa(n) }

// splitID takes a fact's id apart: its step, the counter-probe's name ("" for the step's own question), and which
// repeat it is.
func splitID(id string) (step, name string, repeat int) {
	step, name, counter := strings.Cut(id, "~")
	if !counter {
		return step, "", 0
	}
	at := strings.LastIndexByte(name, '~')
	if last := name[at+1:]; last != "" && last[0] >= '0' && last[0] <= '9' {
		if n, err := strconv.Atoi(last); err == nil {
			return step, name[:max(at, 0)], n
		}
	}
	return step, name, 0
}

// familyOf lists the questions that were asked for a step, its own first, each with its runs in their order.
func familyOf(c *Case, step string) []*asked {
	q := c.inquiry(step)
	if q == nil {
		return nil
	}
	var family []*asked
	for runs := range byQuestion(q.runs) {
		if a := q.question(runs); a != nil {
			family = append(family, a)
		}
	}
	return family
}

// question is one of a step's family; nil when it was not asked.
func question(c *Case, step, name string) *asked {
	if q := c.inquiry(step); q != nil {
		for runs := range byQuestion(q.runs) {
			if runs[0].name == name {
				return q.question(runs)
			}
		}
	}
	return nil
}

// counter is the first fact of a step's counter-probe, conclusive or not; nil where it is missing.
func (c *Case) counter(hop diag.HopID, step, name string) *diag.Fact {
	if q := c.of(hop, step); q != nil {
		for _, r := range q.runs {
			if r.name == name && r.n == 0 {
				return r.fact
			}
		}
	}
	return nil
}

// question is built from the conclusive ones of some runs; nil without any.
func (q *inquiry) question(runs []run) *asked {
	i := slices.IndexFunc(q.family, func(a *asked) bool { return a.name == runs[0].name })
	if i >= 0 {
		return q.family[i]
	}
	silent := func(r run) bool { return !r.conclusive() }
	if slices.ContainsFunc(runs, silent) {
		if runs = slices.DeleteFunc(slices.Clone(runs), silent); len(runs) == 0 {
			return nil
		}
	}
	a := askedBy(runs)
	q.family = append(q.family, &a)
	return &a
}

// askedBy is the question of some runs, without runs of another request or from another vantage.
func askedBy(runs []run) asked {
	first := runs[0].fact
	a := asked{name: runs[0].name, runs: make([]*diag.Fact, 0, len(runs))}
	for _, r := range runs {
		if r.fact == first || (r.fact.Vantage == first.Vantage && len(diag.Changed(&r.fact.Request, &first.Request)) == 0) {
			a.runs = append(a.runs, r.fact)
		}
	}
	// A reused connection does not measure its route: it counts only where all are reused.
	if a.name != "" && !a.all(reused) {
		a.runs = slices.DeleteFunc(a.runs, reused)
	}
	return a
}

// passes reports whether b, a fact of a step's family, is a pass by the judgement of the step's own hop: with b as
// the step's fact, the step passes and the hop finds no fault. Getting further than another fact is not a pass. A
// probe of another operation cannot replace the step's own, and is judged by its own result.
func passes(c *Case, step string, b *diag.Fact) bool {
	for _, s := range c.substitutes {
		if s.fact == b && s.step == step {
			return s.passed
		}
	}
	s := substitute{step, b, passesInPlace(c, step, b)}
	c.substitutes = append(c.substitutes, s)
	return s.passed
}

// substitute is a fact in the place of a step's own.
type substitute struct {
	step   string
	fact   *diag.Fact
	passed bool
}

func passesInPlace(c *Case, step string, b *diag.Fact) bool {
	main := c.fact(step)
	if main == nil || !conclusive(b) || b.Throttled() || b.Failure.Local() {
		return false
	}
	if refusesCert(main) { // a listener that asks for none has let none in
		return tookCertificate(b)
	}
	h, s := declared(step)
	if h == nil || b.Request.Op != main.Request.Op {
		return b.Passed()
	}
	if !b.Passed() && (s.Excused == nil || !s.Excused(c, b)) {
		return false
	}
	return !slices.ContainsFunc(h.Judge(c.with(step, b)), func(f diag.Finding) bool {
		return f.Status != diag.StatusWarn && len(f.Evidence) > 0 && f.Evidence[0] == step
	})
}

// passing is passes of a step, to ask of each run.
func passing(c *Case, step string) func(*diag.Fact) bool {
	return func(b *diag.Fact) bool { return passes(c, step, b) }
}

// with is the case in which a fact replaces a step's own, and nothing else was asked for that step.
func (c *Case) with(step string, b *diag.Fact) *Case {
	if b.ID != step {
		named := *b
		named.ID, b = step, &named
	}
	as := *c
	as.inquiries, as.substitutes, as.losses = slices.Clone(c.inquiries), nil, nil
	hop, name, _ := strings.Cut(step, "/")
	as.inquiries[c.find(diag.HopID(hop), name)] = nil
	as.put(b)
	return &as
}

// declared finds a step by the id of its fact; nil for a fact that no step makes.
func declared(id string) (*Hop, *Step) {
	hop, name, _ := strings.Cut(id, "/")
	if p := declaredStep(diag.HopID(hop), name); p != nil && p.step.Uses == "" {
		return p.hop, p.step
	}
	return nil, nil
}
