package render

import (
	"strconv"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// cells are the cells of a drill's row, the same in every format.
type cells struct {
	drill, injected, detected, budget, hop, signal, blame, saw, recovered, residue, verdict page.Cell
}

// nothing returns the cell for a value that does not exist because the drill ended earlier.
func nothing() page.Cell { return page.Cell{Text: "–", Style: page.Faint} }

func cellsOf(d *drill.Drill) cells {
	c := cells{
		drill:    page.Cell{Text: d.Scenario},
		injected: timed(d.Inject, claimOf(d, drill.ClaimInjected), "not seen"),
		detected: timed(d.Detect, claimOf(d, drill.ClaimInTime), "late"),
		budget:   page.Cell{Text: budget(d.Detect), Style: page.Faint},
		hop:      nothing(), signal: nothing(), saw: nothing(),
		blame:     blame(claimOf(d, drill.ClaimDetected)),
		recovered: timed(d.Recover, claimOf(d, drill.ClaimGreenAfter), "not green"),
		residue:   residue(d),
		verdict:   word(d.Verdict.Word),
	}
	o := d.Observed
	if o == nil {
		return c
	}
	if o.Blame != nil {
		c.hop, c.signal = page.Cell{Text: string(o.Blame.Hop)}, page.Cell{Text: string(o.Blame.Signal)}
	}
	if o.UserSaw != "" {
		c.saw = page.Cell{Text: o.UserSaw}
	}
	return c
}

// timed returns the time of an event. If its claim is violated, the cell marks the time, or shows otherwise if
// there is no time.
func timed(t drill.Timing, c drill.Claim, otherwise string) page.Cell {
	text := span(t)
	switch {
	case c.State == drill.Violated && t.Seen:
		return page.Marked(diag.StatusFail, text)
	case c.State == drill.Violated:
		return page.Marked(diag.StatusFail, otherwise)
	case !t.Seen:
		return page.Cell{Text: text, Style: page.Faint}
	}
	return page.Cell{Text: text}
}

// blame shows whether the chain reported what was expected, and otherwise the resulting verdict.
func blame(c drill.Claim) page.Cell {
	switch c.State {
	case drill.Held:
		return page.Marked(diag.StatusPass, "ok")
	case drill.Violated:
		return page.Marked(diag.StatusFail, string(c.Word))
	}
	return page.Marked(diag.StatusInconclusive, "not seen")
}

// residue shows what is left on the machines.
func residue(d *drill.Drill) page.Cell {
	if c := claimOf(d, drill.ClaimReverted); c.State == drill.Violated && c.Word != drill.Residue {
		return page.Marked(diag.StatusFail, string(c.Word))
	}
	switch claimOf(d, drill.ClaimClean).State {
	case drill.Held:
		return page.Marked(diag.StatusPass, "none")
	case drill.Violated:
		return page.Marked(diag.StatusFail, strconv.Itoa(left(d)))
	}
	if claimOf(d, drill.ClaimReverted).State == drill.Violated {
		return page.Marked(diag.StatusFail, "not reverted")
	}
	for i := range d.Machines {
		if d.Machines[i].Armed {
			return page.Marked(diag.StatusInconclusive, "not seen")
		}
	}
	return nothing() // nothing was touched
}

// left counts the remaining differences that were not allowed.
func left(d *drill.Drill) int {
	n := 0
	for i := range d.Machines {
		n += len(step.Unexplained(d.Machines[i].Residue))
	}
	return n
}
