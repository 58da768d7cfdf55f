package ops

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
)

// archive makes the files of a bundle from evidence.
type archive struct {
	*Evidence
	draw func(path string, e *Evidence) ([]byte, error)
	errs []error
}

// Bundle adds the files to the manifest. draw returns a file for people, and report.json, by its path: ops knows no
// format. README.txt is drawn last, when the manifest has all other files.
func (e *Evidence) Bundle(draw func(path string, e *Evidence) ([]byte, error)) (*evidence.Manifest, error) {
	a, h := &archive{Evidence: e, draw: draw}, e.Measured
	if h.Report != nil {
		a.drawn("preflight", "report.json")
		a.drawn("preflight", "report.md")
	}
	if h.Record.Record != nil {
		a.json("record", "node/record.json", h.Record.Record)
		a.drawn("record", "node/record.txt")
	}
	if linesOf(h.Agent) > 0 {
		a.drawn("agent journal", "node/agent.log")
	}
	for _, l := range e.HostLogs() {
		if text, kept := e.History.Lines(l.Origins...); kept > 0 {
			a.file(l.Source, l.Path, text, nil)
		}
	}
	a.readModel("node read model", "platform/node.json", h.Node)
	a.readModel("allocation read model", "platform/allocation.json", h.Allocation)
	if len(h.Evidence) > 0 {
		said := evidence.Platform(h.APIClock(), h.Items, e.Redacted.Scrub("-"))
		a.events("platform evidence", "platform/evidence.ndjson", evidence.Join(evidence.Query{}, said).Events)
	}
	a.tasks(h.Tasks)
	data, err := evidence.NDJSON(h.facts())
	a.file("facts", "facts.ndjson", data, err)
	a.events("timeline", evidence.HistoryName, e.History.Events)
	a.file("timeline", "timeline.txt", e.History.Text(), nil)
	a.drawn("tool", "bundle.log")
	a.drawn("tool", "README.txt")
	if len(a.errs) > 0 {
		return nil, a.errs[0]
	}
	for i := range e.Manifest.Files {
		e.Manifest.Files[i].Redacted = e.Redacted[e.Manifest.Files[i].Source]
	}
	return e.Manifest, nil
}

func (a *archive) file(source, path string, data []byte, err error) {
	if err != nil {
		a.errs = append(a.errs, fmt.Errorf("write %s: %w", path, err))
	}
	a.Manifest.Files = append(a.Manifest.Files, evidence.File{Path: path, Source: source, Data: data})
}

func (a *archive) drawn(source, path string) {
	data, err := a.draw(path, a.Evidence)
	a.file(source, path, data, err)
}

func (a *archive) json(source, path string, v any) {
	data, err := evidence.JSON(v)
	a.file(source, path, data, err)
}

func (a *archive) events(source, path string, events []evidence.Event) {
	data, err := evidence.NDJSON(events)
	a.file(source, path, data, err)
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
			row["unread"] = whyNot(f)
		}
		list = append(list, row)
	}
	a.json("tasks", "platform/tasks.json", list)
}

// facts returns the walk's and this tool's own measurements, without the parts that have a file of their own.
func (h *Measured) facts() (all []diag.Fact) {
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
		all = append(all, f)
	}
	return all
}
