package platform

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/platform/web"
)

// guestAgentStates are what a provider says of the guest agent of a machine of its own.
var guestAgentStates = [...]string{unknown, "running", "stopped", "down", "unreachable"}

// providerRequest is what the provider of a node's machine says of it. It comes from an integration with the provider,
// or from an operator who looked there.
type providerRequest struct {
	decisionRequest

	GuestAgent struct {
		Status     string `json:"status"`
		ForSeconds int64  `json:"for_seconds"` // 0: until the next word
	} `json:"guest_agent"`
}

// maxGuestAgentSeconds bounds a word that holds for a while.
const maxGuestAgentSeconds = 24 * 3600

// setProvider notes what a node's provider says of its machine, and answers with the node's read model after it.
func (p *Platform) setProvider(w http.ResponseWriter, r *http.Request) error {
	var in providerRequest
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if strings.TrimSpace(in.Reason) == "" {
		return web.Errorf(http.StatusBadRequest, "reason_required", "a change of the guest agent's status is audited: the field reason is empty")
	}
	status := in.GuestAgent.Status
	if !slices.Contains(guestAgentStates[:], status) {
		return web.Errorf(http.StatusBadRequest, "guest_agent_status_invalid", "guest_agent.status is one of %s", strings.Join(guestAgentStates[:], ", "))
	}
	d := p.decisionBy(r, store.ProviderStatus, in.decisionRequest)
	until := time.Time{}
	switch s := in.GuestAgent.ForSeconds; {
	case s < 0 || s > maxGuestAgentSeconds:
		return web.Errorf(http.StatusBadRequest, "guest_agent_time_invalid", "guest_agent.for_seconds is from 0 to %d", maxGuestAgentSeconds)
	case s > 0:
		until = d.At.Add(seconds(s))
	}
	if err := p.store.SetGuestAgent(r.Context(), d, status, until); err != nil {
		return notFound(err, "node")
	}
	p.log.Info("provider's word on a node's machine", "node_id", d.NodeID, "guest_agent", status, "correlation_id", d.CorrelationID)
	return p.getNode(w, r)
}

// getProvider answers with the provider's word alone: it changes when the word does, and with nothing else.
func (p *Platform) getProvider(w http.ResponseWriter, r *http.Request) error {
	n, err := p.store.Node(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "node")
	}
	status, _ := n.GuestAgent(p.now())
	web.WriteJSON(w, http.StatusOK, map[string]map[string]string{"guest_agent": {"status": cmp.Or(status, unknown)}})
	return nil
}

// endProvider ends a word that holds for a while, and answers as getProvider does.
func (p *Platform) endProvider(w http.ResponseWriter, r *http.Request) error {
	d := p.decisionBy(r, store.ProviderStatus, decisionRequest{Reason: "the word that held for a while is withdrawn"})
	if err := p.store.EndGuestAgent(r.Context(), d); err != nil {
		return notFound(err, "node")
	}
	return p.getProvider(w, r)
}
