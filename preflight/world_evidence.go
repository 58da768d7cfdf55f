package preflight

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
)

// hostEvidence returns the evidence about the node from the read model and from the node itself, before any hop is
// judged.
func hostEvidence(c *Case) classify.Evidence {
	return classify.Evidence{
		Node: nodeEvidence(c), Token: tokenState(c), BootID: bootID(c), Budgets: budgets(c.Plan.Policy),
		Record: c.hostRecord(), RunbookBase: c.expected("runbook_base"),
	}
}

// points returns the checklist points that this walk measured itself.
func points(c *Case, hops []diag.HopResult) []diag.CheckPoint {
	out := make([]diag.CheckPoint, 0, 3)
	add := func(id diag.PointID, ok bool, text string) {
		mark := diag.MarkFail
		if ok {
			mark = diag.MarkPass
		}
		out = append(out, diag.CheckPoint{ID: id, Status: mark, Text: text})
	}
	if w := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait); w != nil {
		add(diag.PointWait, admitted(w), "a task wait from the node: "+saw(w))
		if admitted(w) && asksForCert(w) {
			add(diag.PointIssuer, true, "the ingress accepts the node's certificate")
		}
	}
	if h := hopNamed(hops, diag.HopNodeRecoveryStatus); h.Signal == diag.SigIngressCADrift && h.Status == diag.StatusFail {
		add(diag.PointIssuer, false, h.Text)
	}
	switch trip := hopNamed(hops, diag.HopNodeTaskRoundtrip); {
	case trip.Status == diag.StatusPass, trip.Signal == diag.SigTaskBacklogStale:
		add(diag.PointTask, true, "a no-op came back")
	case trip.Status == diag.StatusFail:
		add(diag.PointTask, false, trip.Text)
	}
	return out
}

// nodeEvidence returns the read model as evidence; nil if it was not read.
func nodeEvidence(c *Case) *classify.NodeEvidence {
	f := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	if !f.Passed() || f.HTTP == nil || len(f.HTTP.Fields) == 0 {
		return nil
	}
	n := &classify.NodeEvidence{
		StaleAfter: time.Duration(c.Policy(policyStaleAfter)) * time.Second,
		Identity:   readModel(c, "node.identity"), Posture: readModel(c, "node.agent_posture"),
		Reason:  diag.ReasonCode(readModel(c, "node.recovery_reason")),
		Version: readModel(c, "node.agent_version"), DesiredVersion: readModel(c, "node.agent_desired_version"),
		Address: plainAddress(readModel(c, "node.private_ip")), Addresses: addresses(readModel(c, "node.agent_addresses")),
		GuestAgent: readModel(c, "node.guest_agent_status"), StaleTasks: count(readModel(c, "node.stale_tasks")),
		LostResults: lostResults(c), Checklist: platformPoints(c),
	}
	if ownNetwork(c) {
		n.Addresses = nil // addresses in the agent's own network namespace, which the platform cannot know
		if n.Reason == diag.ReasonIPRouteDrift {
			n.Overtaken = "the addresses that the agent reports are of its own network namespace" + byUnit(c) +
				", not the machine's"
		}
	}
	if age, known := heartbeatAge(c); known {
		n.HeartbeatAge = &age
	}
	if age, known := contactAge(c); known {
		n.ContactAge = &age
	}
	if n.Reason == diag.ReasonDispatchedResultLost && resultsMissing(c) && (n.LostResults == nil || *n.LostResults == 0) {
		n.Overtaken = "results were missing when the walk began, and were not found to be missing again"
	}
	n.NeverHeard = neverHeard(c)
	if agentAnswered(c) != "" && !contactKnown(c) { // the agent answered in this walk, so the ages are wrong
		n.HeartbeatAge, n.ContactAge = nil, nil
	}
	read := lastRead(c)
	if end, now := timeOf(read, "node.cert_not_after"), readAt(read); !end.IsZero() && !now.IsZero() {
		expired := !now.Before(end)
		n.CertExpired = &expired
	}
	api, apiNow := reportedDrift(c, "node.agent_api_url", "GPUAAS_API_URL", "node_runtime_api_url")
	term, termNow := reportedDrift(c, "node.agent_terminal_url", "GPUAAS_TERMINAL_API_URL", "node_terminal_url")
	if apiNow && !agentEndpointWorks(c) {
		n.EndpointDrift = "the agent reports " + endpointOf(readModel(c, "node.agent_api_url")) + ", the profile says " +
			endpointOf(c.expected("node_runtime_api_url"))
	}
	if n.Reason == diag.ReasonEndpointProfileDrift {
		if term && !apiNow { // the walk knows which endpoint differs
			n.Reason = diag.ReasonTerminalEndpointDrift
		}
		if (api || term) && !apiNow && !termNow {
			n.Overtaken = "superseded: the agent reported an endpoint before it was started with the profile's"
		}
	}
	return n
}

// reportedDrift compares an endpoint that the agent reported with the profile's. now is false if the running agent has
// the profile's endpoint: then the report predates the agent's start.
func reportedDrift(c *Case, field, variable, want string) (drifted, now bool) {
	reported, wanted := readModel(c, field), c.expected(want)
	if reported == "" || wanted == "" || sameEndpoint(reported, wanted) {
		return false, false
	}
	f := c.Fact(diag.HopNodeRecoveryStatus, stepProfile)
	over := f.Passed() && f.Env != nil && f.Env.Values[variable] != "" && sameEndpoint(f.Env.Values[variable], wanted)
	return true, !over
}

// platformPoints returns the platform's own checklist.
func platformPoints(c *Case) []diag.CheckPoint {
	out := make([]diag.CheckPoint, 0, len(diag.Points))
	for _, p := range [...]struct {
		id    diag.PointID
		field string
	}{
		{diag.PointHeartbeat, "node.check_heartbeat"}, {diag.PointIssuer, "node.check_issuer"},
		{diag.PointWait, "node.check_task_wait"},
		{diag.PointTask, "node.check_task"}, {diag.PointBacklog, "node.check_backlog"},
	} {
		if mark := readModel(c, p.field); mark != "" {
			out = append(out, diag.CheckPoint{ID: p.id, Status: diag.Mark(mark), Text: "the platform says so"})
		}
	}
	return out
}

func appEvidence(c *Case) *classify.AppEvidence {
	f := c.Fact(diag.HopAllocationBinding, stepAllocation)
	if !f.Passed() || f.HTTP == nil || otherNodeText(c, "") != "" || allocationChanged(c) != "" {
		return nil
	}
	a := &classify.AppEvidence{
		State: allocationField(c, "allocation.state"), Occupancy: allocationField(c, "allocation.occupancy"),
		Status:        allocationField(c, "allocation.app_status"),
		ObservedAt:    c.Time(diag.HopAllocationBinding, stepAllocation, "allocation.app_last_observed_at"),
		ProbeFailedAt: c.Time(diag.HopAllocationBinding, stepAllocation, "allocation.app_last_runtime_probe_failed_at"),
	}
	if healthy, err := strconv.ParseBool(allocationField(c, "allocation.app_credential_healthy")); err == nil {
		bad := !healthy
		a.CredentialBad = &bad
	}
	return a
}

// denials returns the refusals of the node's identity: the answer to the task wait, and the denial that the platform
// recorded since its last contact with the node.
func denials(c *Case) []classify.Denial {
	var out []classify.Denial
	if _, whole := profileMismatch(c); whole {
		return nil // another machine was refused
	}
	if w := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait); deniesAccess(w) && !(asksForNoCert(w) && asProfiled(c)) &&
		letIn(c, w) == "" && (code(w) == "" || platformDenies(w)) {
		d := classify.Denial{Source: "task wait", Code: code(w)}
		if w.TLS != nil {
			d.Asked = w.TLS.CertRequested
		}
		out = append(out, d)
	}
	if word := recordedDenial(c); word != "" {
		out = append(out, classify.Denial{Source: "read model", Code: word})
	}
	return out
}

// recordedDenial returns the code of the denial that the platform recorded since its last contact with the node; ""
// without one, or if it is about the node's identity and the ingress let this walk's task wait in, which is no contact.
func recordedDenial(c *Case) string {
	read, word := lastRead(c), readModel(c, "node.last_denial_code")
	at, seen := timeOf(read, "node.last_denial_at"), timeOf(read, "node.last_seen_at")
	if diag.LimiterCode(word) || !at.After(seen) {
		return ""
	}
	why, _ := diag.DenialReason(word)
	ofIdentity := why == diag.ReasonIdentityRevokedOrFenced || why == diag.ReasonCertExpired
	if ofIdentity && ingressAccepts(c) {
		return ""
	}
	return word
}

// tokenState returns the state of the node's recovery token, by the token on the node and the one that the platform
// issued.
func tokenState(c *Case) classify.TokenState {
	state := classify.TokenUnknown
	if issued, err := strconv.ParseBool(readModel(c, "node.recovery_current_token")); err == nil {
		if state = classify.TokenGone; issued {
			state = classify.TokenCurrent
		}
	}
	f := c.Fact(diag.HopNodeRecoveryStatus, stepProfile)
	if !f.Passed() || f.Env == nil || !slices.Contains(f.Request.Env, envToken) {
		return state
	}
	held := f.Env.Secret[envToken]
	if held == "" || held == "empty" {
		return classify.TokenGone
	}
	if _, until, ok := strings.Cut(held, "until "); ok { // a token with an expiry date
		end, err := time.Parse(time.RFC3339, until)
		now := platformNow(c) // the operator's clock may be wrong, and the platform decides
		if now.IsZero() {
			now = f.At.Time
		}
		switch {
		case err != nil:
		case !now.Before(end):
			return classify.TokenGone
		case state == classify.TokenUnknown: // the platform did not say; the node will try the token that it has
			return classify.TokenCurrent
		}
	}
	return state
}

// bootID returns the id of the node's current boot, as a probe read it.
func bootID(c *Case) string {
	f := c.Fact(diag.HopNodeReadiness, stepClock)
	if f == nil || f.Clock == nil {
		return ""
	}
	return f.Clock.BootID
}

// certGood reports whether the node's certificate is known to be good: file, dates, key and name are right, and the
// ingress accepts certificates of its issuer.
func certGood(c *Case) bool {
	id, wait := c.Fact(diag.HopNodeRecoveryStatus, stepIdentity), c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	if !id.Passed() || id.Cert == nil || (id.Cert.NodeBound != nil && !*id.Cert.NodeBound) || wait == nil ||
		wait.TLS == nil {
		return false
	}
	return slices.Contains(wait.TLS.AcceptableCAs, id.Cert.Leaf.Issuer)
}

// budgets returns a profile's own times for detection and repair, by severity.
func budgets(policy map[string]int64) map[diag.Severity]classify.Budget {
	out := map[diag.Severity]classify.Budget{}
	for _, of := range [...]struct {
		severity       diag.Severity
		detect, repair string
	}{
		{diag.P0, "severity.p0_detect_seconds", "severity.p0_repair_seconds"},
		{diag.P1, "severity.p1_detect_seconds", "severity.p1_repair_seconds"},
		{diag.P2, "severity.p2_detect_seconds", "severity.p2_repair_seconds"},
	} {
		out[of.severity] = classify.Budget{
			Detect: time.Duration(policy[of.detect]) * time.Second,
			Repair: time.Duration(policy[of.repair]) * time.Second,
		}
	}
	return out
}
