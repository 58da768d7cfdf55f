package preflightcmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

func worldFlag(f *pflag.FlagSet, o *preflightOptions) {
	f.BoolVar(&o.world, "world", false,
		"of a recorded report: show what its facts show about each party, before any verdict")
}

// worldFormats are the formats of a world.
var worldFormats = []string{cmdutil.FormatTable, cmdutil.FormatWide, cmdutil.FormatJSON, string(render.Markdown)}

// checkWorld refuses what --world does not show.
func (o *preflightOptions) checkWorld() error {
	switch {
	case !o.world:
		return nil
	case !slices.Contains(worldFormats, o.output):
		return fmt.Errorf("--world has no format %q: use %s", o.output, cmdutil.OneOf(worldFormats))
	case o.compare != "", o.baseline.Name != "", o.report != "", o.failOn == cmdutil.FailOnRegression:
		return errors.New("--world shows what one report's facts show: it takes neither --compare nor --baseline nor --out")
	}
	return nil
}

// showWorld writes what a report's facts show about each party. The exit code is the report's.
func (o *preflightOptions) showWorld(a *cmdutil.App, r *diag.Report) error {
	w := world.Of(a.Chain().CaseOf(r))
	if err := a.ShowPage(w, o.output, worldPage(w)...); err != nil {
		return err
	}
	return cmdutil.Judged(r, o.failOn)
}

// worldPage is a world for people: a row a property, with the facts that it rests on.
func worldPage(w *world.World) []page.Block {
	table := page.Table{Columns: page.Titles("party", "property", "is", "rests on")}
	for _, p := range w.Properties() {
		table.Rows = append(table.Rows, page.Cells(p.Party, spaced(p.Name), spaced(string(p.Is())),
			strings.Join(p.RestsOn(), ", ")))
	}
	return []page.Block{table}
}

func spaced(name string) string { return strings.ReplaceAll(name, "_", " ") }
