package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Line is what people read: an event, an event that repeats, or a stretch of routine.
type Line struct {
	Event
	Times   int            // how often the event occurred
	Until   diag.Time      // the last time
	Routine map[Origin]int // for a stretch of routine: the number of events per source
}

// foldWindow is how many lines back a repeated event is recognized; a loop of retries or restarts has few lines.
const foldWindow = 12

// Fold sums up repetition. All routine between two other events becomes one line. An event that repeats soon, apart
// from its numbers and ids, is counted at its first occurrence.
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

// shape returns the event without its ids, counters and times. It keeps the status, since another status is another
// event.
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

// idLength is the least length at which a run of letters and digits counts as an id.
const idLength = 16

// blank writes a word with # for each run that is an id or has digits.
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

// stretch describes a stretch of routine.
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

// statusProbe is the task with which the platform checks a workload every few seconds.
const statusProbe = "status.probe"

// asRoutine marks events that belong to routine tasks and succeeded.
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

// Shown returns the events for people: without the requests that this tool made to gather them.
func (t Timeline) Shown() []Event {
	if t.Query.ToolID == "" {
		return t.Events
	}
	return slices.DeleteFunc(slices.Clone(t.Events), func(e Event) bool {
		return e.CorrelationID == t.Query.ToolID && e.Origin != FromPreflight && e.Origin != FromRecord
	})
}

// Text is one line: time, a mark for an unknown clock, severity if notable, origin, ids, message. It omits the ids that
// q names.
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

// knows reports whether the caller already knows an id.
func (q Query) knows(id string) bool {
	return id == q.NodeID || id == q.AllocationID || id == q.CorrelationID || id == q.ToolID ||
		slices.Contains(q.RelatedIDs, id)
}

func (c ClockNote) mark() string {
	return cmp.Or(map[ClockNote]string{ClockOfSource: "~", ClockInherited: "^", ClockStepped: "*"}[c], " ")
}

func (s Severity) mark() string {
	return cmp.Or(map[Severity]string{Error: "E", Warning: "W"}[s], " ")
}

// Text is the whole history for people: first the notes about its times, then the lines.
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

// Lines returns the original log lines of these origins, with the source's own time.
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

// Notes explain the marks for uncertain times, and count what was left out.
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
			t.Query.ToolID))
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
