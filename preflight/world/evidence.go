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
	token := c.AgentNames().Token
	if !f.Passed() || f.Env == nil || !slices.Contains(f.Request.Env, token) {
		return state
	}
	held := f.Env.Secret[token]
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

// RefusedHeartbeat returns the entry of the node's record by which the platform answers heartbeats with an HTTP error
// now; nil if there is none.
func RefusedHeartbeat(c *hop.Case) *diag.RecordEntry {
	e := HostEvidence(c)
	e.Points = Points(c, nil)
	return e.RefusedHeartbeat()
}
