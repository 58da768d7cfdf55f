package golden

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
)

// phrase is what a judge says had happened, and whether the facts hold it. decides is the finding's deciding fact, nil
// if it has none.
type phrase struct {
	words string
	holds func(facts []diag.Fact, decides *diag.Fact) bool
}

// in reports whether a text has the phrase: "this missing answer" is none.
func (p phrase) in(text string) bool {
	for {
		before, after, found := strings.Cut(text, p.words)
		if !found || before == "" || !unicode.IsLetter(rune(before[len(before)-1])) {
			return found
		}
		text = after
	}
}

// phrases is a closed table: each of these words is in a report only where its row's facts are. The conditions are
// written again here, from facts alone, so that they do not repeat a judge's mistake.
var phrases = []phrase{
	{"gets no answer from", func(_ []diag.Fact, f *diag.Fact) bool { return f != nil && unheard(f) }},
	{"gets only a refusal", func(_ []diag.Fact, f *diag.Fact) bool { return f != nil && f.Failure == diag.TCPRefused }},
	{"gets only a reset", func(_ []diag.Fact, f *diag.Fact) bool { return f != nil && f.Failure == diag.TCPReset }},
	{"SSH to the node gets no answer", func(facts []diag.Fact, _ *diag.Fact) bool {
		return anyOf(facts, func(f *diag.Fact) bool {
			return f.Request.Op == diag.OpSSH && (f.Failure.Silent() || f.Failure == diag.TCPNoRoute ||
				f.Failure == diag.TCPNetUnreachable)
		})
	}},
	{"is missing", func(facts []diag.Fact, _ *diag.Fact) bool {
		return anyOf(facts, func(f *diag.Fact) bool { return strings.HasSuffix(string(f.Failure), "_missing") })
	}},
	{"is not down", func(facts []diag.Fact, f *diag.Fact) bool { return f != nil && contactSince(facts, f.OffsetMS) }},
	{"does not run", func(_ []diag.Fact, f *diag.Fact) bool {
		return f != nil && (strings.HasPrefix(string(f.Failure), "unit_") || f.Failure == diag.ProcessStopped)
	}},
	{"never heard", func(facts []diag.Fact, _ *diag.Fact) bool { return !contactSince(facts, -1<<62) }},
	{"nothing listens", func(facts []diag.Fact, _ *diag.Fact) bool { return anyOf(facts, refusedByOwnResolver) }},
}

// unheard reports whether a request was neither answered nor refused by what was asked.
func unheard(f *diag.Fact) bool {
	return f.Failure != diag.OK && f.Failure != diag.TCPRefused && f.Failure != diag.TCPReset &&
		(f.HTTP == nil || f.HTTP.Status == 0)
}

// contactSince reports whether the agent answered a task that was awaited until then or later, or the platform dates a
// contact so.
func contactSince(facts []diag.Fact, offset int64) bool {
	return anyOf(facts, func(f *diag.Fact) bool {
		if f.HTTP == nil {
			return false
		}
		if f.HTTP.Fields["task.status"] == "completed" && f.OffsetMS+int64(f.DurationMS) >= offset {
			return true
		}
		now := timeOf(f, "node.now")
		if now == 0 && !f.HTTP.Date.IsZero() {
			now = f.HTTP.Date.UnixMilli()
		}
		now = cmp.Or(now, f.At.UnixMilli())
		for _, field := range []string{"node.last_seen_at", "node.last_heartbeat_at"} {
			if at := timeOf(f, field); at != 0 && f.OffsetMS-(now-at) >= offset {
				return true
			}
		}
		return false
	})
}

// timeOf returns the time in a field, in Unix milliseconds; 0 if it has none.
func timeOf(f *diag.Fact, field string) int64 {
	at, err := time.Parse(time.RFC3339Nano, f.HTTP.Fields[field])
	if err != nil {
		return 0
	}
	return at.UnixMilli()
}

func refusedByOwnResolver(f *diag.Fact) bool {
	if f.Failure != diag.DNSRefused || f.Errno != "ECONNREFUSED" || f.DNS == nil {
		return false
	}
	at, err := netip.ParseAddrPort(f.DNS.Server)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

func anyOf(facts []diag.Fact, is func(*diag.Fact) bool) bool {
	for i := range facts {
		if is(&facts[i]) {
			return true
		}
	}
	return false
}

// untrue lists the phrases in a report that its facts do not hold. facts are those that were judged.
func untrue(facts []diag.Fact, r *diag.Report) []string {
	byID := diag.FactsByID(facts)
	var out []string
	for i := range r.Hops {
		h := &r.Hops[i]
		for _, f := range append([]diag.Finding{h.Finding}, h.Also...) {
			var decides *diag.Fact
			if len(f.Evidence) > 0 {
				decides = byID[f.Evidence[0]]
			}
			text := f.Text + "\n" + f.Because
			for _, p := range phrases {
				if p.in(text) && !p.holds(facts, decides) {
					out = append(out, fmt.Sprintf("%s says %q, which its facts do not hold: %s", h.ID, p.words, text))
				}
			}
		}
	}
	return out
}

// TestPhrasesHold: no recording's report says what its facts do not hold; problemsOf checks the same of varied facts.
func TestPhrasesHold(t *testing.T) {
	said := map[string]bool{}
	for _, path := range recordings(t) {
		r := recorded(t, path)
		for _, problem := range untrue(r.Facts, r) {
			t.Errorf("%s: %s", path, problem)
		}
		for i := range r.Hops {
			for _, p := range phrases {
				said[p.words] = said[p.words] || p.in(r.Hops[i].Text)
			}
		}
	}
	for _, words := range []string{"gets no answer from", "gets only a refusal", "is not down", "does not run"} {
		if !said[words] {
			t.Errorf("no recording says %q: does a judge word it otherwise?", words)
		}
	}
}

// TestPhrasesAreFound: a report that says what its facts do not hold is found.
func TestPhrasesAreFound(t *testing.T) {
	refused := diag.Fact{ID: "a/b", Failure: diag.TCPRefused, Phase: "tcp"}
	for _, p := range phrases {
		facts := []diag.Fact{refused}
		switch p.words {
		case "gets only a refusal":
			facts[0].Failure = diag.TCPTimeout
		case "never heard":
			facts[0].HTTP = &diag.HTTPFacts{Fields: map[string]string{"task.status": "completed"}}
		}
		r := &diag.Report{Hops: []diag.HopResult{{Finding: diag.Finding{Text: "it " + p.words, Evidence: []string{"a/b"}}}}}
		if len(untrue(facts, r)) != 1 {
			t.Errorf("%q of %+v is not found", p.words, facts[0])
		}
	}
}
