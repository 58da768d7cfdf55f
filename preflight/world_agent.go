package preflight

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// agentDown reports whether the agent's unit was found not running.
func agentDown(c *Case) bool {
	f := c.Fact(diag.HopNodeReadiness, stepProcess)
	if f == nil {
		return false
	}
	switch f.Failure {
	case diag.UnitInactive, diag.UnitFailed, diag.UnitMissing, diag.ProcessStopped:
		return true
	}
	return false
}

// readModel returns a field of the newest reading of the node. Fields about the backlog come from the second reading of
// the backlog if there was one, and are "" if that got no answer or no sweep was due; other fields then keep the value
// of the first.
func readModel(c *Case, name string) string {
	word := fieldOf(lastRead(c), name)
	if !slices.Contains(backlogFields[:], name) || !lookedAgain(c) {
		return word
	}
	answered := staleTasks(c, diag.HopNodeTaskRoundtrip, stepBacklogAfter) >= 0
	if answered {
		word = c.Field(diag.HopNodeTaskRoundtrip, stepBacklogAfter, name)
	}
	ofBacklog := name == "node.stale_tasks" || name == "node.check_backlog" || word == string(diag.ReasonTaskBacklogStale)
	if ofBacklog && (!answered || !sweptSince(c)) {
		return ""
	}
	return word
}

// beatPollEvery is short compared with an agent's interval.
const beatPollEvery = 200 * time.Millisecond

// askReadModel requests the platform's whole read model of the node.
func askReadModel(e *Env) diag.Request {
	return e.api("GET", profile.PathNode, nil, "node.id", "node.hostname", "node.now", "node.last_seen_at",
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

// staleAfter returns the age at which heartbeats and contacts are stale, by policy.
func staleAfter(c *Case) time.Duration {
	return time.Duration(c.Policy(policyStaleAfter)) * time.Second
}

// lastRead returns the newest reading of the node that was answered as requested, else the first reading; nil if the
// node was not read.
func lastRead(c *Case) *diag.Fact {
	for _, step := range [...]string{stepNodeAfter, stepReadAgain} {
		if f := c.Fact(diag.HopNodeHeartbeat, step); f.Passed() {
			return f
		}
	}
	return c.Fact(diag.HopNodeHeartbeat, stepReadModel)
}

// nodeUnknown reports whether the platform answers that it does not know the node, and nothing of this walk shows that
// it does.
func nodeUnknown(c *Case) bool {
	return notKnown(c.Fact(diag.HopNodeHeartbeat, stepReadModel)) && nodeKnown(c) == ""
}

// nodeKnown describes what shows that the platform knows the node; "" if nothing does.
func nodeKnown(c *Case) string {
	if on := allocationField(c, "allocation.node_id"); on != "" && strings.EqualFold(on, c.Subject.NodeID) {
		return "by the allocation, the platform knows the node"
	}
	return agentAnswered(c)
}

// heartbeatAge returns the age of the last heartbeat that the platform accepted, by the platform's own clock: its
// "now", else the answer's Date, else the operator's time. It is unknown on platforms that do not report heartbeats,
// and in older recordings.
func heartbeatAge(c *Case) (time.Duration, bool) {
	beat := agesOf(c).beat
	return beat.age, beat.known
}

// contactAge returns the age of the platform's last contact with the agent, by any request and by the same clock.
func contactAge(c *Case) (time.Duration, bool) {
	ages := agesOf(c)
	if ages.beat.known && (!ages.contact.known || ages.beat.age < ages.contact.age) {
		return ages.beat.age, true // a heartbeat is a contact
	}
	return ages.contact.age, ages.contact.known
}

// readAges holds the ages of a read model's times, as of its reading.
type readAges struct {
	of            *diag.Fact // the reading that counts
	beat, contact age        // of the last heartbeat, and of the last contact
}

type age struct {
	age   time.Duration
	known bool
}

func agesOf(c *Case) *readAges { return agesMemo.of(c) }

var agesMemo = newMemo(func(c *Case) readAges {
	f := lastRead(c)
	return readAges{of: f, beat: ageOf(f, "node.last_heartbeat_at"), contact: ageOf(f, "node.last_seen_at")}
})

// ageOf returns how old a time was when the node was read.
func ageOf(f *diag.Fact, field string) age {
	at := timeOf(f, field)
	if at.IsZero() {
		return age{}
	}
	return age{readAt(f).Sub(at), true}
}

// platformNow returns when the read model was last read, see readAt.
func platformNow(c *Case) time.Time { return readAt(lastRead(c)) }

// readAt returns when the node was read, by the platform's own clock if the answer has it; zero if f is nil.
func readAt(f *diag.Fact) time.Time {
	if f == nil {
		return time.Time{}
	}
	now := timeOf(f, "node.now")
	if now.IsZero() && f.HTTP != nil {
		now = f.HTTP.Date.Time
	}
	if now.IsZero() {
		now = f.At.Time
	}
	return now
}

// contactFresh reports whether the platform's last contact with the agent is known, and not stale.
func contactFresh(c *Case) bool {
	age, known := contactAge(c)
	return known && age <= staleAfter(c)
}

// agentAnswered describes what the platform heard from the agent in this walk, "" if nothing.
func agentAnswered(c *Case) string {
	if c.Field(diag.HopNodeTaskRoundtrip, stepTask, "task.status") == "completed" {
		return "the agent answered a no-op in this walk"
	}
	return ""
}

// answeredSince is agentAnswered for f, which is about the agent; "" if f was asked only after that answer had come.
func answeredSince(c *Case, f *diag.Fact) string {
	task := c.Fact(diag.HopNodeTaskRoundtrip, stepTask)
	if task != nil && f.OffsetMS > endedAt(task) {
		return ""
	}
	return agentAnswered(c)
}

// outdated reports whether the read model's last contact is old although the agent answered in this walk.
func outdated(c *Case) bool {
	contact := agesOf(c).contact
	return contact.known && contact.age > staleAfter(c) && agentAnswered(c) != ""
}

// ownClock reports whether the read model has its own time, with which its other times are compared.
func ownClock(c *Case) bool {
	return !c.Time(diag.HopNodeHeartbeat, stepReadModel, "node.now").IsZero()
}

// neverHeard reports whether the platform has no time of any contact, and nothing else shows that there was one.
func neverHeard(c *Case) bool {
	f := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	_, known := contactAge(c)
	return !known && ofANode(c) && readModel(c, "node.last_seen_at") == "" && !unasked(f, "node.last_seen_at") &&
		heardBy(c) == ""
}

// ofANode reports whether the read model has a field that only an answer about a node has; any JSON may have a status.
func ofANode(c *Case) bool {
	f := lastRead(c)
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

// heardBy describes what shows that the agent is in contact, "" if nothing does.
func heardBy(c *Case) string {
	if evidence := agentAnswered(c); evidence != "" {
		return evidence
	}
	if readModel(c, "node.check_heartbeat") == string(diag.MarkPass) {
		return "the platform's checklist calls its heartbeat current"
	}
	// only an agent reports these
	for _, name := range [...]string{"node.boot_id", "node.agent_version", "node.agent_addresses", "node.agent_api_url"} {
		if v := readModel(c, name); v != "" && v != "[]" && v != "null" {
			return "the read model has its " + strings.TrimPrefix(name, "node.")
		}
	}
	return ""
}

// culpritSilentNode is the culprit if the platform hears nothing from a node and no better cause is known: its other
// missing answers are the same fault.
const culpritSilentNode = "node silent"

// silentNode reports whether the platform no longer hears from the node.
func silentNode(c *Case) bool {
	_, known := contactAge(c)
	return known && !contactFresh(c)
}

// sshSilent reports whether SSH gets no answer, not even a refusal, from a node that the platform no longer hears from.
func sshSilent(c *Case) bool {
	f := c.Fact(diag.HopNodeOpsAccess, stepSSH)
	if f == nil || !silentNode(c) {
		return false
	}
	return f.Failure.Silent() || f.Failure == diag.TCPNoRoute || f.Failure == diag.TCPNetUnreachable
}

// contactKnown reports whether the read model's ages agree with what the agent did in this walk.
func contactKnown(c *Case) bool {
	age, known := contactAge(c)
	return known && !outdated(c) && (age <= staleAfter(c) || ownClock(c))
}

// sameNode reports whether name is the node of this walk: platforms have more than one name for a node.
func sameNode(c *Case, name string) bool {
	is := func(known string) bool { return known != "" && strings.EqualFold(name, known) }
	return is(c.Subject.NodeID) || is(readModel(c, "node.id")) || is(readModel(c, "node.hostname"))
}

// maxClockSkew is the skew that certificates, tokens valid for a minute and task expiry tolerate.
const maxClockSkew = 5 * time.Second

// agentEndpointWorks reports whether the platform serves the node at the endpoint that its agent uses, so that another
// one in the profile does not show that the node's is wrong.
func agentEndpointWorks(c *Case) bool {
	return admitted(c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)) && contactFresh(c)
}

// refusedHeartbeat returns the entry of the node's record by which the platform answers heartbeats with an HTTP error
// now; nil if there is none.
func refusedHeartbeat(c *Case) *diag.RecordEntry {
	e := hostEvidence(c)
	e.Points = points(c, nil)
	return e.RefusedHeartbeat()
}
