package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// summary is a page to pass on: the answer first, for a chat or a step summary, then everything else folded under its
// title. As Markdown the answer has at most 15 lines.
func summary(r *diag.Report) []page.Block {
	v := &r.Verdict
	s := &sheet{o: Options{Format: Full}}
	title := page.Marked(OutcomeStatus(v.Outcome), string(v.Outcome))
	s.Add(page.Heading{
		Text:  title.Text + ": " + strings.TrimPrefix(Headline(&r.Subject), "preflight "),
		Style: title.Style,
	})
	s.first(r)
	first := v.Recovery[:min(nextShown, len(v.Recovery))]
	if len(first) > 0 {
		s.Add(page.Steps{Label: "Next", Texts: first})
	}
	s.section("More steps, and how to verify the repair", func(s *sheet) {
		if more := v.Recovery[len(first):]; len(more) > 0 {
			s.Add(page.Steps{First: len(first) + 1, Texts: more})
		}
		if v.RepairProof != "" {
			s.Add(page.Fields{{Label: "verify", Text: "the repair holds when this passes:", Command: v.RepairProof}})
		}
	})
	s.section("Symptoms, further findings", func(s *sheet) { s.findings(r) })
	s.Add(page.Fold{Title: Counts(r.Hops), Blocks: []page.Block{s.hops(r, false)}, Open: true})
	s.proofs(r)
	s.section("Changed", func(s *sheet) { s.diff(r) })
	s.section("Classification", func(s *sheet) {
		if r.Classification != nil {
			s.classification(r.Classification, len(r.Verdict.Recovery) == 0)
			s.user(r)
		}
	})
	s.section("Ruled out", func(s *sheet) {
		for i, cause := range v.RuledOut {
			s.Field(once(i, "ruled out"), cause, page.Plain)
		}
	})
	s.section("Recorded by the platform", func(s *sheet) {
		if len(r.Evidence) > 0 {
			s.Add(evidence(r))
		}
	})
	s.section(fmt.Sprintf("Measurements of run %s", r.Run.ID), func(s *sheet) {
		s.run(&r.Run)
		s.Add(measurements(r.Facts))
	})
	return s.Blocks
}

// fold adds blocks that are hidden under a title at first.
func (s *sheet) fold(title string, blocks ...page.Block) {
	s.Add(page.Fold{Title: title, Blocks: blocks})
}

// section folds what write adds, unless that is nothing.
func (s *sheet) section(title string, write func(*sheet)) {
	inner := &sheet{o: s.o}
	if write(inner); len(inner.Blocks) > 0 {
		s.fold(title, inner.Blocks...)
	}
}

// first adds what was found, whom to call, and how it is known.
func (s *sheet) first(r *diag.Report) {
	v := &r.Verdict
	s.limits(r)
	s.Field("first failed hop", string(v.FirstFailedHop), page.Plain)
	s.Field("not decided", v.Because, page.Plain)
	if b := v.Blame; b != nil {
		s.Field("blame", blameLine(b, v.Confidence), blameStyle(b))
		s.Field("", b.Text, page.Plain)
	}
	s.Field("owner", v.Owner, page.Strong)
	s.Field("proof", proofText(v), page.Plain)
	if n := len(v.OtherFindings); n > 0 {
		s.Field("also", page.Count(n, "further finding")+", below", page.Plain)
	}
	if at := r.Run.StartedAt; !at.IsZero() {
		s.Field("walked", at.UTC().Format("2006-01-02 15:04:05Z")+", "+r.Run.DurationMS.Words(), page.Faint)
	}
}

// findings adds the symptoms of the blame, and further findings.
func (s *sheet) findings(r *diag.Report) {
	v := &r.Verdict
	s.Field("symptoms", hopList(r.Hops, v.Symptoms), page.Plain)
	for i := range v.OtherFindings {
		b := &v.OtherFindings[i]
		s.Field("also", blameLine(b, b.Confidence)+owned(b.Owner), blameStyle(b))
		s.Field("", b.Text, page.Plain)
		if len(b.Symptoms) > 0 {
			s.Field("", "symptoms: "+hopList(r.Hops, b.Symptoms), page.Plain)
		}
	}
}

// proofs adds the facts that support each blame, with their measurements.
func (s *sheet) proofs(r *diag.Report) {
	facts := diag.FactsByID(r.Facts)
	add := func(b *diag.Blame, pr *diag.Proof, o *diag.Observation, unproven string) {
		s.section("Proof: "+string(b.Hop)+" · "+string(b.Signal), func(s *sheet) {
			var ids []string
			if pr != nil {
				s.proof("proof", pr, facts)
				ids = append(ids, pr.Failing, pr.Passing)
			}
			if o != nil {
				s.observation("observed", o, facts)
				ids = append(ids, o.Fact)
			}
			if len(ids) == 0 {
				return
			}
			s.Field("unproven", unproven, page.Faint)
			var of []diag.Fact
			for _, id := range ids {
				if f := facts[id]; f != nil {
					of = append(of, *f)
				}
			}
			s.Add(measurements(of))
		})
	}
	v := &r.Verdict
	if v.Blame != nil {
		add(v.Blame, v.Proof, v.Observation, v.Unproven)
	}
	for i := range v.OtherFindings {
		b := &v.OtherFindings[i]
		add(b, b.Proof, b.Observation, b.Unproven)
	}
}

// measurements are all facts, each with what it measured.
func measurements(facts []diag.Fact) page.Fields {
	var lines page.Fields
	for i := range facts {
		f, word := &facts[i], "passes"
		if f.Failure != diag.OK {
			word = string(f.Failure)
		}
		lines = append(lines,
			page.Field{Label: f.ID, Text: fmt.Sprintf("from %s, %s: %s", f.Vantage, f.DurationMS.Words(), word)})
		for _, l := range Detail(f) {
			lines = append(lines, page.Field{Text: l})
		}
	}
	return lines
}
