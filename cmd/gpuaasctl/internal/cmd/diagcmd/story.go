package diagcmd

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// storyLines is how many lines of the history are on the first page.
const storyLines = 60

// drawFile returns a file of a bundle that is for people, or the walk's report.
func drawFile(path string, e *ops.Evidence) ([]byte, error) {
	format := render.Markdown
	switch path {
	case "node/record.txt":
		f := *e.Measured.Record.Record
		r := ops.Record{Node: e.Manifest.NodeID, Story: record.StoryOf(f), Record: f}
		return page.Text(page.Layout{}, recordPage(r, false)...), nil
	case "node/agent.log":
		return logText(e.Measured.Agent.Journal), nil
	case "bundle.log":
		return ownLog(e.Manifest), nil
	case "README.txt":
		return page.Text(page.Layout{}, story(e)...), nil
	case "report.json":
		format = render.JSON
	}
	var b bytes.Buffer
	err := render.Report(&b, e.Measured.Report, render.Options{Format: format})
	return b.Bytes(), err
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

// ownLog lists what this tool did: which source it queried, for how long, and the result.
func ownLog(m *evidence.Manifest) []byte {
	var b strings.Builder
	began, _ := m.StartedAt.MarshalText()
	ended, _ := m.EndedAt.MarshalText()
	fmt.Fprintf(&b, "%s gpuaasctl %s, run %s, profile %s\n", began, m.ToolVersion, m.RunID, m.Profile)
	fmt.Fprintf(&b, "%s asked about node %s, its own requests under %s\n", began, m.NodeID, m.WalkID)
	for _, s := range m.Sources {
		fmt.Fprintf(&b, "%s %-21s %-9s %6d ms  %s\n", ended, s.Source, s.Status, s.DurationMS, s.Why)
	}
	fmt.Fprintf(&b, "%s ended: %s\n", ended, m.EndedBy)
	return []byte(b.String())
}

// story is the first page: the bundle's subject, the walk's verdict, what is missing, the last events, and where to
// read on.
func story(e *ops.Evidence) []page.Block {
	m := e.Manifest
	var d page.Doc
	ended, _ := m.EndedAt.MarshalText()
	since, _ := m.Since.MarshalText()
	d.Add(page.Heading{Text: fmt.Sprintf("Evidence about node %s, from %s to %s", m.NodeID, since, ended)})
	d.Field("instance", m.InstanceID, page.Plain)
	d.Field("allocation", m.AllocationID, page.Plain)
	d.Field("workflow", m.WorkflowID, page.Plain)
	d.Field("failing request", m.CorrelationID, page.Plain)
	d.Field("platform", m.Platform, page.Plain)
	d.Field("bundle's own requests", m.WalkID, page.Plain)
	section := func(title string, blocks ...page.Block) {
		d.Add(page.Blank{}, page.Heading{Text: title, Level: 3})
		d.Add(blocks...)
	}
	if r := e.Measured.Report; r != nil {
		section("Verdict of the walk", render.Verdict(r)...)
	} else {
		section("Verdict of the walk", page.Para{Text: "no walk was made"})
	}
	rows := [][]string{{"source", "status", "why"}}
	for _, g := range m.Missing() {
		rows = append(rows, []string{g.Source, string(g.Status), g.Why})
	}
	if len(rows) == 1 {
		section("Missing", page.Para{Text: "nothing: every source that exists answered"})
	} else {
		section("Missing", cmdutil.Table(rows))
	}
	section("Newest evidence of each source", cmdutil.Table(newestOf(e.History)))
	section("Latest events")
	for _, n := range e.History.Notes() {
		d.Add(page.Para{Lead: "# ", Text: n})
	}
	lines := evidence.Fold(e.History.Shown())
	if left := len(lines) - storyLines; left > 0 {
		d.Add(page.Para{Lead: "# ", Text: fmt.Sprintf("%d earlier lines are in timeline.txt", left)})
		lines = lines[left:]
	}
	var latest page.Code
	for _, l := range lines {
		latest += page.Code(l.Text(e.History.Query) + "\n")
	}
	d.Add(latest)
	rows = [][]string{{"file", "content"}}
	for _, f := range m.Files {
		if about := aboutFile(f.Path); about != "" {
			rows = append(rows, []string{f.Path, about})
		}
	}
	section("Files", cmdutil.Table(rows))
	return d.Blocks
}

// newestOf returns a row for each source of events: their number, and the time of the last one, so that a source that
// stopped is noticed.
func newestOf(t evidence.Timeline) [][]string {
	rows := [][]string{{"source", "lines", "last"}}
	for _, o := range evidence.Origins {
		n, last := 0, diag.Time{}
		for _, e := range t.Shown() {
			if e.Origin == o {
				n, last = n+1, e.At
			}
		}
		if n > 0 && o != evidence.FromJoin && o != evidence.FromPreflight {
			at, _ := last.MarshalText()
			rows = append(rows, []string{string(o), strconv.Itoa(n), string(at)})
		}
	}
	return rows
}

// aboutFile describes a file of a bundle.
func aboutFile(path string) string {
	for _, f := range [...][2]string{
		{"report.md", "the walk for people; report.json for gpuaasctl preflight REPORT"},
		{"timeline.txt", "everything in order of time; timeline.ndjson for programs"},
		{"facts.ndjson", "every measurement, one per line"},
		{"node/record.txt", "the node's own diagnostic record; record.json for programs"},
		{"node/agent.log", "the agent's journal"},
		{"platform/node.json", "what the platform thinks of the node"},
		{"platform/allocation.json", "and of the allocation"},
		{"platform/tasks.json", "the node's newest tasks and what came of them"},
		{"platform/evidence.ndjson", "what the platform wrote down"},
		{"platform/platform.log", "the platform's log: node API, API, gateway"},
		{"platform/ingress.log", "nginx in front of it"},
		{"bundle.log", "what this tool did"},
	} {
		if f[0] == path {
			return f[1]
		}
	}
	return ""
}
