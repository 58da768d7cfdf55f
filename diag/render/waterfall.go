package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// bar is one row of a waterfall: what ran, from which vantage, and when, in milliseconds since the walk's start.
type bar struct {
	status   diag.Status
	name     string
	vantage  string
	from, to int64
	note     string // why it has no bar
}

// fills tell vantages apart without colour; any other vantage has dots.
var fills = map[string]string{operator: "█", node: "▒"}

const otherFill = "·"

// hopBars returns the bars of a hop's probes, each probe followed by its counter-probes at the end.
func hopBars(r *diag.Report, h *diag.HopResult) []bar {
	byID := diag.FactsByID(r.Facts)
	passing := passingOf(&r.Verdict)
	var bars []bar
	for i := range h.Steps {
		st := &h.Steps[i]
		f := byID[st.Fact]
		if f == nil {
			bars = append(bars, bar{status: st.Status, name: st.Name, vantage: st.Vantage, note: st.Status.Words()})
			continue
		}
		bars = append(bars, barOf(st.Name, st.Status, f))
		for _, c := range countersOf(f, r.Facts) {
			status := diag.StatusPass
			passes := func(id string) bool { return c.ID == id || strings.HasPrefix(c.ID, id+"~") }
			if c.Failure != diag.OK && !slices.ContainsFunc(passing, passes) {
				status = diag.StatusFail
			}
			bars = append(bars, barOf("↳ "+strings.TrimPrefix(c.ID, f.ID+"~"), status, c))
		}
	}
	return bars
}

// passingOf returns the passing requests of all proofs: some ended with an error in a later phase than the failing one.
func passingOf(v *diag.Verdict) []string {
	var ids []string
	if v.Proof != nil {
		ids = append(ids, v.Proof.Passing)
	}
	for i := range v.OtherFindings {
		if pr := v.OtherFindings[i].Proof; pr != nil {
			ids = append(ids, pr.Passing)
		}
	}
	return ids
}

func barOf(name string, st diag.Status, f *diag.Fact) bar {
	return bar{status: st, name: name, vantage: f.Vantage, from: f.OffsetMS, to: f.OffsetMS + int64(f.DurationMS)}
}

// walkBars returns the bars of a walk's hops: for each vantage, from the start of the first probe to the end of the
// last.
func walkBars(r *diag.Report) []bar {
	var bars []bar
	for i := range r.Hops {
		h := &r.Hops[i]
		name := fmt.Sprintf("%d %s", i+1, h.ID)
		at := map[string]int{}
		for k := range r.Facts {
			f := &r.Facts[k]
			if !ofHop(f.ID, h.ID) {
				continue
			}
			b := barOf(name, h.Status, f)
			if n, ok := at[b.vantage]; ok {
				bars[n].from, bars[n].to = min(bars[n].from, b.from), max(bars[n].to, b.to)
				continue
			}
			at[b.vantage] = len(bars)
			bars = append(bars, b)
		}
		if len(at) == 0 {
			bars = append(bars, bar{status: h.Status, name: name, note: h.Status.Words()})
		}
	}
	return bars
}

// The columns of a waterfall besides its bars.
const (
	barMark      = 2 // the symbol of a status, and a space
	barNameLeast = 14
	barTime      = 7
	barLeast     = 8
	barDefault   = 40 // without a page width
	barsAlone    = 60 // the width from which the vantage has its own column
)

// waterfall adds bars on one scale, with the times of its two ends above.
func (s *sheet) waterfall(bars []bar) {
	if len(bars) == 0 {
		s.Add(page.Para{Text: "Nothing was measured.", Style: page.Faint})
		return
	}
	names, vantages, measured := 0, 0, false
	var from, to int64
	for _, b := range bars {
		names, vantages = max(names, page.Width(page.Clean(b.name))), max(vantages, page.Width(page.Clean(b.vantage)))
		if b.note != "" {
			continue
		}
		if !measured {
			from, to = b.from, b.to
		}
		measured, from, to = true, min(from, b.from), max(to, b.to)
	}
	vantages = min(vantages, len(operator))
	if s.o.Width > 0 && s.o.Width < barsAlone {
		vantages = 0 // the bars' fill distinguishes them
	}
	names = min(names, max(s.o.Width*2/5, barNameLeast))
	room := barDefault
	if s.o.Width > 0 {
		room = max(s.o.Width-barMark-names-1-vantages-1-barTime-1, barLeast)
	}
	if measured {
		text := fmt.Sprintf("From %s to %s after the start of the walk; %s from the operator, %s from the node:",
			diag.Millis(from).Words(), diag.Millis(to).Words(), fills[operator], fills[node])
		s.Add(page.Para{Text: text, Style: page.Faint})
	}
	for _, b := range bars {
		took, drawn := "", page.Cell{Text: b.note, Style: page.Faint}
		if b.note == "" {
			took = diag.Millis(b.to - b.from).Words()
			drawn = page.Cell{Text: b.draw(from, to, room), Style: page.StatusStyle(b.status)}
		}
		s.Add(page.Line{
			{Text: b.status.Symbol() + " ", Style: page.StatusStyle(b.status)},
			{Text: page.Pad(page.Cut(page.Clean(b.name), names), names) + " "},
			{Text: page.Pad(page.Cut(page.Clean(b.vantage), vantages), vantages) + " ", Style: page.Faint},
			{Text: strings.Repeat(" ", max(barTime-page.Width(took), 0)) + took + " "},
			drawn,
		})
	}
}

// draw returns the bar in n columns of the scale, at least one column wide.
func (b *bar) draw(from, to int64, n int) string {
	fill := cmp.Or(fills[b.vantage], otherFill)
	all := max(to-from, 1)
	start := min(int((b.from-from)*int64(n)/all), n-1)
	long := min(max(int((b.to-b.from)*int64(n)/all), 1), n-start)
	return strings.Repeat(" ", start) + strings.Repeat(fill, long)
}
