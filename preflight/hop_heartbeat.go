package preflight

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Longer than 300 lines: a hop's requests and its judge are in one file.

const (
	stepReadModel = "read_model"
	// stepReadAgain waits for the next heartbeat if the last one is just past its limit: a busy machine is late.
	stepReadAgain = "read_again"
)

// beatPollEvery is short compared with an agent's interval.
const beatPollEvery = 200 * time.Millisecond

// nodeHeartbeat: how old is the last heartbeat that the platform accepted? Its last contact with the agent, by any
// request, is a separate fact: an agent whose heartbeats are refused may still wait for tasks. A stale heartbeat does
// not mean a dead workload.
func nodeHeartbeat() Hop {
	id := diag.HopNodeHeartbeat
	read := Step{
		Name: stepReadModel, From: Operator, Token: true, Timeout: 4 * time.Second,
		Needs: []diag.HopID{diag.HopControlPlaneAccess}, Paths: []string{profile.PathNode},
		Ask: func(e *Env, _ *Case) diag.Request { return askReadModel(e) },
	}
	return Hop{
		ID: id, Budget: 5 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		Behind:      []diag.HopID{diag.HopNodeTaskRoundtrip}, // a platform that accepts no task records no heartbeat either
		Fields:      []string{"node.last_seen_at"}, ReadModel: true, OfNode: answerNamesNode,
		Silence: &Silence{diag.SigControlPlaneUnreachable, diag.SidePlatform,
			"the request for the node's state"},
		NotAbout: func(c *Case) []diag.Aspect {
			if refusedHeartbeat(c) != nil { // the agent sends heartbeats
				return []diag.Aspect{diag.AboutAgent}
			}
			return nil
		},
		Steps: []Step{read, {
			Name: stepReadAgain, From: Operator, Token: true, Timeout: 4 * time.Second,
			Needs: []diag.HopID{diag.HopControlPlaneAccess}, Paths: []string{profile.PathNode},
			Optional: true, Second: true, After: []string{factID(id, stepReadModel)}, Unless: func(c *Case) string {
				if _, field := justLate(c); field == "" {
					return "the last heartbeat is in time, or well past its limit"
				}
				return ""
			},
			Ask: func(e *Env, c *Case) diag.Request {
				last, field := justLate(c)
				req := askReadModel(e)
				req.Poll = &diag.Poll{Field: field, Until: []string{}, Unlike: last, EveryMS: beatPollEvery.Milliseconds()}
				return req
			},
		}, nodeAfter(read)},
		Judge: judgeHeartbeat,
		Pass:  lastHeard,
	}
}

// judgeHeartbeat judges whether the node could be read, and then the ages of its heartbeats.
func judgeHeartbeat(c *Case) []diag.Finding {
	f := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	if f == nil {
		return nil
	}
	_, beat := heartbeatAge(c)
	_, contact := contactAge(c)
	switch {
	case nodeUnknown(c):
		out := undecided(f, "the platform at %s knows no node %s (HTTP 404)%s", where(f), c.Subject.NodeID, otherNodes(c))
		out.Signal = diag.SigNodeUnknown
		return []diag.Finding{out}
	case readFromCache(c, f): // it does not show what is recent
		out := undecided(f, "%s", fromCache(f))
		out.Lack = diag.LackPlatform
		return []diag.Finding{out}
	case notKnown(f):
		return []diag.Finding{undecided(f, "the platform at %s answers HTTP 404 for the node, but %s: one of several "+
			"servers may lack it", where(f), nodeKnown(c))}
	case !f.Passed():
		return []diag.Finding{undecided(f, "the node could not be read: %s%s", saw(f), signer(f))}
	case !beat && !contact && unasked(f, "node.last_seen_at"):
		return nil
	case !beat && !contact && (readModel(c, "node.last_seen_at") != "" || f.HTTP == nil || len(f.HTTP.Fields) == 0):
		return []diag.Finding{unmapped(f, "the answer has no time of a last heartbeat that can be read")}
	case !beat && !contact && !ofANode(c):
		return []diag.Finding{unmapped(f, "nothing in the answer is about a node, so it may be about something else")}
	case !beat && !contact && !neverHeard(c):
		return []diag.Finding{unmapped(f, "the answer has no time of a last contact, and the agent was heard: %s "+
			"(node.last_seen_at)", heardBy(c))}
	case !beat && !contact:
		return []diag.Finding{fail(diag.SigHeartbeatStale, f, "the platform has never heard from the agent of %s",
			c.Subject.NodeID)}
	}
	return judgeAges(c, f)
}

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

// judgeAges compares the ages of the last heartbeat and the last contact with the policy, and with the platform's own
// checklist.
func judgeAges(c *Case, f *diag.Fact) []diag.Finding {
	age, beat := heartbeatAge(c)
	mark := diag.Mark(readModel(c, "node.check_heartbeat"))
	switch {
	case beat && age > staleAfter(c) && agentAnswered(c) != "" && !ownClock(c), outdated(c):
		return []diag.Finding{undecided(f,
			"the platform's read model (%s) contradicts this walk (%s): the read model is outdated, or the "+
				"clock that it is compared with is wrong", lastHeard(c), agentAnswered(c))}
	case nextUnread(c):
		return []diag.Finding{undecided(f, "%s; whether another one followed could not be read: %s", lastHeard(c),
			saw(c.Fact(diag.HopNodeHeartbeat, stepReadAgain)))}
	case silentNode(c):
		out := fail(diag.SigHeartbeatStale, f, "%s", lastHeard(c))
		out.Culprit = culpritSilentNode
		claim(c, &out, claimMachine)
		return []diag.Finding{out}
	case beat && age > staleAfter(c):
		out := fail(diag.SigHeartbeatStale, f, "%s", lastHeard(c))
		if contactFresh(c) {
			out.Text += "; the agent reaches the platform by other requests, so what is missing is the heartbeat itself"
			if n := refusedHeartbeat(c); n != nil {
				byRefusal(&out, n)
			}
		}
		return []diag.Finding{out}
	case mark == diag.MarkFail:
		out := warn(diag.SigHeartbeatStale, f, "%s; the platform's own checklist says that the heartbeat is not current",
			lastHeard(c))
		out.Reason = diag.ReasonNone // the platform contradicts itself; neither value means unreachable
		return []diag.Finding{out}
	}
	return nil
}

// byRefusal adds to the finding of a stale heartbeat what answers the heartbeats, by an entry of the node's record.
func byRefusal(out *diag.Finding, n *diag.RecordEntry) {
	out.Side = diag.SidePlatform
	out.Text += fmt.Sprintf("; the node's record says that heartbeats are answered HTTP %s, as of %s",
		strings.TrimSpace(fmt.Sprintf("%d %s", n.Status, n.Code)), n.At.UTC().Format(time.RFC3339))
	if !n.ByEdge() {
		return
	}
	out.Side = diag.SideEdge
	switch unseen := diag.MissingFromEdge(n.Code); {
	case n.Reason == diag.RecEdgeRateLimited:
		out.Failure = diag.HTTPRateLimited
	case unseen != "":
		out.Text += fmt.Sprintf("; the edge does not pass them on as the node sent them: %s (%s)", unseen, n.Code)
	default:
		out.Failure = diag.HTTPStatus
		out.Text += "; nothing in the record shows that the platform itself refuses them"
	}
}

// refusedHeartbeat returns the entry of the node's record by which the platform answers heartbeats with an HTTP error
// now; nil if there is none.
func refusedHeartbeat(c *Case) *diag.RecordEntry {
	e := hostEvidence(c)
	e.Points = points(c, nil)
	return e.RefusedHeartbeat()
}

// lastHeard describes when the platform last accepted a heartbeat, and when it last had any contact.
func lastHeard(c *Case) string {
	stale := fmt.Sprintf("stale after %s", staleAfter(c))
	beat, hasBeat := heartbeatAge(c)
	contact, hasContact := contactAge(c)
	switch {
	case hasBeat && hasContact && contact < beat && contact <= staleAfter(c) && beat > staleAfter(c):
		return fmt.Sprintf("last heartbeat %s ago, %s; last contact %s ago", diag.Age(beat), stale, diag.Age(contact))
	case hasBeat:
		return fmt.Sprintf("last heartbeat %s ago, %s", diag.Age(beat), stale)
	}
	text := fmt.Sprintf("last contact %s ago, %s", diag.Age(contact), stale)
	switch {
	case contact > staleAfter(c):
	case readModel(c, "node.check_heartbeat") == string(diag.MarkPass):
		text += "; the platform's checklist calls the heartbeat current"
	case readModel(c, "node.check_heartbeat") != string(diag.MarkFail):
		text += "; when the last heartbeat came is not known"
	}
	return text
}

// staleAfter returns the age at which heartbeats and contacts are stale, by policy.
func staleAfter(c *Case) time.Duration {
	return time.Duration(c.Policy(policyStaleAfter)) * time.Second
}

// justLate returns the time of the last heartbeat, else of the last contact, and its field, if it is past its limit by
// less than the agent's interval: the next one may be on its way. Both are "" otherwise.
func justLate(c *Case) (last, field string) {
	return lateAt(c, c.Fact(diag.HopNodeHeartbeat, stepReadModel))
}

// lateAt is justLate for a given reading of the node.
func lateAt(c *Case, f *diag.Fact) (last, field string) {
	field = "node.last_heartbeat_at"
	late := ageOf(f, field)
	if !late.known {
		field = "node.last_seen_at"
		late = ageOf(f, field)
	}
	interval := time.Duration(c.Policy(profile.PolicyHeartbeatInterval)) * time.Second
	if by := late.age - staleAfter(c); !late.known || by <= 0 || by > min(interval, staleAfter(c)/2) {
		return "", ""
	}
	return fieldOf(f, field), field
}

// nextUnread reports whether the poll for the next heartbeat failed, while the last one is still just late.
func nextUnread(c *Case) bool {
	again := c.Fact(diag.HopNodeHeartbeat, stepReadAgain)
	_, field := lateAt(c, lastRead(c))
	return field != "" && again != nil && (!waitedFor(again) || fieldOf(again, field) == "")
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

// notKnown reports whether a 404 may mean that the platform has no such object. An HTML page, a missing route and JSON
// without an error code of the platform may come from a server that never passed the request on.
func notKnown(f *diag.Fact) bool {
	return status(f) == 404 && f.Failure == diag.HTTPStatus && !foreignPage(f) && code(f) != "route_not_found" &&
		!unsigned(f) && (code(f) == "" || platformCode(f) || deniesObject(f))
}

// otherNodes suggests nodes of the profile in place of an unknown one.
func otherNodes(c *Case) string {
	if near := c.expected("other_nodes"); near != "" {
		return "; nodes of the profile: " + near
	}
	return ""
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

// ReadModel returns the platform's fields of the node, as a walk last read them; nil if it did not read them.
func ReadModel(r *diag.Report) map[string]string {
	f := lastRead(builtIn().caseOf(r))
	if f == nil || f.HTTP == nil {
		return nil
	}
	return f.HTTP.Fields
}
