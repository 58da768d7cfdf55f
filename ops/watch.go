package ops

import (
	"context"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// LoginAgain is how long a Watcher keeps a login: what keeps new logins out does not end one that is there.
const LoginAgain = 10 * time.Minute

// Watcher walks for one session again and again. The connections to node and platform host stay open between walks;
// every other connection is made again for each walk, so that each measures every phase. It is not for use by several
// at once.
type Watcher struct {
	s        *Session
	deadline time.Duration
	at       places    // nil: to be connected
	login    time.Time // when the connections were opened
	denied   bool      // the platform did not accept the operator's token
}

// Watch makes a watcher whose walks end after deadline; nothing is connected yet, and the caller closes it.
func (s *Session) Watch(deadline time.Duration) *Watcher { return &Watcher{s: s, deadline: deadline} }

// Walk makes one walk, under ids of its own, until ctx ends. A walk that did not get to the node over a connection of
// an earlier walk is made again over a new one: it may be the connection that broke, and not the way.
func (w *Watcher) Walk(ctx context.Context, o WalkOptions) *diag.Report {
	if w.denied {
		w.readSecrets(ctx)
	}
	if w.at != nil && time.Since(w.login) > LoginAgain {
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

// once makes one walk, and closes connections that did not carry it.
func (w *Watcher) once(ctx context.Context, o WalkOptions) *diag.Report {
	walking, cancel := context.WithTimeout(ctx, w.deadline)
	defer cancel()
	s := w.s.Again("preflight")
	if w.at == nil {
		w.at, w.login = s.open(), s.Began
	} else {
		w.at.next(s.Began)
		o.kept = true
	}
	r := s.walk(walking, w.at, o, nil)
	w.at.walked()
	if preflight.Unreached(r) {
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

// readSecrets reads them again: a token expires while it is used for hours. Without new ones the old ones stay.
func (w *Watcher) readSecrets(ctx context.Context) {
	secrets, err := ReadSecrets(ctx, w.s.site.Profile, true)
	if err != nil {
		return
	}
	site := *w.s.site
	site.Secrets = secrets
	w.s = site.About(w.s.of)
}

// next begins another walk from the same places: of this process's own connections none is kept.
func (at places) next(began time.Time) {
	at[preflight.Operator] = vantage.Operator(&probe.Prober{Vantage: preflight.Operator, Start: began})
	for _, place := range at {
		if n, ok := place.(interface{ Since(time.Time) }); ok {
			n.Since(began)
		}
	}
}

// walked ends a walk: what this process has open is closed, and the logins stay.
func (at places) walked() { _ = at[preflight.Operator].Close() }
