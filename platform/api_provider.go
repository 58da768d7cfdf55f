package platform

import (
	"net/http"
	"slices"
	"strings"

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
		Status string `json:"status"`
	} `json:"guest_agent"`
}

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
	if err := p.store.SetGuestAgent(r.Context(), d, status); err != nil {
		return notFound(err, "node")
	}
	p.log.Info("provider's word on a node's machine", "node_id", d.NodeID, "guest_agent", status, "correlation_id", d.CorrelationID)
	return p.getNode(w, r)
}
