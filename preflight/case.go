package preflight

import (
	"iter"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Case is everything that a judge may read: who was asked about, what was planned, and the facts. It belongs to one
// goroutine, since it remembers what was worked out from the facts.
type Case struct {
	Subject diag.Subject
	Plan    diag.Plan
	EndedBy diag.EndedBy

	inquiries []*inquiry // by the number of the step; behind those of the chain, the ones that it does not have
	room      *room      // for what is made of them; cases of the same facts share it

	record   []*diag.RecordEntry // see hostRecord
	recordOf *diag.Fact          // whose entries they are
	ages     readAges            // see agesOf
	gpus     readGPUs            // see admissionIn

	substitutes []substitute // see passes: what was found out so far
	losses      []loss       // see lossSeen: the same

	correlationID string              // of the walk; "" while it goes on
	evidence      []diag.EvidenceLine // what the platform wrote down under it
}

// NewCase sorts facts by the steps that they were asked for. Facts are read only from then on.
func NewCase(subject diag.Subject, plan diag.Plan, endedBy diag.EndedBy, facts []diag.Fact) *Case {
	c := newCase(subject, plan, endedBy)
	for i := range facts {
		c.put(&facts[i])
	}
	return c
}

func newCase(subject diag.Subject, plan diag.Plan, endedBy diag.EndedBy) *Case {
	Chain() // numbers the steps
	return &Case{Subject: subject, Plan: plan, EndedBy: endedBy, inquiries: make([]*inquiry, stepCount), room: &room{}}
}

// room is memory for what a case makes many of: judging costs less where they lie together.
type room struct {
	inquiries shelf[inquiry]
	steps     shelf[diag.StepResult]
	ids       shelf[string]
}

// shelf gives parts of a few long slices.
type shelf[T any] []T

// take gives an empty slice with room for n. It is never nil.
func (s *shelf[T]) take(n, more int) []T {
	if *s == nil || len(*s) < n {
		*s = make([]T, max(n, more))
	}
	part := (*s)[:0:n]
	*s = (*s)[n:]
	return part
}

// put adds a fact, in place of one with its id.
func (c *Case) put(f *diag.Fact) {
	id, name, n := splitID(f.ID)
	hop, step, _ := strings.Cut(id, "/")
	i := c.find(diag.HopID(hop), step)
	if i < 0 {
		i = len(c.inquiries)
		c.inquiries = append(c.inquiries, nil)
	}
	q := c.inquiries[i]
	if q == nil {
		q = c.newInquiry(id)
		c.inquiries[i] = q
	}
	q.put(run{name, n, f})
	c.losses = nil
	if f.ID != id {
		return
	}
	if q.main, q.own = f, f; !conclusive(f) {
		q.own = nil
	}
}

// find is the index of a step's inquiry; -1 for an unknown step without facts.
func (c *Case) find(hop diag.HopID, step string) int {
	if len(c.inquiries) == 0 { // nothing was asked
		return -1
	}
	if s := declaredStep(hop, step); s != nil {
		return s.n
	}
	id := factID(hop, step)
	for i, q := range c.inquiries[stepCount:] {
		if q.step == id {
			return stepCount + i
		}
	}
	return -1
}

// of is all that was asked for a step; nil where nothing was.
func (c *Case) of(hop diag.HopID, step string) *inquiry {
	if i := c.find(hop, step); i >= 0 {
		return c.inquiries[i]
	}
	return nil
}

// inquiry is all that was asked for a step; nil where nothing was.
func (c *Case) inquiry(id string) *inquiry {
	hop, step, _ := strings.Cut(id, "/")
	return c.of(diag.HopID(hop), step)
}

// fact is the fact with an id, conclusive or not; nil where it is missing.
func (c *Case) fact(id string) *diag.Fact {
	step, _, counter := strings.Cut(id, "~")
	switch q := c.inquiry(step); {
	case q == nil:
		return nil
	case counter:
		return q.fact(id)
	default:
		return q.main
	}
}

// about is the fact that a step of the chain judges, conclusive or not; nil where it is missing.
func (c *Case) about(s *Step) *diag.Fact {
	if s.Uses != "" {
		return c.fact(s.Uses)
	}
	if q := c.inquiries[s.number]; q != nil {
		return q.main
	}
	return nil
}

// size is how many facts there are, each id once.
func (c *Case) size() (n int) {
	for q := range c.asked() {
		n += len(q.runs)
	}
	return n
}

// asked are the inquiries that there are, in no order.
func (c *Case) asked() iter.Seq[*inquiry] {
	return func(yield func(*inquiry) bool) {
		for _, q := range c.inquiries {
			if q != nil && !yield(q) {
				return
			}
		}
	}
}

// all are the facts, in no order.
func (c *Case) all() iter.Seq[*diag.Fact] {
	return func(yield func(*diag.Fact) bool) {
		for q := range c.asked() {
			for _, r := range q.runs {
				if !yield(r.fact) {
					return
				}
			}
		}
	}
}

// caseOf is the case of a whole report.
func caseOf(r *diag.Report) *Case {
	c := NewCase(r.Subject, r.Plan, r.Run.EndedBy, r.Facts)
	c.correlationID, c.evidence = r.Run.CorrelationID, r.Evidence
	return c
}

// Fact returns the measurement of a step, or nil when it was not made, was cut short or is hollow.
func (c *Case) Fact(hop diag.HopID, step string) *diag.Fact {
	if q := c.of(hop, step); q != nil {
		return q.own
	}
	return nil
}

// conclusive reports whether a fact has a result: it was not cut short, and is neither hollow nor lost.
func conclusive(f *diag.Fact) bool { return f.Failure != diag.Cancelled && !f.Hollow() && !lost(f) }

// recordFact is the newest reading of the node's record; nil without one.
func (c *Case) recordFact() *diag.Fact {
	if f := c.Fact(diag.HopNodeTaskRoundtrip, stepRecordAfter); f.Passed() && f.Record != nil {
		return f
	}
	return c.Fact(diag.HopNodeRecoveryStatus, stepHostRecord)
}

// hostRecord are the entries of the node's record, in time; none where it could not be read.
func (c *Case) hostRecord() []*diag.RecordEntry {
	f := c.recordFact()
	if !f.Passed() {
		return nil
	}
	if c.recordOf != f {
		c.record, c.recordOf = f.Record.InTime(), f
	}
	return c.record
}

// lost reports whether a request to the node was never answered because the SSH connection broke: that is not
// evidence about its target.
func lost(f *diag.Fact) bool { return f.Phase == "ssh" && f.Request.Op != diag.OpSSH }

// lostOnTheWay is the first such fact, by id; nil when every request was answered.
func (c *Case) lostOnTheWay() *diag.Fact {
	var first *diag.Fact
	for f := range c.all() {
		if lost(f) && f.Vantage != Platform && f.Failure != diag.Cancelled && (first == nil || f.ID < first.ID) {
			first = f
		}
	}
	return first
}

// Field returns a field that a step extracted from an HTTP answer, see fieldOf.
func (c *Case) Field(hop diag.HopID, step, name string) string {
	return fieldOf(c.Fact(hop, step), name)
}

// fieldOf is a field of an HTTP answer, "" when it is absent. The word of a state or a status comes in lower case, as
// the judges know it: platforms differ in that.
func fieldOf(f *diag.Fact, name string) string {
	if f == nil || f.HTTP == nil {
		return ""
	}
	v := f.HTTP.Fields[name]
	if strings.HasSuffix(name, "state") || strings.HasSuffix(name, "status") {
		v = strings.ToLower(v)
	}
	return v
}

// URL returns a field that holds a URL: what a report may show of it, and its query, which may hold a login. A user and
// password in it are not sent. On replay the query is gone.
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

// Time returns such a field as a time; the zero time when it is absent or invalid.
func (c *Case) Time(hop diag.HopID, step, name string) time.Time {
	return timeOf(c.Fact(hop, step), name)
}

// timeOf is a field of an HTTP answer as a time.
func timeOf(f *diag.Fact, name string) time.Time {
	text := fieldOf(f, name)
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

// expected returns a profile value by its key, "" when the operator gave none.
func (c *Case) expected(key string) string { return c.Subject.Expected[key] }

// planned returns the plan's row of a hop.
func (c *Case) planned(id diag.HopID) *diag.PlannedHop {
	for i := range c.Plan.Hops {
		if c.Plan.Hops[i].ID == id {
			return &c.Plan.Hops[i]
		}
	}
	return &diag.PlannedHop{ID: id, Skip: "not in the plan"}
}
