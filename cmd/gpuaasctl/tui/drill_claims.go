package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// claims shows which claims are confirmed. Violated ones have their reason, each on a separate line.
func (m drillModel) claims(f *frame, c *current) {
	defer m.violated(f, c)
	if m.tall() {
		m.claimList(f, c)
		return
	}
	label, used := "claims", m.width
	for _, cl := range c.claims() {
		cell := m.claim(cl, strings.ReplaceAll(cl.ID, "_", " "))
		n := page.Width(cell.Text) + 2
		if used+n > m.width {
			f.field(rankClaims, label)
			label, used = "", labelWidth
		}
		last := &(*f)[len(*f)-1]
		last.cells = append(last.cells, cell, plain("  "))
		used += n
	}
}

// claims returns the current claims, without violations that may still come true.
func (c *current) claims() []drill.Claim {
	all := slices.Clone(c.report.Claims)
	for i, cl := range all {
		if cl.State == drill.Violated && !c.settled(cl.ID) {
			all[i] = drill.Claim{ID: cl.ID, Title: cl.Title, State: drill.NotSeen}
		}
	}
	return all
}

// settled reports whether a claim can no longer come true.
func (c *current) settled(claim string) bool {
	switch claim {
	case drill.ClaimDetected:
		return c.has(drill.Reverting) || c.over()
	case drill.ClaimReverted, drill.ClaimGreenAfter:
		return c.has(drill.Compared) || c.has(drill.Closed) || c.over()
	}
	return true
}

func (m drillModel) violated(f *frame, c *current) {
	for _, cl := range c.claims() {
		if cl.State == drill.Violated {
			f.field(rankWrong, "", statusCell(diag.StatusFail, fmt.Sprintf("%s: %s", cl.Word, cl.Text)))
		}
	}
}

// claimList shows the claims with their texts, in two columns.
func (m drillModel) claimList(f *frame, c *current) {
	all := c.claims()
	half := (len(all) + 1) / 2
	for i, cl := range all[:half] {
		left := m.claim(cl, cl.Title)
		left.Text = page.Pad(page.Cut(left.Text, m.width/2-labelWidth-2), m.width/2-labelWidth)
		cells := []page.Cell{left}
		if k := i + half; k < len(all) {
			cells = append(cells, m.claim(all[k], all[k].Title))
		}
		label := ""
		if i == 0 {
			label = "claims"
		}
		f.field(rankClaims, label, cells...)
	}
}

func (m drillModel) claim(c drill.Claim, words string) page.Cell {
	switch c.Outcome() {
	case drill.Held:
		return statusCell(diag.StatusPass, words)
	case drill.Violated:
		return statusCell(diag.StatusFail, words)
	case drill.NotApplicable:
		return statusCell(diag.StatusSkipped, words)
	}
	return statusCell(diag.StatusNotReached, words)
}
