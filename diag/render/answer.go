package render

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// AnswerLines is the maximum number of lines of the answer of a walk or a drill on a terminal, so that it fits any
// screen with the prompt.
const AnswerLines = 20

// nextShown is the maximum number of steps in an answer.
const nextShown = 3

// answer is the summary of a walk: what failed, who is to blame and how that is known, who repairs it, the next steps,
// how to verify the repair, and last the verdict in one line. It drops steps, then sentences, until it fits.
func answer(r *diag.Report, o Options) []page.Block {
	v := &r.Verdict
	tail := page.Block(verdictLine(r, o.Width))
	fine := v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn
	if fine && v.Blame == nil && r.Run.EndedBy.Words() == "" && !r.Plan.InsecureHTTP {
		return []page.Block{tail}
	}
	return FitPage(o, func(steps int, short bool) []page.Block {
		s := &sheet{o: o}
		if b := v.Blame; b == nil {
			s.outcome(r)
		} else {
			st := OutcomeStatus(v.Outcome)
			s.Add(page.Para{Text: st.Symbol() + " " + strings.ToUpper(string(v.Outcome)) + " · " + number(r.Hops, b.Hop) + " " +
				blameLine(b, v.Confidence), Style: blameStyle(b)})
			s.limits(r)
			s.Field("blame", one(b.Text, short), page.Strong)
			s.Field("proof", one(proofText(v), short && steps == 1), page.Plain) // half a pair proves nothing
		}
		for i := range v.OtherFindings {
			b := &v.OtherFindings[i]
			s.Field(once(i, "also"), number(r.Hops, b.Hop)+" "+blameLine(b, b.Confidence)+owned(b.Owner), blameStyle(b))
			if i == nextShown-1 && len(v.OtherFindings) > nextShown {
				s.Field("", fmt.Sprintf("and %d more (-o full)", len(v.OtherFindings)-nextShown), page.Faint)
				break
			}
		}
		s.Field("owner", v.Owner, page.Strong)
		shown := v.Recovery[:min(steps, len(v.Recovery))]
		s.Add(page.Steps{Label: "next", Texts: shown})
		if left := len(v.Recovery) - len(shown); left > 0 {
			s.Field(onceIf(len(shown) == 0, "next"), page.Count(left, "more step")+" (-o full)", page.Faint)
		}
		if v.RepairProof != "" {
			s.Add(page.Fields{{Label: "verify", Command: v.RepairProof}})
		}
		s.Add(tail)
		return s.Blocks
	})
}

// FitPage returns the most detailed page of build that fits AnswerLines lines: with up to three steps, and with full
// sentences or short ones.
func FitPage(o Options, build func(steps int, short bool) []page.Block) []page.Block {
	var blocks []page.Block
	for _, try := range [...]struct {
		steps int
		short bool
	}{{nextShown, false}, {nextShown - 1, false}, {nextShown, true}, {nextShown - 1, true}, {1, false}, {1, true}} {
		blocks = build(try.steps, try.short)
		if o.Width == 0 || bytes.Count(page.Text(o.Layout(), blocks...), []byte{'\n'}) <= AnswerLines {
			break
		}
	}
	return blocks
}

// sentence is the maximum length in bytes of a short sentence.
const sentence = 160

// one returns text, or if it is to be short, as many of its leading clauses as fit into a short sentence.
func one(text string, short bool) string {
	if !short || len(text) <= sentence {
		return text
	}
	clauses := strings.SplitAfter(text, "; ")
	n := len(clauses[0])
	for _, c := range clauses[1:] {
		if n+len(c) > sentence {
			break
		}
		n += len(c)
	}
	if n == len(text) {
		return text
	}
	return strings.TrimSuffix(text[:n], "; ") + " (more with -o full)"
}

// proofText explains how the blame is known: by the pair that differs in one input, by the fact that holds the cause,
// or why there is neither.
func proofText(v *diag.Verdict) string {
	switch {
	case v.Proof != nil && v.Proof.Text != "":
		return v.Proof.Text
	case v.Proof != nil:
		return "differs in " + v.Proof.Changed
	case v.Observation != nil:
		return "observed: " + v.Observation.Text
	}
	return v.Unproven
}

func owned(owner string) string {
	if owner == "" {
		return ""
	}
	return " · owner " + owner
}

func onceIf(first bool, label string) string {
	if first {
		return label
	}
	return ""
}

func once(i int, label string) string { return onceIf(i == 0, label) }

// verdictLine is the last line of a page: the outcome, the node, and who is to blame or what was found. It omits the
// duration if that would wrap to a second line.
func verdictLine(r *diag.Report, width int) page.Para {
	st := OutcomeStatus(r.Verdict.Outcome)
	parts := append([]string{st.Symbol() + " " + strings.ToUpper(string(r.Verdict.Outcome))}, verdictParts(r, true)...)
	text := strings.Join(parts, " · ")
	if width > 0 && page.Width(page.Clean(text)) > width && r.Run.DurationMS.Words() != "" {
		text = strings.Join(parts[:len(parts)-1], " · ")
	}
	return page.Para{Text: text, Style: page.StatusStyle(st)}
}
