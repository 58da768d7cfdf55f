package hops

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// nodeHeartbeat: how old is the last heartbeat that the platform accepted? Its last contact with the agent, by any
// request, is a separate fact: an agent whose heartbeats are refused may still wait for tasks. A stale heartbeat does
// not mean a dead workload.
func nodeHeartbeat() hop.Hop {
	id := diag.HopNodeHeartbeat
	read := hop.Step{
		Name: hop.StepReadModel, From: hop.Operator, Timeout: 4 * time.Second,
		Needs: hop.Needs{Hops: []diag.HopID{diag.HopControlPlaneAccess}, Token: true, Paths: []string{profile.PathNode}},
		Ask:   func(e *hop.Env, _ *hop.Case) diag.Request { return world.AskReadModel(e) },
	}
	return hop.Hop{
		ID: id, Agent: true, Budget: 5 * time.Second,
		Causes: hop.Causes{
			ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
			Behind:      []diag.HopID{diag.HopNodeTaskRoundtrip}, // a platform that accepts no task records no heartbeat either
		},
		About: hop.About{
			OfNode: world.AnswerNamesNode,
			NotAbout: func(c *hop.Case) []diag.Aspect {
				if world.RefusedHeartbeat(c) != nil { // the agent sends heartbeats
					return []diag.Aspect{diag.AboutAgent}
				}
				return nil
			},
		},
		Role: hop.Role{ReadModel: true}, Fields: []string{"node.last_seen_at"},
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: diag.SidePlatform,
			Request: "the request for the node's state"},
		Steps: []hop.Step{read, {
			Name: hop.StepReadAgain, From: hop.Operator, Timeout: 4 * time.Second,
			Needs: hop.Needs{
				Hops: []diag.HopID{diag.HopControlPlaneAccess}, Facts: []string{hop.FactID(id, hop.StepReadModel)},
				Token: true, Paths: []string{profile.PathNode},
			},
			Policy: hop.Policy{Turn: hop.AfterFault, Optional: true},
			When: hop.SkipIf(func(c *hop.Case) string {
				if _, field := justLate(c); field == "" {
					return "the last heartbeat is in time, or well past its limit"
				}
				return ""
			}),
			Ask: func(e *hop.Env, c *hop.Case) diag.Request {
				last, field := justLate(c)
				req := world.AskReadModel(e)
				req.Poll = &diag.Poll{Field: field, Until: []string{}, Unlike: last, EveryMS: world.BeatPollEvery.Milliseconds()}
				return req
			},
		}, world.NodeAfter(read)},
		Judge: heartbeatRows.about(id, hop.StepReadModel),
		Pass:  lastHeard,
	}
}

// heartbeatRows judge whether the node could be read, and then how old its last heartbeat and contact are, by policy
// and by the platform's own checklist.
var heartbeatRows = rows{
	{when: func(j judged) bool { return world.NodeUnknown(j.c) }, signal: diag.SigNodeUnknown,
		then: undecided("the platform at %s knows no node %s (HTTP 404)%s", where, nodeID, otherNodes)},
	// it does not show what is recent
	{when: func(j judged) bool { return world.ReadFromCache(j.c, j.f) }, lack: diag.LackPlatform,
		then: undecided("%s", func(j judged) string { return world.FromCache(j.f) })},
	{when: func(j judged) bool { return reading.NotKnown(j.f) },
		then: undecided("the platform at %s answers HTTP 404 for the node, but %s: one of several servers may lack it", where,
			func(j judged) string { return world.NodeKnown(j.c) })},
	{when: func(j judged) bool { return !j.f.Passed() },
		then: undecided("the node could not be read: %s%s", saw, signer)},

	{when: func(j judged) bool { return noContactTime(j) && reading.Unasked(j.f, "node.last_seen_at") }},
	{
		when: func(j judged) bool {
			return noContactTime(j) &&
				(world.ReadModel(j.c, "node.last_seen_at") != "" || j.f.HTTP == nil || len(j.f.HTTP.Fields) == 0)
		},
		then: unmapped("the answer has no time of a last heartbeat that can be read"),
	},
	{when: func(j judged) bool { return noContactTime(j) && !world.OfANode(j.c) },
		then: unmapped("nothing in the answer is about a node, so it may be about something else")},
	{when: func(j judged) bool { return noContactTime(j) && !world.NeverHeard(j.c) },
		then: unmapped("the answer has no time of a last contact, and the agent was heard: %s (node.last_seen_at)",
			func(j judged) string { return world.HeardBy(j.c) })},
	{when: noContactTime,
		then: fails(diag.SigHeartbeatStale, "the platform has never heard from the agent of %s", nodeID)},

	{
		when: func(j judged) bool {
			return world.Outdated(j.c) || (heartbeatLate(j) && world.AgentAnswered(j.c) != "" && !world.OwnClock(j.c))
		},
		then: undecided("the platform's read model (%s) contradicts this walk (%s): the read model is outdated, or the "+
			"clock that it is compared with is wrong", heard, func(j judged) string { return world.AgentAnswered(j.c) }),
	},
	{when: func(j judged) bool { return nextUnread(j.c) },
		then: undecided("%s; whether another one followed could not be read: %s", heard,
			func(j judged) string { return reading.Saw(j.c.Fact(diag.HopNodeHeartbeat, hop.StepReadAgain)) })},
	{when: func(j judged) bool { return world.SilentNode(j.c) },
		then:    fails(diag.SigHeartbeatStale, "%s", heard),
		culprit: world.CulpritSilentNode,
		also:    func(j judged, out *diag.Finding) { world.Claim(j.c, out, world.ClaimMachine) }},
	{when: func(j judged) bool { return heartbeatLate(j) && world.ContactFresh(j.c) },
		then: fails(diag.SigHeartbeatStale, "%s; the agent reaches the platform by other requests, and only its "+
			"heartbeat is overdue: by heartbeats alone it counts as unreachable", heard),
		also: byRefusal},
	{when: heartbeatLate, then: fails(diag.SigHeartbeatStale, "%s", heard)},
	// the platform contradicts itself; neither value means unreachable
	{when: func(j judged) bool { return world.ReadModel(j.c, "node.check_heartbeat") == string(diag.MarkFail) },
		then: warns(diag.SigHeartbeatStale, "%s; the platform's own checklist says that the heartbeat is not current",
			heard),
		reason: diag.ReasonNone},
}

func heard(j judged) string { return lastHeard(j.c) }

// noContactTime reports whether the read model has neither the time of a heartbeat nor that of a contact.
func noContactTime(j judged) bool {
	_, known := world.ContactAge(j.c) // a heartbeat is a contact
	return !known
}

func heartbeatLate(j judged) bool {
	age, known := world.HeartbeatAge(j.c)
	return known && age > world.StaleAfter(j.c)
}

// byRefusal adds to the finding of a stale heartbeat what answers the heartbeats, by an entry of the node's record.
func byRefusal(j judged, out *diag.Finding) {
	n := world.RefusedHeartbeat(j.c)
	if n == nil {
		return
	}
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
func lastHeard(c *hop.Case) string {
	stale := fmt.Sprintf("stale after %s", world.StaleAfter(c))
	beat, hasBeat := world.HeartbeatAge(c)
	contact, hasContact := world.ContactAge(c)
	switch {
	case hasBeat && hasContact && contact < beat && contact <= world.StaleAfter(c) && beat > world.StaleAfter(c):
		return fmt.Sprintf("last heartbeat %s ago, %s; last contact %s ago", diag.Age(beat), stale, diag.Age(contact))
	case hasBeat:
		return fmt.Sprintf("last heartbeat %s ago, %s", diag.Age(beat), stale)
	}
	text := fmt.Sprintf("last contact %s ago, %s", diag.Age(contact), stale)
	switch {
	case contact > world.StaleAfter(c):
	case world.ReadModel(c, "node.check_heartbeat") == string(diag.MarkPass):
		text += "; the platform's checklist calls the heartbeat current"
	case world.ReadModel(c, "node.check_heartbeat") != string(diag.MarkFail):
		text += "; when the last heartbeat came is not known"
	}
	return text
}

// justLate returns the time of the last heartbeat, else of the last contact, and its field, if it is past its limit by
// less than the agent's interval: the next one may be on its way. Both are "" otherwise.
func justLate(c *hop.Case) (last, field string) {
	return lateAt(c, c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel))
}

// lateAt is justLate for a given reading of the node.
func lateAt(c *hop.Case, f *diag.Fact) (last, field string) {
	field = "node.last_heartbeat_at"
	late := world.AgeOf(f, field)
	if !late.Known {
		field = "node.last_seen_at"
		late = world.AgeOf(f, field)
	}
	interval := time.Duration(c.Policy(profile.PolicyHeartbeatInterval)) * time.Second
	if by := late.Age - world.StaleAfter(c); !late.Known || by <= 0 || by > min(interval, world.StaleAfter(c)/2) {
		return "", ""
	}
	return hop.FieldOf(f, field), field
}

// nextUnread reports whether the poll for the next heartbeat failed, while the last one is still just late.
func nextUnread(c *hop.Case) bool {
	again := c.Fact(diag.HopNodeHeartbeat, hop.StepReadAgain)
	_, field := lateAt(c, world.LastRead(c))
	return field != "" && again != nil && (!world.WaitedFor(again) || hop.FieldOf(again, field) == "")
}

// otherNodes suggests nodes of the profile in place of an unknown one.
func otherNodes(j judged) string {
	if near := j.c.Expected("other_nodes"); near != "" {
		return "; nodes of the profile: " + near
	}
	return ""
}
