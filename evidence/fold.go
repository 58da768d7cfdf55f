package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Line is an event as people read it, or several routine ones as one.
type Line struct {
	Event
	Count int       // of the events in it
	Until diag.Time // the last of them, where there are several
}

// Fold sums up what a healthy node does all day: between two events that are not routine, each kind of routine is one
// line.
func Fold(events []Event) []Line {
	var lines []Line
	open := map[string]int{} // by origin and message, since the last event that was not routine
	for _, e := range events {
		if !e.Routine {
			clear(open)
			lines = append(lines, Line{Event: e, Count: 1})
			continue
		}
		key := string(e.Origin) + " " + routineKey(e)
		if i, ok := open[key]; ok {
			lines[i].Count++
			lines[i].Until = e.At
			continue
		}
		open[key] = len(lines)
		lines = append(lines, Line{Event: e, Count: 1})
	}
	return lines
}

// routineKey is what routine events are counted by: ids and measurements differ each time.
func routineKey(e Event) string {
	if kind := e.Fields["kind"]; kind != "" {
		return kind
	}
	return e.Message
}

// Text is one line: time, a mark for a clock that is not known, severity where it matters, origin, ids, message. The
// subject's own ids are left out.
func (l Line) Text(q Query) string {
	var b strings.Builder
	at := strings.Repeat(" ", len(diag.TimeLayout)-2)
	if !l.At.IsZero() {
		at = l.At.UTC().Format(diag.TimeLayout)
	}
	fmt.Fprintf(&b, "%s%s %s %-9s ", at, l.Clock.mark(), l.Severity.mark(), l.Origin)
	message := strings.Join(strings.Fields(l.Message), " ")
	if l.Count > 1 {
		message = fmt.Sprintf("%dx until %s: %s", l.Count, l.Until.UTC().Format("15:04:05"), routineKey(l.Event))
	}
	b.WriteString(message)
	if l.Count > 1 {
		return b.String()
	}
	for _, id := range [...]struct{ name, value, known string }{
		{"node", l.NodeID, q.NodeID}, {"allocation", l.AllocationID, q.AllocationID}, {"task", l.TaskID, ""},
		{"session", l.SessionID, ""}, {"correlation", l.CorrelationID, q.CorrelationID},
	} {
		if id.value != "" && id.value != id.known && !strings.Contains(message, id.value) {
			fmt.Fprintf(&b, " [%s %s]", id.name, id.value)
		}
	}
	return b.String()
}

func (c ClockNote) mark() string {
	switch c {
	case ClockAsSaid:
		return "~"
	case ClockInherited:
		return "^"
	case ClockStepped:
		return "*"
	}
	return " "
}

func (s Severity) mark() string {
	switch s {
	case Error:
		return "E"
	case Warning:
		return "W"
	}
	return " "
}

// Text is the whole history for people: first what its times are worth, then the lines.
func (t Timeline) Text() []byte {
	var b strings.Builder
	for _, note := range t.Notes() {
		fmt.Fprintf(&b, "# %s\n", note)
	}
	for _, l := range Fold(t.Events) {
		b.WriteString(l.Text(t.Query))
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// Lines are the log lines of these origins as they were written, with the witness's own time.
func (t Timeline) Lines(origins ...Origin) (text []byte, n int) {
	var b strings.Builder
	for _, e := range t.Events {
		if e.line == "" || !slices.Contains(origins, e.Origin) {
			continue
		}
		said := e.Said
		if said.IsZero() {
			said = e.At
		}
		at, _ := said.MarshalText()
		fmt.Fprintf(&b, "%s %s\n", at, strings.ReplaceAll(e.line, "\n", "\n\t"))
		n++
	}
	return []byte(b.String()), n
}

// Notes say what the times are worth, and what was left out.
func (t Timeline) Notes() []string {
	notes := []string{"times are the operator's clock; ~ as the witness said, its clock then is not known; ^ of the line before; * its clock was set since"}
	for _, c := range t.Clocks {
		switch {
		case c.Host == "operator":
		case c.OffsetMS == nil:
			notes = append(notes, "clock of "+c.Host+": not known")
		case c.ErrorMS != nil:
			notes = append(notes, fmt.Sprintf("clock of %s: %+d ms (give or take %d) against the operator's, taken off", c.Host, *c.OffsetMS, *c.ErrorMS))
		default:
			notes = append(notes, fmt.Sprintf("clock of %s: %+d ms against the operator's, taken off", c.Host, *c.OffsetMS))
		}
	}
	if n := len(t.instances()); n > 1 {
		notes = append(notes, fmt.Sprintf("%d instances spoke as this node: %s", n, strings.Join(t.instances(), ", ")))
	}
	if t.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d lines of others, or of before, are left out", t.Dropped))
	}
	return notes
}

// instances lists the node's instances in the order in which they first spoke.
func (t Timeline) instances() []string {
	var ids []string
	for _, e := range t.Events {
		if e.InstanceID != "" && e.Origin != FromJoin && !slices.Contains(ids, e.InstanceID) {
			ids = append(ids, e.InstanceID)
		}
	}
	return ids
}
