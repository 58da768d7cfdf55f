// Package gateway joins a browser's terminal with a node's: it binds the session in Redis, asks the node for a stream
// by a terminal.open task, and copies frames both ways. Whatever goes wrong, the browser is informed by a structured
// error within the node stream's time; it never waits in silence.
//
// It never dials a node: the node comes to it, on a listener of its own where the gateway ends mutual TLS.
package gateway

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
	"github.com/gpuaas/gpuaasctl/wire"
)

// PathBrowserTerminal is where a browser opens its session.
const PathBrowserTerminal = "/v1/terminal/{session_id}"

// Options is what a gateway needs; every field but AllowedOrigins and Redis' login is required.
type Options struct {
	Store *store.Store
	Queue *queue.Queue
	Log   *slog.Logger
	Now   func() time.Time
	Redis string // host:port

	RedisUser     string      // "": Redis' default user
	RedisPassword diag.Secret // zero: none

	// Denied returns why a verified client certificate may not act as a node, or nil if it may.
	Denied func(r *http.Request, nodeID string, c *x509.Certificate) *web.Error

	// Proven returns why a node stream that would join a session does not come from the host that sends the node's
	// heartbeats, or nil if it does or if that is unknown.
	Proven func(r *http.Request, nodeID string, c *x509.Certificate) *web.Error

	// Keep reports whether a refused upgrade becomes evidence, and how many it counts for: callers can repeat it.
	// nodeID is "" where neither a session nor a certificate names one; two with the same why are of one kind.
	Keep func(r *http.Request, nodeID, why string) (count int64, keep bool)

	SessionLimit time.Duration // how long a session may last
	IdleLimit    time.Duration // how long nothing may go either way

	NodeStreamTimeout time.Duration // from the browser's attach to the terminal's first ready or error
	TerminalBase      string        // a browser's Origin may be this URL's host
	AllowedOrigins    []string      // or one of these hosts
}

// Gateway holds the sessions in progress. Use New, and Close after the listeners have ended.
type Gateway struct {
	Options
	bindings *bindings
	origins  map[string]bool
	wg       sync.WaitGroup // upgrades, sessions and node streams

	mu   sync.Mutex
	live map[string]*session // by session id; guarded by mu
}

// New makes a gateway.
func New(o Options) *Gateway {
	g := &Gateway{Options: o, bindings: newBindings(o, store.NewID("gateway-")), origins: map[string]bool{},
		live: map[string]*session{}}
	for _, h := range o.AllowedOrigins {
		g.origins[h] = true
	}
	if u, err := url.Parse(o.TerminalBase); err == nil && u.Host != "" {
		g.origins[u.Host] = true
	}
	return g
}

// Wait returns when every session has ended. The request contexts must have been cancelled.
func (g *Gateway) Wait() { g.wg.Wait() }

// Close frees the connection to Redis.
func (g *Gateway) Close() error { return g.bindings.close() }

// BrowserHandler answers browsers; its health does not depend on Redis.
func (g *Gateway) BrowserHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+wire.PathHealth, web.Handler(healthz))
	mux.Handle("GET "+PathBrowserTerminal, web.Handler(g.browser))
	mux.Handle("/", web.Handler(web.NotFound))
	return web.Front(g.Log, "gateway", mux)
}

// NodeHandler answers nodes whose certificate was verified by TLS.
func (g *Gateway) NodeHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+wire.PathHealth, web.Handler(healthz))
	mux.Handle("GET "+wire.PathNodeTerminal, web.Handler(g.node))
	mux.Handle("/", web.Handler(web.NotFound))
	return web.Front(g.Log, "node_terminal", mux)
}

func healthz(w http.ResponseWriter, _ *http.Request) error {
	return web.Answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// add makes a session known to the node's side; false when it is known already.
func (g *Gateway) add(s *session) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live[s.row.ID] != nil {
		return false
	}
	g.live[s.row.ID] = s
	return true
}

func (g *Gateway) remove(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, s.row.ID)
}

// find returns a session in progress, or nil.
func (g *Gateway) find(id string) *session {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live[id]
}

// record writes evidence; that it could not is logged and stops nothing.
func (g *Gateway) record(ctx context.Context, e store.Evidence) {
	if err := g.Store.Record(ctx, e); err != nil {
		g.Log.Error("record evidence", "kind", e.Kind, "error", err)
	}
}
