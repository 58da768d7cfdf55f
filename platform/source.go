package platform

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/platform/web"
	"github.com/gpuaas/gpuaasctl/wire"
)

// withheldFor is how long a wait is kept whose task went to nobody: who asks at once again is not answered in a loop.
const withheldFor = time.Second

// witness keeps a request under the node's certificate whose source is not that of its heartbeats, while those are
// fresh: the next heartbeat shows whether two hosts alternate. One request proves nothing, so nothing is denied.
func (p *Platform) witness(r *http.Request, nodeID string, from caller) {
	if isProbe(r) || r.Pattern == "POST "+wire.PathHeartbeat || from.instance == "" {
		return
	}
	ctx, window := r.Context(), seconds(p.cfg.Policy.HeartbeatStaleAfter)
	beat, err := p.store.LastBeat(ctx, nodeID)
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

// recordOther is the evidence of a request that is not of the node's proven host. more adds to it.
func (p *Platform) recordOther(r *http.Request, kind, nodeID string, from caller, more func(*store.Evidence)) {
	count, keep := p.denials.take(denialKind{from.remote, kind, nodeID}, nodeRows, p.now(), seconds(p.cfg.Policy.AuditDedupeWindow))
	if !keep {
		return
	}
	instance := web.Clipped(from.instance)
	e := store.Evidence{At: p.now(), Kind: kind, CorrelationID: web.CorrelationID(r.Context()), NodeID: nodeID, InstanceID: instance,
		Detail: map[string]any{"path": r.Pattern, "remote": from.remote, "node_instance_id": instance,
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

// proven reports whether the caller is the process whose heartbeats are proven by their echoes. Of a node whose agent
// echoes nothing it is whoever has the instance and the certificate of the newest heartbeat, and of one that never sent
// any it is whoever comes.
func (p *Platform) proven(ctx context.Context, nodeID string, from caller) (bool, error) {
	n, err := p.store.Node(ctx, nodeID)
	if err != nil {
		return false, err
	}
	last, err := p.store.Links(ctx, n)
	if err != nil {
		return false, err
	}
	beat, err := optional(p.store.LastBeat(ctx, nodeID))
	if err != nil || beat == nil {
		return err == nil, err
	}
	// An agent names its host on every request, or on none.
	same := beat.InstanceID == from.instance || from.instance == "" && !beat.Named
	shown := ""
	if from.shown != "" {
		shown = store.Digest(from.shown)
	}
	switch stands(last, shown, p.now()) {
	case proven:
		return same, nil
	case unproven:
		return false, nil
	}
	return same && beat.Serial == serialText(from.cert), nil
}

// withhold gives a claimed task back that brings something, or asks for a change, when who asks for it is not the node's
// proven host. The wait is then over.
func (p *Platform) withhold(r *http.Request, t store.Task) (bool, error) {
	switch t.Type {
	case wire.TaskNoop, wire.TaskProbe, wire.TaskStatusProbe: // observations: nothing is in them, and a lost one is asked again
		return false, nil
	}
	ctx, from := r.Context(), callerOf(r.Context())
	ok, err := p.proven(ctx, t.NodeID, from)
	if ok && err == nil {
		return false, nil
	}
	undo, cancel := detached(ctx)
	defer cancel()
	if err := errors.Join(err, p.queue.Return(undo, t)); err != nil {
		return true, err
	}
	p.metrics.add("tasks_withheld_total", "type", t.Type)
	p.recordOther(r, store.TaskWithheld, t.NodeID, from, func(e *store.Evidence) {
		e.TaskID, e.SessionID, e.AllocationID = t.ID, t.SessionID, t.AllocationID
		e.Detail["type"], e.Detail["task_correlation_id"] = t.Type, t.CorrelationID
	})
	select {
	case <-time.After(withheldFor):
	case <-ctx.Done():
	}
	return true, nil
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
		return web.Errorf(http.StatusForbidden, wire.DenyUnproven, "the node stream does not come from the host that sends the node's heartbeats")
	}
	return nil
}
