package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/lab/platform/gateway"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// Longer than 300 lines: the handlers of one listener, in the order of their routes.

// maxWaits is the number of concurrent long polls per node: an agent has one, and a restart leaves one behind.
const maxWaits = 4

// waitLimit counts the long polls of each node. The zero value is ready to use.
type waitLimit struct {
	mu sync.Mutex
	n  map[string]int // guarded by mu
}

// enter takes a slot for a node's long poll, or returns false if all are in use.
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

func (l *waitLimit) release(nodeID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n[nodeID]--; l.n[nodeID] == 0 {
		delete(l.n, nodeID)
	}
}

// nodeHandler serves the listener behind the node ingress, and only requests from the ingress.
func (p *Platform) nodeHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+wire.PathHealth, web.Handler(p.healthz))
	mux.Handle("POST "+wire.PathEnroll, web.Handler(p.enroll))
	mux.Handle("POST "+wire.PathHeartbeat, p.node(p.heartbeat, true))
	mux.Handle("GET "+wire.PathTaskWait, p.node(p.taskWait, false))
	mux.Handle("POST "+wire.PathTaskResult, p.node(p.taskResult, false))
	mux.Handle("POST "+wire.PathEvents, p.node(p.events, false))
	mux.Handle("GET "+wire.PathArtifact, p.byCertificate(p.node(p.getArtifact, false)))
	mux.Handle("/", web.Handler(web.NotFound))
	return web.Front(p.log, "node_api", p.fromIngress(mux))
}

// isProbe reports whether the request is a preflight's: it changes no state.
func isProbe(r *http.Request) bool {
	return r.Header.Get(wire.HeaderProbe) != "" || r.URL.Query().Get("peek") == "1"
}

func (p *Platform) heartbeat(w http.ResponseWriter, r *http.Request) error {
	if err := p.mayBeat(r); err != nil {
		return err
	}
	var h wire.HeartbeatRequest
	if err := readNode(w, r, &h); err != nil {
		return err
	}
	if h.NodeInstanceID == "" {
		return web.Errorf(http.StatusBadRequest, "instance_id_required", "a heartbeat names its node instance")
	}
	ctx, nodeID, now := r.Context(), r.PathValue("node_id"), p.now()
	next := store.NewID("")
	again, err := p.takeHeartbeat(r, h, next)
	if err != nil {
		return err
	}
	mark, err := p.store.Watermark(ctx, nodeID, h.NodeInstanceID)
	if err != nil {
		return err
	}
	open, err := p.store.OpenTasks(ctx, nodeID, now)
	if err != nil {
		return err
	}
	answer := wire.HeartbeatResponse{Time: now.UTC(), EchoNow: again}
	if !isProbe(r) {
		answer.Challenge = next
	}
	for _, t := range open { // open tasks, for an agent that has restarted
		answer.Snapshots = append(answer.Snapshots, wire.Snapshot{TaskID: t.ID, Type: t.Type, Status: t.Status,
			CorrelationID: t.CorrelationID, ExpiresAt: t.ExpiresAt})
	}
	if err := p.answerBoot(r, h, &answer); err != nil {
		return err
	}
	w.Header().Set(wire.HeaderReplayFrom, strconv.FormatUint(mark+1, 10))
	return web.Answer(w, http.StatusOK, answer)
}

// takeHeartbeat stores a node's report, or denies the host that sent it. A preflight's report is checked and not
// stored. next is the challenge in the response; again asks for its echo at once.
func (p *Platform) takeHeartbeat(r *http.Request, h wire.HeartbeatRequest, next string) (again bool, err error) {
	ctx, nodeID, from := r.Context(), r.PathValue("node_id"), callerOf(r.Context())
	if err := p.deniedHost(ctx, nodeID, h.NodeInstanceID, from); err != nil {
		return false, err
	}
	if active := p.activeProfile(ctx, nodeID); store.OtherProfile(h.Profile, active) {
		if !isProbe(r) {
			if err := p.store.RecordOtherProfile(ctx, nodeID, h.Profile); err != nil {
				return false, err
			}
		}
		return false, web.Errorf(http.StatusForbidden, wire.DenyProfileMismatch,
			"the node names the environment profile %q, the active one is %q", h.Profile, active)
	}
	if isProbe(r) {
		return false, nil
	}
	heard, err := p.store.Heartbeat(ctx,
		store.Heartbeat{HeartbeatRequest: h, NodeID: nodeID, CorrelationID: web.CorrelationID(ctx), Remote: from.remote,
			Serial: serialText(from.cert), Named: from.instance != "", Next: next, ReceivedAt: p.now()},
		seconds(p.cfg.Policy.HeartbeatStaleAfter), store.Judges{Clone: clone, Echo: echoed})
	switch {
	case err != nil:
		return false, err
	case heard.Cloned:
		p.log.Error("two hosts use one node's identity: the node is quarantined until an operator decides", "node_id", nodeID,
			"node_instance_id", h.NodeInstanceID, "remote", from.remote)
		p.metrics.add("clones_detected_total")
		p.gateway.End(gateway.OfNode(nodeID), wire.EndNodeCloned)
		p.reclassified(ctx, nodeID)
		return false, web.Errorf(http.StatusForbidden, wire.DenyCloned, "more than one host uses this node's identity")
	}
	p.metrics.add("heartbeats_total")
	p.recovered(ctx, store.AuditKey{ActorType: actorNode, ActorID: nodeID, Action: actionAuthenticate})
	return heard.Again, nil
}

// deniedHost denies a fenced host, by the instance in the request's body.
func (p *Platform) deniedHost(ctx context.Context, nodeID, instanceID string, from caller) error {
	switch fenced, err := p.store.Fenced(ctx, nodeID, from.source(instanceID)); {
	case err != nil:
		return err
	case fenced:
		return web.Errorf(http.StatusForbidden, wire.DenyFenced, "this host is fenced")
	}
	return nil
}

// taskWait is the long poll. Only a real wait counts as a contact; a peek passes the same checks and claims
// nothing.
func (p *Platform) taskWait(w http.ResponseWriter, r *http.Request) error {
	ctx, nodeID := r.Context(), r.PathValue("node_id")
	peek := isProbe(r)
	timeout, err := p.waitTimeout(r, peek)
	if err != nil {
		return err
	}
	if peek {
		sleep.For(ctx, timeout)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if !p.waits.enter(nodeID) {
		return &web.Error{Status: http.StatusTooManyRequests, Code: "too_many_waits",
			Message: "this node holds enough task waits", RetryAfter: time.Second}
	}
	defer p.waits.release(nodeID)
	// a wait has no body: the deadline for reading one would end it
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if err := p.store.RecordTaskWait(ctx, nodeID, p.now()); err != nil && ctx.Err() == nil {
		return err
	}
	most, _ := strconv.Atoi(r.URL.Query().Get(wire.QueryTasks)) // without a number, one
	tasks, err := p.queue.Wait(ctx, nodeID, timeout, min(max(1, most), wire.MaxTasks))
	if ctx.Err() != nil && len(tasks) == 0 { // the caller left, or we stop
		err = nil
	}
	if len(tasks) > 0 {
		tasks, err = p.withhold(r, tasks)
	}
	switch {
	case err != nil:
		return err
	case len(tasks) == 0:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return p.deliver(w, r, tasks)
}

// deliver responds with claimed tasks; if the caller has disconnected, the claims are returned.
func (p *Platform) deliver(w http.ResponseWriter, r *http.Request, tasks []store.Task) error {
	ctx := r.Context()
	undo, cancel := detached(ctx)
	defer cancel()
	if ctx.Err() == nil {
		var signed []wire.Task
		for _, t := range tasks {
			handed, err := p.filled(ctx, t)
			if err != nil {
				return errors.Join(err, p.queue.Return(undo, tasks...))
			}
			signed = append(signed, p.queue.Sign(handed))
		}
		web.WriteJSON(w, http.StatusOK, wire.TaskBatch{Task: signed[0], More: signed[1:]})
		if http.NewResponseController(w).Flush() == nil {
			return nil
		}
	}
	return p.queue.Return(undo, tasks...)
}

// filled returns a task as it is handed out: a clean-up spares the processes of a login that another tenant shares
// now. The token of a rotation is minted here: it exists only in this response, and elsewhere by its digest.
func (p *Platform) filled(ctx context.Context, t store.Task) (store.Task, error) {
	switch t.Type {
	case wire.TaskRotateToken:
	case wire.TaskSelfUpdate:
		return p.filledRollout(ctx, t)
	case wire.TaskCleanup:
		payload, err := p.store.CleanupPayload(ctx, t)
		t.Payload = payload
		return t, err
	default:
		return t, nil
	}
	n, err := p.store.Node(ctx, t.NodeID)
	if err != nil {
		return t, err
	}
	row, token, err := p.recoveryToken(n, p.now())
	if err != nil {
		return t, err
	}
	if err := p.store.SaveRotatedToken(ctx, row, t); err != nil {
		return t, fmt.Errorf("hand out a recovery token to node %s: %w", t.NodeID, err)
	}
	t.Payload, err = json.Marshal(wire.RotateTokenPayload{Token: token.Reveal(), ExpiresAt: row.ExpiresAt.UTC()})
	return t, err
}

// waitTimeout reads the timeout parameter, seconds or a Go duration, capped by policy. A peek does not wait by
// default.
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
	if err := readNode(w, r, &res); err != nil {
		return err
	}
	if !slices.Contains([]string{wire.TaskCompleted, wire.TaskFailed}, res.Status) {
		return web.Errorf(http.StatusBadRequest, "status_invalid", "a result is %s or %s", wire.TaskCompleted,
			wire.TaskFailed)
	}
	if err := p.mayAnswer(r); err != nil {
		return err
	}
	err := p.queue.Finish(r.Context(), r.PathValue("node_id"), r.PathValue("task_id"), res)
	if err != nil {
		return notFound(refused(err), "task")
	}
	return web.Answer(w, http.StatusOK, map[string]string{"id": r.PathValue("task_id"), "status": "accepted"})
}

func (p *Platform) events(w http.ResponseWriter, r *http.Request) error {
	var in wire.EventsRequest
	if err := readNode(w, r, &in); err != nil {
		return err
	}
	if in.NodeInstanceID == "" {
		return web.Errorf(http.StatusBadRequest, "instance_id_required", "events name their node instance")
	}
	nodeID, now := r.PathValue("node_id"), p.now()
	if err := p.mayTell(r, in, now); err != nil {
		return err
	}
	mark, err := p.store.AddEvents(r.Context(), nodeID, in, now)
	switch {
	case errors.Is(err, store.ErrSequence):
		p.refusedEvents(r, in, err)
		return web.Errorf(http.StatusBadRequest, "sequence_invalid", "%s", err)
	case errors.Is(err, store.ErrJump):
		p.refusedEvents(r, in, err)
		return web.Errorf(http.StatusConflict, "sequence_jump", "%s", err)
	}
	if err != nil {
		return err
	}
	p.wakeGPUs(in.Events)
	if err := p.applyEvents(r.Context(), nodeID, in); err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, wire.EventsResponse{Watermark: mark})
}

// refusedEvents writes evidence of events whose numbers are impossible: the node is broken, or lies.
func (p *Platform) refusedEvents(r *http.Request, in wire.EventsRequest, why error) {
	p.metrics.add("events_refused_total")
	p.recordOther(r, store.NodeEventsRefused, r.PathValue("node_id"), callerOf(r.Context()), func(e *store.Evidence) {
		e.Detail["why"], e.Detail["oldest"] = why.Error(), strconv.FormatUint(in.Oldest, 10)
		if len(in.Events) > 0 {
			e.Detail["first"] = strconv.FormatUint(in.Events[0].Seq, 10)
		}
	})
}
