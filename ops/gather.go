package ops

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
)

// Evidence is what was gathered about a node: the measurements, the result of each source, and the history that they
// make together. It contains no secrets.
type Evidence struct {
	Measured *Measured
	Manifest *evidence.Manifest // without files; the code that writes them adds them
	History  evidence.Timeline  // of all subjects; see Timeline
	Redacted Redacted

	query evidence.Query
}

// Gather joins the measurements into evidence. It only works on memory; it scrubs measured in place.
func (s *Session) Gather(measured *Measured, since, ended time.Time, by diag.EndedBy) *Evidence {
	of := s.env.Subject
	e := &Evidence{Measured: measured, Redacted: Redacted{}, Manifest: &evidence.Manifest{
		Head: diag.NewHead(evidence.KindBundle), RunID: s.RunID, ToolVersion: s.site.Tool,
		StartedAt: diag.At(s.Began), EndedAt: diag.At(ended), EndedBy: by, Since: diag.At(since),
		Profile: s.site.Profile.Name, Platform: s.site.Profile.APIBase, NodeID: of.NodeID, AllocationID: of.AllocationID,
		CorrelationID: of.CorrelationID, WalkID: s.env.CorrelationID,
		InstanceID: cmp.Or(measured.instance(), fieldOf(measured.Node, "node.instance_id")),
		WorkflowID: fieldOf(measured.Allocation, "allocation.workflow_id"),
	}}
	measured.clean(e.Redacted)
	e.History = evidence.Join(evidence.Query{NodeID: of.NodeID, Since: diag.At(since),
		ToolID: s.env.CorrelationID, RelatedIDs: []string{of.AllocationID}}, measured.sources(of.NodeID, e.Redacted)...)
	e.Manifest.Clocks = e.History.Clocks
	e.query = evidence.Query{NodeID: of.NodeID, AllocationID: of.AllocationID, CorrelationID: of.CorrelationID,
		Since: diag.At(since), ToolID: s.env.CorrelationID}
	e.walk()
	e.record()
	e.fromNode("agent journal", measured.Agent, linesOf(measured.Agent) > 0, journalWords(measured.Agent))
	e.hostLogs()
	e.readModel("node read model", measured.Node, true)
	e.readModel("allocation read model", measured.Allocation, of.AllocationID != "")
	e.platform()
	e.tasks()
	e.Manifest.Whole = by == diag.EndedCompleted && len(e.Manifest.Missing()) == 0
	return e
}

// Timeline returns the part of the history about the session's node, allocation and correlation id.
func (e *Evidence) Timeline() evidence.Timeline { return e.History.Narrow(e.query) }

// came records the result of a source.
func (e *Evidence) came(source, status, why string, took diag.Millis) {
	e.Manifest.Sources = append(e.Manifest.Sources, evidence.Gathered{Source: source, Status: status, Why: why,
		DurationMS: took})
}

// fromFact records the status of a source that is one fact. has reports whether the fact has data of the source.
func (e *Evidence) fromFact(source string, f diag.Fact, has bool, more string) {
	switch {
	case f.Request.Op == "":
		e.came(source, evidence.NotAsked, cmp.Or(more, "there is no source to ask"), 0)
	case f.Passed():
		e.came(source, evidence.GotWhole, more, f.DurationMS)
	case has:
		e.came(source, evidence.GotPart, whyNot(f), f.DurationMS)
	default:
		e.came(source, evidence.GotNothing, whyNot(f), f.DurationMS)
	}
}

// fromNode is fromFact for a source on the node itself: without it the evidence is never complete, even if the source
// could not be queried.
func (e *Evidence) fromNode(source string, f diag.Fact, has bool, more string) {
	if f.Request.Op == "" {
		e.came(source, evidence.GotNothing,
			"no SSH host of the node is known: name it under nodes in the profile", 0)
		return
	}
	e.fromFact(source, f, has, more)
}

// whyNot describes a fact's failure.
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

func (e *Evidence) walk() {
	r := e.Measured.Report
	if r == nil {
		e.came("preflight", evidence.NotAsked, "no walk was asked for", 0)
		return
	}
	e.Redacted.add("preflight", r.Redaction.Counts)
	status, why := evidence.GotWhole, "the verdict is "+string(r.Verdict.Outcome)
	if r.Run.EndedBy != diag.EndedCompleted {
		status, why = evidence.GotPart, "ended by "+string(r.Run.EndedBy)
	}
	e.came("preflight", status, why, r.Run.DurationMS)
}

func (e *Evidence) record() {
	why, r := "", e.Measured.Record.Record
	if r != nil {
		why = fmt.Sprintf("%d entries, %d damaged slots, from %s", len(r.Entries), len(r.Damaged), r.Source)
		if r.Degraded != "" {
			why += "; degraded: " + r.Degraded
		}
	}
	e.fromNode("record", e.Measured.Record, r != nil && len(r.Entries) > 0, why)
}

func linesOf(f diag.Fact) int {
	if f.Journal == nil {
		return 0
	}
	return len(f.Journal.Lines)
}

func journalWords(f diag.Fact) string {
	switch n := linesOf(f); {
	case n > 0 && f.Journal.Truncated:
		return fmt.Sprintf("%d lines, older ones are left out", n)
	case n > 0:
		return fmt.Sprintf("%d lines", n)
	case f.Passed() && f.Journal != nil:
		return "no lines in this time"
	}
	return ""
}

// HostLog is what is kept of one log of the platform's host: lines about this node, or about none. Lines about other
// nodes may concern other tenants.
type HostLog struct {
	Source, Path string
	Origins      []evidence.Origin
	facts        []diag.Fact
}

// HostLogs returns the logs of the platform's host.
func (e *Evidence) HostLogs() []HostLog {
	return []HostLog{
		{"platform log", "platform/platform.log",
			[]evidence.Origin{evidence.FromPlatform, evidence.FromAPI, evidence.FromNodeAPI, evidence.FromGateway},
			[]diag.Fact{e.Measured.Platform}},
		{"ingress log", "platform/ingress.log", []evidence.Origin{evidence.FromIngress}, e.Measured.Ingress},
	}
}

func (e *Evidence) hostLogs() {
	for _, l := range e.HostLogs() {
		_, kept := e.History.Lines(l.Origins...)
		first, read, truncated := diag.Fact{}, 0, false
		for i, f := range l.facts {
			if i == 0 || (f.Passed() && first.Failure != diag.OK) { // nginx logs to its journal, or to files
				first = f
			}
			if f.Journal != nil {
				read, truncated = read+len(f.Journal.Lines), truncated || f.Journal.Truncated
			}
		}
		why := fmt.Sprintf("%d lines about this node, or about no node", kept)
		if truncated {
			why += "; older ones are left out"
		}
		if first.Request.Op == "" {
			why = "the profile has no platform_ssh.host"
		}
		e.fromFact(l.Source, first, read > 0, why)
	}
}

// readModel records the source of the fields that the mapping names: nothing else of the answer is kept.
func (e *Evidence) readModel(source string, f diag.Fact, wanted bool) {
	switch {
	case !wanted:
		e.came(source, evidence.NotAsked, "no allocation was given", 0)
	case f.Request.Op == "":
		e.came(source, evidence.NotAsked, "this platform has no path for it (mapping.paths), or the profile has no API", 0)
	default:
		e.fromFact(source, f, f.HTTP != nil && len(f.HTTP.Fields) > 0 && f.HTTP.Status < 400, "")
	}
}

func (e *Evidence) platform() {
	const source = "platform evidence"
	h := e.Measured
	if len(h.Evidence) == 0 {
		e.came(source, evidence.NotAsked, "this platform keeps none, or the profile has no API", 0)
		return
	}
	status, why, took := evidence.GotWhole, fmt.Sprintf("%d lines", len(h.Items)), diag.Millis(0)
	for _, f := range h.Evidence {
		took = max(took, f.DurationMS)
		if !f.Passed() {
			status, why = evidence.GotPart, f.ID+": "+whyNot(f)
		} else if fieldOf(f, evidenceTruncated) == "true" {
			why += "; older ones are left out"
		}
	}
	if status == evidence.GotPart && len(h.Items) == 0 {
		status = evidence.GotNothing
	}
	e.came(source, status, why, took)
}

// tasks records the node's newest tasks by their mapped fields.
func (e *Evidence) tasks() {
	facts := e.Measured.Tasks
	if len(facts) == 0 {
		e.came("tasks", evidence.NotAsked, "the evidence names none", 0)
		return
	}
	status, why, took := evidence.GotWhole, fmt.Sprintf("%d tasks", len(facts)), diag.Millis(0)
	for _, f := range facts {
		took = max(took, f.DurationMS)
		if !f.Passed() {
			status, why = evidence.GotPart, f.ID+": "+whyNot(f)
		}
	}
	e.came("tasks", status, why, took)
}
