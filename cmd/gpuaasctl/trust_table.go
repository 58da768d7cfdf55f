package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/trust"
)

// fingerprintDigits of a fingerprint stand in a table: enough to tell two apart. JSON has them whole.
const fingerprintDigits = 12

// trustTable is the explanation for people: the table, the links, the verdict, what to do.
func trustTable(r *trust.Report, o render.Options) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "trust of %s", render.Clean(r.Subject.NodeID))
	if r.Subject.NodeHost != "" {
		fmt.Fprintf(&b, " (%s)", render.Clean(r.Subject.NodeHost))
	}
	if r.Subject.EnvironmentProfile != "" {
		fmt.Fprintf(&b, ", profile %s", render.Clean(r.Subject.EnvironmentProfile))
	}
	b.WriteString("\n\n")
	b.Write(columnsIn(trustRows(r.Rows), o.Width))
	b.WriteByte('\n')
	b.Write(columnsIn(linkRows(r.Links), o.Width))
	b.WriteByte('\n')
	err := render.Notes(&b, trustVerdict(&r.Verdict), o)
	return b.Bytes(), err
}

func trustRows(rows []trust.Row) [][]string {
	table := [][]string{{"WHAT", "BY", "SHA256", "NAME", "VALID", "NOTE"}}
	for _, row := range rows {
		note := row.Note
		if row.Missing != "" {
			note = row.Missing
		}
		table = append(table, cleaned(row.Title, row.From, orDash(firstDigits(row.Fingerprint)), orDash(commonName(row.Subject)), validity(row), note))
	}
	return table
}

func linkRows(links []trust.Link) [][]string {
	table := make([][]string, len(links))
	for i, l := range links {
		table[i] = cleaned(linkMark(l.Status), l.Title, l.Text)
	}
	return table
}

// linkMark is how a link stands. Only a pass has a tick.
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

// trustVerdict is what is to be read first: which link, what moved, and what to do where, in which order.
func trustVerdict(v *trust.Verdict) []render.Note {
	unknown := render.Note{Label: "unknown", Text: strings.Join(v.Unknown, ", ")}
	switch v.Outcome {
	case trust.Match:
		return []render.Note{{Text: "✔ MATCH · " + v.Text, Style: render.Good}}
	case trust.Unclear:
		return []render.Note{{Text: "- UNKNOWN · " + v.Text, Style: render.Unsure}, unknown}
	}
	notes := []render.Note{
		{Text: "✘ MISMATCH · " + v.Text, Style: render.Bad},
		{Label: "link", Text: v.First}, {Label: "moved", Text: fmt.Sprintf("%s (%s)", v.Moved, v.Corner)},
	}
	for _, c := range v.Others {
		notes = append(notes, render.Note{Label: "also", Text: string(c)})
	}
	notes = append(notes, unknown, render.Note{Label: "owner", Text: v.Owner}, render.Note{Label: "runbook", Text: v.Runbook})
	where := ""
	for i, step := range v.Repair {
		if step.Where != where {
			where = step.Where
			notes = append(notes, render.Note{Text: repairHeading(where)})
		}
		notes = append(notes, render.Note{Step: i + 1, Text: step.Text})
	}
	return notes
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

func firstDigits(fingerprint string) string {
	return fingerprint[:min(len(fingerprint), fingerprintDigits)]
}

// commonName is a distinguished name's CN, or all of it.
func commonName(dn string) string {
	for part := range strings.SplitSeq(dn, ",") {
		if cn, ok := strings.CutPrefix(part, "CN="); ok {
			return cn
		}
	}
	return dn
}

// cleaned is a row of a table, harmless to a terminal whatever a far side put into it.
func cleaned(cells ...string) []string {
	for i, c := range cells {
		cells[i] = render.Clean(c)
	}
	return cells
}
