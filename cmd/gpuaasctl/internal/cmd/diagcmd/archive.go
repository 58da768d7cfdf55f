package diagcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/evidence"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/page"
)

// archive makes the files of a bundle from evidence.
type archive struct {
	*ops.Evidence
	m    *evidence.Manifest
	errs []error
}

// newArchive assembles the bundle in memory.
func newArchive(e *ops.Evidence) (*evidence.Manifest, error) {
	a := &archive{Evidence: e, m: e.Manifest}
	h := e.Heard
	a.walk(h.Report)
	a.record(h.Record.Record)
	if j := h.Agent.Journal; j != nil && len(j.Lines) > 0 {
		a.file("agent journal", "node/agent.log", logText(j))
	}
	for _, l := range e.HostLogs() {
		if text, kept := e.History.Lines(l.Origins...); kept > 0 {
			a.file(l.Source, l.Path, text)
		}
	}
	a.readModel("node read model", "platform/node.json", h.Node)
	a.readModel("allocation read model", "platform/allocation.json", h.Allocation)
	if len(h.Evidence) > 0 {
		said := evidence.Platform(h.APIClock(), h.Items, e.Redacted.Scrub("-"))
		a.ndjson("platform evidence", "platform/evidence.ndjson", evidence.Join(evidence.Query{}, said).Events)
	}
	a.tasks(h.Tasks)
	a.facts(h)
	a.ndjson("timeline", evidence.HistoryName, e.History.Events)
	a.file("timeline", "timeline.txt", e.History.Text())
	a.file("tool", "bundle.log", a.ownLog())
	a.file("tool", "README.txt", page.Text(page.Look{}, a.story()...))
	if len(a.errs) > 0 {
		return nil, a.errs[0]
	}
	for i := range a.m.Files {
		a.m.Files[i].Redacted = e.Redacted[a.m.Files[i].Source]
	}
	return a.m, nil
}

func (a *archive) file(source, path string, data []byte) {
	a.m.Files = append(a.m.Files, evidence.File{Path: path, Source: source, Data: data})
}

func (a *archive) json(source, path string, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		a.errs = append(a.errs, fmt.Errorf("write %s: %w", path, err))
	}
	a.file(source, path, append(clean.JSON(data), '\n'))
}

func (a *archive) ndjson(source, path string, events []evidence.Event) {
	data, err := evidence.NDJSON(events)
	if err != nil {
		a.errs = append(a.errs, err)
	}
	a.file(source, path, data)
}

func (a *archive) walk(r *diag.Report) {
	if r == nil {
		return
	}
	for _, doc := range [...]struct {
		path   string
		format render.Format
	}{{"report.json", render.JSON}, {"report.md", render.Markdown}} {
		var b bytes.Buffer
		if err := render.Report(&b, r, render.Options{Format: doc.format}); err != nil {
			a.errs = append(a.errs, fmt.Errorf("write %s: %w", doc.path, err))
		}
		a.file("preflight", doc.path, b.Bytes())
	}
}

// record adds the record as it was read, and its entries one by one.
func (a *archive) record(r *diag.RecordFacts) {
	if r == nil {
		return
	}
	a.json("record", "node/record.json", r)
	a.file("record", "node/record.txt",
		page.Text(page.Look{}, recordPage(ops.Record{Node: a.m.NodeID, Story: record.Tell(*r), Record: *r}, false)...))
}

// readModel adds the fields that the mapping names, and nothing else of the answer.
func (a *archive) readModel(source, path string, f diag.Fact) {
	if f.HTTP != nil && len(f.HTTP.Fields) > 0 {
		a.json(source, path, f.HTTP.Fields)
	}
}

// tasks adds the node's newest tasks by their mapped fields.
func (a *archive) tasks(facts []diag.Fact) {
	if len(facts) == 0 {
		return
	}
	list := []map[string]string{}
	for _, f := range facts {
		row := map[string]string{"id": f.ID}
		if f.HTTP != nil {
			maps.Copy(row, f.HTTP.Fields)
		}
		if !f.Passed() {
			row["unread"] = ops.WhyNot(f)
		}
		list = append(list, row)
	}
	a.json("tasks", "platform/tasks.json", list)
}

// facts adds the walk's and this tool's own measurements, one per line, except those with a file of their own.
func (a *archive) facts(h *ops.Heard) {
	var b bytes.Buffer
	own := slices.Concat([]diag.Fact{h.NodeClock, h.Record, h.Agent, h.PlatformClock, h.Platform, h.Node, h.Allocation},
		h.Ingress, h.Latest, h.Evidence, h.Tasks)
	if h.Report != nil {
		own = append(own, h.Report.Facts...)
	}
	for _, f := range own {
		if f.Request.Op == "" {
			continue
		}
		if f.Record != nil {
			r := *f.Record
			r.Entries, r.Pinned = nil, nil
			f.Record = &r
		}
		if f.Journal != nil {
			f.Journal = &diag.JournalFacts{Unit: f.Journal.Unit, Truncated: f.Journal.Truncated, Redacted: f.Journal.Redacted}
		}
		line, err := json.Marshal(f)
		if err != nil {
			a.errs = append(a.errs, fmt.Errorf("write a fact: %w", err))
			return
		}
		b.Write(append(clean.JSON(line), '\n'))
	}
	a.file("facts", "facts.ndjson", b.Bytes())
}

// logText formats a journal for people: time, priority, text.
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
