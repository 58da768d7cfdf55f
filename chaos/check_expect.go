package chaos

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

func (c *checker) expect() {
	e := c.s.Expect
	switch {
	case e.Blame.None && len(e.Others)+len(e.FirstFailedHop)+len(e.Reason) > 0:
		c.bad("expect.others", "nothing can be found where nothing is blamed")
	case e.Blame.None && len(e.MustStayGreen) == 0:
		c.bad("expect.mustStayGreen", "is missing: where nothing is blamed, something must be named that stays green")
	case !e.Blame.None:
		c.finding("expect.blame", e.Blame.Finding)
	}
	for i, f := range e.Others {
		c.finding(fmt.Sprintf("expect.others[%d]", i), f)
	}
	for _, r := range e.Reason {
		if _, known := diag.LookupReason(r); !known || r == diag.ReasonNone {
			c.bad("expect.reason", "unknown reason %q%s", r, profile.Nearest(string(r), reasonNames()))
		}
	}
	c.hops("expect.firstFailedHop", e.FirstFailedHop)
	c.hops("expect.mustStayGreen", e.MustStayGreen)
	for _, h := range e.MustStayGreen {
		if slices.Contains(e.Blame.Hop, h) || slices.Contains(e.FirstFailedHop, h) && len(e.FirstFailedHop) == 1 {
			c.bad("expect.mustStayGreen", "%s cannot fail and stay green", h)
		}
	}
	for _, h := range e.FirstFailedHop {
		if last := lastOf(e.Blame.Hop); slices.Index(diag.Hops[:], h) > slices.Index(diag.Hops[:], last) && last != "" {
			c.bad("expect.firstFailedHop", "%s comes after %s, which is blamed and so fails before it", h, last)
		}
	}
	switch {
	case e.DetectWithin <= 0:
		c.bad("expect.detectWithin", "is missing")
	case e.DetectWithin >= c.s.Guards.TTL:
		c.bad("expect.detectWithin", "%s is not within the ttl: everything would be undone before it is late", e.DetectWithin)
	}
}

// lastOf is the one of some hops that comes last in the chain; "" of none.
func lastOf(hops []diag.HopID) diag.HopID {
	last := diag.HopID("")
	for _, h := range diag.Hops {
		if slices.Contains(hops, h) {
			last = h
		}
	}
	return last
}

func (c *checker) finding(key string, f Finding) {
	if len(f.Hop) == 0 {
		c.bad(key+".hop", "is missing")
	}
	if len(f.Signal) == 0 {
		c.bad(key+".signal", "is missing")
	}
	c.hops(key+".hop", f.Hop)
	for _, s := range f.Signal {
		if !isSignal(s) {
			c.bad(key+".signal", "unknown signal %q%s", s, profile.Nearest(string(s), signalNames()))
		}
	}
	for _, w := range f.Failure {
		if !slices.Contains(diag.Failures[:], w) {
			c.bad(key+".failure", "unknown failure word %q%s", w, profile.Nearest(string(w), texts(diag.Failures[:])))
		}
	}
}

func isSignal(s diag.Signal) bool { return slices.Contains(signalNames(), string(s)) }

func signalNames() []string {
	var all []string
	for _, row := range diag.Signals() {
		all = append(all, string(row.Signal))
	}
	return all
}

func reasonNames() []string {
	var all []string
	for _, row := range diag.Reasons() {
		if row.Code != diag.ReasonNone {
			all = append(all, string(row.Code))
		}
	}
	return all
}

func (c *checker) hops(key string, ids []diag.HopID) {
	for _, h := range ids {
		if !slices.Contains(diag.Hops[:], h) {
			c.bad(key, "unknown hop %q%s", h, profile.Nearest(string(h), texts(diag.Hops[:])))
		}
	}
}
