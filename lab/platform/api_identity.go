package platform

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// decisionRequest is an operator's decision about a node's identity or about an allocation. Only the reason is
// required, since an audit without one is useless.
type decisionRequest struct {
	Reason      string `json:"reason"`
	By          string `json:"by"`           // the person who decides; default: the operator's token
	InstanceID  string `json:"instance_id"`  // fence, reactivate: a single host; empty: the node
	NewIdentity bool   `json:"new_identity"` // reactivate: existing certificates and tokens become invalid
	Reactivate  bool   `json:"reactivate"`   // reenroll: for a retired or fenced node
	// force-release: the operator has checked that nothing of it is left on the node
	Cleaned bool `json:"cleaned"`
	Force   bool `json:"force"` // reenroll: even if the ingress does not trust the signing CA
}

// decisionOf reads a decision, and rejects one without a reason.
func (p *Platform) decisionOf(w http.ResponseWriter, r *http.Request,
	action string) (store.Decision, decisionRequest, error) {
	var in decisionRequest
	if err := web.ReadJSON(w, r, &in); err != nil {
		return store.Decision{}, in, err
	}
	if strings.TrimSpace(in.Reason) == "" {
		return store.Decision{}, in,
			web.Errorf(http.StatusBadRequest, "reason_required",
				"a decision is audited: the field reason is empty; say why, and by whom")
	}
	return p.decisionBy(r, action, in), in, nil
}

func (p *Platform) decisionBy(r *http.Request, action string, in decisionRequest) store.Decision {
	in.By = cmp.Or(in.By, "operator")
	return store.Decision{NodeID: r.PathValue("id"), Action: action, InstanceID: in.InstanceID,
		NewIdentity: in.NewIdentity, By: in.By, Reason: in.Reason, CorrelationID: web.CorrelationID(r.Context()),
		Remote: web.Remote(r), At: p.now()}
}

// decide executes a decision about a node's identity, and responds with the node's new read model.
func (p *Platform) decide(action string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		d, _, err := p.decisionOf(w, r, action)
		if err != nil {
			return err
		}
		if _, err := p.store.Decide(r.Context(), d); err != nil {
			return notFound(refused(err), "node")
		}
		ended := p.endSessions(r.Context(), d)
		p.log.Info("operator decided on a node's identity", "node_id", d.NodeID, "action", action, "terminal_sessions_ended",
			ended, "correlation_id", d.CorrelationID)
		// a contact would not end the failure: a copy may have the same name
		if action == store.Reactivate && d.InstanceID != "" {
			p.recovered(r.Context(), store.AuditKey{ActorType: actorHost, ActorID: d.InstanceID, Action: actionAuthenticate})
		}
		p.reclassified(r.Context(), d.NodeID)
		return p.getNode(w, r)
	}
}

// reenroll issues the audited recovery bundle: token, endpoints and trust in one document, since they drift
// together.
func (p *Platform) reenroll(w http.ResponseWriter, r *http.Request) error {
	d, in, err := p.decisionOf(w, r, "reenroll")
	if err != nil {
		return err
	}
	n, err := p.store.Node(r.Context(), d.NodeID)
	if err != nil {
		return notFound(err, "node")
	}
	if trusted := p.pki.trust().IngressTrustsSigningCA; trusted != nil && !*trusted {
		if !in.Force { // the new certificate would be rejected like the old one
			return web.Errorf(http.StatusConflict, string(diag.ReasonCertUntrustedByIngress),
				"the node ingress does not trust the CA that signs node certificates: repair that first, or set the field force")
		}
		d.Forced = true
	}
	row, token, err := p.recoveryToken(n, d.At)
	if err != nil {
		return err
	}
	err = p.store.Reenroll(r.Context(), row, d, in.Reactivate)
	if errors.Is(err, store.ErrNodeDenied) {
		return web.Errorf(http.StatusConflict, n.Identity, "the node's identity is %s: settle that first", n.Identity)
	}
	if err != nil {
		return notFound(err, "node")
	}
	return web.Answer(w, http.StatusOK, wire.Bundle{
		NodeID: n.ID, Token: token.Reveal(), ExpiresAt: row.ExpiresAt.UTC(), Profile: row.Profile,
		APIURL: p.cfg.Endpoints.APIURL, TerminalURL: p.cfg.Endpoints.TerminalURL, RecoveryURL: p.cfg.Endpoints.RecoveryAPIURL,
		CABundle: string(p.pki.nodeCABundle), RecoveryCA: string(p.pki.recoveryCA), TaskKeys: p.queue.Pubkeys(),
		CorrelationID: d.CorrelationID, Now: d.At.UTC(),
	})
}

// getOperations lists a node's operations, newest first, including failed and expired ones.
func (p *Platform) getOperations(w http.ResponseWriter, r *http.Request) error {
	if _, err := p.store.Node(r.Context(), r.PathValue("id")); err != nil {
		return notFound(err, "node")
	}
	rows, err := p.store.Operations(r.Context(), r.PathValue("id"), maxOperations)
	if err != nil {
		return err
	}
	views := make([]operationView, len(rows))
	for i, o := range rows {
		views[i] = operationRead(o)
	}
	return web.Answer(w, http.StatusOK, struct {
		Items []operationView `json:"items"`
		Now   diag.Time       `json:"now"`
	}{views, diag.At(p.now())})
}

// maxOperations bounds the list.
const maxOperations = 100

// guestAgentStates are the states that a provider reports for the guest agent of a virtual machine.
var guestAgentStates = [...]string{unknown, "running", "stopped", "down", "unreachable"}

// providerRequest is the provider's status of a node's machine. It comes from an integration with the provider, or
// from an operator who checked there.
type providerRequest struct {
	decisionRequest

	GuestAgent struct {
		Status     string `json:"status"`
		ForSeconds int64  `json:"for_seconds"` // 0: until the next word
	} `json:"guest_agent"`
}

// maxGuestAgentSeconds bounds a temporary status.
const maxGuestAgentSeconds = 24 * 3600

// setProvider stores the provider's status of a node's machine, and responds with the node's new read model.
func (p *Platform) setProvider(w http.ResponseWriter, r *http.Request) error {
	var in providerRequest
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if strings.TrimSpace(in.Reason) == "" {
		return web.Errorf(http.StatusBadRequest, "reason_required",
			"a change of the guest agent's status is audited: the field reason is empty")
	}
	status := in.GuestAgent.Status
	if !slices.Contains(guestAgentStates[:], status) {
		return web.Errorf(http.StatusBadRequest, "guest_agent_status_invalid", "guest_agent.status is one of %s",
			strings.Join(guestAgentStates[:], ", "))
	}
	d := p.decisionBy(r, store.ProviderStatus, in.decisionRequest)
	until := time.Time{}
	switch s := in.GuestAgent.ForSeconds; {
	case s < 0 || s > maxGuestAgentSeconds:
		return web.Errorf(http.StatusBadRequest, "guest_agent_time_invalid", "guest_agent.for_seconds is from 0 to %d",
			maxGuestAgentSeconds)
	case s > 0:
		until = d.At.Add(seconds(s))
	}
	if err := p.store.SetGuestAgent(r.Context(), d, status, until); err != nil {
		return notFound(err, "node")
	}
	p.log.Info("provider reported a machine status", "node_id", d.NodeID, "guest_agent", status, "correlation_id",
		d.CorrelationID)
	return p.getNode(w, r)
}

// getProvider responds with the provider's status only, so that the response changes only with the status.
func (p *Platform) getProvider(w http.ResponseWriter, r *http.Request) error {
	n, err := p.store.Node(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "node")
	}
	status, _ := n.GuestAgent(p.now())
	return web.Answer(w, http.StatusOK, map[string]map[string]string{"guest_agent": {"status": cmp.Or(status, unknown)}})
}

// endProvider ends a temporary status, and responds like getProvider.
func (p *Platform) endProvider(w http.ResponseWriter, r *http.Request) error {
	d := p.decisionBy(r, store.ProviderStatus, decisionRequest{Reason: "the temporary status was withdrawn"})
	if err := p.store.EndGuestAgent(r.Context(), d); err != nil {
		return notFound(err, "node")
	}
	return p.getProvider(w, r)
}
