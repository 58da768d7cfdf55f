package platform

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// withheldFor is how long a wait is kept open if all of its tasks were withheld: without it a caller that polls
// again at once would loop.
const withheldFor = time.Second

// noteSource records a request under the node's certificate whose source differs from that of its recent
// heartbeats: the next heartbeat shows whether two hosts alternate. One request proves nothing, so nothing is
// denied.
func (p *Platform) noteSource(r *http.Request, nodeID string, from caller) {
	if isProbe(r) || r.Pattern == "POST "+wire.PathHeartbeat || from.instance == "" {
		return
	}
	ctx, window := r.Context(), seconds(p.cfg.Policy.HeartbeatStaleAfter)
	beat, err := p.store.LastHeartbeat(ctx, nodeID)
	now := from.source(from.instance)
	now.At = p.now()
	if err != nil || now.At.Sub(beat.At) > window || !conflict(beat, now) {
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			p.log.Error("look up the newest heartbeat", "error", err)
		}
		return
	}
	known, err := p.store.OtherSource(ctx, nodeID, r.Pattern, now, window)
	if err != nil {
		p.log.Error("keep a request's source", "error", err)
	}
	if err != nil || known {
		return
	}
	p.metrics.add("other_sources_total")
	p.recordOther(r, store.NodeSource, nodeID, from, nil)
}

// recordOther writes evidence of a request that does not come from the node's proven host. more adds to it.
func (p *Platform) recordOther(r *http.Request, kind, nodeID string, from caller, more func(*store.Evidence)) {
	count, keep := p.denials.count(denialKind{from.remote, kind, nodeID}, nodeRows, p.now(),
		seconds(p.cfg.Policy.AuditDedupeWindow))
	if !keep {
		return
	}
	instance := web.Clipped(from.instance)
	e := store.Evidence{At: p.now(), Kind: kind, CorrelationID: web.CorrelationID(r.Context()), NodeID: nodeID,
		InstanceID: instance, Detail: map[string]any{"path": r.Pattern, "remote": from.remote, "node_instance_id": instance,
			"cert_serial": serialText(from.cert), "shows_challenge": from.shown != ""}}
	if count > 1 {
		e.Detail["count"] = count
	}
	if more != nil {
		more(&e)
	}
	ctx, cancel := detached(r.Context())
	defer cancel()
	if err := p.store.Record(ctx, e); err != nil {
		p.log.Error("record evidence", "error", err)
	}
}

// proven reports whether the caller is the process that has proved itself by echoing challenges. If the node's
// agent echoes none, it is the caller with the instance and the certificate of the newest heartbeat; if the node
// never sent a heartbeat, it is any caller.
func (p *Platform) proven(ctx context.Context, nodeID string, from caller) (bool, error) {
	n, err := p.store.Node(ctx, nodeID)
	if err != nil {
		return false, err
	}
	last, err := p.store.Links(ctx, n)
	if err != nil {
		return false, err
	}
	beat, err := optional(p.store.LastHeartbeat(ctx, nodeID))
	if err != nil || beat == nil {
		return err == nil, err
	}
	// An agent names its host on every request, or on none.
	same := beat.InstanceID == from.instance || (from.instance == "" && !beat.Named)
	shown := ""
	if from.shown != "" {
		shown = store.Digest(from.shown)
	}
	switch standingOf(last, shown, p.now()) {
	case proven:
		return same, nil
	case unproven:
		return false, nil
	}
	return same && beat.Serial == serialText(from.cert), nil
}

// withhold returns to the queue those claimed tasks that carry something, or request a change, if their caller is
// not the node's proven host, and returns the others. If none is left, it delays the response.
func (p *Platform) withhold(r *http.Request, tasks []store.Task) ([]store.Task, error) {
	var kept, back []store.Task
	for _, t := range tasks {
		if t.Observes() { // it carries no secret, and is repeated if lost
			kept = append(kept, t)
		} else {
			back = append(back, t)
		}
	}
	if len(back) == 0 {
		return kept, nil
	}
	ctx, from := r.Context(), callerOf(r.Context())
	ok, err := p.proven(ctx, back[0].NodeID, from)
	if ok && err == nil {
		return tasks, nil
	}
	undo, cancel := detached(ctx)
	defer cancel()
	if err != nil {
		return nil, errors.Join(err, p.queue.Return(undo, tasks...))
	}
	if err := p.queue.Return(undo, back...); err != nil {
		return nil, errors.Join(err, p.queue.Return(undo, kept...))
	}
	for _, t := range back {
		p.metrics.add("tasks_withheld_total", "type", t.Type)
		p.recordOther(r, store.TaskWithheld, t.NodeID, from, func(e *store.Evidence) {
			e.TaskID, e.SessionID, e.AllocationID = t.ID, t.SessionID, t.AllocationID
			e.Detail["type"], e.Detail["task_correlation_id"] = t.Type, t.CorrelationID
		})
	}
	if len(kept) == 0 {
		sleep.For(ctx, withheldFor)
	}
	return kept, nil
}

// believed refuses a request that only the node's proven host may make, and records it. more adds to the record.
func (p *Platform) believed(r *http.Request, more func(*store.Evidence)) error {
	nodeID, from := r.PathValue("node_id"), callerOf(r.Context())
	ok, err := p.proven(r.Context(), nodeID, from)
	if ok || err != nil {
		return err
	}
	p.recordOther(r, store.NodeWordRefused, nodeID, from, more)
	return web.Errorf(http.StatusForbidden, wire.DenyUnproven,
		"this does not come from the host that sends the node's heartbeats")
}

// mayAnswer refuses a result that changes something (of a clean-up, a rotation or a terminal) if it does not come
// from the node's proven host. The proven host will send it later.
func (p *Platform) mayAnswer(r *http.Request) error {
	t, err := p.store.Task(r.Context(), r.PathValue("task_id"))
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && t.Observes(), err == nil && t.NodeID != r.PathValue("node_id"):
		return nil // the queue reports the rest
	case err != nil:
		return err
	}
	return p.believed(r, func(e *store.Evidence) {
		e.TaskID, e.SessionID, e.AllocationID = t.ID, t.SessionID, t.AllocationID
		e.Detail["type"], e.Detail["task_correlation_id"] = t.Type, t.CorrelationID
	})
}

// provenStream is proven for the gateway.
func (p *Platform) provenStream(r *http.Request, nodeID string, c *x509.Certificate) *web.Error {
	from := callerFrom(r)
	from.cert = c
	ok, err := p.proven(r.Context(), nodeID, from)
	switch {
	case err != nil:
		return lookupFailed(err)
	case !ok:
		return web.Errorf(http.StatusForbidden, wire.DenyUnproven,
			"the node stream does not come from the host that sends the node's heartbeats")
	}
	return nil
}
