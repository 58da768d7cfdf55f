// Package profilecmd is "gpuaasctl profile": it shows, lists and checks profiles of environments.
package profilecmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	return cmdutil.Parent("profile", "Write, choose, show and check profiles of environments",
		`A profile is a YAML file with the addresses of an environment, its expected settings, and the paths and field names
of its API. An unknown key in it is an error. Flags take precedence over GPUAASCTL_* variables, and variables over the
file.

A command uses the profile of --profile, else that of GPUAASCTL_PROFILE, else the one that was chosen with "gpuaasctl
profile use", else the only profile that exists. If --api-base or GPUAASCTL_API_BASE is set, only --profile and
GPUAASCTL_PROFILE select a profile.`,
		newProfileShow(a), newProfileList(a), newProfileValidate(a), newProfilePath(a), newProfileUse(a), newProfileInit(a))
}

// showOptions choose the profile, and how much of it is printed.
type showOptions struct {
	cmdutil.ProfileFlags
	output      string
	origin, all bool
}

func newProfileShow(a *cmdutil.App) *cobra.Command {
	o := &showOptions{}
	cmd := &cobra.Command{
		Use:   "show [NAME]",
		Short: "Print the values that a walk would use, and where each comes from",
		Example: `  gpuaasctl profile show lab --origin
  gpuaasctl profile show --all -o json`,
		Args:              cmdutil.Args(0, 1),
		ValidArgsFunction: completeProfile(a),
		RunE:              cmdutil.Run(a, o, showProfile),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&o.origin, "origin", false, "show where each value comes from")
	cmd.Flags().BoolVar(&o.all, "all", false, "also print every default: places on the node, policy, mapping")
	cmdutil.FormatFlag(cmd, &o.output, "yaml", "yaml", "json")
	o.Add(a, cmd)
	return cmd
}

func showProfile(a *cmdutil.App, cmd *cobra.Command, o *showOptions, args []string) error {
	if len(args) == 1 && o.Name != "" {
		return cmdutil.Usagef("give the profile as NAME or by --profile, not both")
	}
	if len(args) == 1 {
		o.Name = args[0]
	}
	p, origins, err := o.Load(a, cmd)
	if err != nil {
		return err
	}
	if o.all {
		p = p.WithDefaults()
	}
	if !o.origin {
		origins = nil
	}
	doc, err := profile.NewDocument(p, origins)
	if err != nil {
		return err
	}
	return a.Show(doc, a.RenderOptions(o.output), func(w io.Writer, _ render.Options) error {
		b, err := profile.YAML(p, origins)
		_, _ = w.Write(b)
		return err
	})
}

func newProfileList(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, listProfiles, &cobra.Command{
		Use:     "list",
		Short:   "List the profiles that can be chosen by name",
		Example: `  gpuaasctl profile list`,
		Args:    cmdutil.Args(0, 0),
	}, cmdutil.PageFormats()...)
}

// listProfiles also lists invalid profiles: an operator must see that they exist, and are broken.
func listProfiles(a *cmdutil.App, _ *cobra.Command, o *cmdutil.OutputOptions, _ []string) error {
	type row struct {
		diag.Head
		Name    string `json:"name"`
		Path    string `json:"path"`
		APIBase string `json:"api_base,omitempty"`
		Nodes   int    `json:"nodes"`
		Chosen  bool   `json:"chosen"` // by commands that name none
		Error   string `json:"error,omitempty"`
	}
	dir := profile.Dir(a.Env)
	rows := diag.Documents[row]{}
	chosen := a.ProfileSource("", false)
	table := [][]string{{"", "NAME", "NODES", "API", "FILE"}}
	for _, name := range profile.List(dir) {
		r := row{Head: diag.NewHead("ProfileEntry"), Name: name, Path: profile.Path(name, dir)}
		p, _, err := profile.ReadFile(r.Path)
		r.APIBase, r.Nodes = p.APIBase, len(p.Nodes)
		api := r.APIBase
		if err != nil {
			r.Error = err.Error()
			api = "does not read: gpuaasctl profile validate " + name
		}
		mark := " "
		if r.Chosen = name == chosen; r.Chosen {
			mark = "*"
		}
		rows = append(rows, r)
		table = append(table, []string{mark, r.Name, strconv.Itoa(r.Nodes), api, r.Path})
	}
	if len(rows) == 0 && o.Output != cmdutil.FormatJSON {
		a.Note("no profile in %s", dir)
	}
	return a.ShowPage(rows, o.Output, cmdutil.Table(table))
}

func newProfileValidate(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:   "validate [NAME|FILE]",
		Short: "Check a profile, and the files and programs that it names",
		Example: `  gpuaasctl profile validate lab
  gpuaasctl profile validate ./demo.yaml`,
		Args:              cmdutil.Args(0, 1),
		ValidArgsFunction: completeProfile(a),
		RunE:              cmdutil.Run(a, struct{}{}, validateProfile),
	}
}

func validateProfile(a *cmdutil.App, cmd *cobra.Command, _ struct{}, args []string) error {
	name := a.ProfileSource(strings.Join(args, ""), false)
	if name == "" {
		return cmdutil.Usagef("which profile is meant? %s", a.NoProfile())
	}
	dir := profile.Dir(a.Env)
	path := profile.Path(name, dir)
	p, lines, err := profile.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && path != name {
		err = &profile.NotFoundError{Name: name, Dir: dir, Known: profile.List(dir)}
	}
	if err != nil {
		return cmdutil.AsUsage(err)
	}
	if len(lines) == 0 {
		return cmdutil.AsUsage(fmt.Errorf(
			"check profile %s: it sets no value; `gpuaasctl profile show --all` lists what it may set", path))
	}
	if _, err := ops.ReadSecrets(cmd.Context(), p, false); err != nil {
		return err
	}
	return a.Write([]byte(path + ": ok\n"))
}

func newProfileUse(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:   "use [NAME]",
		Short: "Choose the profile of commands that name none, or print which that is",
		Example: `  gpuaasctl profile use lab
  gpuaasctl profile use`,
		Args:              cmdutil.Args(0, 1),
		ValidArgsFunction: completeProfile(a),
		RunE:              cmdutil.Run(a, struct{}{}, useProfile),
	}
}

func useProfile(a *cmdutil.App, _ *cobra.Command, _ struct{}, args []string) error {
	dir := profile.Dir(a.Env)
	if len(args) == 0 {
		name := a.ProfileSource("", false)
		if name == "" {
			return cmdutil.Usagef("%s", a.NoProfile())
		}
		return a.Write([]byte(name + "\n"))
	}
	if args[0] == "" {
		return cmdutil.Usagef("which profile is meant? %s", a.NoProfile())
	}
	path := profile.Path(args[0], dir)
	_, _, err := profile.Load(args[0], profile.Sources{Dir: dir})
	if err == nil && path == args[0] { // make a path absolute, so that it means the same in every folder
		args[0], err = filepath.Abs(path)
	}
	if err != nil {
		return cmdutil.AsUsage(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	return cmdutil.ReplaceFile(profile.InUse(dir), []byte(args[0]+"\n"))
}

func newProfilePath(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:   "path [NAME]",
		Short: "Print the folder of the profiles, or the path of one",
		Example: `  gpuaasctl profile path
  gpuaasctl profile path lab`,
		Args:              cmdutil.Args(0, 1),
		ValidArgsFunction: completeProfile(a),
		RunE:              cmdutil.Run(a, struct{}{}, profilePath),
	}
}

func profilePath(a *cmdutil.App, _ *cobra.Command, _ struct{}, args []string) error {
	path := profile.Dir(a.Env)
	if len(args) == 1 {
		path = profile.Path(args[0], path)
	}
	return a.Write([]byte(path + "\n"))
}

func completeProfile(a *cmdutil.App) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.ProfileNames(), cobra.ShellCompDirectiveDefault // or the path of a file
	}
}
