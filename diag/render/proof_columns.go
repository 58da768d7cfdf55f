package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// input is one input of a request, for people.
type input struct{ name, text string }

// inputsOf are a request's inputs, sorted by name.
func inputsOf(r *diag.Request) []input {
	values := r.Inputs()
	var all []input
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, input{name, inputText(values[name])})
	}
	return all
}

// inputText is a value on one line; for a certificate, only its length.
func inputText(v any) string {
	text, ok := v.(string)
	switch {
	case ok && strings.HasPrefix(text, "-----BEGIN "):
		return fmt.Sprintf("%s, %d bytes", page.Count(strings.Count(text, "-----BEGIN "), "PEM block"), len(text))
	case ok:
		return text
	}
	if named, ok := v.(map[string]any); ok {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(named)) {
			parts = append(parts, name+": "+inputText(named[name]))
		}
		return strings.Join(parts, ", ")
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// differs marks the input in which the two requests of a proof differ.
const differs = "≠ "

// proofOf adds how a cause is known: the pair of requests in two columns, the fact that holds the cause, or why there
// is neither.
func (s *sheet) proofOf(
	r *diag.Report, pr *diag.Proof, seen *diag.Observation, unproven string, facts map[string]*diag.Fact,
) {
	switch {
	case pr != nil:
		s.columns(pr, facts)
	case unproven != "":
		s.Field("unproven", unproven, page.Plain)
	case seen == nil && r.Verdict.Blame == nil:
		s.Add(page.Para{Text: "No hop is to blame, so there is nothing to prove.", Style: page.Faint})
	case seen == nil:
		s.Add(page.Para{Text: "No two questions differ in one input, and no fact holds the cause itself.", Style: page.Faint})
	}
	s.observation("observed", seen, facts)
}

// columns adds the failing and the passing request side by side, each input under its name. The input that differs
// comes first, with a mark, and is named in words.
func (s *sheet) columns(pr *diag.Proof, facts map[string]*diag.Fact) {
	text := cmp.Or(pr.Text, "differs in "+pr.Changed)
	s.Add(page.Para{Text: text}, page.Blank{})
	a, b := facts[pr.Failing], facts[pr.Passing]
	if a == nil || b == nil {
		s.Add(page.Para{Text: "The facts of the pair are not in this report.", Style: page.Unsure})
		return
	}
	width := s.o.Width
	if width <= 0 {
		width = 2 * minColumn
	}
	p := pairSheet{sheet: s, column: max((width-columnIndent-columnGap)/2, minColumn)}
	p.row("✘ failing: "+stepOf(a.ID), "✔ passing: "+stepOf(b.ID), page.Strong)
	left, right := map[string]string{}, map[string]string{}
	for side, r := range map[*map[string]string]*diag.Request{&left: &a.Request, &right: &b.Request} {
		for _, in := range inputsOf(r) {
			(*side)[in.name] = in.text
		}
	}
	names := map[string]bool{}
	for _, side := range []map[string]string{left, right} {
		for name := range side {
			names[name] = true
		}
	}
	delete(names, pr.Changed)
	if pr.Changed == diag.ChangedNothing {
		s.Add(page.Para{Text: "One question, answered now and then: no input differs.", Style: page.Strong})
	} else {
		p.input(differs+pr.Changed+" (the only input that differs)", left[pr.Changed], right[pr.Changed], page.Strong)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p.input("  "+name, left[name], right[name], page.Plain)
	}
	p.input("  came out", cameOut(a), cameOut(b), page.Plain)
	p.input("  measured from", a.Vantage+", "+a.DurationMS.Words(), b.Vantage+", "+b.DurationMS.Words(), page.Plain)
	if pr.Failed > 0 || pr.Passed > 0 {
		p.input("  asked", fmt.Sprintf("failed %d times", pr.Failed), fmt.Sprintf("passed %d times", pr.Passed), page.Plain)
	}
}

// stepOf is a fact's id without its hop.
func stepOf(id string) string { return id[strings.IndexByte(id, '/')+1:] }

// cameOut is the result of a request.
func cameOut(f *diag.Fact) string {
	if f.Failure == diag.OK {
		return "passes"
	}
	text := string(f.Failure)
	if f.Phase != "" {
		text += " in " + f.Phase
	}
	return text
}

// The layout of the two columns.
const (
	columnIndent = 4
	columnGap    = 2
	minColumn    = 16
)

// pairSheet is two columns of text.
type pairSheet struct {
	*sheet
	column int
}

// input adds the name of an input and its two values.
func (p *pairSheet) input(name, left, right string, st page.Style) {
	left = cmp.Or(left, "not given")
	right = cmp.Or(right, "not given")
	p.Add(page.Line{{Text: name, Style: st}})
	p.row(left, right, st)
}

// row adds two texts side by side, each wrapped in its column.
func (p *pairSheet) row(left, right string, st page.Style) {
	a, b := page.Wrap(page.Clean(left), p.column), page.Wrap(page.Clean(right), p.column)
	for i := range max(len(a), len(b)) {
		var cells [2]string
		if i < len(a) {
			cells[0] = a[i]
		}
		if i < len(b) {
			cells[1] = b[i]
		}
		p.Add(page.Line{
			{Text: strings.Repeat(" ", columnIndent) + page.Pad(cells[0], p.column+columnGap), Style: st},
			{Text: cells[1], Style: st},
		})
	}
}
