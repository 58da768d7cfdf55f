package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/evidence"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
)

// redacted counts, by a bundle's source, what the rules of redaction took out.
type redacted map[string]map[string]int

func (r redacted) add(source string, counts map[string]int) {
	for rule, n := range counts {
		if r[source] == nil {
			r[source] = map[string]int{}
		}
		r[source][rule] += n
	}
}

// scrub is the scrubber of one source: texts lose what looks like a secret, and it is counted.
func (r redacted) scrub(source string) func(string) string {
	return func(s string) string {
		counts := map[string]int{}
		s = probe.ScrubLine(s, counts)
		r.add(source, counts)
		return s
	}
}

// value scrubs the value of a named field. Ids, digests and fingerprints are long runs that no human wrote, and no
// secrets: of a field that is named one, what has the form of one stays.
func (r redacted) value(source, name, v string) string {
	if named := slices.ContainsFunc(idEndings[:], func(end string) bool { return strings.HasSuffix(name, end) }); named && !strings.ContainsFunc(v, notOfID) {
		return v
	}
	return r.scrub(source)(v)
}

// idEndings are how the names of fields end whose values are long by nature.
var idEndings = [...]string{"id", "fingerprint", "serial", "digest", "sha256"}

func notOfID(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != ':'
}

// record scrubs what entries say in words of their own.
func (r redacted) record(facts *diag.RecordFacts) {
	for _, list := range [...][]diag.RecordEntry{facts.Entries, facts.Pinned} {
		for i := range list {
			list[i].Detail = r.scrub("record")(list[i].Detail)
			for name, v := range list[i].Facts {
				list[i].Facts[name] = r.value("record", name, v)
			}
		}
	}
}

// clean scrubs what was scrubbed where it was read: nothing that an older helper let through leaves by this tool. It
// is done before anything else is made of what was heard.
func (w *witnesses) clean(r redacted) {
	journal := func(source string, j *diag.JournalFacts) {
		if j == nil {
			return
		}
		r.add(source, j.Redacted)
		counts := map[string]int{}
		probe.ScrubLines(j.Lines, counts)
		r.add(source, counts)
	}
	journal("agent journal", w.agent.Journal)
	journal("platform log", w.platform.Journal)
	for _, f := range w.ingress {
		journal("ingress log", f.Journal)
	}
	for i, f := range w.lastWords {
		journal([...]string{"platform log", "ingress log"}[i], f.Journal)
	}
	if w.record.Record != nil {
		r.record(w.record.Record)
	}
	fields := func(source string, f diag.Fact) {
		if f.HTTP != nil {
			for name, v := range f.HTTP.Fields {
				f.HTTP.Fields[name] = r.value(source, name, v)
			}
		}
	}
	fields("node read model", w.node)
	fields("allocation read model", w.allocation)
	for _, f := range w.tasks {
		fields("tasks", f)
	}
}

// sources are what was heard, as events with the clocks that they were said by.
func (w *witnesses) sources(node string, r redacted) []evidence.Source {
	nodeClock := evidence.ClockOf("node", w.nodeClock)
	hostClock := evidence.ClockOf("platform", w.platformClock)
	apiClock := w.apiClock()
	if hostClock.OffsetMS == nil {
		hostClock = apiClock
	}
	record := evidence.Record(nodeClock, node, w.record.Record)
	agent := evidence.Journal(nodeClock, evidence.FromAgent, node, w.agent.Journal)
	agent.Instance = w.instance()
	sources := []evidence.Source{record, agent,
		evidence.Journal(hostClock, evidence.FromPlatform, "", w.platform.Journal),
		evidence.Platform(apiClock, w.items, r.scrub("platform evidence")),
		evidence.Preflight(w.report),
	}
	if len(w.lastWords) == 2 {
		sources = append(sources, evidence.Journal(hostClock, evidence.FromPlatform, "", w.lastWords[0].Journal),
			evidence.Journal(hostClock, evidence.FromIngress, "", w.lastWords[1].Journal))
	}
	for _, f := range w.ingress {
		sources = append(sources, evidence.Journal(hostClock, evidence.FromIngress, "", f.Journal))
	}
	return sources
}

// instance is the node's, by its own newest record entry; "" where it has none.
func (w *witnesses) instance() string {
	if w.record.Record == nil {
		return ""
	}
	id := ""
	for _, e := range w.record.Record.Entries {
		if e.InstanceID != "" {
			id = e.InstanceID
		}
	}
	return id
}

// apiClock compares the platform's clock, as its answer has it, with ours in the middle of the exchange.
func (w *witnesses) apiClock() evidence.Clock {
	c := evidence.Clock{Host: "platform API"}
	f := w.node
	if f.HTTP == nil {
		return c
	}
	half := time.Duration(f.DurationMS) * time.Millisecond / 2
	uncertain := half
	var now diag.Time
	if err := now.UnmarshalText([]byte(f.HTTP.Fields["node.now"])); err != nil || now.IsZero() {
		now, uncertain = f.HTTP.Date, half+time.Second // the header has whole seconds
	}
	if now.IsZero() {
		return c
	}
	offset, give := now.Sub(f.At.Add(half)).Milliseconds(), uncertain.Milliseconds()
	c.OffsetMS, c.ErrorMS, c.Now = &offset, &give, now
	return c
}

// logText is a journal as a file for people: time, priority, text.
func logText(j *diag.JournalFacts) []byte {
	var b strings.Builder
	boot := ""
	for _, l := range j.Lines {
		if l.Boot != boot {
			boot = l.Boot
			fmt.Fprintf(&b, "-- boot %s --\n", boot)
		}
		at, _ := l.At.MarshalText()
		if len(at) == 0 {
			at = []byte("-")
		}
		fmt.Fprintf(&b, "%s <%d> %s\n", at, l.Priority, strings.ReplaceAll(l.Text, "\n", "\n\t"))
	}
	return []byte(b.String())
}
