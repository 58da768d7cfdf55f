// Package gateway connects a browser's terminal with a node's: it binds the session in Redis, asks the node for a
// stream with a terminal.open task, and copies frames both ways. On any failure, the browser gets a structured
// error within the node stream's timeout; it never waits in silence.
//
// The gateway never dials a node: nodes connect to a separate listener, on which the gateway terminates mutual
// TLS.
package gateway

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// PathBrowserTerminal is the path at which a browser opens its session.
const PathBrowserTerminal = "/v1/terminal/{session_id}"

// Options configure a gateway. Every field but AllowedOrigins and Redis's login is required.
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
	// heartbeats; nil if it does or if that is unknown.
	Proven func(r *http.Request, nodeID string, c *x509.Certificate) *web.Error

	// Keep reports whether a refused upgrade becomes evidence, and how many refusals that stands for, since callers
	// can repeat it. nodeID is "" if neither a session nor a certificate names one; refusals with the same why are
	// of one kind.
	Keep func(r *http.Request, nodeID, why string) (count int64, keep bool)

	SessionLimit time.Duration // how long a session may last
	IdleLimit    time.Duration // time limit without a frame in either direction

	NodeStreamTimeout time.Duration // from the browser's attach to the terminal's first ready or error
	TerminalBase      string        // its host is allowed as a browser's Origin
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

// New creates a gateway.
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

// Wait returns when every session has ended. Cancel the request contexts first.
func (g *Gateway) Wait() { g.wg.Wait() }

// Close closes the connection to Redis.
func (g *Gateway) Close() error { return g.bindings.close() }

// BrowserHandler serves browsers; its health check does not depend on Redis.
func (g *Gateway) BrowserHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+wire.PathHealth, web.Handler(healthz))
	mux.Handle("GET "+PathBrowserTerminal, web.Handler(g.browser))
	mux.Handle("/", web.Handler(web.NotFound))
	return web.Front(g.Log, "gateway", mux)
}

// NodeHandler serves nodes whose certificate TLS has verified.
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

// add makes a session visible to the node's side; it returns false if the session exists.
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

// record writes evidence; a failure is logged and stops nothing.
func (g *Gateway) record(ctx context.Context, e store.Evidence) {
	if err := g.Store.Record(ctx, e); err != nil {
		g.Log.Error("record evidence", "kind", e.Kind, "error", err)
	}
}
