package render

import (
	"cmp"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// OutcomeStatus returns the status whose symbol and style an outcome uses.
func OutcomeStatus(o diag.Outcome) diag.Status {
	return cmp.Or(map[diag.Outcome]diag.Status{
		diag.OutcomePass: diag.StatusPass, diag.OutcomeWarn: diag.StatusWarn, diag.OutcomeFail: diag.StatusFail,
	}[o], diag.StatusInconclusive)
}

// full adds everything: each hop with its steps and measurements, and the complete verdict.
func (s *sheet) full(r *diag.Report) {
	s.Add(page.Heading{Text: Headline(&r.Subject)})
	s.vantages(r, true)
	facts := diag.FactsByID(r.Facts)
	t := s.hops(r, false)
	for i := range r.Hops {
		t.Rows[i].Below = append(t.Rows[i].Below, steps(&r.Hops[i], facts))
	}
	s.Add(t)
	s.footnotes(r)
	s.Add(page.Para{Text: Counts(r.Hops), Indent: 2, Style: page.Faint}, page.Blank{})
	s.run(&r.Run)
	s.diff(r)
	s.verdict(r, facts)
	s.Add(verdictLine(r, s.o.Width))
}

// Verdict returns the complete verdict of a report as a page.
func Verdict(r *diag.Report) []page.Block {
	s := &sheet{o: Options{Format: Full}}
	s.verdict(r, diag.FactsByID(r.Facts))
	return s.Blocks
}

// verdict adds the complete verdict: outcome, cause, owner, next steps.
func (s *sheet) verdict(r *diag.Report, facts map[string]*diag.Fact) {
	v := &r.Verdict
	s.outcome(r)
	if v.Blame != nil {
		s.blame(r, facts)
	}
	if v.Owner != "" {
		s.Field("owner", v.Owner, page.Strong)
	}
	s.user(r)
	s.classification(r.Classification, len(r.Verdict.Recovery) == 0)
	s.next(v)
	for i := range v.OtherFindings {
		s.other(r, &v.OtherFindings[i], facts)
	}
	for i, cause := range v.RuledOut {
		s.Field(once(i, "ruled out"), cause, page.Faint)
	}
	s.dashboard(&r.Dashboard)
	s.Add(evidence(r))
}

// blame adds who is to blame, how that is known, and the symptoms.
func (s *sheet) blame(r *diag.Report, facts map[string]*diag.Fact) {
	v, b := &r.Verdict, r.Verdict.Blame
	s.Field("blame", blameLine(b, v.Confidence), blameStyle(b))
	s.Field("", b.Text, page.Plain)
	s.why(r, facts)
}

// why adds how the blame is known, and its symptoms.
func (s *sheet) why(r *diag.Report, facts map[string]*diag.Fact) {
	v := &r.Verdict
	s.proof("proof", v.Proof, facts)
	s.Field("unproven", v.Unproven, page.Faint)
	s.observation("observed", v.Observation, facts)
	if len(v.Symptoms) > 0 {
		s.Field("symptoms", hopList(r.Hops, v.Symptoms), page.Plain)
	}
}

// moreEvidence notes that the platform has more evidence than the report.
const moreEvidence = "the platform has older lines"

// evidence lists the events that the platform recorded.
func evidence(r *diag.Report) page.Fields {
	var lines page.Fields
	for i := range r.Evidence {
		lines = append(lines, page.Field{Label: once(i, "evidence"), Text: EvidenceWords(&r.Evidence[i]), Style: page.Faint})
	}
	if r.EvidenceCut {
		lines = append(lines, page.Field{Text: moreEvidence, Style: page.Faint})
	}
	return lines
}

// clockLayout is a time of day in UTC with milliseconds.
const clockLayout = "15:04:05.000Z"

// EvidenceWords is one event of the platform as one line.
func EvidenceWords(l *diag.EvidenceLine) string {
	parts := []string{l.At.UTC().Format(clockLayout), l.Kind}
	for _, f := range [][2]string{
		{"task ", l.TaskID}, {"session ", l.SessionID}, {"node ", l.NodeID}, {"allocation ", l.AllocationID},
		{"correlation ", l.CorrelationID},
	} {
		if f[1] != "" {
			parts = append(parts, f[0]+f[1])
		}
	}
	return strings.Join(parts, " · ")
}

func (s *sheet) outcome(r *diag.Report) {
	v := &r.Verdict
	st := OutcomeStatus(v.Outcome)
	text := st.Symbol() + " " + strings.ToUpper(string(v.Outcome))
	switch {
	case v.FirstFailedHop != "":
		text += " · first failed hop: " + number(r.Hops, v.FirstFailedHop) + " " + string(v.FirstFailedHop)
	case v.Outcome == diag.OutcomePass:
		text += " · every hop that was walked passed"
	case v.Outcome == diag.OutcomeWarn:
		text += " · nothing failed, something wants a look"
	case v.Because != "":
		text += " · no hop failed"
	default:
		text += " · the facts do not decide"
	}
	s.Add(page.Para{Text: text, Style: page.StatusStyle(st)})
	if v.Outcome == diag.OutcomeInconclusive {
		s.Field("because", undecided(r), page.Plain)
	}
	s.limits(r)
}

// limits adds what the reader of any verdict must know: that the walk is partial, and that its profile is insecure.
func (s *sheet) limits(r *diag.Report) {
	s.Field("partial", r.Run.EndedBy.Words(), page.Unsure)
	s.Field("insecure", r.Plan.Insecure(), page.Unsure)
}

// blameStyle tells a fault from a hop that only did not answer.
func blameStyle(b *diag.Blame) page.Style {
	if b.Status == diag.StatusInconclusive {
		return page.Unsure
	}
	return page.Bad
}

func blameLine(b *diag.Blame, c diag.Confidence) string {
	parts := []string{string(b.Hop), string(b.Signal)}
	if b.Failure != diag.OK {
		parts = append(parts, string(b.Failure))
	}
	if b.Status != "" {
		parts = append(parts, string(b.Status))
	}
	if c != "" {
		parts = append(parts, string(c))
	}
	return strings.Join(parts, " · ")
}

func hopList(hops []diag.HopResult, ids []diag.HopID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = number(hops, id) + " " + string(id)
	}
	return strings.Join(names, ", ")
}

// proof shows the pair of probes that makes a blame proven.
func (s *sheet) proof(label string, pr *diag.Proof, facts map[string]*diag.Fact) {
	if pr == nil {
		return
	}
	text := cmp.Or(pr.Text, "differs in "+pr.Changed)
	if label == "" {
		text = "proof: " + text
	}
	s.Field(label, text, page.Plain)
	s.Field("", "✘ "+factLine(pr.Failing, facts), page.Faint)
	s.Field("", "✔ "+factLine(pr.Passing, facts), page.Faint)
}

// observation shows the fact that holds the cause itself.
func (s *sheet) observation(label string, o *diag.Observation, facts map[string]*diag.Fact) {
	if o == nil {
		return
	}
	text := o.Text
	if label == "" {
		text = "observed: " + text
	}
	s.Field(label, text, page.Plain)
	s.Field("", "✘ "+factLine(o.Fact, facts)+" · "+o.Field, page.Faint)
}

func factLine(id string, facts map[string]*diag.Fact) string {
	if f := facts[id]; f != nil {
		return id + " (" + f.DurationMS.Words() + ")"
	}
	return id
}

func (s *sheet) user(r *diag.Report) {
	v := &r.Verdict
	if v.UserState == "" || (v.Blame == nil && (v.UserState == diag.UserNormal || v.UserState == diag.UserUnknown)) {
		return
	}
	if r.Classification != nil {
		s.Field("user", userLine(r.Classification), page.Plain)
		return
	}
	parts := []string{string(v.UserState)}
	if v.Reason != "" && v.Reason != diag.ReasonNone {
		parts = append(parts, "reason "+string(v.Reason))
	}
	if v.Severity != "" {
		parts = append(parts, v.Severity)
	}
	s.Field("user", strings.Join(parts, " · "), page.Plain)
}

// next adds the steps, each command on lines of its own that can be pasted.
func (s *sheet) next(v *diag.Verdict) {
	if len(v.Recovery) > 0 {
		s.Add(page.Steps{Label: "next", Texts: v.Recovery})
	}
	if v.RepairProof != "" {
		s.Add(page.Fields{{Label: "verify", Text: "the repair holds when this passes:", Command: v.RepairProof}})
	}
	if len(v.Recovery) > 0 {
		s.Field("runbook", v.Runbook, page.Faint)
	}
}

// other adds a further finding: an independent fault, not a symptom.
func (s *sheet) other(r *diag.Report, b *diag.Blame, facts map[string]*diag.Fact) {
	s.Field("also", blameLine(b, b.Confidence), blameStyle(b))
	s.Field("", b.Text, page.Plain)
	s.proof("", b.Proof, facts)
	if b.Unproven != "" {
		s.Field("", "unproven: "+b.Unproven, page.Faint)
	}
	s.observation("", b.Observation, facts)
	if len(b.Symptoms) > 0 {
		s.Field("", "symptoms: "+hopList(r.Hops, b.Symptoms), page.Plain)
	}
	if b.Owner != "" {
		s.Field("", "owner: "+b.Owner, page.Plain)
	}
}

func (s *sheet) dashboard(d *diag.Dashboard) {
	if d.NodeAgentStatus == "" {
		return
	}
	text := "node agent " + d.NodeAgentStatus
	if d.TerminalReadiness != "" {
		text += " · terminal " + d.TerminalReadiness
	}
	s.Field("dashboard", text, page.Plain)
}
