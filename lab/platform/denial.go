package platform

import (
	"context"
	"errors"
	"net/http"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// node admits requests that may act as the node in the path. It records a denial, whether its own or the
// handler's. That counts as the node's last denial unless a preflight or another host got it.
func (p *Platform) node(next web.Handler, anyProfile bool) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		from := callerFrom(r)
		err := func() error {
			var err error
			if from.cert, err = presented(r); err != nil {
				return err
			}
			if denied := p.denied(r.Context(), r.PathValue("node_id"), from, anyProfile); denied != nil {
				return denied
			}
			p.noteSource(r, r.PathValue("node_id"), from)
			return next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, from)))
		}()
		var denial *web.Error
		if errors.As(err, &denial) && (denial.Status == http.StatusUnauthorized || denial.Status == http.StatusForbidden) {
			p.recordDenial(r, from, denial)
		}
		return err
	}
}

// recordDenial counts a denial, and writes evidence unless enough of the same kind exists.
func (p *Platform) recordDenial(r *http.Request, from caller, denial *web.Error) {
	ctx, nodeID := r.Context(), r.PathValue("node_id")
	e, keep := p.denialEvidence(r, store.NodeDenied, nodeID, from.instance, denial, nodeRows)
	serial := ""
	if from.cert != nil {
		serial = serialText(from.cert)
		e.Detail["cert_serial"] = serial
	}
	e.Detail["path"] = r.Pattern // not the actual path, which contains text from the caller
	key := store.AuditKey{ActorType: actorNode, ActorID: p.knownNode(ctx, nodeID), CredentialID: serial,
		Action: actionAuthenticate, Reason: denial.Code}
	own := !isProbe(r)
	// not the node: a contact of the right host does not end this failure
	if p.otherHost(ctx, nodeID, serial, denial.Code) {
		key.ActorType, key.ActorID = actorHost, p.knownHost(ctx, nodeID, from.instance, from.remote)
		own = false
	}
	p.keepDenial(ctx, e, denial.Code, own, keep)
	if isProbe(r) {
		return
	}
	p.metrics.add("node_denials_total", "reason", denial.Code)
	p.failed(ctx, store.Audit{AuditKey: key, NodeID: nodeID, Remote: from.remote})
}

// denialEvidence returns the evidence of a denial, and whether to store it; rows is how many of its kind are
// stored for an existing node. An unknown node id is only stored in the detail, clipped: a stranger cannot create
// evidence for an invented node.
func (p *Platform) denialEvidence(r *http.Request, kind, nodeID, instance string, denial *web.Error,
	rows int) (store.Evidence, bool) {
	ctx := r.Context()
	e := store.Evidence{At: p.now(), Kind: kind, CorrelationID: web.CorrelationID(ctx), InstanceID: web.Clipped(instance),
		Detail: map[string]any{"code": denial.Code, "message": denial.Message, "remote": web.Remote(r)}}
	if p.knownNode(ctx, nodeID) == unknownActor {
		e.Detail["claimed_node_id"], rows = web.Clipped(nodeID), strangerRows
	} else {
		e.NodeID = nodeID
	}
	count, keep := p.denials.count(denialKind{web.Remote(r), denial.Code, e.NodeID}, rows, e.At,
		seconds(p.cfg.Policy.AuditDedupeWindow))
	if count > 1 {
		e.Detail["count"] = count
	}
	return e, keep
}

// keepRejection reports whether an upgrade that the gateway refused becomes evidence, and how many refusals that
// stands for. nodeID comes from the session or the certificate, and is "" without either.
func (p *Platform) keepRejection(r *http.Request, nodeID, why string) (count int64, keep bool) {
	rows := nodeRows
	if nodeID == "" || p.knownNode(r.Context(), nodeID) == unknownActor {
		nodeID, rows = "", strangerRows
	}
	return p.denials.count(denialKind{web.Remote(r), why, nodeID}, rows, p.now(), seconds(p.cfg.Policy.AuditDedupeWindow))
}

// keepDenial writes a denial. If own is set, it becomes the node's last denial.
func (p *Platform) keepDenial(ctx context.Context, e store.Evidence, code string, own, keep bool) {
	var err error
	switch {
	case own:
		err = p.store.RecordDenial(ctx, code, e, keep)
	case keep:
		err = p.store.Record(ctx, e)
	}
	if err != nil {
		p.log.Error("record evidence", "error", err)
	}
}

// otherHost reports whether a denial concerns another host than the node's, whose identity is accepted: a fenced
// host, or one with a certificate that the node has since replaced.
func (p *Platform) otherHost(ctx context.Context, nodeID, serial, code string) bool {
	n, err := p.store.Node(ctx, nodeID)
	if err != nil || n.Identity != "" {
		return false
	}
	if code == wire.DenyFenced {
		return true
	}
	old, err := p.store.Cert(ctx, serial)
	if err != nil || old.NodeID != nodeID {
		return false
	}
	// a newer one is in use: by the node, if that sends heartbeats
	if old.RevokedAt.IsZero() && old.SupersededAt.IsZero() {
		used, err := p.store.NewerUsed(ctx, nodeID, old.Generation)
		return err == nil && !used.IsZero() && code == wire.DenyNotNodeBound &&
			p.now().Sub(n.LastHeartbeatAt) < seconds(p.cfg.Policy.HeartbeatStaleAfter)
	}
	newest, err := p.store.NewestCert(ctx, nodeID)
	return err == nil && newest.Generation > old.Generation && newest.RevokedAt.IsZero() && newest.SupersededAt.IsZero()
}
