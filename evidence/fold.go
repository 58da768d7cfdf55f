package evidence

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Line is an event as people read it, one that came again and again, or a stretch of routine.
type Line struct {
	Event
	Times   int            // how often it came
	Until   diag.Time      // the last time
	Routine map[Origin]int // of a stretch of routine: how many events each source had
}

// foldWindow is how many lines back an event is recognised as the same again: a loop of retries or restarts has few.
const foldWindow = 12

// Fold sums up what repeats: between two events that are not routine, all routine is one line, and an event that comes
// again soon, but for its numbers and ids, is counted where it came first.
func Fold(events []Event) []Line {
	var lines []Line
	shapes := map[int]string{}
	for _, e := range events {
		last := len(lines) - 1
		again := -1
		for i := last; !e.Routine && i >= 0 && i > last-foldWindow && again < 0; i-- {
			if shapes[i] == e.shape() {
				again = i
			}
		}
		switch {
		case again >= 0:
			lines[again].Times++
			lines[again].Until = e.At
		case !e.Routine:
			shapes[len(lines)] = e.shape()
			lines = append(lines, Line{Event: e, Times: 1, Until: e.At})
		case last >= 0 && lines[last].Routine != nil:
			lines[last].Until = e.At
			lines[last].Routine[e.Origin]++
		default:
			lines = append(lines, Line{Event: e, Until: e.At, Routine: map[Origin]int{e.Origin: 1}})
		}
	}
	return lines
}

// shape is the event without its ids, counters and times; a status stays, since another one is another event.
func (e *Event) shape() string {
	var b strings.Builder
	b.WriteString(string(e.Origin) + string(e.Severity))
	before := ""
	for word := range strings.FieldsSeq(e.Message) {
		b.WriteByte(' ')
		if before == "->" || before == "HTTP" {
			b.WriteString(word)
		} else {
			blank(&b, word)
		}
		before = word
	}
	return b.String()
}

// idLength is from where on a run of letters and digits is taken for an id.
const idLength = 16

// blank writes a word with a # for each run in it that is an id or has digits.
func blank(b *strings.Builder, word string) {
	isRun := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' }
	for word != "" {
		end := strings.IndexFunc(word, func(r rune) bool { return !isRun(r) })
		switch {
		case end == 0:
			b.WriteByte(word[0])
			word = word[1:]
			continue
		case end < 0:
			end = len(word)
		}
		if run := word[:end]; len(run) >= idLength || strings.ContainsAny(run, "0123456789") {
			b.WriteByte('#')
		} else {
			b.WriteString(run)
		}
		word = word[end:]
	}
}

// stretch words a stretch of routine.
func (l Line) stretch() string {
	var parts []string
	for _, o := range Origins {
		if n := l.Routine[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return fmt.Sprintf("routine until %s: heartbeats, task waits, status probes and reads went well (lines: %s)",
		l.Until.UTC().Format("15:04:05"), strings.Join(parts, ", "))
}

// statusProbe is a task by which the platform looks at a workload every few seconds.
const statusProbe = "status.probe"

// asRoutine marks what belongs to routine tasks, and went well.
func asRoutine(events []Event) []Event {
	tasks := map[string]bool{}
	for _, e := range events {
		if e.TaskID != "" && e.Fields["type"] == statusProbe {
			tasks[e.TaskID] = true
		}
	}
	for i := range events {
		if e := &events[i]; tasks[e.TaskID] && (e.Severity == Info || e.Severity == Debug) {
			e.Routine = true
		}
	}
	return events
}

// Shown are the events for people: without the requests that were made to find all this out.
func (t Timeline) Shown() []Event {
	if t.Query.Own == "" {
		return t.Events
	}
	return slices.DeleteFunc(slices.Clone(t.Events), func(e Event) bool {
		return e.CorrelationID == t.Query.Own && e.Origin != FromPreflight && e.Origin != FromRecord
	})
}

// Text is one line: time, a mark for a clock that is not known, severity where it matters, origin, ids, message. The
// subject's own ids are left out.
func (l Line) Text(q Query) string {
	var b strings.Builder
	at := strings.Repeat(" ", len(diag.TimeLayout)-2)
	if !l.At.IsZero() {
		at = l.At.UTC().Format(diag.TimeLayout)
	}
	if l.Routine != nil {
		return at + "    ...       " + l.stretch()
	}
	fmt.Fprintf(&b, "%s%s %s %-9s ", at, l.Clock.mark(), l.Severity.mark(), l.Origin)
	message := strings.Join(strings.Fields(l.Message), " ")
	if l.Times > 1 {
		fmt.Fprintf(&b, "(%dx until %s, the first:) ", l.Times, l.Until.UTC().Format("15:04:05"))
	}
	b.WriteString(message)
	for _, id := range [...]struct{ name, value string }{
		{"node", l.NodeID}, {"allocation", l.AllocationID}, {"task", l.TaskID}, {"session", l.SessionID},
		{"correlation", l.CorrelationID},
	} {
		if id.value != "" && !q.knows(id.value) && !strings.Contains(message, id.value) {
			fmt.Fprintf(&b, " [%s %s]", id.name, id.value)
		}
	}
	return b.String()
}

// knows reports whether an id adds nothing for the caller.
func (q Query) knows(id string) bool {
	return id == q.NodeID || id == q.AllocationID || id == q.CorrelationID || id == q.Own ||
		slices.Contains(q.Familiar, id)
}

func (c ClockNote) mark() string {
	switch c {
	case ClockOfSource:
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
	for _, l := range Fold(t.Shown()) {
		b.WriteString(l.Text(t.Query))
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// Lines are the log lines of these origins as they were written, with the source's own time.
func (t Timeline) Lines(origins ...Origin) (text []byte, n int) {
	var b strings.Builder
	for _, e := range t.Events {
		if e.line == "" || !slices.Contains(origins, e.Origin) {
			continue
		}
		written := e.SourceTime
		if written.IsZero() {
			written = e.At
		}
		at, _ := written.MarshalText()
		fmt.Fprintf(&b, "%s %s\n", at, strings.ReplaceAll(e.line, "\n", "\n\t"))
		n++
	}
	return []byte(b.String()), n
}

// Notes explain the marks of uncertain times, and count what was left out.
func (t Timeline) Notes() []string {
	notes := []string{
		"times are the operator's clock; ~ by the clock of the source, whose error is not known; ^ of the line before; " +
			"* its clock was set since",
	}
	for _, c := range t.Clocks {
		switch {
		case c.Host == "operator":
		case c.OffsetMS == nil:
			notes = append(notes, "clock of "+c.Host+": not known")
		case c.agrees():
			notes = append(notes, fmt.Sprintf("clock of %s: agrees with the operator's, give or take %d ms", c.Host, *c.ErrorMS))
		case c.ErrorMS != nil:
			notes = append(notes, fmt.Sprintf("clock of %s: %+d ms (give or take %d) against the operator's, taken off", c.Host,
				*c.OffsetMS, *c.ErrorMS))
		default:
			notes = append(notes, fmt.Sprintf("clock of %s: %+d ms against the operator's, taken off", c.Host, *c.OffsetMS))
		}
	}
	if n := len(t.instances()); n > 1 {
		notes = append(notes, fmt.Sprintf("%d instances spoke as this node: %s", n, strings.Join(t.instances(), ", ")))
	}
	if own := len(t.Events) - len(t.Shown()); own > 0 {
		notes = append(notes, fmt.Sprintf("%d lines about the requests of this look itself (%s) are only in the NDJSON", own,
			t.Query.Own))
	}
	if t.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d lines of others, or of earlier runs, are left out", t.Dropped))
	}
	return notes
}

// instances lists the node's instances in the order in which they first appear.
func (t Timeline) instances() []string {
	var ids []string
	for _, e := range t.Events {
		if e.InstanceID != "" && e.Origin != FromJoin && !slices.Contains(ids, e.InstanceID) {
			ids = append(ids, e.InstanceID)
		}
	}
	return ids
}
