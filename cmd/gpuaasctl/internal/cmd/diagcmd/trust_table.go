package diagcmd

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/trust"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// trustPage is the explanation for people: the table, the links, the verdict, the repair.
func trustPage(r *trust.Report) []page.Block {
	title := "trust of " + r.Subject.NodeID
	if r.Subject.NodeHost != "" {
		title += " (" + r.Subject.NodeHost + ")"
	}
	if r.Subject.EnvironmentProfile != "" {
		title += ", profile " + r.Subject.EnvironmentProfile
	}
	table, links := [][]string{{"WHAT", "BY", "SHA256", "NAME", "VALID", "NOTE"}}, page.Table{}
	for _, row := range r.Rows {
		table = append(table, []string{row.Title, row.From, diag.Digits(row.Fingerprint), trust.CommonName(row.Subject),
			validity(row), cmp.Or(row.Missing, row.Note)})
	}
	for _, l := range r.Links {
		links.Rows = append(links.Rows, page.Cells(linkMark(l.Status), l.Title, l.Text))
	}
	return append([]page.Block{page.Para{Text: title}, page.Blank{}, cmdutil.Table(table), page.Blank{}, links,
		page.Blank{}},
		trustVerdict(&r.Verdict)...)
}

// linkMark marks the status of a link. Only a pass has a tick.
func linkMark(s trust.Status) string {
	switch s {
	case trust.Pass:
		return "✔ pass"
	case trust.Fail:
		return "✘ fail"
	case trust.NotSet:
		return "  not set"
	}
	return "- unknown"
}

// trustVerdict is the summary: which link fails, what changed, and the repair in order.
func trustVerdict(v *trust.Verdict) []page.Block {
	unknown := page.Field{Label: "unknown", Text: strings.Join(v.Unknown, ", ")}
	switch v.Outcome {
	case trust.Match:
		return []page.Block{page.Para{Text: "✔ MATCH · " + v.Text, Style: page.Good}}
	case trust.Unclear:
		return []page.Block{page.Para{Text: "- UNKNOWN · " + v.Text, Style: page.Unsure}, page.Fields{unknown}}
	}
	fields := page.Fields{{Label: "link", Text: v.First},
		{Label: "moved", Text: fmt.Sprintf("%s (%s)", v.Moved, v.Cause)}}
	for _, c := range v.Others {
		fields = append(fields, page.Field{Label: "also", Text: string(c)})
	}
	fields = append(fields, unknown, page.Field{Label: "owner", Text: v.Owner},
		page.Field{Label: "runbook", Text: v.Runbook})
	blocks, where := []page.Block{page.Para{Text: "✘ MISMATCH · " + v.Text, Style: page.Bad}, fields}, ""
	for i, step := range v.Repair {
		if step.Where != where {
			where = step.Where
			blocks = append(blocks, page.Para{Text: repairHeading(where)})
		}
		blocks = append(blocks, page.Steps{First: i + 1, Texts: []string{step.Text}})
	}
	return blocks
}

func repairHeading(where string) string {
	switch where {
	case "control_plane":
		return "in the control plane"
	case "profile":
		return "in the profile"
	}
	return "on the node"
}

func validity(r trust.Row) string {
	if r.NotAfter.IsZero() {
		return "-"
	}
	return date(r.NotBefore) + " to " + date(r.NotAfter)
}

func date(t diag.Time) string { return t.UTC().Format(time.DateOnly) }
