package walk

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// Longer than 300 lines: the conditions for a provisional blame are one set, read together.

const (
	// provisionalEvery is the least time between two judgements of a walk that still runs; each needs new facts, and
	// takes less than a millisecond.
	provisionalEvery = 100 * time.Millisecond
	// provisionalLook bounds one wait for a login that is under way.
	provisionalLook = 50 * time.Millisecond
	// assumedRTT is the round trip of a walk that has measured none.
	assumedRTT = 100 * time.Millisecond
	// answerTrips are the round trips of an answer on a new connection: name, TCP, TLS (two in 1.2), HTTP. A repeat
	// that waited less than that, or less than leastWait, does not show a silence.
	answerTrips = 5
	leastWait   = 250 * time.Millisecond
)

// Provisional is the blame that the facts of an unfinished walk allow. The final report confirms or corrects it, and
// does not mention it.
type Provisional struct {
	Blame   *diag.Blame   // without confidence or proof; nil: newer facts contradict the last one
	Waiting []diag.HopID  // hops that are not done, in chain order
	At      time.Duration // since the walk's start
}

// same reports whether both are equal except for the time.
func (p *Provisional) same(other *Provisional) bool {
	if (p.Blame == nil) != (other.Blame == nil) || !slices.Equal(p.Waiting, other.Waiting) {
		return false
	}
	return p.Blame == nil || (p.Blame.Hop == other.Blame.Hop && p.Blame.Signal == other.Blame.Signal)
}

// unfinished is what a running walk knows at one moment.
type unfinished struct {
	c       *hop.Case
	at      time.Duration
	login   *diag.Fact           // a login that is under way, with its progress; nil if there is none
	done    func(id string) bool // reports whether this step gets no more facts
	waiting []diag.HopID
	own     []diag.HopResult // results of hops that the chain does not have
}

// likely judges the facts so far, by the judge of the final report. It returns no blame before the first retransmission
// could arrive, none that a hop with outstanding facts may change, and none for a silence on a path that is answered
// only sometimes.
//
// An open request gets no invented fact: its first silent repeat takes its place. last is the previous provisional
// blame, which stays for as long as the judge agrees.
func (u *unfinished) likely(last *diag.Blame) *diag.Blame {
	if u.at < u.earliest() {
		return nil
	}
	u.silences(roundTrip(u.c))
	chain := u.c.Chain.List()
	hops := append(verdict.Assess(chain, u.c), u.own...)
	v, _ := verdict.Decide(chain, hops, u.c)
	if v.Blame == nil {
		return nil
	}
	b := *v.Blame
	b.Owner, b.Owners = v.Owner, v.Owners
	if last != nil && b.Hop == last.Hop && b.Signal == last.Signal {
		return &b
	}
	finding, found := findingOf(hops, &b)
	if !found || !u.settled(chain, b.Hop, &finding) {
		return nil
	}
	f := u.c.FactByID(decidedBy(&finding))
	if b.Signal == diag.SigNetworkUnstable || (f != nil && f.Failure.Silent() && !steady(u.c, f)) {
		return nil
	}
	return &b
}

// earliest is when the first retransmission of the walk's first segments could have been answered.
func (u *unfinished) earliest() time.Duration { return SilentFor + 2*roundTrip(u.c) }

// silences adds a fact for every open request whose repeats were all silent alike, and for a login that gets no answer.
func (u *unfinished) silences(rtt time.Duration) {
	for q := range u.c.AllStepFacts() {
		if q.Runs[0].Name != "" || q.Runs[0].N == 0 { // the request has ended
			continue
		}
		again := hop.AskedBy(q.Runs)
		f := *again.First()
		waited := time.Duration(f.DurationMS) * time.Millisecond
		alike := again.All(func(other *diag.Fact) bool { return reading.FailsLike(other, &f) })
		if alike && len(again.Runs) >= silentBurst && reading.GotNoAnswer(&f) && waited >= max(leastWait, answerTrips*rtt) {
			f.ID, _, _ = hop.SplitID(f.ID)
			u.c.Put(&f)
		}
	}
	if f := u.login; f != nil && f.Failure.Silent() && f.Failure != diag.Cancelled && reading.InPhase(f, "tcp", "banner") {
		silent := u.at - time.Duration(f.OffsetMS)*time.Millisecond
		if f.SSH != nil {
			silent -= time.Duration(f.SSH.TCPMS) * time.Millisecond
		}
		if silent >= SilentFor+2*rtt {
			u.c.Put(f)
		}
	}
}

// settled reports whether no outstanding fact may move the blame from the hop at: to an earlier hop that at does not
// explain, to a hop that explains at, or to another finding of at.
func (u *unfinished) settled(chain []hop.Hop, at diag.HopID, f *diag.Finding) bool {
	explains := append(verdict.NeedsOf(chain, at, f), hop.Closure(chain, at)...)
	if !verdict.OwnFault(u.c, f) {
		explains = append(explains, hop.In(chain, at).Behind...)
	}
	for i := range chain {
		h := &chain[i]
		if (i <= hop.Position(chain, at) || slices.Contains(explains, h.ID)) && u.undecided(chain, h, at) {
			return false
		}
		if u.overrules(h, at) {
			return false
		}
	}
	return true
}

// overrules reports whether an outstanding step of h may show that the service works whose health page failed in the
// hop at.
func (u *unfinished) overrules(h *hop.Hop, at diag.HopID) bool {
	p := u.c.Planned(h.ID)
	return p.Skip == "" && slices.ContainsFunc(h.Steps, func(s hop.Step) bool {
		id := s.Fact(h.ID)
		o := s.Needs.Overrules
		return o != nil && o.Hop() == at && reading.WorthATry(o, u.c) && p.Left[s.Name] == "" &&
			u.c.FactByID(id) == nil && !u.done(id)
	})
}

// undecided reports whether an outstanding fact of h may take the blame from the hop at. None may if at explains h, or
// explains the hop that h waits for.
func (u *unfinished) undecided(chain []hop.Hop, h *hop.Hop, at diag.HopID) bool {
	p := u.c.Planned(h.ID)
	if p.Skip != "" || slices.Contains(h.Closure, at) {
		return false
	}
	return slices.ContainsFunc(h.Steps, func(s hop.Step) bool {
		id := s.Fact(h.ID)
		if s.Pure() || s.Policy.Turn == hop.AtEnd || s.Policy.OnlyWarns || p.Left[s.Name] != "" ||
			u.c.FactByID(id) != nil || u.done(id) {
			return false
		}
		return !slices.ContainsFunc(s.Needs.Facts, func(fact string) bool {
			before := hop.In(chain, hop.OfFact(fact))
			return before.ID != h.ID && u.c.FactByID(fact) == nil && !u.done(fact) && !u.undecided(chain, before, at)
		})
	})
}

// findingOf returns the finding that a blame was made from.
func findingOf(hops []diag.HopResult, b *diag.Blame) (diag.Finding, bool) {
	h := reading.HopNamed(hops, b.Hop)
	for f := range verdict.FindingsOf(h) {
		if f.Signal == b.Signal && f.Text == b.Text {
			return *f, true
		}
	}
	return diag.Finding{}, false
}

func decidedBy(f *diag.Finding) string {
	if len(f.Evidence) == 0 {
		return ""
	}
	return f.Evidence[0]
}

// steady reports whether packet loss cannot explain a silence: other requests on the path were answered at the first
// try, or so many were silent that loss of each is unlikely.
func steady(c *hop.Case, silent *diag.Fact) bool {
	way := wayOf(silent)
	if world.LossSeen(c, way) != "" {
		return false
	}
	alike, otherwise := 0, 0
	for f := range c.All() {
		_, _, repeat := hop.SplitID(f.ID)
		switch {
		case f.Vantage != way || !f.Request.Op.Row().Ladder:
		case world.AnsweredRemotely(f) && verdict.Clean(f) && !reading.Loopback(f):
			return true
		case repeat > 0 && reading.FailsAlike(f, silent):
			alike++
		case reading.GotNoAnswer(f) && !reading.FailsAlike(f, silent):
			otherwise++
		}
	}
	return (otherwise == 0 && alike >= 3*silentBurst) || silent.Request.Op == diag.OpSSH
}

// wayOf returns the vantage whose network path a request took: a login starts at the operator.
func wayOf(f *diag.Fact) string {
	if f.Request.Op == diag.OpSSH {
		return hop.Operator
	}
	return f.Vantage
}

// rtt returns the round trip by the facts so far: see roundTrip.
func (w *walker) rtt() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return roundTrip(w.snapshot())
}

// roundTrip returns the round trip of the slowest path: the maximum over the vantages of each one's quickest lossless
// connection, since slower ones may have waited for a busy machine. It is assumedRTT without connections.
func roundTrip(c *hop.Case) time.Duration {
	quickest := map[string]diag.Millis{}
	took := func(way string, ms diag.Millis) {
		if least, known := quickest[way]; ms > 0 && (!known || ms < least) {
			quickest[way] = ms
		}
	}
	for f := range c.All() {
		if world.AnsweredRemotely(f) && verdict.Clean(f) && !reading.Loopback(f) {
			took(f.Vantage, f.TCP.DurationMS)
		}
		if f.SSH != nil {
			took(hop.Operator, f.SSH.TCPMS)
		}
	}
	if len(quickest) == 0 {
		return assumedRTT
	}
	return time.Duration(slices.Max(slices.Collect(maps.Values(quickest)))) * time.Millisecond
}

// reportProvisional judges the walk while it runs, and reports the provisional blame to the observer. It returns when
// ctx ends.
func (w *walker) reportProvisional(ctx context.Context) {
	ticker := time.NewTicker(provisionalEvery)
	defer ticker.Stop()
	var shown lastProvisional
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if time.Since(w.start) < SilentFor {
			continue
		}
		u, size := w.unfinished(w.lookAtLogin(ctx))
		if ctx.Err() != nil {
			return
		}
		if now := shown.next(&u, size); now != nil {
			w.emit(Event{Kind: LikelySoFar, Provisional: now})
		}
	}
}

// lastProvisional is the last provisional blame that was reported.
type lastProvisional struct {
	size int // number of facts at the last judgement
	last Provisional
}

// next returns the provisional blame to report now; nil if it is unchanged.
func (s *lastProvisional) next(u *unfinished, size int) *Provisional {
	if size == s.size && u.login == nil { // without a new fact, only the silence of a login grows
		return nil
	}
	if u.at >= u.earliest() {
		s.size = size
	}
	now := Provisional{Blame: u.likely(s.last.Blame), Waiting: u.waiting, At: u.at}
	if now.same(&s.last) || (now.Blame == nil && s.last.Blame == nil) {
		return nil
	}
	s.last = now
	return &now
}

// unfinished returns what the walk knows by now, and the number of facts and judged hops.
func (w *walker) unfinished(login *diag.Fact) (u unfinished, size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u = unfinished{c: w.snapshot(), at: time.Since(w.start), login: login, done: func(id string) bool {
		select {
		case <-w.factDone[id]:
			return true
		default:
			return false
		}
	}}
	for i := range w.chain {
		id := w.chain[i].ID
		if _, done := w.status[id]; !done {
			u.waiting = append(u.waiting, id)
		}
	}
	return u, len(w.facts) + len(w.status)
}

// lookAtLogin returns the progress of a login under way; nil if there is none. Nothing is sent: a vantage logs in once.
func (w *walker) lookAtLogin(ctx context.Context) *diag.Fact {
	for i := range w.chain {
		h := &w.chain[i]
		place := w.vantages[h.Opens]
		if h.Opens == "" || place == nil || (&hop.Case{Plan: w.plan}).Planned(h.ID).Skip != "" {
			continue
		}
		s := h.Steps[0]
		select {
		case <-w.factDone[hop.FactID(h.ID, s.Name)]:
			continue
		default:
		}
		req := s.Ask(w.env, nil)
		req.ID, req.TimeoutMS = hop.FactID(h.ID, s.Name), provisionalLook.Milliseconds()
		f := place.Probe(ctx, []diag.Request{req})[0]
		w.secrets.Clean(&f)
		f.OffsetMS, f.DurationMS = 0, diag.Measured(time.Since(w.start))
		return &f
	}
	return nil
}

// Rehearse returns the provisional blames of a recorded walk, computed from the start and end times of its facts. Hops
// that this chain does not have keep the results of the report.
func Rehearse(chain *hop.Chain, r *diag.Report) []Provisional {
	var all []Provisional
	var shown lastProvisional
	for at := SilentFor; at <= time.Duration(r.Run.DurationMS)*time.Millisecond; at += provisionalEvery {
		u, size := unfinishedAt(chain, r, at)
		if len(u.waiting) == 0 {
			break
		}
		if now := shown.next(&u, size); now != nil {
			all = append(all, *now)
		}
	}
	return all
}

// unfinishedAt returns what a recorded walk knew at a time after its start, and the number of its facts.
func unfinishedAt(chain *hop.Chain, r *diag.Report, at time.Duration) (u unfinished, size int) {
	u = unfinished{c: chain.NewCase(r.Subject, r.Plan, diag.EndedCompleted, nil), at: at}
	open, busy := map[string]bool{}, map[string]bool{}
	for i := range r.Facts {
		f := &r.Facts[i]
		began := time.Duration(f.OffsetMS) * time.Millisecond
		if began+time.Duration(f.DurationMS)*time.Millisecond <= at {
			u.c.Put(f)
			size++
			continue
		}
		hop, _, _ := strings.Cut(f.ID, "/")
		open[f.ID], busy[hop] = true, true
		if f.Request.Op == diag.OpSSH && began <= at {
			login := *f
			login.DurationMS = diag.Measured(at - began)
			u.login = &login
		}
	}
	u.done = func(id string) bool { return !open[id] }
	for i := range r.Plan.Hops {
		if id := r.Plan.Hops[i].ID; busy[string(id)] {
			u.waiting = append(u.waiting, id)
		}
	}
	u.own = slices.DeleteFunc(verdict.Brought(r.Hops, chain.List()),
		func(own diag.HopResult) bool { return busy[string(own.ID)] })
	return u, size
}
