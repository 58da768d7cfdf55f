package platform

import (
	"errors"
	"net"
	"net/http"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/platform/web"
)

// allocationView is an allocation as the operator reads it.
type allocationView struct {
	ID         string    `json:"id"`
	State      string    `json:"state"`
	Occupancy  string    `json:"occupancy"` // free | occupied | cleanup: whether the node's place can be given away
	NodeID     string    `json:"node_id"`
	OSUser     string    `json:"os_user"`
	WorkflowID string    `json:"workflow_id,omitempty"`
	App        *appView  `json:"app,omitempty"`
	UpdatedAt  diag.Time `json:"updated_at,omitzero"`
	Now        diag.Time `json:"now"`
}

// appView has no credential: nothing here observes one yet, and what is not known is absent.
type appView struct {
	Kind                     string    `json:"kind"`
	Status                   string    `json:"status"`
	Unit                     string    `json:"unit,omitempty"`
	Port                     int       `json:"port,omitempty"`
	Endpoint                 string    `json:"endpoint,omitempty"`
	ProductURL               string    `json:"product_url,omitempty"`
	LastObservedAt           diag.Time `json:"last_observed_at,omitzero"`
	LastRuntimeProbeFailedAt diag.Time `json:"last_runtime_probe_failed_at,omitzero"`
}

var occupancies = map[string]string{
	store.StateRequested: "free", store.StateActive: "occupied", store.StateReleasing: "cleanup",
	store.StateReleaseFailed: "cleanup", store.StateReleased: "free",
}

func (p *Platform) allocationView(a store.Allocation, nodeIP string) allocationView {
	v := allocationView{ID: a.ID, State: a.State, Occupancy: occupancies[a.State], NodeID: a.NodeID, OSUser: a.OSUser, WorkflowID: a.WorkflowID,
		UpdatedAt: diag.At(a.UpdatedAt), Now: diag.At(p.now())}
	if a.App.Kind == "" && a.App.Unit == "" {
		return v
	}
	v.App = &appView{Kind: a.App.Kind, Status: a.App.Status, Unit: a.App.Unit, Port: a.App.Port, ProductURL: a.App.ProductURL,
		LastObservedAt: when(a.App.ObservedAt), LastRuntimeProbeFailedAt: when(a.App.ProbeFailedAt)}
	if v.App.Status == "" {
		v.App.Status = unknown
	}
	if nodeIP != "" && a.App.Port > 0 {
		v.App.Endpoint = net.JoinHostPort(nodeIP, strconv.Itoa(a.App.Port))
	}
	return v
}

func (p *Platform) getAllocation(w http.ResponseWriter, r *http.Request) error {
	a, err := p.store.Allocation(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "allocation")
	}
	n, err := p.store.Node(r.Context(), a.NodeID)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, p.allocationView(a, n.PrivateIP))
	return nil
}

// forceRelease ends the clean-up of an allocation whose release failed, on an operator's word, and says so in the
// evidence.
func (p *Platform) forceRelease(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	a, err := p.store.ForceRelease(r.Context(), r.PathValue("id"), store.Evidence{At: p.now(), Kind: store.AllocationReleased,
		CorrelationID: web.CorrelationID(r.Context()), Detail: map[string]any{"reason": in.Reason, "remote": web.Remote(r)}})
	if errors.Is(err, store.ErrState) {
		return web.Errorf(http.StatusConflict, "allocation_state", "only an allocation in state %s can be force-released", store.StateReleaseFailed)
	}
	if err != nil {
		return notFound(err, "allocation")
	}
	web.WriteJSON(w, http.StatusOK, p.allocationView(a, ""))
	return nil
}
