package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/evidence"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Witnesses' own deadlines: each is longer than a healthy answer takes by far, and none waits for another's.
const (
	clockTime   = 3 * time.Second
	recordTime  = 10 * time.Second // two rings from a disk that may be dying
	journalTime = 10 * time.Second // journalctl reads files of gigabytes backwards
	apiTime     = 5 * time.Second
	// walkLead is how long witnesses who will have something to say about the walk wait for its end.
	walkLead = 8 * time.Second

	recordMost  = 10000 // entries: more than both rings hold
	journalMost = 5000  // lines
	lastWords   = 500   // lines of the platform's host, about whomever
	tasksMost   = 40    // the newest tasks that are looked at
)

// platformPlace is the vantage on the platform's own host.
const platformPlace = "platform"

// ingressFiles are where nginx writes when it does not write to the journal.
var ingressFiles = [...]string{"/var/log/nginx/access.log", "/var/log/nginx/error.log"}

// platformUnits are the units of the platform's host whose lines are read.
const (
	platformUnit = "gpuaas-platform.service"
	ingressUnit  = "nginx.service"
)

// witnesses is everything that was heard about one node. A fact of a witness that was not asked has no request.
type witnesses struct {
	report        *diag.Report // nil: no walk was asked for
	nodeClock     diag.Fact
	record, agent diag.Fact
	platformClock diag.Fact
	platform      diag.Fact
	ingress       []diag.Fact // about the node; the unit's journal first, then files
	lastWords     []diag.Fact // the platform's and the ingress's newest lines, about whomever
	node          diag.Fact   // read model
	allocation    diag.Fact
	evidence      []diag.Fact // by correlation ids, then by node
	items         []evidence.Item
	tasks         []diag.Fact
}

// hearing is one round of asking all witnesses.
type hearing struct {
	job    *job
	since  time.Time
	walk   bool
	places map[string]preflight.Vantage
	walked chan struct{} // closed when the walk is over, or none is made
	w      witnesses
}

// hear asks everybody at once, each with a deadline of its own, and returns when all have answered or ctx is done.
// Nobody who is silent keeps another from being heard.
func (j *job) hear(ctx context.Context, since time.Time, walk bool) *witnesses {
	h := &hearing{job: j, since: since, walk: walk, places: j.witnessPlaces(), walked: make(chan struct{})}
	defer closeAll(ctx, h.places)
	var wg sync.WaitGroup
	for _, ask := range [...]func(context.Context){h.askWalk, h.askRecord, h.askNode, h.askPlatform, h.askReadModel, h.askEvidence} {
		wg.Go(func() { ask(ctx) })
	}
	wg.Wait()
	return &h.w
}

// witnessPlaces are a walk's vantages, and the platform's host where the profile knows how to get there.
func (j *job) witnessPlaces() map[string]preflight.Vantage {
	places := j.vantages()
	p := j.Env.Profile
	if p.PlatformSSH.Host != "" {
		places[platformPlace] = vantage.NewNode(vantage.NodeConfig{ID: platformPlace, Host: p.PlatformSSH.Host, SSH: p.PlatformSSH,
			Version: j.Tool, HelperDirs: vantage.HelperDirs(j.libexec), Start: j.Began})
	}
	return places
}

// askWalk makes the walk. It has the vantages for itself only where it wants to: they are shared.
func (h *hearing) askWalk(ctx context.Context) {
	defer close(h.walked)
	if !h.walk {
		return
	}
	j := h.job
	j.Plan = preflight.NewPlan(j.Env.Profile, j.Env.Subject, preflight.Options{
		Session: true, Token: !j.Env.Token.IsZero(), SSH: j.Env.Subject.NodeHost != "",
	})
	j.Vantages = map[string]preflight.Vantage{preflight.Operator: h.places[preflight.Operator], preflight.Node: h.places[preflight.Node]}
	h.w.report = preflight.Run(ctx, &j.Job)
}

// around asks at once, so that something is there whatever happens later, and once more after the walk, so that what
// it made others write is heard as well. The second answer counts only where it is a good one. ask says whether it was,
// and how to keep it.
func (h *hearing) around(ctx context.Context, ask func(context.Context) (good bool, keep func())) {
	_, keep := ask(ctx)
	keep()
	if !h.walk {
		return
	}
	timer := time.NewTimer(walkLead)
	defer timer.Stop()
	select {
	case <-h.walked:
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

// ask sends one request to a place within its own time. A place that this profile does not have answers nothing.
func (h *hearing) ask(ctx context.Context, place string, limit time.Duration, reqs ...diag.Request) []diag.Fact {
	v, ok := h.places[place]
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
	}
	return facts
}

func (h *hearing) askRecord(ctx context.Context) {
	if h.job.Env.Subject.NodeHost == "" {
		return
	}
	h.w.record = h.ask(ctx, preflight.Node, recordTime,
		diag.Request{ID: "record", Op: diag.OpRecord, Target: h.job.Env.Profile.Agent.Record, View: diag.ViewHost, Limit: recordMost})[0]
}

// clockLooks is how often a clock is looked at: the quickest answer is the most certain one.
const clockLooks = 4

// clock is the most certain of some looks at a place's clock, one after the other.
func (h *hearing) clock(ctx context.Context, place string) diag.Fact {
	var best diag.Fact
	for range clockLooks {
		f := h.ask(ctx, place, clockTime, diag.Request{ID: place + "_clock", Op: diag.OpClock})[0]
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

func (h *hearing) askNode(ctx context.Context) {
	if h.job.Env.Subject.NodeHost == "" {
		return
	}
	h.w.nodeClock = h.clock(ctx, preflight.Node)
	h.around(ctx, func(ctx context.Context) (bool, func()) {
		f := h.ask(ctx, preflight.Node, journalTime, h.journal("agent", h.job.Env.Profile.Agent.Unit))[0]
		return f.Passed(), func() { h.w.agent = f }
	})
}

func (h *hearing) askPlatform(ctx context.Context) {
	h.w.platformClock = h.clock(ctx, platformPlace)
	h.around(ctx, func(ctx context.Context) (bool, func()) {
		reqs := []diag.Request{h.about("platform", platformUnit), h.about("ingress", ingressUnit)}
		for _, path := range ingressFiles {
			reqs = append(reqs, h.about("ingress "+path, path))
		}
		at := len(reqs) // what they said last, about whomever: a crash names no node
		reqs = append(reqs, h.journal("platform", platformUnit), h.journal("ingress", ingressUnit))
		reqs[at].Limit, reqs[at+1].Limit = lastWords, lastWords
		facts := h.ask(ctx, platformPlace, journalTime, reqs...)
		return facts[0].Passed() && facts[1].Passed(), func() {
			h.w.platform, h.w.ingress, h.w.lastWords = facts[0], facts[1:at], facts[at:]
		}
	})
}

// about is a journal's lines about this node: on a platform of thousands, the newest lines are about others.
func (h *hearing) about(id, target string) diag.Request {
	req := h.journal(id+" about the node", target)
	s := h.job.Env.Subject
	for _, id := range [...]string{s.NodeID, s.AllocationID, s.CorrelationID, h.job.Env.CorrelationID} {
		if id != "" {
			req.Match = append(req.Match, id)
		}
	}
	return req
}

func (h *hearing) journal(id, target string) diag.Request {
	return diag.Request{ID: id, Op: diag.OpJournal, Target: target, View: diag.ViewHost, Limit: journalMost, Since: diag.At(h.since)}
}

// askReadModel reads the mapped fields of the node and the allocation: of an answer nothing else is kept.
func (h *hearing) askReadModel(ctx context.Context) {
	e := &h.job.Env
	var wg sync.WaitGroup
	for _, r := range [...]struct {
		into   *diag.Fact
		path   string
		wanted bool
	}{{&h.w.node, profile.PathNode, true}, {&h.w.allocation, profile.PathAllocation, e.Subject.AllocationID != ""}} {
		req := e.API(r.path, nil, mappedFields(e.Profile.Mapping, r.path)...)
		if !r.wanted || req.Op == "" {
			continue
		}
		req.ID = r.path
		wg.Go(func() {
			h.around(ctx, func(ctx context.Context) (bool, func()) {
				f := h.ask(ctx, preflight.Operator, apiTime, req)[0]
				return f.Passed(), func() { *r.into = f }
			})
		})
	}
	wg.Wait()
}

// mappedFields are the names of a thing's fields in the mapping, sorted.
func mappedFields(m profile.Mapping, thing string) []string {
	var names []string
	for name := range m.Fields {
		if strings.HasPrefix(name, thing+".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// askEvidence pulls what the platform wrote down about the failing request, this walk, the node, and then its tasks.
func (h *hearing) askEvidence(ctx context.Context) {
	e := &h.job.Env
	var reqs []diag.Request
	add := func(path, what string, vars map[string]string) {
		req := e.API(path, vars, evidenceItems, evidenceTruncated)
		if req.Op != "" && req.Extract[evidenceItems] != "" { // of an answer nothing but the items would be kept
			req.ID = "evidence " + what
			reqs = append(reqs, req)
		}
	}
	for _, id := range [...]string{e.Subject.CorrelationID, e.CorrelationID} {
		if id != "" {
			add(profile.PathEvidence, id, map[string]string{"correlation_id": id})
		}
	}
	since, _ := diag.At(h.since).MarshalText()
	add(profile.PathNodeEvidence, "of the node", map[string]string{"since": string(since)})
	h.around(ctx, func(ctx context.Context) (bool, func()) {
		facts := h.ask(ctx, preflight.Operator, apiTime, slices.Clone(reqs)...)
		var items []evidence.Item
		good := true
		for i := range facts {
			items = append(items, takeItems(&facts[i])...)
			good = good && facts[i].Passed()
		}
		tasks := h.askTasks(ctx, items)
		return good, func() { h.w.evidence, h.w.items, h.w.tasks = facts, items, tasks }
	})
}

// Fields of the mapping for the platform's evidence.
const evidenceItems, evidenceTruncated = "evidence.items", "evidence.truncated"

// takeItems takes the evidence out of an answer: of the answer itself nothing is kept.
func takeItems(f *diag.Fact) []evidence.Item {
	if f.HTTP == nil {
		return nil
	}
	raw, there := f.HTTP.Fields[evidenceItems]
	items, err := evidence.ParseItems(raw)
	if !there {
		err = errors.New("the answer has no list of evidence, or is longer than can be read")
	}
	if err != nil && f.Passed() {
		f.Failure, f.Phase, f.Detail = diag.Unknown, "http", err.Error()
	}
	delete(f.HTTP.Fields, evidenceItems)
	return items
}

// askTasks looks at the node's newest tasks, as far as the evidence names them. Status probes come every few seconds,
// and their results are observations and no tasks of anybody's.
func (h *hearing) askTasks(ctx context.Context, items []evidence.Item) []diag.Fact {
	var ids []string
	for _, i := range slices.Backward(items) {
		if i.TaskID != "" && len(ids) < tasksMost && !slices.Contains(ids, i.TaskID) && i.Detail["type"] != "status.probe" {
			ids = append(ids, i.TaskID)
		}
	}
	var reqs []diag.Request
	for _, id := range ids {
		req := h.job.Env.API(profile.PathTask, map[string]string{"task_id": id}, mappedFields(h.job.Env.Profile.Mapping, "task")...)
		if req.Op != "" {
			req.ID = id
			reqs = append(reqs, req)
		}
	}
	return h.ask(ctx, preflight.Operator, apiTime, reqs...)
}
