package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Query selects a history. NodeID is the subject; CorrelationID and AllocationID narrow it.
type Query struct {
	NodeID        string
	CorrelationID string
	AllocationID  string
	Since         diag.Time

	// ToolID is the correlation id of the requests that this tool made to gather the events; people do not see them.
	// RelatedIDs are further ids of the subject: an event with one of them is about the subject, and lines do not repeat
	// them.
	ToolID     string
	RelatedIDs []string
}

// Timeline is the joined history, oldest first.
type Timeline struct {
	Query   Query   `json:"-"`
	Clocks  []Clock `json:"clocks,omitempty"`
	Events  []Event `json:"events"`
	Dropped int     `json:"dropped,omitempty"` // events of other nodes, or outside the query
	Doubles int     `json:"doubles,omitempty"` // duplicates of an event
}

// stepTolerance is the largest difference between an event's wall time and its time by uptime that does not count as
// a clock step. Uptimes have a resolution of one second.
const stepTolerance = 3 * time.Second

// Join makes one history of all sources, in whatever order they are given.
func Join(q Query, sources ...Source) Timeline {
	t := Timeline{Query: q}
	var all []Event
	for _, s := range sources {
		if len(s.Events) > 0 && !slices.ContainsFunc(t.Clocks, func(c Clock) bool { return c.Host == s.Clock.Host }) {
			t.Clocks = append(t.Clocks, s.Clock)
		}
		all = append(all, s.timed()...)
	}
	slices.SortFunc(t.Clocks, func(a, b Clock) int { return cmp.Compare(a.Host, b.Host) })
	l := linksOf(all)
	for i := range all {
		all[i].identify()
		l.fill(&all[i])
	}
	slices.SortFunc(all, inOrder)
	all = asRoutine(all)
	seen := map[string]bool{}
	for _, e := range all {
		switch {
		case seen[e.ID]:
			t.Doubles++
		case !q.wants(&e, l):
			t.Dropped++
		default:
			t.Events = append(t.Events, e)
		}
		seen[e.ID] = true
	}
	t.Events = withInstances(q.NodeID, t.Events)
	for i := range t.Events {
		if t.Events[i].SourceTime.Equal(t.Events[i].At.Time) {
			t.Events[i].SourceTime = diag.Time{}
		}
	}
	return t
}

// Narrow returns the part of the history that q selects.
func (t Timeline) Narrow(q Query) Timeline {
	l := linksOf(t.Events)
	out := Timeline{Query: q, Clocks: t.Clocks, Dropped: t.Dropped, Doubles: t.Doubles}
	for _, e := range t.Events {
		if e.Origin == FromJoin || q.wants(&e, l) {
			out.Events = append(out.Events, e)
		} else {
			out.Dropped++
		}
	}
	return out
}

// inOrder sorts by time, then in the order in which a request passes the origins, then by the source's order. Ids make
// the order total.
func inOrder(a, b Event) int {
	return cmp.Or(a.At.Compare(b.At.Time), cmp.Compare(a.Origin.rank(), b.Origin.rank()),
		cmp.Compare(a.monoNS, b.monoNS), cmp.Compare(a.seq, b.seq), strings.Compare(a.Message, b.Message),
		strings.Compare(a.ID, b.ID))
}

// timed converts the times of the source's events to the operator's clock as far as its offset is known.
func (s Source) timed() []Event {
	events := slices.Clone(s.Events)
	var last diag.Time
	for i := range events {
		e := &events[i]
		e.seq = i
		e.At, e.Clock = s.Clock.correct(*e)
		e.InstanceID = cmp.Or(e.InstanceID, s.Instance)
		if e.SourceTime.IsZero() && !last.IsZero() {
			e.At, e.Clock = last, ClockInherited
		}
		last = e.At
	}
	return events
}

// correct returns the event's time by the operator's clock. The clock offset in another boot is unknown. Within this
// boot, the monotonic time is more reliable if the clock was set in between.
func (c Clock) correct(e Event) (diag.Time, ClockNote) {
	switch {
	case e.SourceTime.IsZero():
		return diag.Time{}, ClockInherited
	case c.OffsetMS == nil, e.boot != "" && c.BootID != "" && !sameBoot(e.boot, c.BootID):
		return e.SourceTime, ClockOfSource
	}
	offset := c.offset()
	at := e.SourceTime.Add(-offset)
	if e.monoNS > 0 && c.UptimeS != nil && !c.Now.IsZero() && e.boot != "" {
		ago := time.Duration(*c.UptimeS)*time.Second - time.Duration(e.monoNS)
		counted := c.Now.Add(-offset - ago)
		if counted.Sub(at).Abs() > stepTolerance {
			return diag.At(counted), ClockStepped
		}
	}
	return diag.At(at), ClockKnown
}

// offset returns what is subtracted from a source's times. It is 0 if the measured difference is within its
// uncertainty: a correction would reorder events of clocks that agree.
func (c Clock) offset() time.Duration {
	if c.agrees() {
		return 0
	}
	return time.Duration(*c.OffsetMS) * time.Millisecond
}

// agrees reports whether the clock equals the operator's within the uncertainty.
func (c Clock) agrees() bool {
	return c.ErrorMS != nil && max(*c.OffsetMS, -*c.OffsetMS) <= *c.ErrorMS
}

// sameBoot compares boot ids, which journald writes without dashes.
func sameBoot(a, b string) bool {
	return strings.ReplaceAll(a, "-", "") == strings.ReplaceAll(b, "-", "")
}

// wants reports whether an event matches the query. Events of another node do not, nor of another tenant if the query
// names an allocation; an event that names no node matches every node.
func (q Query) wants(e *Event, l *links) bool {
	switch {
	case !q.Since.IsZero() && !e.At.IsZero() && e.At.Before(q.Since.Time):
		return false
	case e.NodeID != "" && q.NodeID != "" && e.NodeID != q.NodeID:
		return false
	case q.CorrelationID != "":
		return e.CorrelationID == q.CorrelationID
	case q.AllocationID != "":
		return e.AllocationID == q.AllocationID
	case e.NodeID == "" && q.NodeID != "" && (e.Origin == FromIngress || len(e.keys()) > 0):
		// A request or a session that names no node. It is this node's if one of its ids is also used by this node.
		return l.mentions(e) || (e.AllocationID != "" && slices.Contains(q.RelatedIDs, e.AllocationID))
	}
	return true
}

// withInstances adds a line where another instance acts as the node: the node was reimaged, or there are two.
func withInstances(node string, events []Event) []Event {
	out := make([]Event, 0, len(events))
	now, seen, both := "", map[string]bool{}, map[string]bool{}
	for _, e := range events {
		id := e.InstanceID
		if id != "" && (node == "" || e.NodeID == node) && id != now && e.ofNode() {
			switch {
			case now != "" && !seen[id]:
				out = append(out, joinEvent(e, Warning,
					"from here on another instance acts as this node: %s, before it was %s (reimaged, or another machine)", id,
					now))
			case seen[id] && !both[id] && now != "":
				both[id] = true
				out = append(out, joinEvent(e, Error, "instance %s acts again, after %s did: two machines may have one identity",
					id, now))
			}
			now, seen[id] = id, true
		}
		out = append(out, e)
	}
	return out
}

// nodeKinds are the kinds of evidence that the platform received from the node itself. To all other evidence the
// platform adds the instance that it knows at that moment: for a node that enrolled again, the previous one until its
// first heartbeat.
var nodeKinds = [...]string{"node.enrolled", "node.heartbeat_changed", "node.booted", "node.event"}

// ofNode reports whether the event's instance itself acted.
func (e *Event) ofNode() bool {
	return e.Origin == FromRecord || e.Origin == FromAgent ||
		(e.Origin == FromEvidence && slices.Contains(nodeKinds[:], e.Fields["kind"]))
}

func joinEvent(e Event, sev Severity, format string, args ...any) Event {
	n := Event{At: e.At, Clock: e.Clock, SourceTime: e.SourceTime, Origin: FromJoin, Severity: sev, NodeID: e.NodeID,
		InstanceID: e.InstanceID, Message: fmt.Sprintf(format, args...)}
	n.identify()
	return n
}
