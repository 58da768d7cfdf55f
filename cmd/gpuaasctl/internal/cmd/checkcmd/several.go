package checkcmd

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// atOnce is how many hosts are checked at a time: each is a login, and a program that is pushed.
const atOnce = 16

// severalFormats are the formats of several reports.
var severalFormats = []string{cmdutil.FormatTable, cmdutil.FormatWide, cmdutil.FormatShort, cmdutil.FormatJSON,
	cmdutil.FormatNDJSON}

// several checks hosts at the same time, each within the deadline, and shows all reports in the order of the command
// line. The exit code is the worst.
func (o *checkOptions) several(a *cmdutil.App, cmd *cobra.Command, targets []target) error {
	if !slices.Contains(severalFormats, o.output) {
		return cmdutil.BadFormat(o.output, severalFormats...)
	}
	reports := make([]*diag.Report, len(targets))
	ops.AtOnce(len(targets), atOnce, func(i int) {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.deadline)
		defer cancel()
		t := &targets[i]
		t.s = t.s.Restart()
		reports[i] = t.s.Walk(ctx, t.walk, nil)
	})
	err := o.showAll(a, reports)
	if !o.noSave {
		for i, r := range reports {
			m := a.History().ReadGood(cmd.Context(), targets[i].s.Subject(), r.Plan, false, true)
			a.NoteNotSaved(r.Run.ID, m.Save(cmd.Context(), r))
			m.Close()
		}
	}
	if err != nil {
		return err
	}
	return worst(reports, o.failOn)
}

// showAll writes all reports: a document each, or a line each and the pages of those that are not well.
func (o *checkOptions) showAll(a *cmdutil.App, reports []*diag.Report) error {
	if o.output == cmdutil.FormatNDJSON {
		var b bytes.Buffer
		for _, r := range reports {
			if err := render.Report(&b, r, a.RenderOptions(o.output)); err != nil {
				return err
			}
		}
		return a.Write(b.Bytes())
	}
	return a.Show(diag.Documents[*diag.Report](reports), a.RenderOptions(o.output),
		func(w io.Writer, opts render.Options) error {
			if _, err := w.Write(page.Text(opts.Layout(), hostsTable(reports))); err != nil || o.output == cmdutil.FormatShort {
				return err
			}
			for _, r := range reports {
				if r.Verdict.Outcome == diag.OutcomePass {
					continue
				}
				if _, err := io.WriteString(w, "\n"); err != nil {
					return err
				}
				if err := render.Report(w, r, opts); err != nil {
					return err
				}
			}
			return nil
		})
}

// hostsTable has a line for each host.
func hostsTable(reports []*diag.Report) page.Table {
	t := page.Table{Columns: page.Titles("host", "outcome", "blame", "signal", "owner")}
	for _, r := range reports {
		blame, signal, owner := "", "", ""
		if b := r.Verdict.Blame; b != nil {
			blame, signal, owner = string(b.Hop), string(b.Signal), r.Verdict.Owner
		}
		t.Rows = append(t.Rows, page.Cells(r.Subject.NodeID, string(r.Verdict.Outcome), blame, signal, owner))
	}
	return t
}

// worst returns the error of the worst report: an interrupt, an internal error, a failure, what was not measured, a
// warning.
func worst(reports []*diag.Report, failOn string) error {
	order := []int{cmdutil.ExitInterrupted, cmdutil.ExitInternal, cmdutil.ExitFailed, cmdutil.ExitUsage,
		cmdutil.ExitInconclusive, cmdutil.ExitWarned}
	var found error
	rank := len(order)
	for _, r := range reports {
		err := cmdutil.Judged(r, failOn)
		if err == nil {
			continue
		}
		if at := slices.Index(order, cmdutil.CodeOf(err)); at >= 0 && at < rank {
			found, rank = err, at
		} else if found == nil {
			found = err
		}
	}
	return found
}
