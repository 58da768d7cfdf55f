package hops

import (
	"cmp"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// rows are the cases that a judge distinguishes, in their order of precedence: the first that holds decides.
type rows []row

// row is one case: when it holds, and what the finding is then. A new case is a row, not a branch.
type row struct {
	of   func(*hop.Case) *diag.Fact  // the fact that decides, if not the table's
	when func(j judged) bool         // nil: always. Without its fact a row does not hold.
	then func(j judged) diag.Finding // nil: nothing is wrong

	// What the finding has in place of what its signal and its fact imply.
	side    diag.Side
	reason  diag.ReasonCode
	culprit string
	direct  bool
}

// judged is what a row is asked about: a case, and the fact that decides.
type judged struct {
	c    *hop.Case
	f    *diag.Fact
	word string // the state that the answer gives, of tables about one
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
		out.Side, out.Reason = cmp.Or(r.side, out.Side), cmp.Or(r.reason, out.Reason)
		out.Culprit, out.Direct = cmp.Or(r.culprit, out.Culprit), r.direct || out.Direct
		return &out
	}
	return nil
}

// judgeAll is judge for a hop that has one table.
func (t rows) judgeAll(j judged) []diag.Finding { return list(t.judge(j)) }

// list is a hop's findings if it has one at most.
func list(f *diag.Finding) []diag.Finding {
	if f == nil {
		return nil
	}
	return []diag.Finding{*f}
}

func (j judged) status() int { return reading.Status(j.f) }

// refused reports whether HTTP refuses the request: a credential, or the right to what it asks for.
func (j judged) refused() bool { return j.status() == 401 || j.status() == 403 }

// denied reports whether the platform itself refuses the node by HTTP, and no edge that kept the certificate to itself.
func (j judged) denied() bool {
	return j.refused() && reading.PlatformDenies(j.f) && !reading.Withheld(j.f)
}
