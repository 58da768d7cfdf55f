package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// labelWidth is the column in which the verdict's values begin.
const labelWidth = 10

// OutcomeStatus is the status whose symbol and style an outcome has.
func OutcomeStatus(o diag.Outcome) diag.Status {
	switch o {
	case diag.OutcomePass:
		return diag.StatusPass
	case diag.OutcomeWarn:
		return diag.StatusWarn
	case diag.OutcomeFail:
		return diag.StatusFail
	}
	return diag.StatusInconclusive
}

// verdict writes the block under the table: what, why, who, what next.
func (p *page) verdict(r *diag.Report, facts map[string]*diag.Fact) {
	v := &r.Verdict
	p.outcome(r)
	if b := v.Blame; b != nil {
		p.field("blame", blameLine(b, v.Confidence), blameStyle(b))
		p.field("", Clean(b.Text), Plain)
		p.proof("proof", v.Proof, facts)
		if len(v.Symptoms) > 0 {
			p.field("symptoms", hopList(r.Hops, v.Symptoms), Plain)
		}
	}
	if v.Owner != "" {
		p.field("owner", Clean(v.Owner), Strong)
	}
	p.user(r)
	p.classification(r.Classification)
	p.next(v)
	for i := range v.OtherFindings {
		p.other(r, &v.OtherFindings[i], facts)
	}
	for i, s := range v.RuledOut {
		p.field(once(i, "ruled out"), Clean(s), Faint)
	}
	p.dashboard(&r.Dashboard)
	p.evidence(r.Evidence, r.EvidenceCut)
	p.diff(r)
}

// moreEvidence says that the platform has more than a report carries.
const moreEvidence = "the platform has older lines"

// evidence says what the platform wrote down itself: every line on a wide report, else how much and from when to when.
func (p *page) evidence(lines []diag.EvidenceLine, cut bool) {
	if len(lines) == 0 {
		return
	}
	if p.o.Format != Wide {
		first, last := &lines[0], &lines[len(lines)-1]
		text := fmt.Sprintf("the platform recorded %d lines, %s %s to %s %s", len(lines),
			first.At.UTC().Format(clockLayout), Clean(first.Kind), last.At.UTC().Format(clockLayout), Clean(last.Kind))
		if cut {
			text += "; " + moreEvidence
		}
		p.field("evidence", text, Faint)
		return
	}
	for i := range lines {
		p.field(once(i, "evidence"), evidenceLine(&lines[i]), Faint)
	}
	if cut {
		p.field("", moreEvidence, Faint)
	}
}

// clockLayout is a time of day in UTC with milliseconds.
const clockLayout = "15:04:05.000Z"

func evidenceLine(l *diag.EvidenceLine) string {
	parts := []string{l.At.UTC().Format(clockLayout), Clean(l.Kind)}
	for _, f := range [][2]string{
		{"task ", l.TaskID}, {"session ", l.SessionID}, {"node ", l.NodeID}, {"allocation ", l.AllocationID}, {"correlation ", l.CorrelationID},
	} {
		if f[1] != "" {
			parts = append(parts, f[0]+Clean(f[1]))
		}
	}
	return strings.Join(parts, " · ")
}

func once(i int, label string) string {
	if i == 0 {
		return label
	}
	return ""
}

func (p *page) outcome(r *diag.Report) {
	v := &r.Verdict
	st := OutcomeStatus(v.Outcome)
	text := st.Symbol() + " " + strings.ToUpper(Clean(string(v.Outcome)))
	switch {
	case v.FirstFailedHop != "":
		text += " · first failed hop: " + number(r.Hops, v.FirstFailedHop) + " " + Clean(string(v.FirstFailedHop))
	case v.Outcome == diag.OutcomePass:
		text += " · every hop that was walked passed"
	case v.Outcome == diag.OutcomeWarn:
		text += " · nothing failed, something wants a look"
	case v.Because != "":
		text += " · no hop failed"
	default:
		text += " · the facts do not decide"
	}
	p.wrapped(0, "", text, StatusStyle(st))
	p.field("because", Clean(v.Because), Plain)
	if how := r.Run.EndedBy.Words(); how != "" {
		p.field("partial", how, Unsure)
	}
}

// blameStyle tells a fault from a hop that only did not answer.
func blameStyle(b *diag.Blame) Style {
	if b.Status == diag.StatusInconclusive {
		return Unsure
	}
	return Bad
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
	return Clean(strings.Join(parts, " · "))
}

func hopList(hops []diag.HopResult, ids []diag.HopID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = number(hops, id) + " " + Clean(string(id))
	}
	return strings.Join(names, ", ")
}

// field writes one labelled value, wrapped under itself.
func (p *page) field(label, text string, st Style) {
	if text == "" {
		return
	}
	lead := label + spaces(labelWidth-width(label))
	p.wrapped(0, lead, text, st)
}

// proof shows the pair of probes that makes a blame proven.
func (p *page) proof(label string, pr *diag.Proof, facts map[string]*diag.Fact) {
	if pr == nil {
		return
	}
	text := Clean(pr.Text)
	if text == "" {
		text = "differs in " + Clean(pr.Changed)
	}
	if label == "" {
		text = "proof: " + text
	}
	p.field(label, text, Plain)
	p.field("", "✘ "+factLine(pr.Failing, facts), Faint)
	p.field("", "✔ "+factLine(pr.Passing, facts), Faint)
}

func factLine(id string, facts map[string]*diag.Fact) string {
	s := Clean(id)
	if f := facts[id]; f != nil {
		s += " (" + f.DurationMS.Words() + ")"
	}
	return s
}

func (p *page) user(r *diag.Report) {
	v := &r.Verdict
	if v.UserState == "" || v.Blame == nil && (v.UserState == diag.UserNormal || v.UserState == diag.UserUnknown) {
		return
	}
	if r.Classification != nil {
		p.field("user", userLine(r.Classification), Plain)
		return
	}
	parts := []string{Clean(string(v.UserState))}
	if row, ok := diag.LookupReason(v.Reason); ok && v.UserState != diag.UserNormal {
		if text := row.UserText.Say(nil); text != "" {
			parts = append(parts, text)
		}
	}
	if v.Reason != "" && v.Reason != diag.ReasonNone {
		parts = append(parts, "reason "+Clean(string(v.Reason)))
	}
	if v.Severity != "" {
		parts = append(parts, Clean(v.Severity))
	}
	p.field("user", strings.Join(parts, " · "), Plain)
}

// next writes the steps, each command on lines of its own that can be pasted.
func (p *page) next(v *diag.Verdict) {
	for i, step := range v.Recovery {
		p.step(once(i, "next"), i+1, step)
	}
	if v.RepairProof != "" {
		p.field("verify", "the repair holds when this passes:", Plain)
		p.command(Clean(v.RepairProof))
	}
	if v.Runbook != "" && len(v.Recovery) > 0 {
		p.field("runbook", Clean(v.Runbook), Faint)
	}
}

func (p *page) step(label string, n int, step string) {
	lead := label + spaces(labelWidth-width(label)) + fmt.Sprintf("%d. ", n)
	for i, part := range strings.Split(step, "`") {
		part = Clean(part)
		if i%2 == 1 {
			p.command(part)
			continue
		}
		part = strings.TrimSpace(strings.TrimLeft(part, ",; "))
		if part == "" {
			continue
		}
		p.wrapped(0, lead, part, Plain)
		lead = spaces(width(lead))
	}
}

const commandIndent = labelWidth + 3

func (p *page) command(s string) {
	for i, l := range wrapCommand(s, p.width-commandIndent-2) {
		p.b.WriteString(spaces(commandIndent))
		if i == 0 {
			p.put("$ ", Faint)
		} else {
			p.b.WriteString("  ")
		}
		p.put(l, Strong)
		p.newline()
	}
}

// other is a further finding: a fault of its own, not a symptom.
func (p *page) other(r *diag.Report, b *diag.Blame, facts map[string]*diag.Fact) {
	p.field("also", blameLine(b, b.Confidence), blameStyle(b))
	p.field("", Clean(b.Text), Plain)
	p.proof("", b.Proof, facts)
	if len(b.Symptoms) > 0 {
		p.field("", "symptoms: "+hopList(r.Hops, b.Symptoms), Plain)
	}
	if b.Owner != "" {
		p.field("", "owner: "+Clean(b.Owner), Plain)
	}
}

func (p *page) dashboard(d *diag.Dashboard) {
	if d.NodeAgentStatus == "" {
		return
	}
	text := "node agent " + Clean(d.NodeAgentStatus)
	if d.TerminalReadiness != "" {
		text += " · terminal " + Clean(d.TerminalReadiness)
	}
	p.field("dashboard", text, Plain)
}
