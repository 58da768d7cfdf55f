package preflight

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Case is everything that a judge may look at: who was asked about, what was planned, and the facts.
type Case struct {
	Subject diag.Subject
	Plan    diag.Plan
	EndedBy diag.EndedBy
	facts   map[string]*diag.Fact

	correlationID string              // of the walk; "" while it goes on
	evidence      []diag.EvidenceLine // what the platform wrote down under it
}

// NewCase indexes facts by id. Facts are read only from then on.
func NewCase(subject diag.Subject, plan diag.Plan, endedBy diag.EndedBy, facts []diag.Fact) *Case {
	c := &Case{Subject: subject, Plan: plan, EndedBy: endedBy, facts: make(map[string]*diag.Fact, len(facts))}
	for i := range facts {
		c.facts[facts[i].ID] = &facts[i]
	}
	return c
}

// caseOf is the case of a whole report.
func caseOf(r *diag.Report) *Case {
	c := NewCase(r.Subject, r.Plan, r.Run.EndedBy, r.Facts)
	c.correlationID, c.evidence = r.Run.CorrelationID, r.Evidence
	return c
}

// Fact returns the measurement of a step, or nil when it was not made, was cut short or is hollow: none says anything.
func (c *Case) Fact(hop diag.HopID, step string) *diag.Fact {
	f := c.facts[factID(hop, step)]
	if f == nil || f.Failure == diag.Cancelled || f.Hollow() || lost(f) {
		return nil
	}
	return f
}

// lost reports whether a node's question was never answered because the way to the node broke: that says nothing of
// what was asked.
func lost(f *diag.Fact) bool { return f.Phase == "ssh" && f.Request.Op != diag.OpSSH }

// lostOnTheWay is the first such fact, by id; nil when every question came back.
func (c *Case) lostOnTheWay() *diag.Fact {
	var first *diag.Fact
	for _, f := range c.facts {
		if lost(f) && f.Vantage != Platform && f.Failure != diag.Cancelled && (first == nil || f.ID < first.ID) {
			first = f
		}
	}
	return first
}

// Field returns a field that a step extracted from an HTTP answer, "" when it is absent. The word of a state or a status
// comes in lower case, as the judges know it: platforms differ in that.
func (c *Case) Field(hop diag.HopID, step, name string) string {
	f := c.Fact(hop, step)
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

// Time returns such a field as a time; the zero time when it is absent or is none.
func (c *Case) Time(hop diag.HopID, step, name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, c.Field(hop, step, name))
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
func (c *Case) planned(id diag.HopID) diag.PlannedHop {
	for _, p := range c.Plan.Hops {
		if p.ID == id {
			return p
		}
	}
	return diag.PlannedHop{ID: id, Skip: "not in the plan"}
}
