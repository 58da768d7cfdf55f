package hops

import (
	"cmp"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// rows are the cases that a judge distinguishes, in their order of precedence: the first that holds decides.
type rows []row

// row is one case: when it holds, and what the finding is then. A new case is a row, not a branch.
type row struct {
	of   func(*hop.Case) *diag.Fact  // the fact that decides, if not the table's: without it a row does not hold
	when func(j judged) bool         // nil: always
	then func(j judged) diag.Finding // nil: nothing is wrong

	// In place of what the finding's signal and fact imply.
	failure diag.Failure
	side    diag.Side
	reason  diag.ReasonCode
	culprit string
	direct  bool
	signal  diag.Signal // of an undecided finding
	lack    diag.Lack

	also func(j judged, out *diag.Finding) // what else is known, nil: nothing
}

// judged is what a row is asked about: a case, and the fact that decides.
type judged struct {
	c    *hop.Case
	f    *diag.Fact
	word string // what the judge read in an answer, of tables about such a word
}

// judge returns the finding of the first row that holds; nil if nothing is wrong.
func (t rows) judge(j judged) *diag.Finding {
	own := j.f
	for i := range t {
		r := &t[i]
		if j.f = own; r.of != nil {
			j.f = r.of(j.c)
		}
		if j.f == nil || (r.when != nil && !r.when(j)) {
			continue
		}
		if r.then == nil {
			return nil
		}
		out := r.then(j)
		out.Failure, out.Side = cmp.Or(r.failure, out.Failure), cmp.Or(r.side, out.Side)
		out.Reason, out.Culprit = cmp.Or(r.reason, out.Reason), cmp.Or(r.culprit, out.Culprit)
		out.Signal, out.Lack = cmp.Or(r.signal, out.Signal), cmp.Or(r.lack, out.Lack)
		out.Direct = r.direct || out.Direct
		if r.also != nil {
			r.also(j, &out)
		}
		return &out
	}
	return nil
}

// about is the judge of a hop that has one table, which is about one fact.
func (t rows) about(id diag.HopID, step string) func(*hop.Case) []diag.Finding {
	return func(c *hop.Case) []diag.Finding { return list(t.judge(judged{c: c, f: c.Fact(id, step)})) }
}

// list is a hop's findings if it has one at most.
func list(f *diag.Finding) []diag.Finding {
	if f == nil {
		return nil
	}
	return []diag.Finding{*f}
}

// fails is a failing finding with a text of these words.
func fails(sig diag.Signal, format string, words ...word) func(judged) diag.Finding {
	return func(j judged) diag.Finding { return reading.Fail(sig, j.f, format, args(j, words)...) }
}

// warns is fails for a finding that does not fail the hop.
func warns(sig diag.Signal, format string, words ...word) func(judged) diag.Finding {
	return func(j judged) diag.Finding { return reading.Warn(sig, j.f, format, args(j, words)...) }
}

// observes is fails for an answer that itself names the fault, so the time-out of the poll for another one is not its
// failure.
func observes(sig diag.Signal, format string, words ...word) func(judged) diag.Finding {
	return func(j judged) diag.Finding { return observed(sig, j.f, format, args(j, words)...) }
}

// undecided is a finding that the fact does not answer what the hop asks.
func undecided(format string, words ...word) func(judged) diag.Finding {
	return func(j judged) diag.Finding { return reading.Undecided(j.f, format, args(j, words)...) }
}

// unmapped is undecided for an answer that lacks a field that the profile maps.
func unmapped(format string, words ...word) func(judged) diag.Finding {
	return func(j judged) diag.Finding { return reading.Unmapped(j.f, format, args(j, words)...) }
}

// word is a part of a text that depends on the facts.
type word func(j judged) string

func args(j judged, words []word) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w(j)
	}
	return out
}

// The words of more than one table.
func where(j judged) string        { return reading.Where(j.f) }
func saw(j judged) string          { return reading.Saw(j.f) }
func gets(j judged) string         { return world.Gets(j.f) }
func code(j judged) string         { return reading.Code(j.f) }
func httpStatus(j judged) string   { return strconv.Itoa(j.status()) }
func theWord(j judged) string      { return j.word }
func nodeID(j judged) string       { return j.c.Subject.NodeID }
func allocationID(j judged) string { return j.c.Subject.AllocationID }
func target(j judged) string       { return j.f.Request.Target }
func nodeHost(j judged) string     { return j.c.Subject.NodeHost }
func certFile(j judged) string     { return j.f.Request.Cert }
func culpritCert(j judged) string  { return "node file " + certFile(j) }
func pageFrom(j judged) string     { return world.PageFrom(j.f) }
func closedPage(j judged) string   { return world.DescribeClosedHealthPage(j.f) }
func presented(j judged) string    { return world.Presented(j.f) }
func ownDates(j judged) string     { return reading.OwnDatesWords(j.f) }
func distrust(j judged) string     { return reading.Distrust(j.f) }
func signer(j judged) string       { return world.Signer(j.f) }
func issued(j judged) string       { return world.Issued(j.c, j.f) }
func letIn(j judged) string        { return world.LetIn(j.c, j.f) }
func noPlatform(j judged) string   { return world.OfNoPlatform(j.f) }

func frameCode(j judged) string    { return j.f.WS.FrameCode }
func frameMessage(j judged) string { return j.f.WS.FrameMessage }
func lastLines(j judged) string    { return world.LastLines(j.f) }

// detail is what the probe adds to a failure.
func detail(j judged) string {
	if j.f.Detail == "" {
		return ""
	}
	return ": " + j.f.Detail
}

func (j judged) status() int { return reading.Status(j.f) }

// refused reports whether HTTP refuses the request: a credential, or the right to what it asks for.
func (j judged) refused() bool { return j.status() == 401 || j.status() == 403 }

// denied reports whether the platform itself refuses the node by HTTP, and not an edge that lacks its certificate.
func (j judged) denied() bool {
	return j.refused() && reading.PlatformDenies(j.f) && !reading.Withheld(j.f)
}

func cookie(j judged) string { return reading.CookieOf(j.f) }
