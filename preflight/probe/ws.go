package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/diag"
)

// bearerPrefix marks the subprotocol that carries the token: a browser can send it in no other way.
const bearerPrefix = "bearer."

// byeTime is how long a peer may take to answer a close frame: a round trip, not an opinion.
const byeTime = time.Second

// maxFrame bounds one frame; a terminal's are small.
const maxFrame = 1 << 20

// ws is the fifth rung: an upgrade, closed at once.
func (p *Prober) ws(ctx context.Context, req diag.Request, f *diag.Fact) {
	c := p.newClimb(req, f)
	if c == nil {
		return
	}
	defer c.leave()
	if ws := c.upgrade(ctx); ws != nil {
		defer c.link.guard(ctx)()
		c.bye(ws)
	}
}

// bye closes a WebSocket politely, but not for long.
func (c *climb) bye(ws *websocket.Conn) {
	stop := time.AfterFunc(byeTime, c.link.close)
	defer stop.Stop()
	_ = ws.Close(websocket.StatusNormalClosure, "")
}

// upgrade turns the link into a WebSocket, or returns nil with the failure written.
func (c *climb) upgrade(ctx context.Context) *websocket.Conn {
	warm, ok := c.arrive(ctx)
	if !ok {
		return nil
	}
	var ws *websocket.Conn
	var h *wsHandshake
	var err error
	if ok, _ = c.overKept(ctx, warm, func() error {
		ws, h, err = c.dialWS(ctx)
		return h.broke
	}); !ok {
		return nil
	}
	facts := &diag.WSFacts{DurationMS: diag.Measured(h.took)}
	c.f.WS = facts
	if h.broke != nil {
		phase, word := exchangeWord(h.broke, c.link.cert, time.Now())
		if phase == phaseHTTP {
			phase = phaseWS
		}
		c.stopped(ctx, phase, diag.HTTPTimeout, word, h.broke)
		return nil
	}
	if h.resp == nil {
		c.failed(phaseWS, diag.Unknown, err)
		return nil
	}
	facts.Status = h.resp.StatusCode
	if facts.Status != http.StatusSwitchingProtocols {
		c.rejected(&h.answer)
		return nil
	}
	c.f.HTTP = headFacts(h.resp)
	c.f.HTTP.DurationMS = facts.DurationMS
	chosen := h.resp.Header.Get("Sec-WebSocket-Protocol")
	facts.Subprotocol = clean(c.req, chosen)
	if len(c.req.Subprotocols) > 0 && !slices.Contains(c.req.Subprotocols, chosen) {
		c.failed(phaseWS, diag.WSSubprotocol, errors.New("the server did not choose a subprotocol that was offered"))
	}
	if err != nil {
		c.failed(phaseWS, diag.WSUpgradeRejected, err)
		return nil
	}
	facts.Upgraded = true
	if c.f.Failure == diag.WSSubprotocol {
		c.bye(ws)
		return nil
	}
	ws.SetReadLimit(maxFrame)
	return ws
}

// rejected names an answer that is no upgrade. Who answered counts for more than that it was no: an edge that limits,
// asks for a login, wants a certificate or is broken itself never let the gateway see the request.
func (c *climb) rejected(a *answer) {
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

// wsHandshake makes the handshake of a WebSocket over the climb's link, as an http.RoundTripper: so that a WebSocket
// has the same ladder, the same phases and the same kept connections as any other request.
type wsHandshake struct {
	c *climb
	answer
	broke  error // what ended it before an answer came
	stream stream
}

func (c *climb) dialWS(ctx context.Context) (*websocket.Conn, *wsHandshake, error) {
	c.publicEdge()
	h := &wsHandshake{c: c, stream: stream{l: c.link}}
	offer := slices.Clone(c.req.Subprotocols)
	if !c.req.Token.IsZero() && c.link.verified {
		offer = append(offer, bearerPrefix+c.req.Token.Reveal())
	}
	ws, _, err := websocket.Dial(ctx, c.to.url.String(), &websocket.DialOptions{
		Subprotocols: offer,
		HTTPClient: &http.Client{
			Transport:     h,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	h.stream.open = err == nil
	return ws, h, err
}

// RoundTrip implements http.RoundTripper.
func (h *wsHandshake) RoundTrip(r *http.Request) (*http.Response, error) {
	l := h.c.link
	l.whole = false
	h.c.headers(r)
	began := time.Now()
	release := l.guard(r.Context())
	resp, err := l.roundTrip(r)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		h.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxBody)) // what came of it is evidence enough
		resp.Body = io.NopCloser(bytes.NewReader(h.body))
	}
	h.took = time.Since(began)
	if !release() && err == nil {
		err = context.Cause(r.Context())
	}
	if err != nil {
		h.broke = err
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &h.stream
	}
	h.resp = resp
	return resp, nil
}

// stream is the connection as a WebSocket uses it: what was read ahead with the handshake comes first. Before it is
// open it has no bytes: the library would wait for a body to show with a handshake that it does not like.
type stream struct {
	l    *link
	open bool
}

func (s *stream) Read(b []byte) (int, error) {
	if !s.open {
		return 0, io.EOF
	}
	return s.l.br.Read(b)
}

func (s *stream) Write(b []byte) (int, error) { return s.l.conn.Write(b) }

func (s *stream) Close() error {
	s.l.close()
	return nil
}

// codeWord names what a terminal's error frame or close reason says. The codes of the shell's own troubles are the
// same on every leg; any other code is kept as evidence beside ws_closed.
func codeWord(code string) (phase string, word diag.Failure) {
	switch {
	case code == "user_missing":
		return phasePTY, diag.UserMissing
	case code == "user_shell_missing":
		return phasePTY, diag.ShellMissing
	case strings.HasPrefix(code, "pty_"), strings.HasPrefix(code, "user_"):
		return phasePTY, diag.PTYFailed
	}
	return phaseWS, diag.WSClosed
}
