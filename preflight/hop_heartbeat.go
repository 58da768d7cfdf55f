package preflight

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Longer than 300 lines: a hop owns all that it asks and judges.

const (
	stepReadModel = "read_model"
	// stepReadAgain waits for the next heartbeat where the last one is just past its limit: a busy machine is late.
	stepReadAgain = "read_again"
)

// beatPollEvery is short against an agent's interval.
const beatPollEvery = 200 * time.Millisecond

// nodeHeartbeat: how old is the last heartbeat that the platform took in? Its last contact with the agent, by any
// request, is another fact: an agent whose heartbeats are refused may still wait for tasks. A stale heartbeat is never
// a dead workload.
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
		Behind:      []diag.HopID{diag.HopNodeTaskRoundtrip}, // a platform that takes no task writes down no heartbeat either
		Fields:      []string{"node.last_seen_at"}, ReadModel: true,
		Silence: &Silence{diag.SigControlPlaneUnreachable, diag.SidePlatform,
			"the API did not answer when the node was read"},
		NotAbout: func(c *Case) []diag.Aspect {
			if refusedHeartbeat(c) != nil { // it sends them
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
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(id, stepReadModel)
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
			case !f.Passed():
				return []diag.Finding{undecided(f, "the node could not be read: %s", saw(f))}
			case !beat && !contact && unasked(f, "node.last_seen_at"):
				return nil
			case !beat && !contact && (readModel(c, "node.last_seen_at") != "" || f.HTTP == nil || len(f.HTTP.Fields) == 0):
				return []diag.Finding{unmapped(f, "the answer has no time of a last heartbeat that can be read")}
			case !beat && !contact && !neverHeard(c):
				return []diag.Finding{unmapped(f, "the answer has no time of a last contact, and the agent was heard: %s "+
					"(node.last_seen_at)", heardBy(c))}
			case !beat && !contact:
				return []diag.Finding{fail(diag.SigHeartbeatStale, f, "the platform has never heard from the agent of %s",
					c.Subject.NodeID)}
			}
			return judgeAges(c, f)
		},
		Pass: lastHeard,
	}
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
// word on the heartbeat.
func judgeAges(c *Case, f *diag.Fact) []diag.Finding {
	age, beat := heartbeatAge(c)
	mark := diag.Mark(readModel(c, "node.check_heartbeat"))
	switch {
	case beat && age > staleAfter(c) && agentAnswered(c) != "" && !ownClock(c), outdated(c):
		return []diag.Finding{undecided(f,
			"the platform's read model says %s, and %s: the read model, or the clock that it is "+
				"compared with, is not of now", lastHeard(c), agentAnswered(c))}
	case nextUnread(c):
		return []diag.Finding{undecided(f, "%s, and whether the next one came could not be read: %s", lastHeard(c),
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
				out.Side = diag.SidePlatform
				out.Text += fmt.Sprintf("; the node's record says that the platform answers heartbeats with HTTP %d, as of %s",
					n.Status, n.At.UTC().Format(time.RFC3339))
				if unseen := diag.NotPassedOn(n.Code); unseen != "" {
					out.Side = diag.SideEdge
					out.Text += fmt.Sprintf("; the edge does not pass them on as the node sent them: %s (%s)", unseen, n.Code)
				}
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

// refusedHeartbeat is the entry of the node's record that shows that the platform now answers heartbeats with an HTTP
// error; nil without one.
func refusedHeartbeat(c *Case) *diag.RecordEntry {
	e := hostEvidence(c)
	e.Points = points(c, nil)
	return e.RefusedHeartbeat()
}

// lastHeard reports when the platform last took in a heartbeat, and when it last had any contact.
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

// staleAfter is the policy for heartbeats and for contacts.
func staleAfter(c *Case) time.Duration {
	return time.Duration(c.Policy(policyStaleAfter)) * time.Second
}

// justLate is the time of the last heartbeat, else that of the last contact, and the field that has it, where it is
// past its limit by less than the agent's interval: the next one may be on its way. Both are "" where it is not.
func justLate(c *Case) (last, field string) {
	return lateAt(c, c.Fact(diag.HopNodeHeartbeat, stepReadModel))
}

// lateAt is justLate of another reading of the node.
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

// nextUnread reports whether the poll for the next heartbeat broke, and the last one is still just late.
func nextUnread(c *Case) bool {
	again := c.Fact(diag.HopNodeHeartbeat, stepReadAgain)
	_, field := lateAt(c, lastRead(c))
	return field != "" && again != nil && (!waitedFor(again) || fieldOf(again, field) == "")
}

// lastRead is the reading of the node that counts: the last one that was answered as it asked; nil without any.
func lastRead(c *Case) *diag.Fact {
	for _, step := range [...]string{stepNodeAfter, stepReadAgain} {
		if f := c.Fact(diag.HopNodeHeartbeat, step); f.Passed() {
			return f
		}
	}
	return c.Fact(diag.HopNodeHeartbeat, stepReadModel)
}

// nodeUnknown reports whether the platform reports that it knows no such node.
func nodeUnknown(c *Case) bool {
	f := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	return status(f) == 404 && f.Failure == diag.HTTPStatus
}

// otherNodes offers names in place of an unknown one, as far as the profile has any.
func otherNodes(c *Case) string {
	if near := c.expected("other_nodes"); near != "" {
		return "; nodes of the profile: " + near
	}
	return ""
}

// heartbeatAge is the age of the last heartbeat that the platform accepted, by the platform's own clock: its "now",
// else the answer's Date, else the operator's time. It is not known on platforms that do not report heartbeats, and
// in older recordings.
func heartbeatAge(c *Case) (time.Duration, bool) {
	beat := agesOf(c).beat
	return beat.age, beat.known
}

// contactAge is how old the platform's last contact with the agent is, by any request, by the same clock.
func contactAge(c *Case) (time.Duration, bool) {
	ages := agesOf(c)
	if ages.beat.known && (!ages.contact.known || ages.beat.age < ages.contact.age) {
		return ages.beat.age, true // a heartbeat is a contact
	}
	return ages.contact.age, ages.contact.known
}

// readAges are how old the times of a read model were when it was read.
type readAges struct {
	of            *diag.Fact // the reading that counts
	beat, contact age        // of the last heartbeat, and of the last contact
}

type age struct {
	age   time.Duration
	known bool
}

func agesOf(c *Case) *readAges {
	if f := lastRead(c); f != c.ages.of {
		c.ages = readAges{of: f, beat: ageOf(f, "node.last_heartbeat_at"), contact: ageOf(f, "node.last_seen_at")}
	}
	return &c.ages
}

// ageOf is how old a time was when the node was read.
func ageOf(f *diag.Fact, field string) age {
	at := timeOf(f, field)
	if at.IsZero() {
		return age{}
	}
	return age{readAt(f).Sub(at), true}
}

// platformNow is when the read model was last read, see readAt.
func platformNow(c *Case) time.Time { return readAt(lastRead(c)) }

// readAt is when the node was read, by the platform's own clock where the answer has it; zero when it was not.
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

// contactFresh reports whether the platform hears from the agent, by whatever request, as far as is known.
func contactFresh(c *Case) bool {
	age, known := contactAge(c)
	return known && age <= staleAfter(c)
}

// agentAnswered reports what the platform heard from the agent in this very walk, "" where it heard nothing.
func agentAnswered(c *Case) string {
	if c.Field(diag.HopNodeTaskRoundtrip, stepTask, "task.status") == "completed" {
		return "the agent answered a no-op in this walk"
	}
	return ""
}

// outdated reports whether the read model's last contact is old although the agent answered in this walk.
func outdated(c *Case) bool {
	contact := agesOf(c).contact
	return contact.known && contact.age > staleAfter(c) && agentAnswered(c) != ""
}

// ownClock reports whether the read model has its own time: then its other times are compared with that.
func ownClock(c *Case) bool {
	return !c.Time(diag.HopNodeHeartbeat, stepReadModel, "node.now").IsZero()
}

// neverHeard reports whether the platform has no time of any contact, and nothing shows that there was one.
func neverHeard(c *Case) bool {
	f := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	_, known := contactAge(c)
	return !known && readModel(c, "node.last_seen_at") == "" && !unasked(f, "node.last_seen_at") && heardBy(c) == ""
}

// heardBy returns what shows that the agent is in contact, "" where nothing shows it.
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

// culpritSilentNode is at fault where the platform hears nothing from a node, and nothing better is known: what else is
// missing from such a node is the same fault.
const culpritSilentNode = "node silent"

// silentNode reports whether the platform no longer hears from the node.
func silentNode(c *Case) bool {
	_, known := contactAge(c)
	return known && !contactFresh(c)
}

// sshSilent reports whether nothing at all answers SSH on a node that the platform no longer hears: no refusal either.
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

// sameNode reports whether a name is of the node that is asked about: platforms have more than one name for a node.
func sameNode(c *Case, name string) bool {
	is := func(known string) bool { return known != "" && strings.EqualFold(name, known) }
	return is(c.Subject.NodeID) || is(readModel(c, "node.id")) || is(readModel(c, "node.hostname"))
}

// ReadModel is the platform's row of the node as a walk last read it: the fields of its answer, none where it was not
// read.
func ReadModel(r *diag.Report) map[string]string {
	f := lastRead(caseOf(r))
	if f == nil || f.HTTP == nil {
		return nil
	}
	return f.HTTP.Fields
}
