package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/evidence"
	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// archive turns what was heard into a bundle: files, and a manifest that says of each source what came of it.
type archive struct {
	m    *evidence.Manifest
	took redacted
	errs []error

	history evidence.Timeline
}

// newArchive assembles the bundle. It touches nothing but memory.
func newArchive(j *job, w *witnesses, since, ended time.Time, by diag.EndedBy) (*archive, error) {
	e := &j.Env
	a := &archive{took: redacted{}, m: &evidence.Manifest{
		APIVersion: diag.APIVersion, Kind: evidence.KindBundle, RunID: j.RunID, ToolVersion: j.Tool,
		StartedAt: diag.At(j.Began), EndedAt: diag.At(ended), EndedBy: by, Since: diag.At(since),
		Profile: e.Profile.Name, Platform: e.Profile.APIBase, NodeID: e.Subject.NodeID, AllocationID: e.Subject.AllocationID,
		CorrelationID: e.Subject.CorrelationID, WalkID: e.CorrelationID,
		InstanceID: cmp.Or(w.instance(), fieldOf(w.node, "node.instance_id")), WorkflowID: fieldOf(w.allocation, "allocation.workflow_id"),
	}}
	w.clean(a.took)
	timeline := evidence.Join(evidence.Query{NodeID: e.Subject.NodeID, Since: diag.At(since),
		Own: e.CorrelationID, Familiar: []string{e.Subject.AllocationID}}, w.sources(e.Subject.NodeID, a.took)...)
	a.m.Clocks, a.history = timeline.Clocks, timeline
	a.walk(w.report)
	a.record(w.record)
	a.log("agent journal", "node/agent.log", w.agent)
	a.hostLogs(w, timeline)
	a.readModel("node read model", "platform/node.json", w.node, true)
	a.readModel("allocation read model", "platform/allocation.json", w.allocation, e.Subject.AllocationID != "")
	a.evidence(w)
	a.tasks(w.tasks)
	a.facts(w)
	a.ndjson("timeline", evidence.HistoryName, timeline.Events)
	a.file("timeline", "timeline.txt", timeline.Text())
	a.m.Whole = by == diag.EndedCompleted && len(a.m.Missing()) == 0
	a.file("tool", "bundle.log", a.ownLog(j))
	a.file("tool", "README.txt", a.story(w, timeline))
	if len(a.errs) > 0 {
		return nil, a.errs[0]
	}
	for i := range a.m.Files {
		a.m.Files[i].Redacted = a.took[a.m.Files[i].Source]
	}
	return a, nil
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

// heard notes what came of a source.
func (a *archive) heard(source, status, why string, took diag.Millis) {
	a.m.Sources = append(a.m.Sources, evidence.Gathered{Source: source, Status: status, Why: why, DurationMS: took})
}

// heardFact notes what came of a source that is one fact. has says that there is something of it.
func (a *archive) heardFact(source string, f diag.Fact, has bool, more string) {
	switch {
	case f.Request.Op == "":
		a.heard(source, evidence.NotAsked, cmp.Or(more, "there is nobody to ask"), 0)
	case f.Passed():
		a.heard(source, evidence.GotWhole, more, f.DurationMS)
	case has:
		a.heard(source, evidence.GotPart, whyNot(f), f.DurationMS)
	default:
		a.heard(source, evidence.GotNothing, whyNot(f), f.DurationMS)
	}
}

// heardNode is heardFact of the node's own word: without it nothing about a node is whole, also where nobody knows how
// to ask for it.
func (a *archive) heardNode(source string, f diag.Fact, has bool, more string) {
	if f.Request.Op == "" {
		a.heard(source, evidence.GotNothing, "where the node is reached is not known: give --node-host, or name it under nodes in the profile", 0)
		return
	}
	a.heardFact(source, f, has, more)
}

// whyNot is a fact's failure in its own words.
func whyNot(f diag.Fact) string {
	why := string(f.Failure)
	if h := f.HTTP; h != nil && h.Status >= 400 {
		why += fmt.Sprintf(" %d %s", h.Status, h.ErrorCode)
	}
	if f.Detail != "" {
		why += ": " + f.Detail
	}
	return strings.TrimSpace(why)
}

func fieldOf(f diag.Fact, name string) string {
	if f.HTTP == nil {
		return ""
	}
	return f.HTTP.Fields[name]
}

func (a *archive) walk(r *diag.Report) {
	if r == nil {
		a.heard("preflight", evidence.NotAsked, "no walk was asked for", 0)
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
	a.took.add("preflight", r.Redaction.Counts)
	status, why := evidence.GotWhole, "the verdict is "+string(r.Verdict.Outcome)
	if r.Run.EndedBy != diag.EndedCompleted {
		status, why = evidence.GotPart, "ended by "+string(r.Run.EndedBy)
	}
	a.heard("preflight", status, why, r.Run.DurationMS)
}

// record keeps the record as it was read, and its entries one by one.
func (a *archive) record(f diag.Fact) {
	why := ""
	if r := f.Record; r != nil {
		a.json("record", "node/record.json", r)
		a.file("record", "node/record.txt", recordText(recordDoc{Node: a.m.NodeID, Story: record.Tell(*r), Record: *r}, 0))
		why = fmt.Sprintf("%d entries, %d damaged slots, from %s", len(r.Entries), len(r.Damaged), r.Source)
		if r.Degraded != "" {
			why += "; degraded: " + r.Degraded
		}
	}
	a.heardNode("record", f, f.Record != nil && len(f.Record.Entries) > 0, why)
}

func (a *archive) log(source, path string, f diag.Fact) {
	why := ""
	has := f.Journal != nil && len(f.Journal.Lines) > 0
	if has {
		a.file(source, path, logText(f.Journal))
		why = fmt.Sprintf("%d lines", len(f.Journal.Lines))
		if f.Journal.Truncated {
			why += ", older ones are left out"
		}
	} else if f.Passed() && f.Journal != nil {
		why = "no lines in this time"
	}
	a.heardNode(source, f, has, why)
}

// hostLogs keep of the platform host's logs what is about this node, or about nobody: other nodes' lines are other
// tenants' business.
func (a *archive) hostLogs(w *witnesses, t evidence.Timeline) {
	for _, l := range [...]struct {
		source, path string
		facts        []diag.Fact
		origins      []evidence.Origin
	}{
		{"platform log", "platform/platform.log", []diag.Fact{w.platform},
			[]evidence.Origin{evidence.FromPlatform, evidence.FromAPI, evidence.FromNodeAPI, evidence.FromGateway}},
		{"ingress log", "platform/ingress.log", w.ingress, []evidence.Origin{evidence.FromIngress}},
	} {
		text, kept := t.Lines(l.origins...)
		if kept > 0 {
			a.file(l.source, l.path, text)
		}
		first, read, truncated := diag.Fact{}, 0, false
		for i, f := range l.facts {
			if i == 0 || f.Passed() && first.Failure != diag.OK { // nginx writes to its journal, or to files
				first = f
			}
			if f.Journal != nil {
				read, truncated = read+len(f.Journal.Lines), truncated || f.Journal.Truncated
			}
		}
		why := fmt.Sprintf("%d lines about this node, or about nobody", kept)
		if truncated {
			why += "; older ones are left out"
		}
		if first.Request.Op == "" {
			why = "the profile has no platform_ssh.host"
		}
		a.heardFact(l.source, first, read > 0, why)
	}
}

// readModel keeps the fields that the mapping names, and no more of the answer.
func (a *archive) readModel(source, path string, f diag.Fact, wanted bool) {
	if !wanted {
		a.heard(source, evidence.NotAsked, "no --allocation-id was given", 0)
		return
	}
	if f.Request.Op == "" {
		a.heard(source, evidence.NotAsked, "this platform has no path for it (mapping.paths), or the profile has no API", 0)
		return
	}
	has := f.HTTP != nil && len(f.HTTP.Fields) > 0
	if has {
		a.json(source, path, f.HTTP.Fields)
	}
	a.heardFact(source, f, has && f.HTTP.Status < 400, "")
}

func (a *archive) evidence(w *witnesses) {
	const source = "platform evidence"
	if len(w.evidence) == 0 {
		a.heard(source, evidence.NotAsked, "this platform keeps none, or the profile has no API", 0)
		return
	}
	status, why, took := evidence.GotWhole, fmt.Sprintf("%d lines", len(w.items)), diag.Millis(0)
	for _, f := range w.evidence {
		took = max(took, f.DurationMS)
		if !f.Passed() {
			status, why = evidence.GotPart, f.ID+": "+whyNot(f)
		} else if fieldOf(f, evidenceTruncated) == "true" {
			why += "; older ones are left out"
		}
	}
	if status == evidence.GotPart && len(w.items) == 0 {
		status = evidence.GotNothing
	}
	a.ndjson(source, "platform/evidence.ndjson", evidence.Join(evidence.Query{}, evidence.Platform(w.apiClock(), w.items, a.took.scrub("-"))).Events)
	a.heard(source, status, why, took)
}

// tasks are the node's newest, by their mapped fields.
func (a *archive) tasks(facts []diag.Fact) {
	if len(facts) == 0 {
		a.heard("tasks", evidence.NotAsked, "the evidence names none", 0)
		return
	}
	list := []map[string]string{}
	status, why, took := evidence.GotWhole, fmt.Sprintf("%d tasks", len(facts)), diag.Millis(0)
	for _, f := range facts {
		took = max(took, f.DurationMS)
		row := map[string]string{"id": f.ID}
		if f.HTTP != nil {
			maps.Copy(row, f.HTTP.Fields)
		}
		if !f.Passed() {
			row["unread"] = whyNot(f)
			status, why = evidence.GotPart, f.ID+": "+whyNot(f)
		}
		list = append(list, row)
	}
	a.json("tasks", "platform/tasks.json", list)
	a.heard("tasks", status, why, took)
}

// facts are the walk's and this tool's own measurements, one per line; what has a file of its own is not in it again.
func (a *archive) facts(w *witnesses) {
	var b bytes.Buffer
	own := slices.Concat([]diag.Fact{w.nodeClock, w.record, w.agent, w.platformClock, w.platform, w.node, w.allocation}, w.ingress, w.lastWords, w.evidence, w.tasks)
	if w.report != nil {
		own = append(own, w.report.Facts...)
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
