package platform

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

const (
	defaultTaskTTL = 60 * time.Second
	maxTaskTTL     = time.Hour
)

var taskTypes = []string{wire.TaskNoop, wire.TaskProbe, wire.TaskStatusProbe, wire.TaskTerminalOpen,
	wire.TaskSelfUpdate, wire.TaskRotateToken, wire.TaskCordon}

// taskRequest is the body of an operator's request for a task.
type taskRequest struct {
	Type          string          `json:"type"`
	Payload       json.RawMessage `json:"payload"`
	TTLSeconds    int64           `json:"ttl_seconds"`
	CorrelationID string          `json:"correlation_id"`
}

func (p *Platform) postTask(w http.ResponseWriter, r *http.Request) error {
	var in taskRequest
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	ttl := seconds(in.TTLSeconds)
	switch {
	case !slices.Contains(taskTypes, in.Type):
		return web.Errorf(http.StatusBadRequest, "task_type_unknown", "a task's type is one of %s",
			strings.Join(taskTypes, ", "))
	case in.TTLSeconds < 0 || in.TTLSeconds > int64(maxTaskTTL/time.Second):
		return web.Errorf(http.StatusBadRequest, "ttl_invalid", "a task lives at most %s", maxTaskTTL)
	case in.TTLSeconds == 0:
		ttl = defaultTaskTTL
	}
	in.CorrelationID = cmp.Or(in.CorrelationID, web.CorrelationID(r.Context()))
	if !web.ValidCorrelationID(in.CorrelationID) {
		return web.Errorf(http.StatusBadRequest, "correlation_id_invalid",
			"a correlation id has 1 to 128 printable characters")
	}
	payload := []byte(in.Payload)
	if string(payload) == "null" {
		payload = nil
	}
	if in.Type == wire.TaskRotateToken && payload != nil {
		return web.Errorf(http.StatusBadRequest, "payload_refused",
			"the platform makes the token of a rotation itself, when the node takes the task")
	}
	if in.Type == wire.TaskSelfUpdate {
		t, err := p.orderRollout(r.Context(), r.PathValue("id"), payload, ttl, in.CorrelationID)
		if err != nil {
			return err
		}
		return web.Answer(w, http.StatusCreated, p.taskView(t))
	}
	t, err := p.queue.Enqueue(r.Context(),
		queue.Spec{NodeID: r.PathValue("id"), Type: in.Type, Payload: payload, TTL: ttl, CorrelationID: in.CorrelationID})
	if err != nil {
		return notFound(err, "node")
	}
	return web.Answer(w, http.StatusCreated, p.taskView(t))
}

// taskView is the read model of a task for the operator.
type taskView struct {
	ID            string      `json:"id"`
	NodeID        string      `json:"node_id"`
	Type          string      `json:"type"`
	Status        string      `json:"status"`
	CorrelationID string      `json:"correlation_id"`
	SessionID     string      `json:"session_id,omitempty"`
	AllocationID  string      `json:"allocation_id,omitempty"`
	QueuedAt      diag.Time   `json:"queued_at"`
	ClaimedAt     diag.Time   `json:"claimed_at,omitzero"`
	CompletedAt   diag.Time   `json:"completed_at,omitzero"`
	ExpiresAt     diag.Time   `json:"expires_at"`
	LateAt        diag.Time   `json:"late_at,omitzero"` // when the result arrived, if the task had expired by then
	Reclaims      int         `json:"reclaims,omitempty"`
	Result        *resultView `json:"result,omitempty"`
	Now           diag.Time   `json:"now"`
}

type resultView struct {
	Status     string          `json:"status"`
	StartedAt  diag.Time       `json:"started_at,omitzero"`
	FinishedAt diag.Time       `json:"finished_at,omitzero"`
	Error      *wire.ErrorInfo `json:"error,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
}

func (p *Platform) taskView(t store.Task) taskView {
	v := taskView{ID: t.ID, NodeID: t.NodeID, Type: t.Type, Status: t.Status, CorrelationID: t.CorrelationID,
		SessionID: t.SessionID, AllocationID: t.AllocationID, QueuedAt: when(t.QueuedAt), ClaimedAt: when(t.ClaimedAt),
		CompletedAt: when(t.CompletedAt), ExpiresAt: when(t.ExpiresAt), LateAt: when(t.LateAt), Reclaims: t.Reclaims,
		Now: diag.At(p.now())}
	if t.Result == nil {
		return v
	}
	v.Result = &resultView{Status: t.Result.Status, StartedAt: when(t.Result.StartedAt),
		FinishedAt: when(t.Result.FinishedAt), Error: t.Result.Error}
	switch {
	case t.Type == wire.TaskRotateToken: // never show what the node returns
	case json.Valid(t.Result.Output):
		v.Result.Output = t.Result.Output
	case len(t.Result.Output) > 0: // a node's text that is not JSON: show it as a string
		v.Result.Output, _ = json.Marshal(string(t.Result.Output))
	}
	return v
}

func (p *Platform) getTask(w http.ResponseWriter, r *http.Request) error {
	t, err := p.store.Task(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "task")
	}
	return web.Answer(w, http.StatusOK, p.taskView(t))
}

// when formats a stored time for JSON; a zero time stays absent.
func when(t time.Time) diag.Time {
	if t.IsZero() {
		return diag.Time{}
	}
	return diag.At(t)
}
