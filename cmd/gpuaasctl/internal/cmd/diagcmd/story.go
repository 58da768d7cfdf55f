package diagcmd

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/evidence"
)

// storyLines is how much of the history the first page tells.
const storyLines = 60

// ownLog is what this tool did: which source was asked, for how long, and what came of it.
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

// story is the first page: whose bundle this is, what the walk said, what is missing, what happened last, and where to
// read on.
func (a *archive) story() []byte {
	t := a.History
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	head := func(title string) { say("\n%s\n%s\n", title, strings.Repeat("-", len(title))) }
	ended, _ := a.m.EndedAt.MarshalText()
	since, _ := a.m.Since.MarshalText()
	say("Evidence about node %s, from %s to %s\n\n", a.m.NodeID, since, ended)
	for _, row := range [...][2]string{{"instance", a.m.InstanceID}, {"allocation", a.m.AllocationID},
		{"workflow", a.m.WorkflowID},
		{"failing request", a.m.CorrelationID}, {"platform", a.m.Platform}, {"bundle's own requests", a.m.WalkID}} {
		if row[1] != "" {
			say("%-22s %s\n", row[0], row[1])
		}
	}
	head("What the walk says")
	b.WriteString(verdictWords(a.Heard.Report))
	head("What is missing")
	if missing := a.m.Missing(); len(missing) == 0 {
		say("nothing: every source that is there answered\n")
	} else {
		for _, g := range missing {
			say("%-21s %-8s %s\n", g.Source, g.Status, g.Why)
		}
	}
	head("Newest evidence of each source")
	for _, row := range lastHeard(t) {
		say("%s\n", row)
	}
	head("What happened last")
	for _, n := range t.Notes() {
		say("# %s\n", n)
	}
	lines := evidence.Fold(t.Shown())
	if left := len(lines) - storyLines; left > 0 {
		say("# %d lines before these are in timeline.txt\n", left)
		lines = lines[left:]
	}
	for _, l := range lines {
		say("%s\n", l.Text(t.Query))
	}
	head("Where to read on")
	for _, f := range a.m.Files {
		if about := aboutFile(f.Path); about != "" {
			say("%-26s %s\n", f.Path, about)
		}
	}
	return []byte(b.String())
}

// lastHeard says of each source how many events it has, and when the last one was: which fell silent, and when.
func lastHeard(t evidence.Timeline) []string {
	var rows []string
	for _, o := range evidence.Origins {
		n, last := 0, diag.Time{}
		for _, e := range t.Shown() {
			if e.Origin == o {
				n, last = n+1, e.At
			}
		}
		if n > 0 && o != evidence.FromJoin && o != evidence.FromPreflight {
			at, _ := last.MarshalText()
			rows = append(rows, fmt.Sprintf("%-10s %6d lines, the last %s", o, n, at))
		}
	}
	return rows
}

// verdictWords are the walk's verdict in a few lines.
func verdictWords(r *diag.Report) string {
	if r == nil {
		return "no walk was made\n"
	}
	v := r.Verdict
	var b strings.Builder
	fmt.Fprintf(&b, "%s", v.Outcome)
	if v.Severity != "" {
		fmt.Fprintf(&b, ", %s", v.Severity)
	}
	if v.Blame != nil {
		fmt.Fprintf(&b, ": %s at %s (%s)\n%s", v.Blame.Signal, v.Blame.Hop, v.Confidence, v.Blame.Text)
	}
	if v.Because != "" {
		fmt.Fprintf(&b, ": %s", v.Because)
	}
	fmt.Fprintf(&b, "\nreason %s", v.Reason)
	if v.Owner != "" {
		fmt.Fprintf(&b, ", owner %s", v.Owner)
	}
	b.WriteByte('\n')
	if v.Proof != nil {
		fmt.Fprintf(&b, "proof: %s\n", v.Proof.Text)
	}
	if v.Unproven != "" {
		fmt.Fprintf(&b, "unproven: %s\n", v.Unproven)
	}
	if v.Observation != nil {
		fmt.Fprintf(&b, "observed: %s\n", v.Observation.Text)
	}
	for i, step := range v.Recovery {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}
	return b.String()
}

// aboutFile says what is in a file of a bundle.
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
