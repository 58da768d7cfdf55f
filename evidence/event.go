package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Severity of an event, in the words that log collectors know.
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

// Origins, in the order in which a request meets them: of two events of the same millisecond, the cause comes first.
const (
	FromRecord    Origin = "record"    // the node's diagnostic record
	FromAgent     Origin = "agent"     // the agent's journal on the node
	FromIngress   Origin = "ingress"   // nginx in front of the platform: public edge and node ingress
	FromNodeAPI   Origin = "node_api"  // the platform's listeners, by their own log
	FromAPI       Origin = "api"       //
	FromGateway   Origin = "gateway"   // terminals, both ends
	FromPlatform  Origin = "platform"  // the platform's process, about no request
	FromTasks     Origin = "tasks"     // the platform's evidence of tasks
	FromSessions  Origin = "sessions"  // and of terminal sessions
	FromEvidence  Origin = "evidence"  // and of everything else
	FromPreflight Origin = "preflight" // the walk that was made for this bundle
	FromJoin      Origin = "timeline"  // what the join itself noticed
)

// Origins lists every origin, in that order.
var Origins = [...]Origin{FromRecord, FromAgent, FromIngress, FromNodeAPI, FromAPI, FromGateway, FromPlatform,
	FromTasks, FromSessions, FromEvidence, FromPreflight, FromJoin}

// ClockNote reports what an event's time is worth.
type ClockNote string

const (
	ClockKnown     ClockNote = ""          // by the operator's clock: the source's offset is known and subtracted
	ClockOfSource  ClockNote = "as_said"   // by the source's own clock, whose offset is not known
	ClockInherited ClockNote = "inherited" // the line has no time: it gets the previous line's
	ClockStepped   ClockNote = "stepped"   // its clock has been set since: computed from the uptime
)

// Event is what one source recorded. Its JSON is what diag export ships: names are stable, fields are only added.
type Event struct {
	ID         string    `json:"id"` // a digest of the recorded event: the same in every export
	At         diag.Time `json:"ts,omitzero"`
	Severity   Severity  `json:"severity"`
	Origin     Origin    `json:"source"`
	Clock      ClockNote `json:"clock,omitempty"`
	SourceTime diag.Time `json:"said_at,omitzero"` // the source's own time, where At is another

	NodeID        string `json:"node_id,omitempty"`
	InstanceID    string `json:"node_instance_id,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	AllocationID  string `json:"allocation_id,omitempty"`
	WorkflowID    string `json:"workflow_id,omitempty"`
	SessionID     string `json:"session_id,omitempty"`
	TaskID        string `json:"task_id,omitempty"`

	Message string            `json:"message"`
	Fields  map[string]string `json:"fields,omitempty"`

	// Routine is what a healthy node does all day: people read it in sums.
	Routine bool `json:"routine,omitempty"`

	boot   string // of the source
	monoNS int64  // since that boot; 0: not known
	seq    int    // its place among the source's events
	line   string // as it was written, where it is of a log
	name   string // its key among others of its origin, where the source numbers its events
}

// identify sets the event's id. Only what the source recorded goes into it, and nothing that was derived later.
func (e *Event) identify() {
	parts := []string{string(e.Origin), e.NodeID, e.boot, e.name}
	if e.name == "" {
		at, _ := e.SourceTime.MarshalText()
		parts = append(parts, string(at), e.CorrelationID, e.TaskID, e.SessionID, e.Message)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	e.ID = hex.EncodeToString(sum[:12])
}

// rank is the origin's place among Origins.
func (o Origin) rank() int {
	for i, known := range Origins {
		if known == o {
			return i
		}
	}
	return len(Origins)
}
