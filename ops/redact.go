package ops

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// Redacted counts the redactions by a bundle's source and by rule.
type Redacted map[string]map[string]int

func (r Redacted) add(source string, counts map[string]int) {
	for rule, n := range counts {
		if r[source] == nil {
			r[source] = map[string]int{}
		}
		r[source][rule] += n
	}
}

// Scrub returns the scrubber of one source, which redacts texts and counts the redactions.
func (r Redacted) Scrub(source string) func(string) string {
	return func(s string) string {
		counts := map[string]int{}
		s = scrub.Line(s, counts)
		r.add(source, counts)
		return s
	}
}

// value scrubs the value of a named field. Ids, digests and fingerprints are long random-looking runs, but not secrets:
// if a field's name says that it is one and its value has that form, it is kept.
func (r Redacted) value(source, name, v string) string {
	named := slices.ContainsFunc(idEndings[:], func(end string) bool { return strings.HasSuffix(name, end) })
	if named && !strings.ContainsFunc(v, notOfID) {
		return v
	}
	return r.Scrub(source)(v)
}

// idEndings are the endings of fields' names whose values are long by nature.
var idEndings = [...]string{"id", "fingerprint", "serial", "digest", "sha256"}

func notOfID(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != ':'
}

// Record redacts the free text in entries.
func (r Redacted) Record(facts *diag.RecordFacts) {
	for _, list := range [...][]diag.RecordEntry{facts.Entries, facts.Pinned} {
		for i := range list {
			list[i].Detail = r.Scrub("record")(list[i].Detail)
			for name, v := range list[i].Facts {
				list[i].Facts[name] = r.value("record", name, v)
			}
		}
	}
}

// clean scrubs again what was already scrubbed where it was read, in case an older helper missed something. It runs
// before anything else uses the data.
func (h *Measured) clean(r Redacted) {
	journal := func(source string, j *diag.JournalFacts) {
		if j == nil {
			return
		}
		r.add(source, j.Redacted)
		counts := map[string]int{}
		scrub.Lines(j.Lines, counts)
		r.add(source, counts)
	}
	journal("agent journal", h.Agent.Journal)
	journal("platform log", h.Platform.Journal)
	for _, f := range h.Ingress {
		journal("ingress log", f.Journal)
	}
	for i, f := range h.Latest {
		journal([...]string{"platform log", "ingress log"}[i], f.Journal)
	}
	if h.Record.Record != nil {
		r.Record(h.Record.Record)
	}
	fields := func(source string, f diag.Fact) {
		if f.HTTP != nil {
			for name, v := range f.HTTP.Fields {
				f.HTTP.Fields[name] = r.value(source, name, v)
			}
		}
	}
	fields("node read model", h.Node)
	fields("allocation read model", h.Allocation)
	for _, f := range h.Tasks {
		fields("tasks", f)
	}
}
