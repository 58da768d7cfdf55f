package diag

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Text is a text of a table, about a node or for its users: a list of clauses, of which a report shows only those whose
// facts were measured. Only Say decides that.
type Text []Clause

// Clause is one statement in several wordings, the strongest first. The first wording whose needs are met is used; if
// none is, the clause is omitted.
type Clause []Wording

// Wording is a statement, and the measurements that it needs. A wording without needs must not claim a state: it has no
// word from the list in text_test.go.
type Wording struct {
	Says  string
	Needs []Need
}

// Need is one measured result: a checklist point, a hop, or one of the facts below, and its mark.
type Need struct {
	Of string
	Is Mark
}

// Facts, besides points and hops, that a wording may need.
const (
	FactContact = "last_contact"   // the platform had contact with the agent within the policy, by any request
	FactToken   = "recovery_token" // pass: the node has a current token; fail: it has none
	// FactHeartbeatAnswer fails if the node's record has an HTTP error in answer to its heartbeats while the platform
	// receives its other requests. It never passes: the record does not contain successful heartbeats.
	FactHeartbeatAnswer = "heartbeat_answer"
	// FactNode passes if anything about the node itself was measured: its record, its heartbeats, its workload. It
	// never fails.
	FactNode = "node_measured"
	// What users have of the node: a completed observation saw the workload running, or not; its route answers, or not.
	FactWorkload = "workload"
	FactRoute    = "route"
)

// Seen has the mark of every fact that was measured: MarkPass or MarkFail. A missing fact was not measured.
type Seen map[string]Mark

// Render returns the clauses that m supports, joined by semicolons.
func (t Text) Render(m Seen) string { return strings.Join(t.Clauses(m), "; ") }

// Clauses returns the clauses that m supports, in order.
func (t Text) Clauses(m Seen) (out []string) {
	for _, c := range t {
		for _, w := range c {
			if m.bears(w.Needs) {
				out = append(out, w.Says)
				break
			}
		}
	}
	return out
}

// AllWordings returns the text with all wordings of every clause, each with its condition, for documentation pages.
func (t Text) AllWordings() string {
	var out []string
	for _, c := range t {
		var ways []string
		for i, w := range c {
			if slices.ContainsFunc(c[:i], func(before Wording) bool { return before.Says == w.Says }) {
				continue
			}
			ways = append(ways, w.Says+c.condition(w.Says))
		}
		out = append(out, strings.Join(ways, ", or: "))
	}
	return strings.Join(out, "; ")
}

// condition returns what must be measured for the clause to read as text: " (if the API works)", "" if nothing.
func (c Clause) condition(text string) string {
	var ways []string
	for _, w := range c {
		if w.Says != text {
			continue
		}
		if len(w.Needs) == 0 {
			return ""
		}
		var needs []string
		for _, n := range w.Needs {
			needs = append(needs, n.Of+map[Mark]string{MarkPass: " passes", MarkFail: " fails"}[n.Is])
		}
		ways = append(ways, strings.Join(needs, " and "))
	}
	return " (if " + strings.Join(ways, ", or ") + ")"
}

func (m Seen) bears(needs []Need) bool {
	for _, n := range needs {
		if m[n.Of] != n.Is {
			return false
		}
	}
	return true
}

// Span formats a budget in one unit: "30 s", "5 min", "1 h".
func Span(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	case d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}
