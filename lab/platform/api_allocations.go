package platform

import (
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/gateway"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// allocationView is the read model of an allocation for the operator.
type allocationView struct {
	ID         string     `json:"id"`
	State      string     `json:"state"`
	Occupancy  string     `json:"occupancy"` // free | occupied | cleanup: whether the node's slot can be reassigned
	NodeID     string     `json:"node_id"`
	OSUser     string     `json:"os_user"`
	WorkflowID string     `json:"workflow_id,omitempty"`
	App        *appView   `json:"app,omitempty"`
	Recovery   tenantView `json:"recovery"`
	UpdatedAt  diag.Time  `json:"updated_at,omitzero"`
	// ReleaseUntil is the end of a temporary release; absent for any other allocation.
	ReleaseUntil diag.Time `json:"release_until,omitzero"`
	Now          diag.Time `json:"now"`
}

// appView is the last observed state of the workload. Observation is the state of that observation: an expired
// probe makes it stale and does not change the status.
type appView struct {
	Kind                     string    `json:"kind"`
	Status                   string    `json:"status"`
	Unit                     string    `json:"unit,omitempty"`
	Port                     int       `json:"port,omitempty"`
	Endpoint                 string    `json:"endpoint,omitempty"`
	ProductURL               string    `json:"product_url,omitempty"`
	Observation              string    `json:"observation"` // none | current | stale
	LastObservedAt           diag.Time `json:"last_observed_at,omitzero"`
	LastRuntimeProbeFailedAt diag.Time `json:"last_runtime_probe_failed_at,omitzero"`
	// a failing one, if any; absent: none was reported
	Credential *credentialView `json:"credential,omitempty"`
}

// credentialView is one action item, regardless of the number of failures.
type credentialView struct {
	ID          string    `json:"id"`
	Healthy     bool      `json:"healthy"`
	Reason      string    `json:"reason,omitempty"`
	FirstSeenAt diag.Time `json:"first_seen_at"`
	LastSeenAt  diag.Time `json:"last_seen_at"`
	Count       int64     `json:"count"`
}

var occupancies = map[string]string{
	store.StateRequested: "free", store.StateActive: "occupied", store.StateReleasing: "cleanup",
	store.StateReleaseFailed: "cleanup", store.StateReleased: "free",
}

func (p *Platform) allocationView(a store.Allocation, nodeIP string, recovery tenantView) allocationView {
	v := allocationView{ID: a.ID, State: a.State, Occupancy: occupancies[a.Place()], NodeID: a.NodeID, OSUser: a.OSUser,
		WorkflowID: a.WorkflowID, Recovery: recovery, UpdatedAt: diag.At(a.UpdatedAt),
		ReleaseUntil: when(a.ReleaseUntil), Now: diag.At(p.now())}
	if a.App.Kind == "" && a.App.Unit == "" && len(a.Credentials) == 0 {
		return v
	}
	v.App = &appView{Kind: a.App.Kind, Status: a.App.Status, Unit: a.App.Unit, Port: a.App.Port,
		ProductURL: a.App.ProductURL, Observation: observationOf(a.App), LastObservedAt: when(a.App.ObservedAt),
		LastRuntimeProbeFailedAt: when(a.App.ProbeFailedAt)}
	if c := a.Credential(); c != nil {
		v.App.Credential = &credentialView{ID: c.ID, Healthy: c.Healthy, Reason: c.Reason, FirstSeenAt: when(c.FirstSeenAt),
			LastSeenAt: when(c.LastSeenAt), Count: c.Count}
	}
	v.App.Status = cmp.Or(v.App.Status, unknown)
	if nodeIP != "" && a.App.Port > 0 {
		v.App.Endpoint = net.JoinHostPort(nodeIP, strconv.Itoa(a.App.Port))
	}
	return v
}

// observationOf distinguishes a stale observation from a failed workload: an app is stale if its latest status
// probe returned no result.
func observationOf(a store.App) string {
	switch {
	case a.ObservedAt.IsZero():
		return "none"
	case a.ProbeFailedAt.After(a.ObservedAt):
		return "stale"
	}
	return "current"
}

func (p *Platform) getAllocation(w http.ResponseWriter, r *http.Request) error {
	a, err := p.store.Allocation(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "allocation")
	}
	return p.answerAllocation(w, r, a)
}

// answerAllocation responds with an allocation's read model.
func (p *Platform) answerAllocation(w http.ResponseWriter, r *http.Request, a store.Allocation) error {
	o, err := p.observe(r.Context(), a.NodeID)
	if err != nil {
		return err
	}
	trail, err := p.store.RecoveryTrail(r.Context(), a.ID, trailLength)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, p.allocationView(a, o.node.PrivateIP, tenantRead(a, recovery(o), trail, o.now)))
}

// cleanupTime is how long a node may take to clean up after an allocation.
const cleanupTime = 2 * time.Minute

// cleanup returns the clean-up task of a release; the store completes its payload.
func (p *Platform) cleanup(a store.Allocation, ttl time.Duration, correlationID string) store.Task {
	// only texts: cannot fail
	payload, _ := json.Marshal(wire.CleanupPayload{AllocationID: a.ID, OSUser: a.OSUser, Unit: a.App.Unit})
	return p.queue.NewTask(queue.Spec{NodeID: a.NodeID, Type: wire.TaskCleanup, Payload: payload, TTL: ttl,
		CorrelationID: correlationID, AllocationID: a.ID})
}

// release starts the release of an allocation: the node gets a clean-up task, and once that has completed, the
// allocation is released. With for_seconds the release is temporary, see endRelease. Body: {reason, by,
// ttl_seconds, for_seconds}.
func (p *Platform) release(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		decisionRequest
		TTLSeconds int64 `json:"ttl_seconds"`
		ForSeconds int64 `json:"for_seconds"` // 0: for good
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	ttl := cleanupTime
	if in.TTLSeconds > 0 {
		ttl = min(seconds(in.TTLSeconds), maxTaskTTL)
	}
	ctx := r.Context()
	a, err := p.store.Allocation(ctx, r.PathValue("id"))
	if err != nil {
		return notFound(err, "allocation")
	}
	d := p.decisionBy(r, "release", in.decisionRequest)
	until, err := releaseUntil(d.At, in.ForSeconds)
	if err != nil {
		return err
	}
	if a, err = p.store.Release(ctx, p.cleanup(a, ttl, d.CorrelationID), d, until); err != nil {
		return stateRefused(err, "only an active allocation, or one whose release failed, can be released")
	}
	p.gateway.End(gateway.OfAllocation(a.ID), wire.EndAllocationReleased)
	p.queue.Wake(a.NodeID)
	return p.answerAllocation(w, r, a)
}

// forceRelease ends the release of an allocation whose clean-up failed, by decision of an operator, and records
// that in the evidence and the audit. The slot becomes free when the node completes the clean-up later, or when
// the operator confirms that the node is clean (cleaned). Body: {reason, by, cleaned}.
func (p *Platform) forceRelease(w http.ResponseWriter, r *http.Request) error {
	d, in, err := p.decisionOf(w, r, "force_release")
	if err != nil {
		return err
	}
	a, err := p.store.Allocation(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "allocation")
	}
	if a, err = p.store.ForceRelease(r.Context(), p.cleanup(a, maxTaskTTL, d.CorrelationID), in.Cleaned, d); err != nil {
		return stateRefused(err, "only an allocation in state "+store.StateReleaseFailed+
			", or one that was force-released and is not cleaned, can be force-released")
	}
	p.queue.Wake(a.NodeID)
	p.gateway.End(gateway.OfAllocation(a.ID), wire.EndAllocationReleased)
	return p.answerAllocation(w, r, a)
}

func stateRefused(err error, text string) error {
	if errors.Is(err, store.ErrState) {
		return web.Errorf(http.StatusConflict, "allocation_state", "%s", text)
	}
	return notFound(err, "allocation")
}

// credentialReport records the state of an application's credential, as reported by its user or refresher.
// Repetitions are counted and audited as one failure. Body: {credential_id, healthy, reason, action, actor_type,
// actor_id}.
func (p *Platform) credentialReport(w http.ResponseWriter, r *http.Request) error {
	in := struct {
		CredentialID string `json:"credential_id"`
		Healthy      bool   `json:"healthy"`
		Reason       string `json:"reason"`
		Action       string `json:"action"`
		ActorType    string `json:"actor_type"`
		ActorID      string `json:"actor_id"`
	}{Action: actionCredential, ActorType: "app", ActorID: "credential_broker"}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	for _, word := range []string{in.CredentialID, in.Action, in.ActorType, in.ActorID} {
		if !reasonWord.MatchString(word) {
			return web.Errorf(http.StatusBadRequest, "report_invalid",
				"credential_id, action, actor_type and actor_id are words of at most 64 letters, digits, dots, dashes and "+
					"underscores")
		}
	}
	if !in.Healthy && !reasonWord.MatchString(in.Reason) {
		return web.Errorf(http.StatusBadRequest, "report_invalid",
			"a failure report needs a reason: a single word, not a provider's text")
	}
	if in.Healthy {
		in.Reason = ""
	}
	ctx := r.Context()
	a, err := p.store.ReportCredential(ctx, r.PathValue("id"), web.CorrelationID(ctx),
		store.Credential{ID: in.CredentialID, Healthy: in.Healthy, Reason: in.Reason, LastSeenAt: p.now()})
	if err != nil {
		return notFound(err, "allocation")
	}
	key := store.AuditKey{ActorType: in.ActorType, ActorID: in.ActorID, AppInstanceID: a.ID, CredentialID: in.CredentialID,
		Action: in.Action, Reason: in.Reason}
	if in.Healthy {
		p.recovered(ctx, key)
		p.metrics.add("credential_reports_total", "outcome", "healthy")
	} else {
		p.failed(ctx, store.Audit{AuditKey: key, NodeID: a.NodeID, Remote: web.Remote(r)})
		p.metrics.add("credential_reports_total", "outcome", "failing")
	}
	return p.answerAllocation(w, r, a)
}

// reasonWord matches reasons that may be part of an audit key: few in number, and too short and simple to contain
// a secret.
var reasonWord = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
