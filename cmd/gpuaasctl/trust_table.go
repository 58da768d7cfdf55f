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
func trustTable(r *trust.Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "trust of %s", render.Clean(r.Subject.NodeID))
	if r.Subject.NodeHost != "" {
		fmt.Fprintf(&b, " (%s)", render.Clean(r.Subject.NodeHost))
	}
	if r.Subject.EnvironmentProfile != "" {
		fmt.Fprintf(&b, ", profile %s", render.Clean(r.Subject.EnvironmentProfile))
	}
	b.WriteString("\n\n")
	b.Write(columns(trustRows(r.Rows)))
	b.WriteByte('\n')
	b.Write(columns(linkRows(r.Links)))
	b.WriteByte('\n')
	trustVerdict(&b, &r.Verdict)
	return b.Bytes()
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

func trustVerdict(b *bytes.Buffer, v *trust.Verdict) {
	switch v.Outcome {
	case trust.Match:
		fmt.Fprintf(b, "✔ MATCH · %s\n", v.Text)
		return
	case trust.Unclear:
		fmt.Fprintf(b, "- UNKNOWN · %s\nunknown     %s\n", render.Clean(v.Text), strings.Join(v.Unknown, ", "))
		return
	}
	fmt.Fprintf(b, "✘ MISMATCH · %s\n", render.Clean(v.Text))
	fmt.Fprintf(b, "first link  %s\nmoved       %s (%s)\n", v.First, v.Moved, v.Corner)
	for _, c := range v.Others {
		fmt.Fprintf(b, "also        %s\n", c)
	}
	if len(v.Unknown) > 0 {
		fmt.Fprintf(b, "unknown     %s\n", strings.Join(v.Unknown, ", "))
	}
	fmt.Fprintf(b, "owner       %s\nrunbook     %s\n", v.Owner, v.Runbook)
	where := ""
	for i, step := range v.Repair {
		if step.Where != where {
			where = step.Where
			fmt.Fprintf(b, "%s\n", repairHeading(where))
		}
		fmt.Fprintf(b, "  %d. %s\n", i+1, render.Clean(step.Text))
	}
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
