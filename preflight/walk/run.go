package walk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// Job describes one walk: what is asked, from where, and under which name it is reported.
type Job struct {
	Env      hop.Env
	Plan     diag.Plan
	Vantages map[string]hop.Vantage // Operator, Node, and Platform if the profile has it; the caller closes them
	RunID    string                 // see NewID
	Began    time.Time              // when the walk's preparation began; facts' offsets count from here
	Tool     string                 // version of the program that walks
	Observe  func(Event)            // of progress, called from one goroutine at a time; may be nil
	// when the newest kept walk of a report's subject ended well; called after the walk, when the subject is complete;
	// may be nil
	LastGood func(*diag.Report) diag.Time
}

// Run walks, reads what the platform recorded about the walk, and judges. It always returns a report, within about a
// second of ctx's end; the report shares the job's plan and subject.
func Run(ctx context.Context, j *Job) *diag.Report {
	early := &EarlyPull{Open: writers(chainOf(&j.Env).List())}
	began := time.Now()
	facts, ended := Walk(ctx, &j.Env, j.Plan, j.Vantages, j.pullingEarly(ctx, early))
	if j.Observe != nil {
		j.Observe(Event{Kind: EvidenceAwaited, At: time.Since(began)})
	}
	evidence := j.Evidence(ctx, early, facts, ended)
	now := time.Now()
	r := &diag.Report{
		Head: diag.NewHead(diag.KindPreflight),
		Run: diag.Run{
			ID: j.RunID, CorrelationID: j.Env.CorrelationID,
			StartedAt: diag.At(j.Began), EndedAt: diag.At(now), DurationMS: diag.Measured(now.Sub(j.Began)),
			EndedBy: ended, ToolVersion: j.Tool,
		},
		Subject: j.Env.Subject, Plan: j.Plan, Vantages: places(j.Vantages, facts), Facts: facts,
		Evidence: evidence.Lines, EvidenceCut: evidence.Cut, Redaction: redaction(facts),
	}
	c := chainOf(&j.Env).CaseOf(r)
	verdict.Learn(&r.Subject, c)
	if j.LastGood != nil {
		r.Run.LastGoodAt = j.LastGood(r)
	}
	verdict.JudgeCase(r, c)
	return r
}

// Pulled is evidence, and whether the platform has more.
type Pulled struct {
	Lines []diag.EvidenceLine
	Cut   bool
}

func (j *Job) pull(ctx context.Context) Pulled {
	lines, cut := Evidence(ctx, &j.Env, j.Vantages[hop.Operator])
	return Pulled{lines, cut}
}

// EarlyPull is the evidence that is read while the walk still runs.
type EarlyPull struct {
	Open int         // hops that must be done before the pull begins
	Got  chan Pulled // nil until the pull begins; gets one value
}

// writers counts the hops that make the platform write evidence.
func writers(chain []hop.Hop) (n int) {
	for _, h := range chain {
		if h.Writes {
			n++
		}
	}
	return n
}

// Await returns the evidence of the early pull. A pull ends with ctx: one that has begun is waited for, for at most
// pullGrace more.
func (e *EarlyPull) Await(ctx context.Context) (have Pulled) {
	select {
	case have = <-e.Got:
		return have
	case <-ctx.Done():
	}
	if e.Got != nil {
		select {
		case have = <-e.Got:
		case <-time.After(pullGrace):
		}
	}
	return have
}

// pullingEarly returns the job's observer, which also starts to read the evidence as soon as all hops with Writes are
// done, while the node still answers.
func (j *Job) pullingEarly(ctx context.Context, early *EarlyPull) func(Event) {
	return func(ev Event) {
		if ev.Kind == HopDone && hop.In(chainOf(&j.Env).List(), ev.Hop).Writes {
			if early.Open--; early.Open == 0 {
				got := make(chan Pulled, 1)
				early.Got = got
				go func() { got <- j.pull(ctx) }()
			}
		}
		if j.Observe != nil {
			j.Observe(ev)
		}
	}
}

// Evidence returns the early evidence or, after a walk that found a fault, all that the platform has by now.
func (j *Job) Evidence(ctx context.Context, early *EarlyPull, facts []diag.Fact, ended diag.EndedBy) Pulled {
	have := early.Await(ctx)
	if ctx.Err() != nil {
		return have
	}
	c := chainOf(&j.Env).NewCase(j.Env.Subject, j.Plan, ended, facts)
	if o := verdict.OutcomeOf(verdict.Assess(c.Chain.List(), c), ended); o == diag.OutcomeFail ||
		o == diag.OutcomeInconclusive {
		if now := j.pull(ctx); len(now.Lines) >= len(have.Lines) { // fewer: the platform did not answer now
			have = now
		}
	}
	return have
}

// places describes the vantages: by their own description if they have one, with the resolver of the facts.
func places(vantages map[string]hop.Vantage, facts []diag.Fact) []diag.VantageInfo {
	infos := []diag.VantageInfo{}
	for _, id := range []string{hop.Operator, hop.Node, hop.Platform} {
		if id == hop.Platform && !slices.ContainsFunc(facts, func(f diag.Fact) bool { return f.Vantage == id }) {
			continue // it was not used
		}
		info := diag.VantageInfo{ID: id}
		if v, ok := vantages[id].(interface{ Info() diag.VantageInfo }); ok {
			info = v.Info()
		}
		for i := range facts {
			f := &facts[i]
			if f.Vantage == id && f.DNS != nil && f.Request.Resolver == "" && info.Resolver == "" {
				info.Resolver = f.DNS.Server
			}
		}
		infos = append(infos, info)
	}
	return infos
}

// redaction counts the secrets that are not in the report.
func redaction(facts []diag.Fact) diag.Redaction {
	r := diag.Redaction{
		Rules: []string{"secrets are written as " + diag.Redacted, "answers are kept as named fields only",
			"URLs in errors lose their query"},
		Counts: map[string]int{},
	}
	count := func(name string, s diag.Secret) {
		if !s.IsZero() {
			r.Counts[name]++
		}
	}
	for i := range facts {
		count("token", facts[i].Request.Token)
		count("cookie", facts[i].Request.Cookie)
		count("query", facts[i].Request.Query)
		if h := facts[i].HTTP; h != nil {
			count("kept", h.Kept)
		}
	}
	return r
}

// NewID returns a new id that sorts by time: what, second, and 4 random bytes.
func NewID(what string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return what + "-" + time.Now().UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
}
