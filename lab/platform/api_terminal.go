package platform

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/gateway"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// newToken returns 256 random bits in characters that are allowed in a WebSocket subprotocol.
func newToken() diag.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return diag.NewSecret(base64.RawURLEncoding.EncodeToString(b[:]))
}

// tokenView is the response to a mint, the only one that contains the token.
type tokenView struct {
	Token     string    `json:"token"`
	SessionID string    `json:"session_id"`
	ExpiresAt diag.Time `json:"expires_at"`
	URL       string    `json:"url"`
	Now       diag.Time `json:"now"`
}

// mintToken creates a terminal session and its token. It needs only the database, so a successful mint does not
// show that Redis works.
func (p *Platform) mintToken(w http.ResponseWriter, r *http.Request) error {
	ctx, now := r.Context(), p.now()
	a, err := p.store.Allocation(ctx, r.PathValue("id"))
	if err != nil {
		return notFound(err, "allocation")
	}
	if a.State != store.StateActive {
		err := p.store.Record(ctx,
			store.Evidence{At: now, Kind: store.MintRefused, CorrelationID: web.CorrelationID(ctx), NodeID: a.NodeID,
				AllocationID: a.ID, Detail: map[string]any{"state": a.State}})
		if err != nil {
			return err
		}
		return web.Errorf(http.StatusConflict, "allocation_not_active", "the allocation is %s; a terminal needs it to be %s",
			a.State, store.StateActive)
	}
	token := newToken()
	s := store.Session{ID: store.NewID("ts-"), AllocationID: a.ID, NodeID: a.NodeID, OSUser: a.OSUser,
		TokenDigest: store.Digest(token.Reveal()), CorrelationID: web.CorrelationID(ctx), CreatedAt: now,
		ExpiresAt: now.Add(seconds(p.cfg.Policy.TerminalTokenTTL))}
	if err := p.store.Mint(ctx, s); err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, tokenView{Token: token.Reveal(), SessionID: s.ID, ExpiresAt: when(s.ExpiresAt),
		URL: websocketURL(p.cfg.Endpoints.BrowserTerminalBase, s.ID), Now: diag.At(now)})
}

// websocketURL returns the URL at which a browser opens the session.
func websocketURL(base, sessionID string) string {
	base = strings.TrimRight(base, "/")
	if rest, ok := strings.CutPrefix(base, "http"); ok { // http -> ws, https -> wss
		base = "ws" + rest
	}
	return base + "/v1/terminal/" + url.PathEscape(sessionID)
}

// sessionView is the read model of a terminal session for the operator.
type sessionView struct {
	ID                    string    `json:"id"`
	AllocationID          string    `json:"allocation_id"`
	NodeID                string    `json:"node_id"`
	CorrelationID         string    `json:"correlation_id"`
	Task                  *taskView `json:"task,omitempty"` // its terminal.open, once a browser has connected
	CreatedAt             diag.Time `json:"created_at"`
	ExpiresAt             diag.Time `json:"expires_at"`
	BrowserConnectedAt    diag.Time `json:"browser_connected_at,omitzero"`
	NodeStreamConnectedAt diag.Time `json:"node_stream_connected_at,omitzero"`
	PTYReadyAt            diag.Time `json:"pty_ready_at,omitzero"`
	ClosedAt              diag.Time `json:"closed_at,omitzero"`
	CloseReason           string    `json:"close_reason,omitempty"`
	ClosedBy              string    `json:"closed_by,omitempty"` // browser | node | gateway | decision
	// code of that side's close frame; 1006: its connection broke without one
	CloseCode   int       `json:"close_code,omitempty"`
	CloseDetail string    `json:"close_detail,omitempty"` // reason in that frame, or how the connection broke
	NodeAnswers string    `json:"node_answers,omitempty"` // yes | no: whether the node answered the gateway's last ping
	Now         diag.Time `json:"now"`
}

func (p *Platform) getSession(w http.ResponseWriter, r *http.Request) error {
	s, err := p.store.Session(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "session")
	}
	v := sessionView{ID: s.ID, AllocationID: s.AllocationID, NodeID: s.NodeID, CorrelationID: s.CorrelationID,
		CreatedAt: when(s.CreatedAt), ExpiresAt: when(s.ExpiresAt), BrowserConnectedAt: when(s.BrowserConnectedAt),
		NodeStreamConnectedAt: when(s.NodeStreamConnectedAt), PTYReadyAt: when(s.PTYReadyAt), ClosedAt: when(s.ClosedAt),
		CloseReason: s.CloseReason, ClosedBy: s.Closing.By, CloseCode: s.Closing.Code,
		CloseDetail: s.Closing.Detail, NodeAnswers: s.Closing.NodeAnswers, Now: diag.At(p.now())}
	if s.TaskID != "" {
		t, err := p.store.Task(r.Context(), s.TaskID)
		if err != nil {
			return notFound(err, "task")
		}
		v.Task = new(p.taskView(t))
	}
	return web.Answer(w, http.StatusOK, v)
}

// endSessions ends the terminal sessions that a stored decision about a node's identity no longer permits, and
// returns how many. Fencing a host ends that host's sessions; with a new identity no older certificate is
// accepted.
func (p *Platform) endSessions(ctx context.Context, d store.Decision) int {
	of := gateway.OfNode(d.NodeID)
	switch {
	case d.Action == store.Fence && d.InstanceID != "":
		return p.gateway.Review(ctx, d.NodeID)
	case d.Action == store.Reactivate && d.NewIdentity:
		return p.gateway.End(of, wire.EndIdentityReplaced)
	case d.Action == store.Fence:
		return p.gateway.End(of, wire.EndNodeFenced)
	case d.Action == store.Revoke:
		return p.gateway.End(of, wire.EndNodeRevoked)
	case d.Action == store.Retire:
		return p.gateway.End(of, wire.EndNodeRetired)
	}
	return 0
}
