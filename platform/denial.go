package platform

import (
	"context"
	"errors"
	"net/http"

	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/platform/web"
	"github.com/gpuaas/gpuaasctl/wire"
)

// node lets a request through that may act as the node in the path. A denial, here or by the handler, is recorded, and
// counts as the node's last one unless a preflight or another host got it.
func (p *Platform) node(next web.Handler, anyProfile bool) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		from := caller{instance: r.Header.Get(wire.HeaderNodeInstance), remote: web.Remote(r)}
		err := func() error {
			var err error
			if from.cert, err = presented(r); err != nil {
				return err
			}
			if denied := p.denied(r.Context(), r.PathValue("node_id"), from, anyProfile); denied != nil {
				return denied
			}
			return next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, from)))
		}()
		var denial *web.Error
		if errors.As(err, &denial) && (denial.Status == http.StatusUnauthorized || denial.Status == http.StatusForbidden) {
			p.recordDenial(r, from, denial)
		}
		return err
	}
}

// recordDenial writes the evidence of a denial and counts it.
func (p *Platform) recordDenial(r *http.Request, from caller, denial *web.Error) {
	ctx, nodeID := r.Context(), r.PathValue("node_id")
	e := store.Evidence{At: p.now(), Kind: store.NodeDenied, CorrelationID: web.CorrelationID(ctx), NodeID: nodeID, InstanceID: from.instance,
		Detail: map[string]any{"code": denial.Code, "message": denial.Message, "path": r.URL.Path, "remote": from.remote}}
	serial := ""
	if from.cert != nil {
		serial = serialText(from.cert)
		e.Detail["cert_serial"] = serial
	}
	key := store.AuditKey{ActorType: actorNode, ActorID: p.knownNode(ctx, nodeID), CredentialID: serial, Action: actionAuthenticate, Reason: denial.Code}
	write := func() error { return p.store.Denied(ctx, denial.Code, e) }
	if p.otherHost(ctx, nodeID, serial, denial.Code) { // not the node: the right host's contact does not end this failure
		if key.ActorType, key.ActorID = actorHost, from.instance; key.ActorID == "" {
			key.ActorID = from.remote
		}
		write = func() error { return p.store.Record(ctx, e) }
	}
	if isProbe(r) {
		write = func() error { return p.store.Record(ctx, e) }
	}
	if err := write(); err != nil {
		p.log.Error("record evidence", "error", err)
	}
	if isProbe(r) {
		return
	}
	p.metrics.add("node_denials_total", "reason", denial.Code)
	p.failed(ctx, store.Audit{AuditKey: key, NodeID: nodeID, Remote: from.remote})
}

// otherHost reports whether a denial says nothing about the node, whose identity is accepted: it is a fenced host's, or
// one for a certificate that was the node's before it got the one that it has.
func (p *Platform) otherHost(ctx context.Context, nodeID, serial, code string) bool {
	n, err := p.store.Node(ctx, nodeID)
	if err != nil || n.Identity != "" {
		return false
	}
	if code == wire.DenyFenced {
		return true
	}
	old, err := p.store.Cert(ctx, serial)
	if err != nil || old.NodeID != nodeID || old.RevokedAt.IsZero() && old.SupersededAt.IsZero() {
		return false
	}
	newest, err := p.store.NewestCert(ctx, nodeID)
	return err == nil && newest.Generation > old.Generation && newest.RevokedAt.IsZero() && newest.SupersededAt.IsZero()
}
