package platform

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/platform/web"
	"github.com/gpuaas/gpuaasctl/wire"
)

// maxWaits is how many long polls one node may hold at once: an agent has one, and a restart leaves one behind.
const maxWaits = 4

// waitLimit counts the long polls of each node. The zero value is ready.
type waitLimit struct {
	mu sync.Mutex
	n  map[string]int // guarded by mu
}

// enter takes one place of a node, or reports that there is none.
func (l *waitLimit) enter(nodeID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == nil {
		l.n = map[string]int{}
	}
	if l.n[nodeID] >= maxWaits {
		return false
	}
	l.n[nodeID]++
	return true
}

func (l *waitLimit) leave(nodeID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n[nodeID]--; l.n[nodeID] == 0 {
		delete(l.n, nodeID)
	}
}

// nodeHandler answers on the listener behind the node ingress.
func (p *Platform) nodeHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+wire.PathHealth, web.Handler(p.healthz))
	mux.Handle("POST "+wire.PathEnroll, web.Handler(p.enroll))
	mux.Handle("POST "+wire.PathHeartbeat, p.node(p.heartbeat))
	mux.Handle("GET "+wire.PathTaskWait, p.node(p.taskWait))
	mux.Handle("POST "+wire.PathTaskResult, p.node(p.taskResult))
	mux.Handle("POST "+wire.PathEvents, p.node(p.events))
	mux.Handle("/", web.Handler(web.NotFound))
	return web.Front(p.log, "node_api", mux)
}

// node lets a request through whose certificate may act as the node in the path. A denial is recorded, and counts as
// the node's last one unless a preflight made it.
func (p *Platform) node(next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := p.identify(r)
		if err == nil {
			return next(w, r)
		}
		var denial *web.Error
		if errors.As(err, &denial) && denial.Status < http.StatusInternalServerError {
			p.recordDenial(r, denial)
		}
		return err
	}
}

func (p *Platform) recordDenial(r *http.Request, denial *web.Error) {
	e := store.Evidence{At: p.now(), Kind: store.NodeDenied, CorrelationID: web.CorrelationID(r.Context()), NodeID: r.PathValue("node_id"),
		Detail: map[string]any{"code": denial.Code, "message": denial.Message, "path": r.URL.Path, "remote": web.Remote(r)}}
	var err error
	if isProbe(r) {
		err = p.store.Record(r.Context(), e)
	} else {
		err = p.store.Denied(r.Context(), denial.Code, e)
	}
	if err != nil {
		p.log.Error("record evidence", "error", err)
	}
}

// isProbe reports whether a preflight asks: such a request claims nothing and counts as nothing.
func isProbe(r *http.Request) bool {
	return r.Header.Get(wire.HeaderProbe) != "" || r.URL.Query().Get("peek") == "1"
}

func (p *Platform) heartbeat(w http.ResponseWriter, r *http.Request) error {
	var h wire.HeartbeatRequest
	if err := web.ReadJSON(w, r, &h); err != nil {
		return err
	}
	if h.NodeInstanceID == "" {
		return web.Errorf(http.StatusBadRequest, "instance_id_required", "a heartbeat names its node instance")
	}
	ctx, nodeID, now := r.Context(), r.PathValue("node_id"), p.now()
	if !isProbe(r) {
		if err := p.store.Heartbeat(ctx, nodeID, web.CorrelationID(ctx), web.Remote(r), now, h); err != nil {
			return err
		}
	}
	mark, err := p.store.Watermark(ctx, nodeID, h.NodeInstanceID)
	if err != nil {
		return err
	}
	open, err := p.store.OpenTasks(ctx, nodeID, now)
	if err != nil {
		return err
	}
	answer := wire.HeartbeatResponse{Time: now.UTC()}
	for _, t := range open { // what we believe the node is doing: an agent that restarted learns it here
		answer.Snapshots = append(answer.Snapshots, wire.Snapshot{TaskID: t.ID, Type: t.Type, Status: t.Status,
			CorrelationID: t.CorrelationID, ExpiresAt: t.ExpiresAt})
	}
	w.Header().Set(wire.HeaderReplayFrom, strconv.FormatUint(mark+1, 10))
	web.WriteJSON(w, http.StatusOK, answer)
	return nil
}

// taskWait is the long poll. Only a real wait is a contact; a peek has gone the same way up to here and claims nothing.
func (p *Platform) taskWait(w http.ResponseWriter, r *http.Request) error {
	ctx, nodeID := r.Context(), r.PathValue("node_id")
	peek := isProbe(r)
	timeout, err := p.waitTimeout(r, peek)
	if err != nil {
		return err
	}
	if peek {
		select {
		case <-time.After(timeout):
		case <-ctx.Done():
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if !p.waits.enter(nodeID) {
		return &web.Error{Status: http.StatusTooManyRequests, Code: "too_many_waits", Message: "this node holds enough task waits", RetryAfter: time.Second}
	}
	defer p.waits.leave(nodeID)
	if err := p.store.Waited(ctx, nodeID, p.now()); err != nil {
		return err
	}
	t, err := p.queue.Wait(ctx, nodeID, timeout)
	switch {
	case ctx.Err() != nil && t == nil: // the caller left, or we stop
		w.WriteHeader(http.StatusNoContent)
		return nil
	case err != nil:
		return err
	case t == nil:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return p.deliver(w, r, *t)
}

// deliver answers with a claimed task; when the caller has left meanwhile, the claim is taken back.
func (p *Platform) deliver(w http.ResponseWriter, r *http.Request, t store.Task) error {
	ctx := r.Context()
	if ctx.Err() == nil {
		web.WriteJSON(w, http.StatusOK, p.queue.Sign(t))
		if http.NewResponseController(w).Flush() == nil {
			return nil
		}
	}
	undo, cancel := detached(ctx)
	defer cancel()
	return p.queue.Return(undo, t)
}

// waitTimeout reads the timeout parameter, seconds or a Go duration, capped by policy. A peek waits for nothing unless
// it says so.
func (p *Platform) waitTimeout(r *http.Request, peek bool) (time.Duration, error) {
	limit := seconds(p.cfg.Policy.TaskWait)
	text := r.URL.Query().Get("timeout")
	if text == "" {
		if peek {
			return 0, nil
		}
		return limit, nil
	}
	d, err := time.ParseDuration(text)
	if n, bad := strconv.ParseInt(text, 10, 32); bad == nil {
		d, err = seconds(n), nil
	}
	if err != nil || d < 0 {
		return 0, web.Errorf(http.StatusBadRequest, "timeout_invalid", "a timeout is seconds or a duration")
	}
	return min(d, limit), nil
}

func (p *Platform) taskResult(w http.ResponseWriter, r *http.Request) error {
	var res wire.TaskResult
	if err := web.ReadJSON(w, r, &res); err != nil {
		return err
	}
	if !slices.Contains([]string{wire.TaskCompleted, wire.TaskFailed}, res.Status) {
		return web.Errorf(http.StatusBadRequest, "status_invalid", "a result is %s or %s", wire.TaskCompleted, wire.TaskFailed)
	}
	err := p.queue.Finish(r.Context(), r.PathValue("node_id"), r.PathValue("task_id"), res)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return web.Errorf(http.StatusNotFound, "task_not_found", "this node has no such task")
	case errors.Is(err, store.ErrNotClaimed):
		return web.Errorf(http.StatusConflict, "task_not_claimed", "the task was not handed out")
	case err != nil:
		return err
	}
	web.WriteJSON(w, http.StatusOK, map[string]string{"id": r.PathValue("task_id"), "status": "accepted"})
	return nil
}

func (p *Platform) events(w http.ResponseWriter, r *http.Request) error {
	var in wire.EventsRequest
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if in.NodeInstanceID == "" {
		return web.Errorf(http.StatusBadRequest, "instance_id_required", "events name their node instance")
	}
	mark, err := p.store.AddEvents(r.Context(), r.PathValue("node_id"), in, p.now())
	if errors.Is(err, store.ErrSequence) {
		return web.Errorf(http.StatusBadRequest, "sequence_invalid", "%s", err)
	}
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, wire.EventsResponse{Watermark: mark})
	return nil
}
