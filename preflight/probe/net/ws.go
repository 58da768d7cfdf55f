package net

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/ws"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// bearerPrefix marks the subprotocol that carries the token: a browser can send it in no other way.
const bearerPrefix = "bearer."

// byeTime is how long a peer may take to answer a close frame: it needs only a round trip.
const byeTime = time.Second

// maxFrame bounds one frame; a terminal's are small.
const maxFrame = 1 << 20

// ws is the fifth phase: an upgrade, closed at once.
func (p *Prober) ws(ctx context.Context, req diag.Request, f *diag.Fact) {
	c := p.newExchange(req, f)
	if c == nil {
		return
	}
	defer c.close()
	if conn := c.upgrade(ctx); conn != nil {
		defer c.link.guard(ctx)()
		conn.Close(ws.Normal, "", byeTime)
	}
}

// upgrade turns the link into a WebSocket, or returns nil with the failure recorded.
func (c *exchange) upgrade(ctx context.Context) *ws.Conn {
	warm, ok := c.connectWarm(ctx)
	if !ok {
		return nil
	}
	if !c.confidential() {
		return nil
	}
	var h wsHandshake
	if ok, _ = c.overKept(ctx, warm, func() error {
		h = c.shakeHands(ctx)
		return h.broke
	}); !ok {
		return nil
	}
	facts := &diag.WSFacts{DurationMS: diag.Measured(h.took)}
	c.f.WS = facts
	if h.broke != nil {
		c.f.TCP.AnswerBegan = c.link.answers
		phase, word := exchangeWord(c.orHTTP2(ctx, h.broke), c.link.cert, time.Now())
		if phase == phaseHTTP {
			phase = phaseWS
		}
		c.stopped(ctx, phase, diag.HTTPTimeout, word, h.broke)
		return nil
	}
	facts.Status = h.resp.StatusCode
	if facts.Status != http.StatusSwitchingProtocols {
		c.rejected(&h.answer)
		return nil
	}
	c.f.HTTP = headFacts(c.req, h.resp)
	c.f.HTTP.DurationMS = facts.DurationMS
	chosen := h.resp.Header.Get("Sec-WebSocket-Protocol")
	facts.Subprotocol = scrub.Clean(c.req, chosen)
	if len(c.req.Subprotocols) > 0 && !slices.Contains(c.req.Subprotocols, chosen) {
		c.failed(phaseWS, diag.WSSubprotocol, errors.New("the server did not choose a subprotocol that was offered"))
	}
	conn, err := ws.Open(h.resp, stream{c.link}, maxFrame)
	if err != nil {
		c.failed(phaseWS, diag.WSUpgradeRejected, err)
		return nil
	}
	facts.Upgraded = true
	if c.f.Failure == diag.WSSubprotocol {
		conn.Close(ws.Normal, "", byeTime)
		return nil
	}
	return conn
}

// rejected records an answer that is not an upgrade. The origin of the answer outranks the refusal: an edge that
// limits, shows a login page, requires a certificate or is broken itself did not pass the request to the gateway.
func (c *exchange) rejected(a *answer) {
	word := c.describe(a)
	switch word {
	case diag.HTTPRateLimited, diag.HTTPEdgeAuth, diag.MTLSIngress400:
		c.failed(phaseHTTP, word, nil)
	case diag.HTTPEdgePage:
		if a.resp.StatusCode >= 500 {
			c.failed(phaseHTTP, word, nil)
			break
		}
		fallthrough
	default:
		c.failed(phaseWS, diag.WSUpgradeRejected, nil)
	}
}

// wsHandshake is a handshake over the exchange's link, and its result: a WebSocket has the same phases and the same
// kept connections as any other request.
type wsHandshake struct {
	answer
	broke error // the error that ended it before an answer
}

func (c *exchange) shakeHands(ctx context.Context) (h wsHandshake) {
	c.publicEdge()
	offer := slices.Clone(c.req.Subprotocols)
	if place, prefix := c.tokenPlace(); place == "subprotocol" && !c.req.Token.IsZero() && c.mayReveal() {
		offer = append(offer, prefix+c.req.Token.Reveal())
	}
	r, err := ws.Request(ctx, c.to.url.String(), offer...)
	if err != nil {
		h.broke = errors.New("the request cannot be written")
		return h
	}
	c.headers(r)
	c.putToken(r)
	began := time.Now()
	release := c.link.guard(ctx)
	c.link.whole = false
	if h.resp, h.broke = c.link.roundTrip(r); h.broke == nil && h.resp.StatusCode != http.StatusSwitchingProtocols {
		h.body, _ = io.ReadAll(io.LimitReader(h.resp.Body, maxBody)) // whatever was read is evidence enough
	}
	h.took = time.Since(began)
	if !release() && h.broke == nil {
		h.broke = context.Cause(ctx)
	}
	return h
}

// stream is the connection as a WebSocket uses it: it begins with what was read ahead during the handshake.
type stream struct{ l *link }

func (s stream) Read(b []byte) (int, error)  { return s.l.br.Read(b) }
func (s stream) Write(b []byte) (int, error) { return s.l.conn.Write(b) }

func (s stream) Close() error {
	s.l.close()
	return nil
}

// codeWord returns the failure for a terminal's error frame or close reason. The codes of the shell's own failures are
// the same on every leg; any other code is kept as evidence with ws_closed.
func codeWord(code string) (phase string, word diag.Failure) {
	switch {
	case code == diag.CodeUserMissing:
		return phasePTY, diag.UserMissing
	case code == diag.CodeShellMissing:
		return phasePTY, diag.ShellMissing
	case diag.ShellCode(code):
		return phasePTY, diag.PTYFailed
	}
	return phaseWS, diag.WSClosed
}
