package evidence

import (
	"slices"
	"strings"
)

// links knows which ids belong together: ids that one source records for a request fill in those that another left out.
// An id with two different counterparts of a kind fills in neither.
type links struct {
	by map[string]*Event // "correlation ID", "task ID", "session ID", "allocation ID" -> its counterparts
}

// ambiguous marks an id that has more than one counterpart.
const ambiguous = "\x00"

// keys returns the ids by which an event is linked.
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

// linked returns the ids that can be filled in, the most general first. The node's instance is not one: it changes
// while the other ids stay.
func (e *Event) linked() [6]*string {
	return [...]*string{&e.NodeID, &e.WorkflowID, &e.AllocationID, &e.SessionID, &e.TaskID, &e.CorrelationID}
}

// reach returns how many of the linked ids a key determines. An allocation determines its node and workflow, but has
// many sessions. A correlation id belongs to a whole walk, which has many tasks and sessions.
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

// fill completes an event's ids, following as many links as there are kinds of ids.
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

// mentions reports whether another event with one of the event's ids names a node.
func (l *links) mentions(e *Event) bool {
	return slices.ContainsFunc(e.keys(), func(k string) bool {
		known := l.by[k]
		return known != nil && known.NodeID != "" && known.NodeID != ambiguous
	})
}
