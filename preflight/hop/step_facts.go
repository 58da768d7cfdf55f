package hop

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// StepFacts holds all facts of one step: its own, and those of its counter-probes and repeats.
type StepFacts struct {
	step   string         // HOP/STEP
	main   *diag.Fact     // the step's own fact; nil if the step did not run
	own    *diag.Fact     // main if it is conclusive, else nil
	Runs   []Run          // sorted by request; the step's own request ("") comes first
	family []*RequestRuns // cache of the question method
	one    [1]Run         // backing array of runs: most steps have a single run
}

func newStepFacts(step string) *StepFacts {
	q := &StepFacts{step: step}
	q.Runs = q.one[:0]
	return q
}

// Run is one fact of a step: the request that it answers, and the number of the repeat.
type Run struct {
	Name string // name of the counter-probe; "" for the step's own request
	N    int
	Fact *diag.Fact
}

func (r Run) compare(with Run) int {
	return cmp.Or(strings.Compare(r.Name, with.Name), r.N-with.N, strings.Compare(r.Fact.ID, with.Fact.ID))
}

// conclusive is the function conclusive, except that it also rejects repeats that the node's helper does not support.
func (r Run) conclusive() bool {
	return Conclusive(r.Fact) && (r.N == 0 || r.Fact.Failure != diag.Unsupported)
}

// put adds r, replacing a run of the same request, number and fact id.
func (q *StepFacts) put(r Run) {
	q.family = nil
	i, known := slices.BinarySearchFunc(q.Runs, r, Run.compare)
	if known {
		q.Runs[i] = r
		return
	}
	q.Runs = slices.Insert(q.Runs, i, r)
}

func (q *StepFacts) fact(id string) *diag.Fact {
	for _, r := range q.Runs {
		if r.Fact.ID == id {
			return r.Fact
		}
	}
	return nil
}

// ByRequest yields the runs of one request at a time; runs must be sorted.
func ByRequest(runs []Run) iter.Seq[[]Run] {
	return func(yield func([]Run) bool) {
		for len(runs) > 0 {
			n := 1
			for n < len(runs) && runs[n].Name == runs[0].Name {
				n++
			}
			if !yield(runs[:n]) {
				return
			}
			runs = runs[n:]
		}
	}
}

// RequestRuns is one request of a step's family with all of its runs: the step's own probe or one counter-probe, each
// with its repeats.
type RequestRuns struct {
	name string // name of the counter-probe; "" for the step's own request
	Runs []*diag.Fact
}

// First returns the first run.
func (a *RequestRuns) First() *diag.Fact { return a.Runs[0] }

// All reports whether every run satisfies is.
func (a *RequestRuns) All(is func(*diag.Fact) bool) bool {
	return !slices.ContainsFunc(a.Runs, func(f *diag.Fact) bool { return !is(f) })
}

// RepeatID returns the fact id of the n-th run of a request; the first run has the plain id.
func RepeatID(id string, n int) string { return id + "~" + strconv.Itoa(n) }

// SplitID splits a fact's id into the step, the counter-probe's name ("" for the step's own request) and the number of
// the repeat (0 for the first run).
func SplitID(id string) (step, name string, repeat int) {
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

// FamilyOf returns the requests that were sent for a step, its own first, each with its conclusive runs in order.
func FamilyOf(c *Case, step string) []*RequestRuns {
	q := c.StepFactsByID(step)
	if q == nil {
		return nil
	}
	var family []*RequestRuns
	for runs := range ByRequest(q.Runs) {
		if a := q.question(runs); a != nil {
			family = append(family, a)
		}
	}
	return family
}

// RequestOf returns one request of a step's family by name; nil if it has no conclusive run.
func RequestOf(c *Case, step, name string) *RequestRuns {
	if q := c.StepFactsByID(step); q != nil {
		for runs := range ByRequest(q.Runs) {
			if runs[0].Name == name {
				return q.question(runs)
			}
		}
	}
	return nil
}

// Counter returns the first fact of a step's counter-probe, conclusive or not; nil if there is none.
func (c *Case) Counter(hop diag.HopID, step, name string) *diag.Fact {
	if q := c.factsOf(hop, step); q != nil {
		for _, r := range q.Runs {
			if r.Name == name && r.N == 0 {
				return r.Fact
			}
		}
	}
	return nil
}

// question returns the request of runs, which share one name, with the conclusive runs only; nil if there are none.
func (q *StepFacts) question(runs []Run) *RequestRuns {
	i := slices.IndexFunc(q.family, func(a *RequestRuns) bool { return a.name == runs[0].Name })
	if i >= 0 {
		return q.family[i]
	}
	silent := func(r Run) bool { return !r.conclusive() }
	if slices.ContainsFunc(runs, silent) {
		if runs = slices.DeleteFunc(slices.Clone(runs), silent); len(runs) == 0 {
			return nil
		}
	}
	a := AskedBy(runs)
	q.family = append(q.family, &a)
	return &a
}

// AskedBy returns the request of the first run, and drops runs of another request or from another vantage.
func AskedBy(runs []Run) RequestRuns {
	first := runs[0].Fact
	a := RequestRuns{name: runs[0].Name, Runs: make([]*diag.Fact, 0, len(runs))}
	for _, r := range runs {
		if r.Fact == first || (r.Fact.Vantage == first.Vantage && len(diag.Changed(&r.Fact.Request, &first.Request)) == 0) {
			a.Runs = append(a.Runs, r.Fact)
		}
	}
	// A run over a reused connection does not test the route: such runs count only if all runs are such.
	if a.name != "" && !a.All(Reused) {
		a.Runs = slices.DeleteFunc(a.Runs, Reused)
	}
	return a
}

// With returns a copy of the case in which b is the only fact of the step.
func (c *Case) With(step string, b *diag.Fact) *Case {
	if b.ID != step {
		named := *b
		named.ID, b = step, &named
	}
	as := *c
	as.stepFacts, as.memos = slices.Clone(c.stepFacts), nil
	as.InPlace = append(slices.Clip(c.InPlace), b)
	hop, name, _ := strings.Cut(step, "/")
	as.stepFacts[c.find(diag.HopID(hop), name)] = nil
	as.Put(b)
	return &as
}

// Only returns the case as a walk of these hops alone would have measured it. It shares the facts with c, so only the
// goroutine that uses c may use it.
func (c *Case) Only(ids []diag.HopID) *Case {
	part := *c
	part.Plan.Hops, part.stepFacts, part.memos = slices.Clone(c.Plan.Hops), slices.Clone(c.stepFacts), nil
	var left []diag.HopID
	for i := range part.Plan.Hops {
		if row := &part.Plan.Hops[i]; !slices.Contains(ids, row.ID) {
			row.Skip, row.Left = SkipOnly, nil
			left = append(left, row.ID)
		}
	}
	for i, q := range part.stepFacts {
		if q != nil && slices.Contains(left, OfFact(q.step)) {
			part.stepFacts[i] = nil
		}
	}
	return &part
}

// Declared returns the hop and the step that produce the fact with this id; nil if no step does.
func (c *Case) Declared(id string) (*Hop, *Step) {
	hop, name, _ := strings.Cut(id, "/")
	if at, k := c.Chain.step(diag.HopID(hop), name); k >= 0 {
		if h := &c.Chain.list[at]; h.Steps[k].Uses == "" {
			return h, &h.Steps[k]
		}
	}
	return nil, nil
}
