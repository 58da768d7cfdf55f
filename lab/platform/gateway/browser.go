package gateway

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// browser handles a browser's upgrade. All checks are made before the upgrade, so that a refusal has a status and
// the error envelope.
func (g *Gateway) browser(w http.ResponseWriter, r *http.Request) error {
	g.wg.Add(1) // before the upgrade: afterwards the server no longer waits for us
	defer g.wg.Done()
	row, err := g.admit(r)
	if err != nil {
		g.rejected(r, store.BrowserRejected, row, err)
		return err
	}
	s := newSession(row)
	if !g.add(s) {
		return errAttached
	}
	defer g.remove(s)
	bound, err := g.bindings.bind(r.Context(), row.ID)
	switch {
	case err != nil:
		err = &web.Error{Status: http.StatusServiceUnavailable, Code: wire.CodeSessionStore,
			Message: "the session could not be bound: the session store does not answer", Err: err}
	case !bound:
		err = errAttached
	default: // check again, now that a decision can find the session: an earlier decision could not end it
		if err = g.allowed(r.Context(), row, nil); err != nil {
			g.unbind(r, row.ID)
		}
	}
	if err != nil {
		g.rejected(r, store.BrowserRejected, row, err)
		return err
	}
	// admit has checked the origin against our own list, with our own error envelope.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{wire.TerminalSubprotocol}, OriginPatterns: []string{"*"},
		OnPingReceived: func(context.Context, []byte) bool { s.requestNodePing(); return true },
	})
	if err != nil { // it has answered already
		g.rejected(r, store.BrowserRejected, row, err)
		g.unbind(r, row.ID)
		return nil
	}
	g.serve(r.Context(), s, conn)
	return nil
}

// unbind releases the binding of a session that got no browser.
func (g *Gateway) unbind(r *http.Request, id string) {
	ctx, cancel := afterwards(r.Context())
	defer cancel()
	if err := g.bindings.release(ctx, id); err != nil {
		g.Log.Error("release session", "error", err)
	}
}

var errAttached = web.Errorf(http.StatusConflict, "session_attached", "the session has its browser already, or had it")

// admit checks the request and its token, and returns the session, as far as it is known.
func (g *Gateway) admit(r *http.Request) (store.Session, error) {
	id := r.PathValue("session_id")
	row := store.Session{ID: id, CorrelationID: web.CorrelationID(r.Context())}
	found, err := g.Store.Session(r.Context(), id)
	switch {
	case err == nil: // whatever the refusal, it concerns this session
		row = found
		if given := web.GivenCorrelationID(r.Context()); given != "" {
			row.CorrelationID = given
		}
	case !errors.Is(err, store.ErrNotFound):
		return row, err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return row, web.Errorf(http.StatusUpgradeRequired, "upgrade_required", "a terminal is a WebSocket")
	}
	if o := r.Header.Get("Origin"); o != "" && !g.originAllowed(o, r.Host) {
		return row, web.Errorf(http.StatusForbidden, "origin_not_allowed", "a terminal cannot be opened from this origin")
	}
	token, spoken := offered(r)
	if !spoken {
		return row, web.Errorf(http.StatusBadRequest, "subprotocol_required", "a terminal speaks %s",
			wire.TerminalSubprotocol)
	}
	if token == "" {
		return row, web.Errorf(http.StatusUnauthorized, "token_missing",
			"a terminal needs its token as subprotocol %s<token>", wire.BearerPrefix)
	}
	if err != nil {
		return row, web.Errorf(http.StatusNotFound, wire.CodeSessionNotFound, "there is no such terminal session")
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(store.Digest(token)), []byte(found.TokenDigest)) != 1:
		return row, web.Errorf(http.StatusUnauthorized, "token_invalid", "the terminal token does not belong to this session")
	case !found.BrowserConnectedAt.IsZero():
		return row, errAttached
	case !g.Now().Before(found.ExpiresAt):
		return row, web.Errorf(http.StatusUnauthorized, wire.DenyTokenExpired, "the terminal token has expired")
	}
	return row, g.allowed(r.Context(), found, nil)
}

// offered returns the token among the offered subprotocols, and whether ours is among them.
func offered(r *http.Request) (token string, spoken bool) {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			p = strings.TrimSpace(p)
			if t, ok := strings.CutPrefix(p, wire.BearerPrefix); ok {
				token = t
			}
			spoken = spoken || p == wire.TerminalSubprotocol
		}
	}
	return token, spoken
}

func (g *Gateway) originAllowed(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return strings.EqualFold(u.Host, host) || g.origins[u.Host] || g.origins[u.Hostname()]
}

// rejected records why an upgrade was refused, unless enough of the same kind is recorded.
func (g *Gateway) rejected(r *http.Request, kind string, row store.Session, err error) {
	code, detail := "internal_error", map[string]any{"remote": web.Remote(r)}
	var e *web.Error
	if errors.As(err, &e) {
		code, detail["message"] = e.Code, e.Message
	}
	count, keep := g.Keep(r, row.NodeID, kind+" "+code) // a preflight's rejections do not crowd out an agent's
	if !keep {
		return
	}
	detail["code"] = code
	if count > 1 {
		detail["count"] = count
	}
	ids := []string{web.GivenCorrelationID(r.Context()), row.CorrelationID}
	if ids[0] == "" && ids[1] == "" {
		ids[0] = web.CorrelationID(r.Context()) // the mint had no correlation id
	}
	for _, id := range slices.Compact(ids) { // under the caller's id and the session's own
		if id != "" {
			g.record(r.Context(), store.Evidence{At: g.Now(), Kind: kind, CorrelationID: id, NodeID: row.NodeID,
				AllocationID: row.AllocationID, SessionID: web.Clipped(row.ID), Detail: detail})
		}
	}
}
