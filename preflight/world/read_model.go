package world

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// nodeEvidence returns the read model as evidence; nil if it was not read.
func nodeEvidence(c *hop.Case) *classify.NodeEvidence {
	f := c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel)
	if !f.Passed() || f.HTTP == nil || len(f.HTTP.Fields) == 0 {
		return nil
	}
	n := &classify.NodeEvidence{
		StaleAfter: time.Duration(c.Policy(hop.PolicyStaleAfter)) * time.Second,
		Identity:   ReadModel(c, "node.identity"), Posture: ReadModel(c, "node.agent_posture"),
		Reason:  diag.ReasonCode(ReadModel(c, "node.recovery_reason")),
		Version: ReadModel(c, "node.agent_version"), DesiredVersion: ReadModel(c, "node.agent_desired_version"),
		Address: reading.PlainAddress(ReadModel(c, "node.private_ip")), Addresses: reading.Addresses(ReadModel(c,
			"node.agent_addresses")),
		GuestAgent: ReadModel(c, "node.guest_agent_status"), StaleTasks: reading.Count(ReadModel(c, "node.stale_tasks")),
		LostResults: lostResults(c), Checklist: platformPoints(c),
	}
	if OwnNetwork(c) {
		n.Addresses = nil // addresses in the agent's own network namespace, which the platform cannot know
	}
	n.HeartbeatAge, n.ContactAge, n.NeverHeard = heardAges(c)
	n.CertExpired = certExpired(LastRead(c))
	addDrift(c, n)
	for _, row := range overtaken {
		if n.Reason == row.reason {
			n.Overtaken = row.why(c, n)
			break
		}
	}
	return n
}

// heardAges returns how long ago the platform heard from the agent, nil if that is not known, and whether it never did.
func heardAges(c *hop.Case) (beat, contact *time.Duration, never bool) {
	never = NeverHeard(c)
	if AgentAnswered(c) != "" && !contactKnown(c) { // the agent answered in this walk, so the ages are wrong
		return nil, nil, never
	}
	if age, known := HeartbeatAge(c); known {
		beat = &age
	}
	if age, known := ContactAge(c); known {
		contact = &age
	}
	return beat, contact, never
}

// certExpired reports whether the node's certificate has expired, by the platform's clock; nil if that is not known.
func certExpired(read *diag.Fact) *bool {
	end, now := hop.TimeOf(read, "node.cert_not_after"), readAt(read)
	if end.IsZero() || now.IsZero() {
		return nil
	}
	expired := !now.Before(end)
	return &expired
}

// overtaken are the reasons of the platform that what is known of the node contradicts.
var overtaken = [...]struct {
	reason diag.ReasonCode
	why    func(c *hop.Case, n *classify.NodeEvidence) string // "" if nothing contradicts it
}{
	{diag.ReasonIPRouteDrift, func(c *hop.Case, _ *classify.NodeEvidence) string {
		if !OwnNetwork(c) {
			return ""
		}
		return "the addresses that the agent reports are of its own network namespace" + byUnit(c) + ", not the machine's"
	}},
	{diag.ReasonDispatchedResultLost, func(c *hop.Case, n *classify.NodeEvidence) string {
		if !resultsMissing(c) || (n.LostResults != nil && *n.LostResults != 0) {
			return ""
		}
		return "results were missing when the walk began, and were not found to be missing again"
	}},
}

// addDrift adds what the endpoints that the agent reported show. The walk knows which of them differs, and since when.
func addDrift(c *hop.Case, n *classify.NodeEvidence) {
	api, apiNow := reportedDrift(c, "node.agent_api_url", c.AgentNames().API, "node_runtime_api_url")
	terminal, terminalNow := reportedDrift(c, "node.agent_terminal_url", c.AgentNames().Terminal, "node_terminal_url")
	if apiNow && !AgentEndpointWorks(c) {
		n.EndpointDrift = "the agent reports " + hop.EndpointOf(ReadModel(c, "node.agent_api_url")) + ", the profile says " +
			hop.EndpointOf(c.Expected("node_runtime_api_url"))
	}
	if n.Reason != diag.ReasonEndpointProfileDrift || apiNow {
		return
	}
	if terminal {
		n.Reason = diag.ReasonTerminalEndpointDrift
	}
	if (api || terminal) && !terminalNow {
		n.Overtaken = "superseded: the agent reported an endpoint before it was started with the profile's"
	}
}

// reportedDrift compares an endpoint that the agent reported with the profile's. now is false if the running agent has
// the profile's endpoint: then the report predates the agent's start.
func reportedDrift(c *hop.Case, field, variable, want string) (drifted, now bool) {
	reported, wanted := ReadModel(c, field), c.Expected(want)
	if reported == "" || wanted == "" || hop.SameEndpoint(reported, wanted) {
		return false, false
	}
	f := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile)
	over := c.AgentSetting(f, variable) != "" && hop.SameEndpoint(c.AgentSetting(f, variable), wanted) &&
		(f.Passed() || strings.Contains(variable, "://"))
	return true, !over
}

// platformPoints returns the platform's own checklist.
func platformPoints(c *hop.Case) []diag.CheckPoint {
	out := make([]diag.CheckPoint, 0, len(diag.Points))
	for _, p := range [...]struct {
		id    diag.PointID
		field string
	}{
		{diag.PointHeartbeat, "node.check_heartbeat"}, {diag.PointIssuer, "node.check_issuer"},
		{diag.PointWait, "node.check_task_wait"},
		{diag.PointTask, "node.check_task"}, {diag.PointBacklog, "node.check_backlog"},
	} {
		if mark := ReadModel(c, p.field); mark != "" {
			out = append(out, diag.CheckPoint{ID: p.id, Status: diag.Mark(mark), Text: "the platform says so"})
		}
	}
	return out
}
