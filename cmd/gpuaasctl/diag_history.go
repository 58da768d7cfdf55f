package main

import (
	"fmt"
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

// again scrubs what was scrubbed where it was read: nothing that an older helper let through leaves by this tool.
func (r redacted) again(source string, j *diag.JournalFacts) *diag.JournalFacts {
	if j == nil {
		return nil
	}
	r.add(source, j.Redacted)
	scrub := r.scrub(source)
	for i := range j.Lines {
		j.Lines[i].Text = scrub(j.Lines[i].Text)
	}
	return j
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
	agent := evidence.Journal(nodeClock, evidence.FromAgent, node, r.again("agent journal", w.agent.Journal))
	agent.Instance = w.instance()
	sources := []evidence.Source{record, agent,
		evidence.Journal(hostClock, evidence.FromPlatform, "", r.again("platform log", w.platform.Journal)),
		evidence.Platform(apiClock, w.items, r.scrub("platform evidence")),
		evidence.Preflight(w.report),
	}
	for _, f := range w.ingress {
		sources = append(sources, evidence.Journal(hostClock, evidence.FromIngress, "", r.again("ingress log", f.Journal)))
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
