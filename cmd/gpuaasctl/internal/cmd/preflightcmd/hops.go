package preflightcmd

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

func newHops(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, printHops, &cobra.Command{
		Use:   "hops",
		Short: "List the hops in the order of the chain",
		Example: `  gpuaasctl preflight hops
  gpuaasctl preflight hops -o wide`,
		Args: cmdutil.Args(0, 0),
	}, cmdutil.FormatTable, cmdutil.FormatWide, cmdutil.FormatJSON)
}

// hopIDs are the hops that can be walked.
func hopIDs(chain *hop.Chain) (ids []diag.HopID) {
	for _, h := range chain.List() {
		ids = append(ids, h.ID)
	}
	return ids
}

func printHops(a *cmdutil.App, _ *cobra.Command, opts *cmdutil.OutputOptions, _ []string) error {
	var hops diag.Documents[render.HopInfo]
	for _, h := range a.Chain().List() {
		info := render.HopInfo{
			Head: diag.NewHead("Hop"), ID: h.ID, Title: h.Title, Layer: h.Layer, Vantages: append([]string{}, h.From()...),
			BudgetMS: h.Budget.Milliseconds(), Steps: []string{}, ExplainedBy: h.ExplainedBy,
		}
		for _, s := range h.Steps {
			info.Steps = append(info.Steps, s.Name)
		}
		hops = append(hops, info)
	}
	return a.Show(hops, a.RenderOptions(opts.Output), func(w io.Writer, o render.Options) error {
		return render.Hops(w, hops, o)
	})
}
