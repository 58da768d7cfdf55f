package world

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// HostEvidence returns the evidence about the node from the read model and from the node itself, before any hop is
// judged.
func HostEvidence(c *hop.Case) classify.Evidence {
	return classify.Evidence{
		Node: nodeEvidence(c), Token: TokenState(c), BootID: BootID(c), Budgets: budgets(c.Plan.Policy),
		Record: c.HostRecord(), RunbookBase: c.Expected("runbook_base"),
	}
}

// Points returns the checklist points that this walk measured itself.
func Points(c *hop.Case, hops []diag.HopResult) []diag.CheckPoint {
	out := make([]diag.CheckPoint, 0, 3)
	add := func(id diag.PointID, ok bool, text string) {
		mark := diag.MarkFail
		if ok {
			mark = diag.MarkPass
		}
		out = append(out, diag.CheckPoint{ID: id, Status: mark, Text: text})
	}
	if w := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait); w != nil {
		add(diag.PointWait, reading.Admitted(w), "a task wait from the node: "+reading.Saw(w))
		if reading.Admitted(w) && reading.AsksForCert(w) {
			add(diag.PointIssuer, true, "the ingress accepts the node's certificate")
		}
	}
	if h := reading.HopNamed(hops, diag.HopNodeRecoveryStatus); h.Signal == diag.SigIngressCADrift &&
		h.Status == diag.StatusFail {
		add(diag.PointIssuer, false, h.Text)
	}
	switch trip := reading.HopNamed(hops, diag.HopNodeTaskRoundtrip); {
	case trip.Status == diag.StatusPass, trip.Signal == diag.SigTaskBacklogStale:
		add(diag.PointTask, true, "a no-op came back")
	case trip.Status == diag.StatusFail:
		add(diag.PointTask, false, trip.Text)
	}
	return out
}

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
		if n.Reason == diag.ReasonIPRouteDrift {
			n.Overtaken = "the addresses that the agent reports are of its own network namespace" + byUnit(c) +
				", not the machine's"
		}
	}
	if age, known := HeartbeatAge(c); known {
		n.HeartbeatAge = &age
	}
	if age, known := ContactAge(c); known {
		n.ContactAge = &age
	}
	if n.Reason == diag.ReasonDispatchedResultLost && resultsMissing(c) && (n.LostResults == nil || *n.LostResults == 0) {
		n.Overtaken = "results were missing when the walk began, and were not found to be missing again"
	}
	n.NeverHeard = NeverHeard(c)
	if AgentAnswered(c) != "" && !contactKnown(c) { // the agent answered in this walk, so the ages are wrong
		n.HeartbeatAge, n.ContactAge = nil, nil
	}
	read := LastRead(c)
	if end, now := hop.TimeOf(read, "node.cert_not_after"), readAt(read); !end.IsZero() && !now.IsZero() {
		expired := !now.Before(end)
		n.CertExpired = &expired
	}
	api, apiNow := reportedDrift(c, "node.agent_api_url", "GPUAAS_API_URL", "node_runtime_api_url")
	term, termNow := reportedDrift(c, "node.agent_terminal_url", "GPUAAS_TERMINAL_API_URL", "node_terminal_url")
	if apiNow && !AgentEndpointWorks(c) {
		n.EndpointDrift = "the agent reports " + hop.EndpointOf(ReadModel(c, "node.agent_api_url")) + ", the profile says " +
			hop.EndpointOf(c.Expected("node_runtime_api_url"))
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
func reportedDrift(c *hop.Case, field, variable, want string) (drifted, now bool) {
	reported, wanted := ReadModel(c, field), c.Expected(want)
	if reported == "" || wanted == "" || hop.SameEndpoint(reported, wanted) {
		return false, false
	}
	f := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile)
	over := f.Passed() && f.Env != nil && f.Env.Values[variable] != "" && hop.SameEndpoint(f.Env.Values[variable], wanted)
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

// AppEvidence returns what the platform reports of the workload; nil if nothing.
func AppEvidence(c *hop.Case) *classify.AppEvidence {
	f := c.Fact(diag.HopAllocationBinding, hop.StepAllocation)
	if !f.Passed() || f.HTTP == nil || OtherNodeText(c, "") != "" || AllocationChanged(c) != "" {
		return nil
	}
	a := &classify.AppEvidence{
		State: AllocationField(c, "allocation.state"), Occupancy: AllocationField(c, "allocation.occupancy"),
		Status:        AllocationField(c, "allocation.app_status"),
		ObservedAt:    c.Time(diag.HopAllocationBinding, hop.StepAllocation, "allocation.app_last_observed_at"),
		ProbeFailedAt: c.Time(diag.HopAllocationBinding, hop.StepAllocation, "allocation.app_last_runtime_probe_failed_at"),
	}
	if healthy, err := strconv.ParseBool(AllocationField(c, "allocation.app_credential_healthy")); err == nil {
		bad := !healthy
		a.CredentialBad = &bad
	}
	return a
}

// Denials returns the refusals of the node's identity: the answer to the task wait, and the denial that the platform
// recorded since its last contact with the node.
func Denials(c *hop.Case) []classify.Denial {
	var out []classify.Denial
	if _, whole := profileMismatch(c); whole {
		return nil // another machine was refused
	}
	if w := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait); DeniesAccess(w) && !(reading.AsksForNoCert(w) &&
		AsProfiled(c)) &&
		LetIn(c, w) == "" && (reading.Code(w) == "" || reading.PlatformDenies(w)) {
		d := classify.Denial{Source: "task wait", Code: reading.Code(w)}
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
func recordedDenial(c *hop.Case) string {
	read, word := LastRead(c), ReadModel(c, "node.last_denial_code")
	at, seen := hop.TimeOf(read, "node.last_denial_at"), hop.TimeOf(read, "node.last_seen_at")
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

// TokenState returns the state of the node's recovery token, by the token on the node and the one that the platform
// issued.
func TokenState(c *hop.Case) classify.TokenState {
	state := classify.TokenUnknown
	if issued, err := strconv.ParseBool(ReadModel(c, "node.recovery_current_token")); err == nil {
		if state = classify.TokenGone; issued {
			state = classify.TokenCurrent
		}
	}
	f := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile)
	if !f.Passed() || f.Env == nil || !slices.Contains(f.Request.Env, EnvToken) {
		return state
	}
	held := f.Env.Secret[EnvToken]
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

// BootID returns the id of the node's current boot, as a probe read it.
func BootID(c *hop.Case) string {
	f := c.Fact(diag.HopNodeReadiness, hop.StepClock)
	if f == nil || f.Clock == nil {
		return ""
	}
	return f.Clock.BootID
}

// CertGood reports whether the node's certificate is known to be good: file, dates, key and name are right, and the
// ingress accepts certificates of its issuer.
func CertGood(c *hop.Case) bool {
	id, wait := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity), c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
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
