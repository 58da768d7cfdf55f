package preflight

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// stepFacts holds all facts of one step: its own, and those of its counter-probes and repeats.
type stepFacts struct {
	step   string         // HOP/STEP
	main   *diag.Fact     // the step's own fact; nil if the step did not run
	own    *diag.Fact     // main if it is conclusive, else nil
	runs   []run          // sorted by request; the step's own request ("") comes first
	family []*requestRuns // cache of the question method
	one    [1]run         // backing array of runs: most steps have a single run
}

func newStepFacts(step string) *stepFacts {
	q := &stepFacts{step: step}
	q.runs = q.one[:0]
	return q
}

// run is one fact of a step: the request that it answers, and the number of the repeat.
type run struct {
	name string // name of the counter-probe; "" for the step's own request
	n    int
	fact *diag.Fact
}

func (r run) compare(with run) int {
	return cmp.Or(strings.Compare(r.name, with.name), r.n-with.n, strings.Compare(r.fact.ID, with.fact.ID))
}

// conclusive is the function conclusive, except that it also rejects repeats that the node's helper does not support.
func (r run) conclusive() bool {
	return conclusive(r.fact) && (r.n == 0 || r.fact.Failure != diag.Unsupported)
}

// put adds r, replacing a run of the same request, number and fact id.
func (q *stepFacts) put(r run) {
	q.family = nil
	i, known := slices.BinarySearchFunc(q.runs, r, run.compare)
	if known {
		q.runs[i] = r
		return
	}
	q.runs = slices.Insert(q.runs, i, r)
}

func (q *stepFacts) fact(id string) *diag.Fact {
	for _, r := range q.runs {
		if r.fact.ID == id {
			return r.fact
		}
	}
	return nil
}

// byQuestion yields the runs of one request at a time; runs must be sorted.
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

// requestRuns is one request of a step's family with all of its runs: the step's own probe or one counter-probe, each
// with its repeats.
type requestRuns struct {
	name string // name of the counter-probe; "" for the step's own request
	runs []*diag.Fact
}

func (a *requestRuns) first() *diag.Fact { return a.runs[0] }

// all reports whether every run satisfies is.
func (a *requestRuns) all(is func(*diag.Fact) bool) bool {
	return !slices.ContainsFunc(a.runs, func(f *diag.Fact) bool { return !is(f) })
}

// repeatID returns the fact id of the n-th run of a request; the first run has the plain id.
func repeatID(id string, n int) string { return id + "~" + strconv.Itoa(n) }

// splitID splits a fact's id into the step, the counter-probe's name ("" for the step's own request) and the number of
// the repeat (0 for the first run).
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

// familyOf returns the requests that were sent for a step, its own first, each with its conclusive runs in order.
func familyOf(c *Case, step string) []*requestRuns {
	q := c.factsOfID(step)
	if q == nil {
		return nil
	}
	var family []*requestRuns
	for runs := range byQuestion(q.runs) {
		if a := q.question(runs); a != nil {
			family = append(family, a)
		}
	}
	return family
}

// question returns one request of a step's family by name; nil if it has no conclusive run.
func question(c *Case, step, name string) *requestRuns {
	if q := c.factsOfID(step); q != nil {
		for runs := range byQuestion(q.runs) {
			if runs[0].name == name {
				return q.question(runs)
			}
		}
	}
	return nil
}

// counter returns the first fact of a step's counter-probe, conclusive or not; nil if there is none.
func (c *Case) counter(hop diag.HopID, step, name string) *diag.Fact {
	if q := c.factsOf(hop, step); q != nil {
		for _, r := range q.runs {
			if r.name == name && r.n == 0 {
				return r.fact
			}
		}
	}
	return nil
}

// question returns the request of runs, which share one name, with the conclusive runs only; nil if there are none.
func (q *stepFacts) question(runs []run) *requestRuns {
	i := slices.IndexFunc(q.family, func(a *requestRuns) bool { return a.name == runs[0].name })
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

// askedBy returns the request of the first run, and drops runs of another request or from another vantage.
func askedBy(runs []run) requestRuns {
	first := runs[0].fact
	a := requestRuns{name: runs[0].name, runs: make([]*diag.Fact, 0, len(runs))}
	for _, r := range runs {
		if r.fact == first || (r.fact.Vantage == first.Vantage && len(diag.Changed(&r.fact.Request, &first.Request)) == 0) {
			a.runs = append(a.runs, r.fact)
		}
	}
	// A run over a reused connection does not test the route: such runs count only if all runs are such.
	if a.name != "" && !a.all(reused) {
		a.runs = slices.DeleteFunc(a.runs, reused)
	}
	return a
}

// with returns a copy of the case in which b is the only fact of the step.
func (c *Case) with(step string, b *diag.Fact) *Case {
	if b.ID != step {
		named := *b
		named.ID, b = step, &named
	}
	as := *c
	as.stepFacts, as.memos = slices.Clone(c.stepFacts), nil
	as.inPlace = append(slices.Clip(c.inPlace), b)
	hop, name, _ := strings.Cut(step, "/")
	as.stepFacts[c.find(diag.HopID(hop), name)] = nil
	as.put(b)
	return &as
}

// declared returns the hop and the step that produce the fact with this id; nil if no step does.
func (c *Case) declared(id string) (*Hop, *Step) {
	hop, name, _ := strings.Cut(id, "/")
	if h, s := c.chain.step(diag.HopID(hop), name); s != nil && s.Uses == "" {
		return h, s
	}
	return nil, nil
}
