package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Clock is what is known about a source's clock.
type Clock struct {
	Host     string    `json:"host"`                // node | platform | operator
	OffsetMS *int64    `json:"offset_ms,omitempty"` // the source's clock minus the operator's; nil: unknown
	ErrorMS  *int64    `json:"error_ms,omitempty"`
	BootID   string    `json:"boot_id,omitempty"`  // now
	Now      diag.Time `json:"now,omitzero"`       // the source's time when it was read
	UptimeS  *int64    `json:"uptime_s,omitempty"` // then
}

// ClockOf reads the fact of a clock; without an offset the clock is unknown.
func ClockOf(host string, f diag.Fact) Clock {
	c := Clock{Host: host}
	if f.Clock != nil {
		c.OffsetMS, c.ErrorMS, c.BootID = f.Clock.OffsetMS, f.Clock.ErrorMS, f.Clock.BootID
		c.Now, c.UptimeS = f.Clock.Now, f.Clock.UptimeS
	}
	return c
}

// Source is the events of one log or record, in their original order.
type Source struct {
	Clock    Clock
	Instance string // the node's instance, if all events are of one
	Events   []Event
}

// Record returns the events of a node's diagnostic record. An entry in both rings is one event. Its name consists of
// what does not change while it is on the disk: boot, number, decision and count. A higher count is a new event: an
// ongoing storm is exported again, and so is the last good contact.
func Record(clock Clock, node string, r *diag.RecordFacts) Source {
	s := Source{Clock: clock}
	for _, e := range r.InTime() {
		s.Events = append(s.Events, recordEvent(e, node))
	}
	if r == nil {
		return s
	}
	for _, d := range r.Damaged {
		s.Events = append(s.Events, Event{Origin: FromRecord, Severity: Warning, NodeID: node,
			Message: fmt.Sprintf("slot %d of %s does not hold: %s", d.Slot, d.File, d.Why)})
	}
	return s
}

func recordEvent(e *diag.RecordEntry, node string) Event {
	words := []string{e.About, e.Decision}
	for _, w := range [...]struct {
		said   bool
		format string
		value  any
	}{
		{e.Reason != "", "because of %s", e.Reason},
		{e.Failure != diag.OK, "(%s)", e.Failure},
		{e.Status != 0, "HTTP %d", e.Status},
		{e.Code != "", "%s", e.Code},
		{e.Attempt > 0, "attempt %d", e.Attempt},
		{e.DelayMS > 0, "in %s", time.Duration(e.DelayMS) * time.Millisecond},
		{e.Count > 1, "%d times", e.Count},
		{e.Detail != "", ": %s", e.Detail},
	} {
		if w.said {
			words = append(words, fmt.Sprintf(w.format, w.value))
		}
	}
	at, mono := e.At, e.MonoNS
	if e.Last.After(at.Time) { // a slot may count several decisions: use the time of the newest
		mono += e.Last.Sub(at.Time).Nanoseconds()
		at = e.Last
	}
	ev := Event{Origin: FromRecord, Severity: recordSeverity(e), SourceTime: at, NodeID: cmp.Or(e.NodeID, node),
		InstanceID: e.InstanceID, CorrelationID: e.CorrelationID, TaskID: e.TaskID, Message: strings.Join(words, " "),
		Fields: maps.Clone(e.Facts), boot: e.BootID, monoNS: mono,
		name: fmt.Sprint("slot ", e.Seq, " ", e.Decision, " ", max(1, e.Count))}
	ev.field("agent_version", e.Agent)
	ev.field("reason", string(e.Reason))
	ev.field("decision", e.Decision)
	return ev
}

// recordSeverity is error for what stops or blocks the node's work, warning for what is retried.
func recordSeverity(e *diag.RecordEntry) Severity {
	if e.Reason == diag.RecShutdown { // a requested shutdown
		return Info
	}
	switch e.Decision {
	case "stop", "quarantine", "suppress", "refuse":
		return Error
	}
	if e.Failure != diag.OK || e.Decision == "retry" || e.Decision == "enroll" || e.Decision == "drop" {
		return Warning
	}
	return Info
}

// field sets a field, unless value is empty.
func (e *Event) field(name, value string) {
	if value == "" {
		return
	}
	if e.Fields == nil {
		e.Fields = map[string]string{}
	}
	e.Fields[name] = value
}

// Preflight returns a walk's events: its start, each hop that did not pass, and the verdict.
func Preflight(r *diag.Report) Source {
	s := Source{Clock: Clock{Host: "operator", OffsetMS: new(int64)}}
	if r == nil {
		return s
	}
	event := func(at diag.Time, sev Severity, name, message string) {
		s.Events = append(s.Events,
			Event{Origin: FromPreflight, Severity: sev, SourceTime: at,
				NodeID: r.Subject.NodeID, InstanceID: r.Subject.NodeInstanceID,
				AllocationID: r.Subject.AllocationID, WorkflowID: r.Subject.WorkflowID, CorrelationID: r.Run.CorrelationID,
				Message: message, name: r.Run.ID + " " + name})
	}
	event(r.Run.StartedAt, Info, "begin", "preflight begins, run "+r.Run.ID)
	for _, h := range r.Hops {
		if h.Status == diag.StatusFail || h.Status == diag.StatusWarn {
			sev := Warning
			if h.Status == diag.StatusFail {
				sev = Error
			}
			event(r.Run.EndedAt, sev, string(h.ID), fmt.Sprintf("hop %s: %s, %s: %s", h.ID, h.Status, h.Signal, h.Text))
		}
	}
	verdict := "preflight: " + string(r.Verdict.Outcome)
	if b := r.Verdict.Blame; b != nil {
		verdict += fmt.Sprintf(", %s at %s (%s)", b.Signal, b.Hop, r.Verdict.Confidence)
	}
	event(r.Run.EndedAt, Info, "verdict", verdict)
	return s
}
