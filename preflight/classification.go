package preflight

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Longer than 300 lines: it fills one diag.Evidence, in the order of its fields.

// EvidenceOf returns all evidence that a judged report has for the classifier. It depends on the report's facts and
// findings alone.
func EvidenceOf(chain *Hops, r *diag.Report) classify.Evidence {
	return evidenceOf(chain.caseOf(r), r.Hops, &r.Verdict)
}

// explainedBy returns the hop that explains a failing finding of hop, "" if the finding is a fault itself.
func explainedBy(v *diag.Verdict, hop diag.HopID, f *diag.Finding) diag.HopID {
	var by diag.HopID
	for _, b := range faults(v) {
		if b.Hop == hop && b.Signal == f.Signal && b.Text == f.Text {
			return ""
		}
		if by == "" && slices.Contains(b.Symptoms, hop) {
			by = b.Hop
		}
	}
	return by
}

// faults returns the blame and the other findings.
func faults(v *diag.Verdict) []diag.Blame {
	if v.Blame == nil {
		return nil
	}
	first := *v.Blame
	first.Symptoms = v.Symptoms
	return append([]diag.Blame{first}, v.OtherFindings...)
}

// evidenceOf returns the evidence of a case whose hops were judged.
func evidenceOf(c *Case, hops []diag.HopResult, v *diag.Verdict) classify.Evidence {
	e := hostEvidence(c)
	e.Points = points(c, hops)
	e.Probes = probed(c, hops, v)
	if b := v.Blame; b != nil && b.Status == diag.StatusInconclusive && b.Signal == diag.SigControlPlaneUnreachable {
		// The reason must name the control plane, as the blame does, and not a symptom of its silence.
		e.Probes = append(e.Probes,
			classify.Probed{Hop: b.Hop, Status: diag.StatusFail, Signal: b.Signal, Failure: b.Failure, Text: b.Text})
	}
	e.App = appEvidence(c)
	signing, ingress := trustedCAs(c)
	e.Trust = &classify.TrustEvidence{SigningCA: signing, IngressCA: ingress}
	e.Denials = denials(c)
	e.Passed = v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn
	e.CertGood = certGood(c)
	return e
}

// hostEvidence returns the evidence about the node from the read model and from the node itself, before any hop is
// judged.
func hostEvidence(c *Case) classify.Evidence {
	return classify.Evidence{
		Node: nodeEvidence(c), Token: tokenState(c), BootID: bootID(c), Budgets: budgets(c.Plan.Policy),
		Record: c.hostRecord(), RunbookBase: c.expected("runbook_base"),
	}
}

// probed lists the hops that passed, and the failures and warnings of the others with the hop that explains them.
func probed(c *Case, hops []diag.HopResult, v *diag.Verdict) []classify.Probed {
	out := make([]classify.Probed, 0, len(hops))
	for i := range hops {
		h := &hops[i]
		if h.Status == diag.StatusPass || (h.Status == diag.StatusWarn && h.Signal == "") { // works, with a warning
			out = append(out, classify.Probed{Hop: h.ID, Status: diag.StatusPass})
			continue
		}
		for f := range findingsOf(h) {
			if f.Status != diag.StatusFail && f.Status != diag.StatusWarn {
				continue
			}
			p := classify.Probed{
				Hop:     h.ID,
				Status:  f.Status,
				Signal:  f.Signal,
				Failure: f.Failure,
				Reason:  f.Reason,
				Text:    f.Text,
			}
			if f.Status == diag.StatusFail {
				p.By = explainedBy(v, h.ID, f)
			}
			if hop := c.hop(h.ID); hop.NotOfNode != nil && hop.NotOfNode(c) {
				p.Reason = diag.ReasonNone
			}
			out = append(out, p)
		}
	}
	return out
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

// addresses parses a JSON list, or addresses separated by commas or spaces.
func addresses(text string) []string {
	var out []string
	if bounded.Unmarshal([]byte(text), &out, bounded.Answer()) != nil {
		out = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	}
	for i := range out {
		out[i] = plainAddress(out[i])
	}
	return out
}

// plainAddress returns an address in canonical form, without a prefix length; other text is returned as it is.
func plainAddress(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().String()
	}
	return text
}

func count(text string) *int {
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
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
