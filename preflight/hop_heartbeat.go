package preflight

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Longer than 300 lines: a hop's requests and its judge are in one file.

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

// otherNodes suggests nodes of the profile in place of an unknown one.
func otherNodes(c *Case) string {
	if near := c.expected("other_nodes"); near != "" {
		return "; nodes of the profile: " + near
	}
	return ""
}

// ReadModel returns the platform's fields of the node, as a walk last read them; nil if it did not read them.
func ReadModel(r *diag.Report) map[string]string {
	f := lastRead(BuiltIn().caseOf(r))
	if f == nil || f.HTTP == nil {
		return nil
	}
	return f.HTTP.Fields
}
