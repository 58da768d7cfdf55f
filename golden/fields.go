package golden

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
)

// VerdictFields lists the decisions in a judged report, one field per line, for a reviewer of a changed rule. It has no
// facts, timings or layout.
func VerdictFields(name string, r *diag.Report) string {
	var b fieldWriter
	v := r.Verdict
	fmt.Fprintf(&b, "== %s\n", name)
	b.line("outcome", string(v.Outcome), "first", string(v.FirstFailedHop))
	if v.Blame != nil {
		b.blame("blame", diag.Blame{
			Hop: v.Blame.Hop, Signal: v.Blame.Signal, Failure: v.Blame.Failure, Text: v.Blame.Text,
			Owner: v.Owner, Symptoms: v.Symptoms, Confidence: v.Confidence, Proof: v.Proof, Unproven: v.Unproven,
			Observation: v.Observation,
		})
	}
	if v.Blame == nil && v.Owner != "" {
		b.line("owner", v.Owner)
	}
	for _, o := range v.OtherFindings {
		b.blame("also", o)
	}
	for _, step := range v.Recovery {
		b.line("next", step)
	}
	b.line("reason", string(v.Reason), string(v.Severity), "user", string(v.UserState))
	if c := r.Classification; c != nil {
		b.line("scenario", c.Scenario)
		b.line("title", c.Title)
		b.line("shown", c.UserText)
		b.line("action", c.Next)
		for _, p := range c.Checklist {
			b.line("point", string(p.ID), string(p.Status), p.Text)
		}
	}
	b.line("dashboard", r.Dashboard.NodeAgentStatus, r.Dashboard.TerminalReadiness)
	for _, h := range r.Hops {
		if h.Status == diag.StatusPass {
			continue
		}
		b.line("hop", string(h.ID), string(h.Status), string(h.Signal), string(h.Failure), h.Text, h.Because)
	}
	for _, what := range v.RuledOut {
		b.line("ruled out", what)
	}
	return b.String()
}

// DrillFields lists the results of a drill's recorded run, one field per line.
func DrillFields(d drill.Drill) string {
	var b fieldWriter
	fmt.Fprintf(&b, "== %s\n", d.Scenario)
	b.line("verdict", string(d.Verdict.Word), d.Verdict.Text)
	held := map[drill.State][]string{}
	for _, c := range d.Claims {
		held[c.Outcome()] = append(held[c.Outcome()], c.ID)
	}
	for _, state := range []drill.State{drill.Held, drill.NotApplicable, drill.Violated, drill.NotSeen} {
		b.line(string(state), strings.Join(held[state], " "))
	}
	b.line("detect", fmt.Sprint(d.Detect))
	b.line("recover", fmt.Sprint(d.Recover))
	return b.String()
}

// fieldWriter writes a field name and its values; it omits empty values, and fields without values.
type fieldWriter struct{ strings.Builder }

func (b *fieldWriter) line(name string, values ...string) {
	var present []string
	for _, v := range values {
		if v != "" {
			present = append(present, strings.ReplaceAll(v, "\n", " "))
		}
	}
	if len(present) > 0 {
		fmt.Fprintf(b, "%-10s %s\n", name, strings.Join(present, " | "))
	}
}

func (b *fieldWriter) blame(name string, k diag.Blame) {
	b.line(name, string(k.Hop), string(k.Signal), string(k.Failure), string(k.Confidence))
	b.line("  text", k.Text)
	b.line("  owner", k.Owner)
	symptoms := make([]string, len(k.Symptoms))
	for i, s := range k.Symptoms {
		symptoms[i] = string(s)
	}
	b.line("  symptoms", strings.Join(symptoms, ", "))
	b.line("  unproven", k.Unproven)
	if k.Proof != nil {
		b.line("  proof", k.Proof.Changed, k.Proof.Text)
	}
	if k.Observation != nil {
		b.line("  observed", k.Observation.Fact, k.Observation.Field, k.Observation.Text)
	}
}
