package ops

import (
	"context"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// MaxLoginAge is how long a Watcher keeps a login: a fault that prevents new logins may not end an existing one.
const MaxLoginAge = 10 * time.Minute

// Watcher walks repeatedly for one session. The connections to node and platform host stay open between walks; every
// other connection is opened again for each walk, so that each measures every phase. It is not safe for concurrent use.
type Watcher struct {
	s        *Session
	deadline time.Duration
	at       places    // nil: to be connected
	login    time.Time // when the connections were opened
	denied   bool      // the platform refused the operator's token
}

// Watch returns a watcher whose walks end after deadline, and which the caller closes. It does not connect yet.
func (s *Session) Watch(deadline time.Duration) *Watcher { return &Watcher{s: s, deadline: deadline} }

// Walk makes one walk, with its own ids, until ctx ends. If a walk does not reach the node over the connection of an
// earlier walk, it is repeated over a new one: the connection may be broken rather than the route.
func (w *Watcher) Walk(ctx context.Context, o WalkOptions) *diag.Report {
	if w.denied {
		w.readSecrets(ctx)
	}
	if w.at != nil && time.Since(w.login) > MaxLoginAge {
		w.Close(ctx)
	}
	kept := w.at != nil
	r := w.once(ctx, o)
	if kept && w.at == nil && ctx.Err() == nil {
		r = w.once(ctx, o)
	}
	w.denied = slices.ContainsFunc(r.Hops, func(h diag.HopResult) bool { return h.Signal == diag.SigOperatorAuthFailed })
	return r
}

// once makes one walk, and closes connections that failed during it.
func (w *Watcher) once(ctx context.Context, o WalkOptions) *diag.Report {
	walking, cancel := context.WithTimeout(ctx, w.deadline)
	defer cancel()
	s := w.s.Renew("preflight")
	if w.at == nil {
		w.at, w.login = s.open(), s.Began
	} else {
		w.at.next(s.Began)
		o.kept = true
	}
	r := s.walk(walking, w.at, o, nil)
	w.at.walked()
	if compare.Unreached(r) {
		w.Close(ctx)
	}
	return r
}

// Close closes the connections.
func (w *Watcher) Close(ctx context.Context) {
	if w.at != nil {
		w.at.close(ctx)
		w.at = nil
	}
}

// readSecrets reads the secrets again: a token may expire during hours of use. If that fails, it keeps the old ones.
func (w *Watcher) readSecrets(ctx context.Context) {
	secrets, err := ReadSecrets(ctx, w.s.site.Profile, true)
	if err != nil {
		return
	}
	site := *w.s.site
	site.Secrets = secrets
	w.s = site.About(w.s.of)
}

// next begins another walk from the same places, without kept connections of this process.
func (at places) next(began time.Time) {
	at[hop.Operator] = vantage.Operator(&probe.Prober{Vantage: hop.Operator, Start: began})
	for _, place := range at {
		if n, ok := place.(interface{ Since(time.Time) }); ok {
			n.Since(began)
		}
	}
}

// walked ends a walk: it closes this process's own connections, and keeps the logins.
func (at places) walked() { _ = at[hop.Operator].Close() }
