package platform

import (
	"net/http"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// recentHandshakes is the number of failed TLS handshakes in the trust response.
const recentHandshakes = 10

// evidenceView is one recorded event.
type evidenceView struct {
	At            diag.Time      `json:"at"`
	Kind          string         `json:"kind"`
	CorrelationID string         `json:"correlation_id,omitempty"`
	NodeID        string         `json:"node_id,omitempty"`
	InstanceID    string         `json:"node_instance_id,omitempty"`
	WorkflowID    string         `json:"workflow_id,omitempty"`
	AllocationID  string         `json:"allocation_id,omitempty"`
	SessionID     string         `json:"session_id,omitempty"`
	TaskID        string         `json:"task_id,omitempty"`
	Detail        map[string]any `json:"detail,omitempty"`
}

func evidenceViews(rows []store.Evidence) []evidenceView {
	views := make([]evidenceView, len(rows))
	for i, e := range rows {
		views[i] = evidenceView{At: when(e.At), Kind: e.Kind, CorrelationID: e.CorrelationID, NodeID: e.NodeID,
			InstanceID: e.InstanceID, WorkflowID: e.WorkflowID, AllocationID: e.AllocationID, SessionID: e.SessionID,
			TaskID: e.TaskID, Detail: e.Detail}
	}
	return views
}

// maxEvidence bounds the response about a node or an allocation to the newest evidence.
const maxEvidence = 1000

// getEvidence responds with all evidence of a correlation id or of a terminal session, or with the newest evidence
// of a node or an allocation since a given time. It is in time order.
func (p *Platform) getEvidence(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	nodeID, allocationID := q.Get("node_id"), q.Get("allocation_id")
	var rows []store.Evidence
	var err error
	correlationID, sessionID := q.Get("correlation_id"), q.Get("session_id")
	switch {
	case correlationID+sessionID != "":
		rows, err = p.store.EvidenceBy(r.Context(), correlationID, sessionID)
	case nodeID != "" || allocationID != "":
		var since diag.Time
		if err := since.UnmarshalText([]byte(q.Get("since"))); err != nil {
			return web.Errorf(http.StatusBadRequest, "since_invalid", "since is a time in RFC 3339")
		}
		rows, err = p.store.EvidenceOf(r.Context(), nodeID, allocationID, since.Time, maxEvidence)
	default:
		return web.Errorf(http.StatusBadRequest, "correlation_id_required",
			"evidence is asked for by correlation_id, session_id, node_id or allocation_id")
	}
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, struct {
		Items     []evidenceView `json:"items"`
		Truncated bool           `json:"truncated"` // there is, or may be, more evidence
		Now       diag.Time      `json:"now"`
	}{evidenceViews(rows), len(rows) == maxEvidence, diag.At(p.now())})
}

// getTrust responds with the fingerprints, and with the newest failed TLS handshakes at the node terminal: a node
// that was rejected there never reached a handler.
func (p *Platform) getTrust(w http.ResponseWriter, r *http.Request) error {
	failures, err := p.store.Recent(r.Context(), store.HandshakeFailed, recentHandshakes)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, struct {
		Trust
		HandshakeFailures []evidenceView `json:"handshake_failures"`
		Now               diag.Time      `json:"now"`
	}{p.pki.trust(), evidenceViews(failures), diag.At(p.now())})
}
