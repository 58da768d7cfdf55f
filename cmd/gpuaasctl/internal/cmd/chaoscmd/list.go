package chaoscmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// listOptions choose what is listed.
type listOptions struct {
	output       string
	kinds, books bool
	profile      cmdutil.ProfileFlags
}

func newChaosList(a *cmdutil.App) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "list [FILE|FOLDER]",
		Short: "List drills, game days, or kinds of faults",
		Example: `  gpuaasctl chaos list
  gpuaasctl chaos list --profile lab
  gpuaasctl chaos list --kinds
  gpuaasctl chaos list --books
  gpuaasctl chaos list ./our-drills -o json`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, chaosList),
	}
	cmd.Flags().BoolVar(&o.kinds, "kinds", false, "list the kinds of faults, with what reverts each by itself")
	cmd.Flags().BoolVar(&o.books, "books", false, "list the built-in game days, with how many drills each has")
	o.profile.AddName(a, cmd)
	cmd.Flags().Lookup("profile").Usage = "also say which drills can run in the environment of the profile `NAME`, " +
		"and what it lacks for the others"
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func chaosList(a *cmdutil.App, cmd *cobra.Command, o *listOptions, args []string) error {
	switch {
	case (o.kinds && o.books) || ((o.kinds || o.books) && len(args) > 0):
		return cmdutil.Usagef("give --kinds, --books or a file, and only one")
	case o.kinds:
		return listKinds(a, o.output)
	case o.books:
		return listGameDays(a, o.output)
	}
	all, err := builtinDrills()
	if len(args) == 1 {
		all, err = readDrills(args[0])
	}
	if err != nil {
		return err
	}
	chain := hops.BuiltIn()
	docs, needs := diag.Documents[scenarioDocument]{}, ops.HopNeeds(chain)
	for _, s := range all {
		docs = append(docs, scenarioDocument{Head: diag.NewHead(kindScenario), Scenario: s, Needs: s.Needs(needs)})
	}
	if !cmd.Flags().Changed("profile") {
		return listDrills(a, docs, false, o.output)
	}
	p, _, err := o.profile.Load(a, cmd)
	if err != nil {
		return err
	}
	on := chaos.Subject{Absent: ops.AbsentHops(chain, p)}
	for i := range docs {
		lacks := docs[i].Scenario.Lacks(p, on)
		docs[i].RunsHere, docs[i].Lacks = new(len(lacks) == 0), lacks
	}
	return listDrills(a, docs, true, o.output)
}

// scenarioDocument is a drill as a document. The file itself has no head.
type scenarioDocument struct {
	diag.Head
	chaos.Scenario

	Needs    []chaos.Need `json:"needs,omitempty"`     // of the environment
	RunsHere *bool        `json:"runs_here,omitempty"` // in the profile's environment; absent: no profile was given
	Lacks    []string     `json:"lacks,omitempty"`     // why it cannot run there
}

const kindScenario = "DrillScenario"

// listDrills lists drills, with what each needs, or with here which of them can run in the profile's environment.
func listDrills(a *cmdutil.App, docs diag.Documents[scenarioDocument], here bool, output string) error {
	rows := [][]string{{"DRILL", "SEVERITY", "FAULTS", "BLAME", "WITHIN", "NEEDS", "TITLE"}}
	if here {
		rows[0][5] = "HERE"
	}
	for i := range docs {
		s := &docs[i].Scenario
		var kinds []string
		for _, f := range s.Faults {
			if !slices.Contains(kinds, f.Kind) {
				kinds = append(kinds, f.Kind)
			}
		}
		blame := "none"
		if !s.Expect.Blame.None {
			blame = string(s.Expect.Blame.Hop[0])
		}
		needs := cmp.Or(step.Join(docs[i].Needs, ","), "a node")
		if here {
			needs = cmp.Or(strings.Join(docs[i].Lacks, "; "), "yes")
		}
		rows = append(rows, []string{s.Metadata.ID, s.Metadata.Severity, strings.Join(kinds, ","), blame,
			s.Expect.DetectWithin.String(), needs, s.Metadata.Title})
	}
	return a.ShowPage(docs, output, cmdutil.Table(rows))
}

func listKinds(a *cmdutil.App, output string) error {
	type row struct {
		diag.Head              // Kind is the fault's kind: documents had no kind when the field was named
		Tier      string       `json:"tier"`
		On        []chaos.Role `json:"on"`
		Title     string       `json:"title"`
		About     string       `json:"about"`
	}
	var all diag.Documents[row]
	table := [][]string{{"KIND", "TIER", "ON", "WHAT"}}
	for _, k := range chaos.Kinds() {
		all = append(all, row{diag.NewHead(k.Name), k.Tier, k.On, k.Title, k.About})
		table = append(table, []string{k.Name, k.Tier, step.Join(k.On, ","), k.Title})
	}
	return a.ShowPage(all, output, cmdutil.Table(table), page.Blank{}, page.Para{
		Text: "T0 ends by the kernel at the ttl, T1 with the watchdog, T2 with a reboot, T3 only by an undo.",
	})
}

// listGameDays lists the built-in game days with the drills that their patterns select.
func listGameDays(a *cmdutil.App, output string) error {
	type row struct {
		diag.Head
		ID     string   `json:"id"`
		Title  string   `json:"title"`
		Drills []string `json:"drills"`
	}
	all := diag.Documents[row]{}
	table := [][]string{{"GAME DAY", "DRILLS", "TITLE"}}
	for _, id := range chaos.GameDays(scenarios.Files) {
		b, drills, err := chaos.FindGameDay(scenarios.Files, id)
		if err != nil {
			return errors.Join(errors.New("a built-in game day does not read"), err)
		}
		r := row{diag.NewHead("DrillBook"), b.Metadata.ID, b.Metadata.Title, []string{}}
		for _, s := range drills {
			r.Drills = append(r.Drills, s.Metadata.ID)
		}
		all = append(all, r)
		table = append(table, []string{r.ID, strconv.Itoa(len(r.Drills)), r.Title})
	}
	return a.ShowPage(all, output, cmdutil.Table(table))
}

func newChaosShow(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, chaosShow, &cobra.Command{
		Use:   "show DRILL",
		Short: "Print a drill's file, as a template for your own",
		Example: `  gpuaasctl chaos show api-egress-blocked
  gpuaasctl chaos show api-egress-blocked >our-egress.yaml`,
		Args:              cmdutil.Args(1, 1),
		ValidArgsFunction: completeDrill,
	}, "yaml", cmdutil.FormatJSON)
}

func chaosShow(a *cmdutil.App, _ *cobra.Command, o *cmdutil.OutputOptions, args []string) error {
	s, err := oneDrill(args[0])
	if err != nil {
		return err
	}
	return a.Show(scenarioDocument{Head: diag.NewHead(kindScenario), Scenario: s}, a.RenderOptions(o.Output),
		func(w io.Writer, _ render.Options) error {
			text, err := fs.ReadFile(scenarios.Files, chaos.FileOf(scenarios.Files, args[0]))
			if err != nil { // a file of the user
				text, err = os.ReadFile(s.File)
			}
			_, _ = w.Write(text)
			return err
		})
}

// validateOptions are the options of `chaos validate`.
type validateOptions struct{ books, trusted []string }

func newChaosValidate(a *cmdutil.App) *cobra.Command {
	o := &validateOptions{}
	cmd := &cobra.Command{
		Use:   "validate FILE|FOLDER|DRILL... | --book DAY",
		Short: "Check drills and game days, without any machine",
		Long: `Check drills, and game days with their drills, without any machine. Every mistake is reported with file, line and field,
and the exit code is 2.

Whether the machines allow a drill (consent, existing units, a rule that would cut the operator off) is checked by
"gpuaasctl chaos plan". Programs that a drill of your own would run on this machine are named, and a file that others can
write is refused when it has any.`,
		Example: `  gpuaasctl chaos validate our-egress.yaml
  gpuaasctl chaos validate ./our-drills
  gpuaasctl chaos validate --book our-day.yaml`,
		ValidArgsFunction: completeDrill,
		RunE:              cmdutil.Run(a, o, chaosValidate),
	}
	trustFlag(cmd, &o.trusted)
	cmd.Flags().StringArrayVar(&o.books, "book", nil,
		"also check this game `DAY`, a built-in one or a file; may be given several times")
	cmdutil.CompleteFunc(cmd, "book", func() []string { return chaos.GameDays(scenarios.Files) })
	return cmd
}

func chaosValidate(a *cmdutil.App, _ *cobra.Command, o *validateOptions, args []string) error {
	if len(args)+len(o.books) == 0 {
		return cmdutil.Usagef("which drill? Give files, folders or ids, or --book")
	}
	var out strings.Builder
	var read []chaos.Scenario
	for _, name := range o.books {
		b, all, err := chaos.FindGameDay(scenarios.Files, name)
		if err != nil {
			return cmdutil.AsUsage(err)
		}
		fmt.Fprintf(&out, "game day %s: ok, with %d drills\n", b.Metadata.ID, len(all))
		read = append(read, all...)
		for _, s := range all {
			out.WriteString(runsHere(s))
		}
	}
	for _, name := range args {
		all, err := readDrills(name)
		if err != nil {
			return err
		}
		read = append(read, all...)
		for _, s := range all {
			fmt.Fprintf(&out, "%s: ok\n%s", s.File, runsHere(s))
		}
	}
	if err := mayRunHere(read, o.trusted); err != nil {
		return err
	}
	return a.Write([]byte(out.String()))
}
