package hop

import (
	"iter"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Case is everything that a judge may read: the subject, the plan and the facts. It caches what it derives from the
// facts, so only one goroutine may use it.
type Case struct {
	Subject diag.Subject
	Plan    diag.Plan
	EndedBy diag.EndedBy

	Chain     *Chain
	stepFacts []*StepFacts // by step number, followed by steps that the chain does not have

	memos   []any        // what was derived from the facts, by Memo
	InPlace []*diag.Fact // the facts that with put in the place of a step's own

	CorrelationID string              // of the walk; "" until it has ended
	Evidence      []diag.EvidenceLine // what the platform recorded under CorrelationID
}

// NewCase indexes facts by the steps of the chain. The facts must not change afterwards.
func (h *Chain) NewCase(subject diag.Subject, plan diag.Plan, endedBy diag.EndedBy, facts []diag.Fact) *Case {
	h = h.Of(&plan)
	c := &Case{Subject: subject, Plan: plan, EndedBy: endedBy, Chain: h, stepFacts: make([]*StepFacts, h.steps)}
	for i := range facts {
		c.Put(&facts[i])
	}
	return c
}

// Memo is a value that is derived from a case's facts, once per case.
type Memo[T any] struct {
	n      int // index in Case.memos
	derive func(*Case) T
}

var memos int // number of Memos

// NewMemo declares a value; it is called for package variables only.
func NewMemo[T any](derive func(*Case) T) *Memo[T] {
	memos++
	return &Memo[T]{memos - 1, derive}
}

// Of returns the value for this case. Only its own function changes it.
func (m *Memo[T]) Of(c *Case) *T {
	if c.memos == nil {
		c.memos = make([]any, memos)
	}
	if known, ok := c.memos[m.n].(*T); ok {
		return known
	}
	v := m.derive(c)
	c.memos[m.n] = &v
	return &v
}

// Put adds a fact, replacing one with the same id.
func (c *Case) Put(f *diag.Fact) {
	id, name, n := SplitID(f.ID)
	hop, step, _ := strings.Cut(id, "/")
	i := c.find(diag.HopID(hop), step)
	if i < 0 {
		i = len(c.stepFacts)
		c.stepFacts = append(c.stepFacts, nil)
	}
	q := c.stepFacts[i]
	if q == nil {
		q = newStepFacts(id)
		c.stepFacts[i] = q
	}
	q.put(Run{name, n, f})
	c.memos = nil
	if f.ID != id {
		return
	}
	if q.main, q.own = f, f; !Conclusive(f) {
		q.own = nil
	}
}

// find returns the index of a step's facts; -1 for a step that the chain does not have and that has no facts.
func (c *Case) find(hop diag.HopID, step string) int {
	if len(c.stepFacts) == 0 { // a Case that has only a plan
		return -1
	}
	if at, k := c.Chain.step(hop, step); k >= 0 {
		return c.Chain.first[at] + k
	}
	id := FactID(hop, step)
	for i, q := range c.stepFacts[c.Chain.steps:] {
		if q.step == id {
			return c.Chain.steps + i
		}
	}
	return -1
}

// factsOf returns the facts of a step; nil if nothing was asked.
func (c *Case) factsOf(hop diag.HopID, step string) *StepFacts {
	if i := c.find(hop, step); i >= 0 {
		return c.stepFacts[i]
	}
	return nil
}

// StepFactsByID returns the facts of the step with this fact id; nil if nothing was asked.
func (c *Case) StepFactsByID(id string) *StepFacts {
	hop, step, _ := strings.Cut(id, "/")
	return c.factsOf(diag.HopID(hop), step)
}

// FactByID returns the fact with this id, conclusive or not; nil if there is none.
func (c *Case) FactByID(id string) *diag.Fact {
	step, _, counter := strings.Cut(id, "~")
	switch q := c.StepFactsByID(step); {
	case q == nil:
		return nil
	case counter:
		return q.fact(id)
	default:
		return q.main
	}
}

// JudgedFact returns the fact that a step of the chain judges, conclusive or not; nil if there is none.
func (c *Case) JudgedFact(s *Step) *diag.Fact {
	if s.Uses != "" {
		return c.FactByID(s.Uses)
	}
	if q := c.stepFacts[s.number]; q != nil {
		return q.main
	}
	return nil
}

// Size returns the number of facts with different ids.
func (c *Case) Size() (n int) {
	for q := range c.AllStepFacts() {
		n += len(q.Runs)
	}
	return n
}

// AllStepFacts yields the facts of all steps, in no order.
func (c *Case) AllStepFacts() iter.Seq[*StepFacts] {
	return func(yield func(*StepFacts) bool) {
		for _, q := range c.stepFacts {
			if q != nil && !yield(q) {
				return
			}
		}
	}
}

// All yields all facts, in no order, but not those of checks: no conclusion about a party rests on a check.
func (c *Case) All() iter.Seq[*diag.Fact] {
	return func(yield func(*diag.Fact) bool) {
		for q := range c.AllStepFacts() {
			if id := OfFact(q.step); id.Own() && c.Hop(id).Check != nil {
				continue
			}
			for _, r := range q.Runs {
				if !yield(r.Fact) {
					return
				}
			}
		}
	}
}

// CaseOf returns the case of a finished report.
func (h *Chain) CaseOf(r *diag.Report) *Case {
	c := h.NewCase(r.Subject, r.Plan, r.Run.EndedBy, r.Facts)
	c.CorrelationID, c.Evidence = r.Run.CorrelationID, r.Evidence
	return c
}

// Fact returns the measurement of a step, or nil when it was not made, was cut short or is hollow.
func (c *Case) Fact(hop diag.HopID, step string) *diag.Fact {
	if q := c.factsOf(hop, step); q != nil {
		return q.own
	}
	return nil
}

// Conclusive reports whether a fact has a result: it was not cut short, and is neither hollow nor lost.
func Conclusive(f *diag.Fact) bool { return f.Failure != diag.Cancelled && !f.Empty() && !Lost(f) }

// RecordFact returns the newest reading of the node's record; nil if there is none.
func (c *Case) RecordFact() *diag.Fact {
	if f := c.Fact(diag.HopNodeTaskRoundtrip, StepRecordAfter); f.Passed() && f.Record != nil {
		return f
	}
	return c.Fact(diag.HopNodeRecoveryStatus, StepHostRecord)
}

// HostRecord returns the entries of the node's record in time order; none if it could not be read.
func (c *Case) HostRecord() []*diag.RecordEntry {
	f := c.RecordFact()
	if !f.Passed() {
		return nil
	}
	return *recordMemo.Of(c)
}

var recordMemo = NewMemo(func(c *Case) []*diag.RecordEntry { return c.RecordFact().Record.InTime() })

// Lost reports whether a request to the node was never answered because the SSH connection broke: that is not
// evidence about its target.
func Lost(f *diag.Fact) bool { return f.Phase == "ssh" && f.Request.Op != diag.OpSSH }

// LostOnTheWay returns the first lost fact, by id, of operator and node; nil if none was lost.
func (c *Case) LostOnTheWay() *diag.Fact {
	var first *diag.Fact
	for f := range c.All() {
		if Lost(f) && f.Vantage != Platform && f.Failure != diag.Cancelled && (first == nil || f.ID < first.ID) {
			first = f
		}
	}
	return first
}

// Field returns a field that a step extracted from an HTTP answer; see FieldOf.
func (c *Case) Field(hop diag.HopID, step, name string) string {
	return FieldOf(c.Fact(hop, step), name)
}

// FieldOf returns a field of an HTTP answer, "" if it is absent. States and statuses are in lower case, as the judges
// expect them: platforms differ in that.
func FieldOf(f *diag.Fact, name string) string {
	if f == nil || f.HTTP == nil {
		return ""
	}
	v := f.HTTP.Fields[name]
	if strings.HasSuffix(name, "state") || strings.HasSuffix(name, "status") {
		v = strings.ToLower(v)
	}
	return v
}

// URL returns a field that holds a URL, without its query, and the query, which may hold a login and is not reported. A
// user and a password in the URL are dropped. A replayed report has no query.
func (c *Case) URL(hop diag.HopID, step, name string) (string, diag.Secret) {
	f := c.Fact(hop, step)
	if f == nil || f.HTTP == nil {
		return "", diag.Secret{}
	}
	whole := f.HTTP.Whole[name].Reveal()
	if whole == "" {
		return f.HTTP.Fields[name], diag.Secret{}
	}
	bare, query, _ := diag.BareURL(whole)
	return bare, query
}

// Time returns a field of an HTTP answer as a time; zero if it is absent or invalid.
func (c *Case) Time(hop diag.HopID, step, name string) time.Time {
	return TimeOf(c.Fact(hop, step), name)
}

// TimeOf returns a field of an HTTP answer as a time; zero if it is absent or invalid.
func TimeOf(f *diag.Fact, name string) time.Time {
	text := FieldOf(f, name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Policy returns a policy value in seconds (or percent) as planned.
func (c *Case) Policy(key string) int64 { return c.Plan.Policy[key] }

// Expected returns a profile value by its key, "" when the operator gave none.
func (c *Case) Expected(key string) string { return c.Subject.Expected[key] }

// Planned returns the plan's row of a hop; for a hop that the plan does not have, a row that skips it.
func (c *Case) Planned(id diag.HopID) *diag.PlannedHop {
	for i := range c.Plan.Hops {
		if c.Plan.Hops[i].ID == id {
			return &c.Plan.Hops[i]
		}
	}
	return &diag.PlannedHop{ID: id, Skip: "not in the plan"}
}

const SkipOnly = "not in --only"
