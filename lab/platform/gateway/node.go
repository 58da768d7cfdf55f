package gateway

import (
	"context"
	"crypto/x509"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// node handles the upgrade of a node's stream. After checking the node's identity it responds with
// session_not_found if the session is not in progress, so that a preflight can test this leg without a session.
func (g *Gateway) node(w http.ResponseWriter, r *http.Request) error {
	g.wg.Add(1) // before the upgrade: afterwards the server no longer waits for us
	defer g.wg.Done()
	id := r.PathValue("session_id")
	row := store.Session{ID: id, CorrelationID: web.CorrelationID(r.Context())}
	s, err := g.admitNode(r, id, &row)
	if err != nil {
		kind := store.StreamRejected
		if r.Header.Get(wire.HeaderProbe) != "" {
			kind = store.StreamProbed
		}
		g.rejected(r, kind, row, err)
		return err
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.TerminalSubprotocol},
		OnPongReceived: func(context.Context, []byte) { s.nodeAnswered() }})
	if err != nil { // it has answered already
		s.taken.Store(false)
		g.rejected(r, store.StreamRejected, s.row, err)
		return nil
	}
	select {
	case s.stream <- conn:
		<-s.done // the session owns the connection; the request lasts as long
	case <-s.done:
		_ = conn.Close(closeSessionEnded, wire.CodeSessionNotFound) // too late; tell the node why
	}
	return nil
}

// admitNode returns the session that the node may join, and takes its only slot. It fills in row as far as it is
// known.
func (g *Gateway) admitNode(r *http.Request, id string, row *store.Session) (*session, error) {
	var cert *x509.Certificate
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		cert = r.TLS.PeerCertificates[0]
	}
	if cert == nil {
		return nil, web.Errorf(http.StatusUnauthorized, wire.CodeNodeStreamMTLS, "a node stream needs a client certificate")
	}
	row.NodeID = cert.Subject.CommonName
	if denied := g.Denied(r, row.NodeID, cert); denied != nil {
		return nil, denied
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return nil, web.Errorf(http.StatusUpgradeRequired, "upgrade_required", "a node stream is a WebSocket")
	}
	s := g.find(id)
	if s == nil {
		return nil, web.Errorf(http.StatusNotFound, wire.CodeSessionNotFound, "no browser waits for this terminal session")
	}
	*row = s.row
	if s.row.NodeID != cert.Subject.CommonName {
		return nil, web.Errorf(http.StatusForbidden, wire.DenyNotNodeBound, "the terminal session belongs to another node")
	}
	if denied := g.Proven(r, row.NodeID, cert); denied != nil {
		return nil, denied
	}
	if !s.taken.CompareAndSwap(false, true) {
		return nil, web.Errorf(http.StatusConflict, "stream_exists", "the terminal session has its node stream already")
	}
	source := store.Source{InstanceID: r.Header.Get(wire.HeaderNodeInstance), Remote: web.Remote(r),
		Serial: cert.SerialNumber.Text(16)}
	s.source.Store(&source) // before the state is read again, so that a later decision finds it
	if err := g.allowed(r.Context(), s.row, &source); err != nil {
		s.taken.Store(false)
		return nil, err
	}
	return s, nil
}
