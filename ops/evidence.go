package ops

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// Timeouts of the sources: each is much longer than a healthy answer takes, and they run concurrently.
const (
	clockTime   = 3 * time.Second
	recordTime  = 10 * time.Second // two rings from a disk that may be failing
	journalTime = 10 * time.Second // journalctl reads files of gigabytes backwards
	apiTime     = 5 * time.Second
	// walkLead is how long sources that will record the walk wait for its end.
	walkLead = 8 * time.Second

	maxRecord  = 10000 // entries: more than both rings have
	maxJournal = 5000  // lines
	maxLatest  = 500   // lines of the platform's host, about any node
	maxTasks   = 40    // the newest tasks that are read
)

// ingressFiles are nginx's log files if it does not log to the journal.
var ingressFiles = [...]string{"/var/log/nginx/access.log", "/var/log/nginx/error.log"}

// The units on the platform's host whose logs are read.
const (
	platformUnit = "gpuaas-platform.service"
	ingressUnit  = "nginx.service"
)

// Measured is everything that was measured for the evidence about one node. The fact of a source that was not queried
// has no request.
type Measured struct {
	Report        *diag.Report // nil: no walk was requested
	NodeClock     diag.Fact
	Record, Agent diag.Fact
	PlatformClock diag.Fact
	Platform      diag.Fact
	Ingress       []diag.Fact // about the node; the unit's journal first, then files
	Latest        []diag.Fact // the newest lines of the platform and the ingress, about any node
	Node          diag.Fact   // read model
	Allocation    diag.Fact
	Evidence      []diag.Fact // by correlation ids, then by node
	Items         []evidence.Item
	Tasks         []diag.Fact
}

// collector queries all sources of evidence about one node.
type collector struct {
	s        *Session
	since    time.Time
	walk     bool
	at       places
	walked   chan struct{} // closed when the walk is over, or if there is none
	measured Measured
}

// EvidenceOptions select which evidence is gathered.
type EvidenceOptions struct {
	Since time.Time // the beginning of the requested history
	Walk  bool      // also walk the chain, with a terminal session
}

// Evidence queries every source that may know something about the node, walks the chain if requested, and joins
// everything into one history. The result is not nil even if sources failed; each source has its own status.
func (s *Session) Evidence(ctx context.Context, o EvidenceOptions) (*Evidence, error) {
	h := s.measure(ctx, o)
	if err := s.knownNode(&h.Node); err != nil {
		return nil, err
	}
	by := diag.EndedCompleted
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		by = diag.EndedInterrupted
	case ctx.Err() != nil:
		by = diag.EndedDeadline
	}
	return s.Gather(h, o.Since, time.Now(), by), nil
}

// measure queries all sources at once, each with its own timeout, and returns when all have answered or ctx is done. A
// silent source does not delay the others.
func (s *Session) measure(ctx context.Context, o EvidenceOptions) *Measured {
	c := &collector{s: s, since: o.Since, walk: o.Walk, at: s.open(), walked: make(chan struct{})}
	defer c.at.close(ctx)
	var wg sync.WaitGroup
	for _, ask := range [...]func(context.Context){c.askWalk, c.askRecord, c.askNode, c.askPlatform, c.askReadModel,
		c.askEvidence} {
		wg.Go(func() { ask(ctx) })
	}
	wg.Wait()
	return &c.measured
}

// askWalk makes the walk, over the connections that the other requests use.
func (c *collector) askWalk(ctx context.Context) {
	defer close(c.walked)
	if c.walk {
		c.measured.Report = c.s.walk(ctx, c.at, WalkOptions{Terminal: true}, nil)
	}
}

// around calls ask at once, so that there is a result whatever happens later, and again after the walk, to include what
// the walk caused. The second result counts only if it is good. ask returns whether it is, and a function that stores
// it.
func (c *collector) around(ctx context.Context, ask func(context.Context) (good bool, keep func())) {
	_, keep := ask(ctx)
	keep()
	if !c.walk {
		return
	}
	timer := time.NewTimer(walkLead)
	defer timer.Stop()
	select {
	case <-c.walked:
	case <-timer.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return
	}
	if good, keep := ask(ctx); good {
		keep()
	}
}

// ask sends requests to a place within limit. For a place that this profile does not have, it returns no answers.
func (c *collector) ask(ctx context.Context, place string, limit time.Duration, reqs ...diag.Request) []diag.Fact {
	v, ok := c.at[place]
	facts := make([]diag.Fact, len(reqs))
	if !ok {
		return facts
	}
	for i := range reqs {
		reqs[i].TimeoutMS = limit.Milliseconds()
	}
	facts = v.Probe(ctx, reqs)
	for i := range facts {
		facts[i].Vantage = place
		c.s.env.Known.Clean(&facts[i])
	}
	return facts
}

func (c *collector) askRecord(ctx context.Context) {
	if c.s.env.Subject.NodeHost == "" {
		return
	}
	c.measured.Record = c.ask(ctx, hop.Node, recordTime,
		diag.Request{ID: "record", Op: diag.OpRecord, Target: c.s.env.Profile.Agent.Record, View: diag.ViewHost,
			Limit: maxRecord})[0]
}

// clockLooks is how often a clock is read: the fastest answer is the most precise one.
const clockLooks = 4

// clock returns the most precise of several readings of a place's clock.
func (c *collector) clock(ctx context.Context, place string) diag.Fact {
	var best diag.Fact
	for range clockLooks {
		f := c.ask(ctx, place, clockTime, diag.Request{ID: place + "_clock", Op: diag.OpClock})[0]
		if !f.Passed() || f.Clock == nil || f.Clock.ErrorMS == nil {
			if best.Clock == nil {
				best = f
			}
			return best
		}
		if best.Clock == nil || *f.Clock.ErrorMS < *best.Clock.ErrorMS {
			best = f
		}
	}
	return best
}

func (c *collector) askNode(ctx context.Context) {
	if c.s.env.Subject.NodeHost == "" {
		return
	}
	c.measured.NodeClock = c.clock(ctx, hop.Node)
	c.around(ctx, func(ctx context.Context) (bool, func()) {
		f := c.ask(ctx, hop.Node, journalTime, c.journal("agent", c.s.env.Profile.Agent.Unit))[0]
		return f.Passed(), func() { c.measured.Agent = f }
	})
}

func (c *collector) askPlatform(ctx context.Context) {
	c.measured.PlatformClock = c.clock(ctx, hop.Platform)
	c.around(ctx, func(ctx context.Context) (bool, func()) {
		reqs := []diag.Request{c.about("platform", platformUnit), c.about("ingress", ingressUnit)}
		for _, path := range ingressFiles {
			reqs = append(reqs, c.about("ingress "+path, path))
		}
		at := len(reqs) // their newest lines about any node, since a crash names no node
		reqs = append(reqs, c.journal("platform", platformUnit), c.journal("ingress", ingressUnit))
		reqs[at].Limit, reqs[at+1].Limit = maxLatest, maxLatest
		facts := c.ask(ctx, hop.Platform, journalTime, reqs...)
		return facts[0].Passed() && facts[1].Passed(), func() {
			c.measured.Platform, c.measured.Ingress, c.measured.Latest = facts[0], facts[1:at], facts[at:]
		}
	})
}

// about requests a journal's lines about this node: on a platform of thousands of nodes, the newest lines are about
// others.
func (c *collector) about(id, target string) diag.Request {
	req := c.journal(id+" about the node", target)
	s := c.s.env.Subject
	for _, id := range [...]string{s.NodeID, s.AllocationID, s.CorrelationID, c.s.env.CorrelationID} {
		if id != "" {
			req.Match = append(req.Match, id)
		}
	}
	return req
}

func (c *collector) journal(id, target string) diag.Request {
	return diag.Request{ID: id, Op: diag.OpJournal, Target: target, View: diag.ViewHost, Limit: maxJournal,
		Since: diag.At(c.since)}
}
