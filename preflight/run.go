package preflight

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Job describes one walk: what is asked, from where, and under which name it is reported.
type Job struct {
	Env      Env
	Plan     diag.Plan
	Vantages map[string]Vantage // Operator, Node, and Platform if the profile has it; the caller closes them
	RunID    string             // see NewID
	Began    time.Time          // when the walk's preparation began; facts' offsets count from here
	Tool     string             // version of the program that walks
	Observe  func(Event)        // of progress, called from one goroutine at a time; may be nil
	// when the newest kept walk of a report's subject ended well; called after the walk, when the subject is complete;
	// may be nil
	LastGood func(*diag.Report) diag.Time
}

// Run walks, reads what the platform recorded about the walk, and judges. It always returns a report, within about a
// second of ctx's end; the report shares the job's plan and subject.
func Run(ctx context.Context, j *Job) *diag.Report {
	early := &earlyPull{open: writers(chainOf(&j.Env).List())}
	began := time.Now()
	facts, ended := Walk(ctx, &j.Env, j.Plan, j.Vantages, j.pullingEarly(ctx, early))
	if j.Observe != nil {
		j.Observe(Event{Kind: EvidenceAwaited, At: time.Since(began)})
	}
	evidence := j.evidence(ctx, early, facts, ended)
	now := time.Now()
	r := &diag.Report{
		Head: diag.NewHead(diag.KindPreflight),
		Run: diag.Run{
			ID: j.RunID, CorrelationID: j.Env.CorrelationID,
			StartedAt: diag.At(j.Began), EndedAt: diag.At(now), DurationMS: diag.Measured(now.Sub(j.Began)),
			EndedBy: ended, ToolVersion: j.Tool,
		},
		Subject: j.Env.Subject, Plan: j.Plan, Vantages: places(j.Vantages, facts), Facts: facts,
		Evidence: evidence.lines, EvidenceCut: evidence.cut, Redaction: redaction(facts),
	}
	c := chainOf(&j.Env).caseOf(r)
	learn(&r.Subject, c)
	if j.LastGood != nil {
		r.Run.LastGoodAt = j.LastGood(r)
	}
	judgeCase(r, c)
	return r
}

// pulled is evidence, and whether the platform has more.
type pulled struct {
	lines []diag.EvidenceLine
	cut   bool
}

func (j *Job) pull(ctx context.Context) pulled {
	lines, cut := Evidence(ctx, &j.Env, j.Vantages[Operator])
	return pulled{lines, cut}
}

// earlyPull is the evidence that is read while the walk still runs.
type earlyPull struct {
	open int         // hops that must be done before the pull begins
	got  chan pulled // nil until the pull begins; gets one value
}

// writers counts the hops that make the platform write evidence.
func writers(chain []Hop) (n int) {
	for _, h := range chain {
		if h.Writes {
			n++
		}
	}
	return n
}

// await returns the evidence of the early pull. A pull ends with ctx: one that has begun is waited for, for at most
// pullGrace more.
func (e *earlyPull) await(ctx context.Context) (have pulled) {
	select {
	case have = <-e.got:
		return have
	case <-ctx.Done():
	}
	if e.got != nil {
		select {
		case have = <-e.got:
		case <-time.After(pullGrace):
		}
	}
	return have
}

// pullingEarly returns the job's observer, which also starts to read the evidence as soon as all hops with Writes are
// done, while the node still answers.
func (j *Job) pullingEarly(ctx context.Context, early *earlyPull) func(Event) {
	return func(ev Event) {
		if ev.Kind == HopDone && hopIn(chainOf(&j.Env).List(), ev.Hop).Writes {
			if early.open--; early.open == 0 {
				got := make(chan pulled, 1)
				early.got = got
				go func() { got <- j.pull(ctx) }()
			}
		}
		if j.Observe != nil {
			j.Observe(ev)
		}
	}
}

// evidence returns the early evidence or, after a walk that found a fault, all that the platform has by now.
func (j *Job) evidence(ctx context.Context, early *earlyPull, facts []diag.Fact, ended diag.EndedBy) pulled {
	have := early.await(ctx)
	if ctx.Err() != nil {
		return have
	}
	c := chainOf(&j.Env).NewCase(j.Env.Subject, j.Plan, ended, facts)
	if o := outcomeOf(assess(c.chain.List(), c), ended); o == diag.OutcomeFail || o == diag.OutcomeInconclusive {
		if now := j.pull(ctx); len(now.lines) >= len(have.lines) { // fewer: the platform did not answer now
			have = now
		}
	}
	return have
}

// places describes the vantages: by their own description if they have one, with the resolver of the facts.
func places(vantages map[string]Vantage, facts []diag.Fact) []diag.VantageInfo {
	infos := []diag.VantageInfo{}
	for _, id := range []string{Operator, Node, Platform} {
		if id == Platform && !slices.ContainsFunc(facts, func(f diag.Fact) bool { return f.Vantage == id }) {
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
