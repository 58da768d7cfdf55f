package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Severity of an event, in the terms of log collectors.
type Severity string

// Severities, the mildest first.
const (
	Debug   Severity = "debug"
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Origin is the source of an event.
type Origin string

// Origins, in the order in which a request passes them: of two events in the same millisecond, the cause comes first.
const (
	FromRecord    Origin = "record"    // the node's diagnostic record
	FromAgent     Origin = "agent"     // the agent's journal on the node
	FromIngress   Origin = "ingress"   // nginx in front of the platform: public edge and node ingress
	FromNodeAPI   Origin = "node_api"  // the platform's listeners, from their own log
	FromAPI       Origin = "api"       //
	FromGateway   Origin = "gateway"   // terminals, both ends
	FromPlatform  Origin = "platform"  // the platform's process, apart from requests
	FromTasks     Origin = "tasks"     // the platform's evidence of tasks
	FromSessions  Origin = "sessions"  // and of terminal sessions
	FromEvidence  Origin = "evidence"  // and of everything else
	FromPreflight Origin = "preflight" // the walk that the bundle was made with
	FromJoin      Origin = "timeline"  // noticed while joining the sources
)

// Origins lists every origin, in the order of the constants.
var Origins = [...]Origin{FromRecord, FromAgent, FromIngress, FromNodeAPI, FromAPI, FromGateway, FromPlatform,
	FromTasks, FromSessions, FromEvidence, FromPreflight, FromJoin}

// ClockNote tells how reliable an event's time is.
type ClockNote string

const (
	ClockKnown     ClockNote = ""          // the operator's clock: the source's offset is known and was subtracted
	ClockOfSource  ClockNote = "as_said"   // the source's clock, whose offset is unknown
	ClockInherited ClockNote = "inherited" // the line has no time and got the previous line's
	ClockStepped   ClockNote = "stepped"   // the source's clock was set after the event: computed from the uptime
)

// Event is what one source recorded. Its JSON is what diag export writes: names are stable, and fields are only added.
type Event struct {
	ID         string    `json:"id"` // a digest of the recorded event, equal in every export
	At         diag.Time `json:"ts,omitzero"`
	Severity   Severity  `json:"severity"`
	Origin     Origin    `json:"source"`
	Clock      ClockNote `json:"clock,omitempty"`
	SourceTime diag.Time `json:"said_at,omitzero"` // the source's own time, if it differs from At

	NodeID        string `json:"node_id,omitempty"`
	InstanceID    string `json:"node_instance_id,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	AllocationID  string `json:"allocation_id,omitempty"`
	WorkflowID    string `json:"workflow_id,omitempty"`
	SessionID     string `json:"session_id,omitempty"`
	TaskID        string `json:"task_id,omitempty"`

	Message string            `json:"message"`
	Fields  map[string]string `json:"fields,omitempty"`

	// Routine is regular traffic of a healthy node, which is summed up for people.
	Routine bool `json:"routine,omitempty"`

	boot   string // boot id of the source
	monoNS int64  // time since that boot; 0: unknown
	seq    int    // position among the source's events
	line   string // the original line, if it is from a log
	name   string // key among the events of its origin, if the source numbers them
}

// identify sets the event's id, a digest of what the source recorded. Values derived later do not change it.
func (e *Event) identify() {
	parts := []string{string(e.Origin), e.NodeID, e.boot, e.name}
	if e.name == "" {
		at, _ := e.SourceTime.MarshalText()
		parts = append(parts, string(at), e.CorrelationID, e.TaskID, e.SessionID, e.Message)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	e.ID = hex.EncodeToString(sum[:12])
}

// rank returns the origin's index in Origins.
func (o Origin) rank() int {
	for i, known := range Origins {
		if known == o {
			return i
		}
	}
	return len(Origins)
}
