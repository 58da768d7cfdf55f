package evidence

import (
	"slices"
	"strings"
)

// links is which ids go together: what one source records of a request fills in what another left out. An id that goes
// with two others of a kind fills in neither.
type links struct {
	by map[string]*Event // "correlation ID", "task ID", "session ID", "allocation ID" -> the ids that go with it
}

// ambiguous marks an id that has more than one counterpart.
const ambiguous = "\x00"

// keys are the ids by which an event is linked.
func (e *Event) keys() []string {
	var keys []string
	for _, k := range [...]struct{ kind, id string }{
		{"correlation ", e.CorrelationID}, {"task ", e.TaskID}, {"session ", e.SessionID}, {"allocation ", e.AllocationID},
	} {
		if k.id != "" {
			keys = append(keys, k.kind+k.id)
		}
	}
	return keys
}

// linked are the ids that are filled in, the wide ones first. A node's instance is not: it changes under the same ids.
func (e *Event) linked() [6]*string {
	return [...]*string{&e.NodeID, &e.WorkflowID, &e.AllocationID, &e.SessionID, &e.TaskID, &e.CorrelationID}
}

// reach is how many of the linked ids follow from a key. An allocation determines its node and workflow, but has many
// sessions. A correlation id belongs to a whole walk, which has many tasks and sessions.
func reach(key string) int {
	switch {
	case strings.HasPrefix(key, "allocation "):
		return 2
	case strings.HasPrefix(key, "correlation "):
		return 3
	}
	return 6
}

func linksOf(events []Event) *links {
	l := &links{by: map[string]*Event{}}
	for i := range events {
		for _, k := range events[i].keys() {
			known := l.by[k]
			if known == nil {
				known = &Event{}
				l.by[k] = known
			}
			from := events[i].linked()
			for n, into := range known.linked() {
				if n >= reach(k) {
					break
				}
				switch {
				case *from[n] == "" || *into == *from[n]:
				case *into == "":
					*into = *from[n]
				default:
					*into = ambiguous
				}
			}
		}
	}
	return l
}

// fill completes an event's ids, along up to as many links as there are kinds of ids.
func (l *links) fill(e *Event) {
	for range len(e.linked()) {
		before := *e
		for _, k := range e.keys() {
			from := l.by[k].linked()
			for n, into := range e.linked() {
				if *into == "" && *from[n] != ambiguous {
					*into = *from[n]
				}
			}
		}
		if before.ids() == e.ids() {
			return
		}
	}
}

func (e *Event) ids() [6]string {
	var ids [6]string
	for n, id := range e.linked() {
		ids[n] = *id
	}
	return ids
}

// mentions reports whether anything else is known under one of the event's ids that names a node.
func (l *links) mentions(e *Event) bool {
	return slices.ContainsFunc(e.keys(), func(k string) bool {
		known := l.by[k]
		return known != nil && known.NodeID != "" && known.NodeID != ambiguous
	})
}
