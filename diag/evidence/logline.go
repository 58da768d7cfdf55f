package evidence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Journal returns the events in the lines of a unit or a log file. In the platform's log, a line about a request has
// the origin of the listener that it names.
func Journal(clock Clock, origin Origin, node string, j *diag.JournalFacts) Source {
	s := Source{Clock: clock}
	if j == nil {
		return s
	}
	for _, l := range j.Lines {
		s.Events = append(s.Events, logEvent(origin, node, l))
	}
	return s
}

// logEvent parses one line: JSON or key=value, as slog and our nginx write them, else plain text.
func logEvent(origin Origin, node string, l diag.JournalLine) Event {
	e := Event{Origin: origin, Severity: severityOf(l.Priority), SourceTime: l.At, NodeID: node,
		Message: strings.TrimSpace(l.Text), boot: l.Boot, line: l.Text}
	pairs, ok := parseLine(e.Message)
	if !ok {
		return e
	}
	e.Fields = map[string]string{}
	for _, p := range pairs {
		if into := e.idField(p.name); into != nil {
			*into = p.value
		} else if p.name != "time" {
			e.field(p.name, p.value)
		}
	}
	if level := e.cutField("level"); level != "" {
		e.Severity = severityNamed(level)
	}
	if listener, ok := listeners[e.Fields["listener"]]; ok && origin == FromPlatform {
		e.Origin = listener
	}
	e.ownTime(pairs)
	if e.Fields["method"] != "" && e.Fields["path"] != "" {
		e.request()
	} else if msg := e.cutField("msg"); msg != "" {
		e.Routine = msg == "summary" && e.Severity == Info
		e.Message = msg + e.attributes(pairs)
	}
	e.idsOfPath(e.Fields["path"])
	return e
}

// listeners maps the names of listeners in the platform's log to origins.
var listeners = map[string]Origin{"api": FromAPI, "node_api": FromNodeAPI, "gateway": FromGateway,
	"node_terminal": FromGateway}

// lineDelay bounds how long a line may take from its own time to the journal.
const lineDelay = time.Minute

// ownTime uses the line's own time instead of the journal's, which is when the line arrived, if it has milliseconds and
// comes from the same clock.
func (e *Event) ownTime(pairs []pair) {
	for _, p := range pairs {
		var t diag.Time
		if p.name != "time" || !strings.Contains(p.value, ".") || t.UnmarshalText([]byte(p.value)) != nil {
			continue
		}
		if late := e.SourceTime.Sub(t.Time); e.SourceTime.IsZero() || late.Abs() < lineDelay {
			e.SourceTime = t
		}
	}
}

// routinePath reports whether a successful request is routine traffic: heartbeats, task waits, and operators' reads,
// which change nothing.
func routinePath(method, path string, status int) bool {
	switch {
	case strings.HasSuffix(path, "/heartbeat"), strings.HasSuffix(path, "/tasks/wait"):
		return true
	case method != "GET" || status != 200:
		return false
	}
	return path == "/healthz" || strings.HasPrefix(path, "/v1/admin/") || strings.HasPrefix(path, "/v1/allocations/")
}

// request sets the text for a line about a request.
func (e *Event) request() {
	status, _ := strconv.Atoi(e.Fields["status"])
	e.Message = fmt.Sprintf("%s %s -> %s", e.Fields["method"], e.Fields["path"], e.Fields["status"])
	if v := e.Fields["client_verify"]; v != "" && v != "NONE" && v != "SUCCESS" {
		e.Message += ", client certificate: " + v
		e.Severity = Warning
	}
	if v := e.Fields["error"]; v != "" {
		e.Message += ": " + v
	}
	switch {
	case status >= 500:
		e.Severity = Error
	case status >= 400:
		e.Severity = Warning
	default:
		e.Routine = routinePath(e.Fields["method"], e.Fields["path"], status)
	}
	delete(e.Fields, "msg")
}

// attributes returns a line's fields for people.
func (e *Event) attributes(pairs []pair) string {
	var b strings.Builder
	for _, p := range pairs {
		if v, ok := e.Fields[p.name]; ok && v != "" {
			fmt.Fprintf(&b, " %s=%s", p.name, v)
		}
	}
	return b.String()
}

func (e *Event) cutField(name string) string {
	v := e.Fields[name]
	delete(e.Fields, name)
	return v
}

// idField returns the field for the id of that name, nil if the name is not an id's.
func (e *Event) idField(name string) *string {
	switch name {
	case "node_id":
		return &e.NodeID
	case "node_instance_id":
		return &e.InstanceID
	case "correlation_id":
		return &e.CorrelationID
	case "allocation_id":
		return &e.AllocationID
	case "workflow_id":
		return &e.WorkflowID
	case "session_id":
		return &e.SessionID
	case "task_id":
		return &e.TaskID
	}
	return nil
}

// idsOfPath takes the ids from a request's path: /nodes/ID, /tasks/ID, /allocations/ID, terminal/ID.
func (e *Event) idsOfPath(path string) {
	parts := strings.Split(path, "/")
	for i := range len(parts) - 1 {
		into, next := (*string)(nil), parts[i+1]
		switch parts[i] {
		case "nodes":
			into = &e.NodeID
		case "tasks":
			into = &e.TaskID
		case "allocations":
			into = &e.AllocationID
		case "terminal", "sessions":
			into = &e.SessionID
		}
		if into != nil && *into == "" && next != "" && next != "wait" && next != "sessions" &&
			!strings.Contains(next, diag.Redacted) {
			*into = next
		}
	}
}

// pair is a name and a value of a line.
type pair struct{ name, value string }

func parseLine(s string) ([]pair, bool) {
	if strings.HasPrefix(s, "{") {
		return parseJSON(s)
	}
	return parseLogfmt(s)
}

// parseJSON parses a flat object; nested values stay JSON.
func parseJSON(s string) ([]pair, bool) {
	var m map[string]json.RawMessage
	if bounded.Unmarshal([]byte(s), &m, bounded.Small()) != nil {
		return nil, false
	}
	var pairs []pair
	for name, raw := range m {
		value := string(raw)
		var text string
		if bounded.Unmarshal(raw, &text, bounded.Small()) == nil {
			value = text
		}
		pairs = append(pairs, pair{name, value})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	return pairs, true
}

// parseLogfmt parses name=value name="va lue". A line with any other word is plain text.
func parseLogfmt(s string) ([]pair, bool) {
	var pairs []pair
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeftFunc(s, unicode.IsSpace) {
		name, rest, ok := strings.Cut(s, "=")
		if !ok || name == "" || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || r == '"' }) {
			return nil, false
		}
		value := rest
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, false
			}
			value, _ = strconv.Unquote(quoted)
			s = rest[len(quoted):]
		} else {
			if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
				value = rest[:i]
			}
			s = rest[len(value):]
		}
		pairs = append(pairs, pair{name, value})
	}
	return pairs, len(pairs) > 0
}

// severityOf converts a journal's priority (0 emergency to 7 debug).
func severityOf(priority int) Severity {
	switch {
	case priority == 7:
		return Debug
	case priority == 4:
		return Warning
	case priority > 0 && priority < 4:
		return Error
	}
	return Info
}

func severityNamed(level string) Severity {
	return cmp.Or(map[string]Severity{
		"DEBUG": Debug, "WARN": Warning, "WARNING": Warning,
		"ERROR": Error, "ERR": Error, "CRIT": Error, "ALERT": Error, "EMERG": Error,
	}[strings.ToUpper(level)], Info)
}
