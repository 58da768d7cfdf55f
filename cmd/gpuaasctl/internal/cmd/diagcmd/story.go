package diagcmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/evidence"
	"github.com/gpuaas/gpuaasctl/page"
)

// storyLines is how many lines of the history are on the first page.
const storyLines = 60

// ownLog lists what this tool did: which source it queried, for how long, and the result.
func (a *archive) ownLog() []byte {
	var b strings.Builder
	began, _ := a.m.StartedAt.MarshalText()
	ended, _ := a.m.EndedAt.MarshalText()
	fmt.Fprintf(&b, "%s gpuaasctl %s, run %s, profile %s\n", began, a.m.ToolVersion, a.m.RunID, a.m.Profile)
	fmt.Fprintf(&b, "%s asked about node %s, its own requests under %s\n", began, a.m.NodeID, a.m.WalkID)
	for _, s := range a.m.Sources {
		fmt.Fprintf(&b, "%s %-21s %-9s %6d ms  %s\n", ended, s.Source, s.Status, s.DurationMS, s.Why)
	}
	fmt.Fprintf(&b, "%s ended: %s\n", ended, a.m.EndedBy)
	return []byte(b.String())
}

// story is the first page: the bundle's subject, the walk's verdict, what is missing, the last events, and where to
// read on.
func (a *archive) story() []page.Block {
	var d page.Doc
	ended, _ := a.m.EndedAt.MarshalText()
	since, _ := a.m.Since.MarshalText()
	d.Add(page.Heading{Text: fmt.Sprintf("Evidence about node %s, from %s to %s", a.m.NodeID, since, ended)})
	d.Field("instance", a.m.InstanceID, page.Plain)
	d.Field("allocation", a.m.AllocationID, page.Plain)
	d.Field("workflow", a.m.WorkflowID, page.Plain)
	d.Field("failing request", a.m.CorrelationID, page.Plain)
	d.Field("platform", a.m.Platform, page.Plain)
	d.Field("bundle's own requests", a.m.WalkID, page.Plain)
	section := func(title string, blocks ...page.Block) {
		d.Add(page.Blank{}, page.Heading{Text: title, Level: 3})
		d.Add(blocks...)
	}
	if r := a.Heard.Report; r != nil {
		section("Verdict of the walk", render.Verdict(r)...)
	} else {
		section("Verdict of the walk", page.Para{Text: "no walk was made"})
	}
	rows := [][]string{{"source", "status", "why"}}
	for _, g := range a.m.Missing() {
		rows = append(rows, []string{g.Source, string(g.Status), g.Why})
	}
	if len(rows) == 1 {
		section("Missing", page.Para{Text: "nothing: every source that exists answered"})
	} else {
		section("Missing", cmdutil.Table(rows))
	}
	section("Newest evidence of each source", cmdutil.Table(newestOf(a.History)))
	section("Latest events")
	for _, n := range a.History.Notes() {
		d.Add(page.Para{Lead: "# ", Text: n})
	}
	lines := evidence.Fold(a.History.Shown())
	if left := len(lines) - storyLines; left > 0 {
		d.Add(page.Para{Lead: "# ", Text: fmt.Sprintf("%d earlier lines are in timeline.txt", left)})
		lines = lines[left:]
	}
	var latest page.Code
	for _, l := range lines {
		latest += page.Code(l.Text(a.History.Query) + "\n")
	}
	d.Add(latest)
	rows = [][]string{{"file", "content"}}
	for _, f := range a.m.Files {
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
		{"report.md", "the walk for people; report.json for gpuaasctl preflight replay"},
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
