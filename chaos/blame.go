package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// none is the blame of a drill that no hop may detect.
const none = "none"

// UnmarshalYAML reads the word none or a finding.
func (b *Blame) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if n.Value != none {
			return strictyaml.LineError(n, fmt.Sprintf("want %s, or a finding with hop and signal, not %q", none, n.Value))
		}
		b.None = true
		return nil
	}
	return n.Decode(&b.Finding)
}

// MarshalJSON writes the format that UnmarshalYAML reads.
func (b Blame) MarshalJSON() ([]byte, error) {
	if b.None {
		return json.Marshal(none)
	}
	return json.Marshal(b.Finding)
}

// UnmarshalJSON reads the same format: a plan is stored as JSON.
func (b *Blame) UnmarshalJSON(text []byte) error {
	if string(text) == `"`+none+`"` {
		*b = Blame{None: true}
		return nil
	}
	return bounded.Unmarshal(text, &b.Finding, bounded.Small())
}

// String is "none", or hop and signal with the alternatives: "node_readiness disk_full".
func (b Blame) String() string {
	if b.None {
		return none
	}
	return b.Finding.String()
}

// String returns hop, signal and failure, with alternatives joined by "or".
func (f Finding) String() string {
	s := orList(f.Hop) + " " + orList(f.Signal)
	if len(f.Failure) > 0 {
		s += " (" + orList(f.Failure) + ")"
	}
	if f.Status != "" {
		s += fmt.Sprintf(" (%s)", f.Status)
	}
	return s
}

// Matches reports whether a finding of a report matches f.
func (f Finding) Matches(hop diag.HopID, signal diag.Signal, failure diag.Failure) bool {
	return slices.Contains(f.Hop, hop) && slices.Contains(f.Signal, signal) &&
		(len(f.Failure) == 0 || slices.Contains(f.Failure, failure))
}

func orList[T ~string](words []T) string { return step.Join(words, " or ") }

func (c *checker) expect() {
	e := c.s.Expect
	switch {
	case e.Blame.None && len(e.Others)+len(e.FirstFailedHop)+len(e.Reason) > 0:
		c.bad("expect.others", "nothing can be found where nothing is blamed")
	case e.Blame.None && e.MustStayGreen.IsZero():
		c.bad("expect.mustStayGreen", "is missing: where nothing is blamed, something must be named that stays green")
	case !e.Blame.None:
		c.finding("expect.blame", e.Blame.Finding)
	}
	for i, f := range e.Others {
		c.finding(fmt.Sprintf("expect.others[%d]", i), f)
	}
	for _, r := range e.Reason {
		if _, known := diag.LookupReason(r); !known || r == diag.ReasonNone {
			c.bad("expect.reason", "unknown reason %q%s", r, strictyaml.Nearest(string(r), reasonNames()))
		}
	}
	c.hops("expect.firstFailedHop", e.FirstFailedHop)
	c.hops("expect.mustStayGreen", e.MustStayGreen.Hops)
	for _, h := range e.MustStayGreen.Hops {
		c.want(!slices.Contains(e.Blame.Hop, h) && !slices.Equal(e.FirstFailedHop, []diag.HopID{h}), "expect.mustStayGreen",
			"%s cannot fail and stay green", h)
	}
	for _, h := range e.FirstFailedHop {
		if last := lastOf(e.Blame.Hop); h.Valid() && last != "" && h.Rank() > last.Rank() {
			c.bad("expect.firstFailedHop", "%s comes after %s, which is blamed and so fails before it", h, last)
		}
	}
	c.want(strings.Trim(e.Terminal, "_abcdefghijklmnopqrstuvwxyz") == "", "expect.terminal",
		"want a reason of the terminal's end, as allocation_released, not %q", e.Terminal)
	c.want(e.DetectWithin > 0, "expect.detectWithin", "is missing")
	c.want(e.DetectWithin <= 0 || e.DetectWithin < c.s.Guards.TTL, "expect.detectWithin",
		"%s is not within the ttl: everything would be undone before it is late", e.DetectWithin)
}

// lastOf returns the hop that comes last in the chain; "" if there are none.
func lastOf(hops []diag.HopID) (last diag.HopID) {
	for _, h := range hops {
		if h.Valid() && (last == "" || h.Rank() >= last.Rank()) {
			last = h
		}
	}
	return last
}

func (c *checker) finding(key string, f Finding) {
	c.want(len(f.Hop) > 0, key+".hop", "is missing")
	c.want(len(f.Signal) > 0, key+".signal", "is missing")
	c.hops(key+".hop", f.Hop)
	if f.Status != "" {
		c.word(key+".status", string(f.Status), string(diag.StatusWarn), string(diag.StatusInconclusive))
	}
	for _, s := range f.Signal {
		if !slices.Contains(signalNames(), string(s)) {
			c.bad(key+".signal", "unknown signal %q%s", s, strictyaml.Nearest(string(s), signalNames()))
		}
	}
	for _, w := range f.Failure {
		if !slices.Contains(diag.Failures[:], w) {
			c.bad(key+".failure", "unknown failure word %q%s", w, strictyaml.Nearest(string(w), step.Texts(diag.Failures[:])))
		}
	}
}

func signalNames() (all []string) {
	for _, row := range diag.Signals() {
		all = append(all, string(row.Signal))
	}
	return all
}

func reasonNames() (all []string) {
	for _, row := range diag.Reasons() {
		if row.Code != diag.ReasonNone {
			all = append(all, string(row.Code))
		}
	}
	return all
}

func (c *checker) hops(key string, ids []diag.HopID) {
	for _, h := range ids {
		if !h.Valid() {
			c.bad(key, "unknown hop %q%s", h, strictyaml.Nearest(string(h), step.Texts(diag.HopIDs())))
		}
	}
}
