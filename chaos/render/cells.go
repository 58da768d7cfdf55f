package render

import (
	"strconv"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// cells are what is said of a drill in one line, the same in every format.
type cells struct {
	drill, injected, detected, budget, hop, signal, blame, saw, recovered, residue, verdict render.Cell
}

// nothing stands where there is nothing to say: it did not come to that.
func nothing() render.Cell { return render.Cell{Text: "–", Style: render.Faint} }

// said is a cell with a status, in symbol and words.
func said(st diag.Status, words string) render.Cell {
	return render.Cell{Text: st.Symbol() + " " + words, Style: render.StatusStyle(st)}
}

func cellsOf(d *drill.Drill) cells {
	c := cells{
		drill:    render.Cell{Text: clean(d.Scenario)},
		injected: timed(d.Inject, claimOf(d, claimInjected), "not seen"),
		detected: timed(d.Detect, claimOf(d, claimInTime), "late"),
		budget:   render.Cell{Text: budget(d.Detect), Style: render.Faint},
		hop:      nothing(), signal: nothing(), saw: nothing(),
		blame:     blame(claimOf(d, claimDetected)),
		recovered: timed(d.Recover, claimOf(d, claimGreen), "not green"),
		residue:   residue(d),
		verdict:   word(d.Verdict.Word),
	}
	o := d.Observed
	if o == nil {
		return c
	}
	if o.Blame != nil {
		c.hop, c.signal = render.Cell{Text: clean(o.Blame.Hop)}, render.Cell{Text: clean(o.Blame.Signal)}
	}
	if o.UserSaw != "" {
		c.saw = render.Cell{Text: clean(o.UserSaw)}
	}
	return c
}

// timed is when something was seen. Where its claim is violated, it says so beside the time, or in words where there is
// no time.
func timed(t drill.Timing, c drill.Claim, otherwise string) render.Cell {
	text := span(t)
	switch {
	case c.State == drill.Violated && t.Seen:
		return said(diag.StatusFail, text)
	case c.State == drill.Violated:
		return said(diag.StatusFail, otherwise)
	case !t.Seen:
		return render.Cell{Text: text, Style: render.Faint}
	}
	return render.Cell{Text: text}
}

// blame says whether the chain said what it should, and if not, what that makes the drill.
func blame(c drill.Claim) render.Cell {
	switch c.State {
	case drill.Held:
		return said(diag.StatusPass, "ok")
	case drill.Violated:
		return said(diag.StatusFail, clean(c.Word))
	}
	return said(diag.StatusInconclusive, "not seen")
}

// residue says what is left on the machines.
func residue(d *drill.Drill) render.Cell {
	if c := claimOf(d, claimReverted); c.State == drill.Violated && c.Word != drill.Residue {
		return said(diag.StatusFail, clean(c.Word))
	}
	switch claimOf(d, claimClean).State {
	case drill.Held:
		return said(diag.StatusPass, "none")
	case drill.Violated:
		return said(diag.StatusFail, strconv.Itoa(left(d)))
	}
	if claimOf(d, claimReverted).State == drill.Violated {
		return said(diag.StatusFail, "not undone")
	}
	for i := range d.Machines {
		if d.Machines[i].Armed {
			return said(diag.StatusInconclusive, "not seen")
		}
	}
	return nothing() // nothing was touched
}

// left is how many differences are left that nobody allowed.
func left(d *drill.Drill) int {
	n := 0
	for i := range d.Machines {
		n += len(step.Unexplained(d.Machines[i].Residue))
	}
	return n
}
