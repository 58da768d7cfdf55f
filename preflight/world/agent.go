package world

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// agentDown reports whether the agent's unit was found not running.
func agentDown(c *hop.Case) bool {
	f := c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	return f != nil && reading.Stopped(f)
}

// ReadModel returns a field of the newest reading of the node. Fields about the backlog come from the second reading of
// the backlog if there was one, and are "" if that got no answer or no sweep was due; other fields then keep the value
// of the first.
func ReadModel(c *hop.Case, name string) string {
	word := hop.FieldOf(LastRead(c), name)
	if !slices.Contains(BacklogFields[:], name) || !LookedAgain(c) {
		return word
	}
	answered := StaleTasks(c, diag.HopNodeTaskRoundtrip, StepBacklogAfter) >= 0
	if answered {
		word = c.Field(diag.HopNodeTaskRoundtrip, StepBacklogAfter, name)
	}
	ofBacklog := name == "node.stale_tasks" || name == "node.check_backlog" || word == string(diag.ReasonTaskBacklogStale)
	if ofBacklog && (!answered || !SweptSince(c)) {
		return ""
	}
	return word
}

// BeatPollEvery is short compared with an agent's interval.
const BeatPollEvery = 200 * time.Millisecond

// AskReadModel requests the platform's whole read model of the node.
func AskReadModel(e *hop.Env) diag.Request {
	return e.Request("GET", profile.PathNode, nil, "node.id", "node.hostname", "node.now", "node.last_seen_at",
		"node.last_heartbeat_at", "node.status", "node.health", "node.instance_id", "node.private_ip",
		"node.provider_class", "node.guest_agent_status", "node.environment_profile", "node.agent_version",
		"node.agent_api_url", "node.agent_terminal_url", "node.cert_serial", "node.cert_not_after",
		"node.cert_issuer_fingerprint", "node.cert_generation", "node.recovery_reason", "node.recovery_state",
		"node.stale_tasks", "node.lost_results", "node.latest_operation_type", "node.latest_operation_status",
		"node.identity", "node.boot_id", "node.agent_posture", "node.agent_desired_version", "node.agent_addresses",
		"node.record_state", "node.record_last_reason", "node.recovery_current_token", "node.last_denial_code",
		"node.last_denial_at", "node.check_heartbeat", "node.check_issuer", "node.check_task_wait", "node.check_task",
		"node.check_backlog")
}

// StaleAfter returns the age at which heartbeats and contacts are stale, by policy.
func StaleAfter(c *hop.Case) time.Duration {
	return time.Duration(c.Policy(hop.PolicyStaleAfter)) * time.Second
}

// stepNodeAfter reads the node again, after all other steps.
const stepNodeAfter = "node_after"

// LastRead returns the newest reading of the node that was answered as requested, else the first reading; nil if the
// node was not read.
func LastRead(c *hop.Case) *diag.Fact {
	for _, step := range [...]string{stepNodeAfter, hop.StepReadAgain} {
		if f := c.Fact(diag.HopNodeHeartbeat, step); f.Passed() {
			return f
		}
	}
	return c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel)
}

// NodeUnknown reports whether the platform answers that it does not know the node, and nothing of this walk shows that
// it does.
func NodeUnknown(c *hop.Case) bool {
	return reading.NotKnown(c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel)) && NodeKnown(c) == ""
}

// NodeKnown describes what shows that the platform knows the node; "" if nothing does.
func NodeKnown(c *hop.Case) string {
	if on := AllocationField(c, "allocation.node_id"); on != "" && strings.EqualFold(on, c.Subject.NodeID) {
		return "by the allocation, the platform knows the node"
	}
	return AgentAnswered(c)
}

// HeartbeatAge returns the age of the last heartbeat that the platform accepted, by the platform's own clock: its
// "now", else the answer's Date, else the operator's time. It is unknown on platforms that do not report heartbeats,
// and in older recordings.
func HeartbeatAge(c *hop.Case) (time.Duration, bool) {
	beat := agesOf(c).beat
	return beat.Age, beat.Known
}

// ContactAge returns the age of the platform's last contact with the agent, by any request and by the same clock.
func ContactAge(c *hop.Case) (time.Duration, bool) {
	ages := agesOf(c)
	if ages.beat.Known && (!ages.contact.Known || ages.beat.Age < ages.contact.Age) {
		return ages.beat.Age, true // a heartbeat is a contact
	}
	return ages.contact.Age, ages.contact.Known
}

// readAges holds the ages of a read model's times, as of its reading.
type readAges struct {
	of            *diag.Fact // the reading that counts
	beat, contact age        // of the last heartbeat, and of the last contact
}

type age struct {
	Age   time.Duration
	Known bool
}

func agesOf(c *hop.Case) *readAges { return agesMemo.Of(c) }

var agesMemo = hop.NewMemo(func(c *hop.Case) readAges {
	f := LastRead(c)
	return readAges{of: f, beat: AgeOf(f, "node.last_heartbeat_at"), contact: AgeOf(f, "node.last_seen_at")}
})

// AgeOf returns how old a time was when the node was read.
func AgeOf(f *diag.Fact, field string) age {
	at := hop.TimeOf(f, field)
	if at.IsZero() {
		return age{}
	}
	return age{readAt(f).Sub(at), true}
}

// platformNow returns when the read model was last read, see readAt.
func platformNow(c *hop.Case) time.Time { return readAt(LastRead(c)) }

// readAt returns when the node was read, by the platform's own clock if the answer has it; zero if f is nil.
func readAt(f *diag.Fact) time.Time {
	if f == nil {
		return time.Time{}
	}
	now := hop.TimeOf(f, "node.now")
	if now.IsZero() && f.HTTP != nil {
		now = f.HTTP.Date.Time
	}
	if now.IsZero() {
		now = f.At.Time
	}
	return now
}

// ContactFresh reports whether the platform's last contact with the agent is known, and not stale.
func ContactFresh(c *hop.Case) bool {
	age, known := ContactAge(c)
	return known && age <= StaleAfter(c)
}

// AgentAnswered describes what the platform heard from the agent in this walk, "" if nothing.
func AgentAnswered(c *hop.Case) string {
	if TaskStatus(c) == "completed" {
		return "the agent answered a no-op in this walk"
	}
	return ""
}

// AnsweredSince is AgentAnswered for f, which is about the agent; "" if f was asked only after that answer had come.
func AnsweredSince(c *hop.Case, f *diag.Fact) string {
	task := c.Fact(diag.HopNodeTaskRoundtrip, hop.StepTask)
	if task != nil && f.OffsetMS > reading.EndedAt(task) {
		return ""
	}
	return AgentAnswered(c)
}

// Outdated reports whether the read model's last contact is old although the agent answered in this walk.
func Outdated(c *hop.Case) bool {
	contact := agesOf(c).contact
	return contact.Known && contact.Age > StaleAfter(c) && AgentAnswered(c) != ""
}

// OwnClock reports whether the read model has its own time, with which its other times are compared.
func OwnClock(c *hop.Case) bool {
	return !c.Time(diag.HopNodeHeartbeat, hop.StepReadModel, "node.now").IsZero()
}

// NeverHeard reports whether the platform has no time of any contact, and nothing else shows that there was one.
func NeverHeard(c *hop.Case) bool {
	f := c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel)
	_, known := ContactAge(c)
	return !known && OfANode(c) && ReadModel(c, "node.last_seen_at") == "" && !reading.Unasked(f, "node.last_seen_at") &&
		HeardBy(c) == ""
}

// OfANode reports whether the read model has a field that only an answer about a node has; any JSON may have a status.
func OfANode(c *hop.Case) bool {
	f := LastRead(c)
	if f == nil || f.HTTP == nil {
		return false
	}
	for name := range f.HTTP.Fields {
		if name != "node.status" && name != "node.health" && strings.HasPrefix(name, "node.") {
			return true
		}
	}
	return false
}

// HeardBy describes what shows that the agent is in contact, "" if nothing does.
func HeardBy(c *hop.Case) string {
	if evidence := AgentAnswered(c); evidence != "" {
		return evidence
	}
	if ReadModel(c, "node.check_heartbeat") == string(diag.MarkPass) {
		return "the platform's checklist calls its heartbeat current"
	}
	// only an agent reports these
	for _, name := range [...]string{"node.boot_id", "node.agent_version", "node.agent_addresses", "node.agent_api_url"} {
		if v := ReadModel(c, name); v != "" && v != "[]" && v != "null" {
			return "the read model has its " + strings.TrimPrefix(name, "node.")
		}
	}
	return ""
}

// CulpritSilentNode is the culprit if the platform hears nothing from a node and no better cause is known: its other
// missing answers are the same fault.
const CulpritSilentNode = "node silent"

// SilentNode reports whether the platform no longer hears from the node.
func SilentNode(c *hop.Case) bool {
	_, known := ContactAge(c)
	return known && !ContactFresh(c)
}

// SSHSilent reports whether SSH gets no answer, not even a refusal, from a node that the platform no longer hears from.
func SSHSilent(c *hop.Case) bool {
	f := c.Fact(diag.HopNodeOpsAccess, hop.StepSSH)
	if f == nil || !SilentNode(c) {
		return false
	}
	return f.Failure.Silent() || f.Failure == diag.TCPNoRoute || f.Failure == diag.TCPNetUnreachable
}

// contactKnown reports whether the read model's ages agree with what the agent did in this walk.
func contactKnown(c *hop.Case) bool {
	age, known := ContactAge(c)
	return known && !Outdated(c) && (age <= StaleAfter(c) || OwnClock(c))
}

// SameNode reports whether name is the node of this walk: platforms have more than one name for a node.
func SameNode(c *hop.Case, name string) bool {
	is := func(known string) bool { return known != "" && strings.EqualFold(name, known) }
	return is(c.Subject.NodeID) || is(ReadModel(c, "node.id")) || is(ReadModel(c, "node.hostname"))
}

// MaxClockSkew is the skew that certificates, tokens valid for a minute and task expiry tolerate.
const MaxClockSkew = 5 * time.Second

// AgentEndpointWorks reports whether the platform serves the node at the endpoint that its agent uses, so that another
// one in the profile does not show that the node's is wrong.
func AgentEndpointWorks(c *hop.Case) bool {
	return reading.Admitted(c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)) && ContactFresh(c)
}
