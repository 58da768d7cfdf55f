package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/profile"
)

func newProfile(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Show, list and check profiles of environments",
		Long: `A profile is a strict YAML file that says how an environment is reached, what is expected of it, and how its API is
spelled. Flags win over GPUAASCTL_* variables, and these over the file. GPUAASCTL_PROFILE chooses one.`,
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProfileShow(a), newProfileList(a), newProfileValidate(a), newProfilePath(a))
	return cmd
}

func newProfileShow(a *app) *cobra.Command {
	var f profileFlags
	var output string
	var origin, all bool
	cmd := &cobra.Command{
		Use:   "show [NAME]",
		Short: "Print the values that a walk would use, and where each comes from",
		Example: `  gpuaasctl profile show lab --origin
  gpuaasctl profile show --all -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeProfile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && f.name != "" {
				return usagef("give the profile as NAME or by --profile, not both")
			}
			if len(args) == 1 {
				f.name = args[0]
			}
			return a.showProfile(cmd, &f, output, origin, all)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each value comes from")
	cmd.Flags().BoolVar(&all, "all", false, "also print every default: places on the node, policy, mapping")
	formatFlag(cmd, &output, "yaml", "yaml", "json")
	f.add(a, cmd)
	return cmd
}

func (a *app) showProfile(cmd *cobra.Command, f *profileFlags, output string, origin, all bool) error {
	p, origins, err := f.load(a, cmd)
	if err != nil {
		return err
	}
	if all {
		p = p.WithDefaults()
	}
	if !origin {
		origins = nil
	}
	encode := profile.YAML
	if output == formatJSON {
		encode = profile.JSON
	}
	b, err := encode(p, origins)
	if err != nil {
		return err
	}
	return a.write(b)
}

func newProfileList(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the profiles that can be chosen by name",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.listProfiles(output) },
	}
	formatFlag(cmd, &output, formatTable, formatTable, formatJSON)
	return cmd
}

// listProfiles shows also those that do not read: an operator must see that they are there, and broken.
func (a *app) listProfiles(output string) error {
	type row struct {
		Name    string `json:"name"`
		Path    string `json:"path"`
		APIBase string `json:"api_base,omitempty"`
		Nodes   int    `json:"nodes"`
		Error   string `json:"error,omitempty"`
	}
	dir := profile.Dir(a.env)
	rows := []row{}
	table := [][]string{{"NAME", "NODES", "API", "FILE"}}
	for _, name := range profile.List(dir) {
		r := row{Name: name, Path: profile.Path(name, dir)}
		p, _, err := profile.ReadFile(r.Path)
		r.APIBase, r.Nodes = p.APIBase, len(p.Nodes)
		api := r.APIBase
		if err != nil {
			r.Error = err.Error()
			api = "does not read: gpuaasctl profile validate " + name
		}
		if api == "" {
			api = "-"
		}
		rows = append(rows, r)
		table = append(table, []string{r.Name, strconv.Itoa(r.Nodes), api, r.Path})
	}
	if output == formatJSON {
		return a.writeJSON(rows)
	}
	if len(rows) == 0 {
		note(a.stderr, "no profile in %s", dir)
	}
	return a.write(columnsIn(table, width(a.stdout)))
}

func newProfileValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "validate FILE",
		Short:             "Check a profile, and the files and programs that it names",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeProfile,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := profile.Path(args[0], profile.Dir(a.env))
			p, lines, err := profile.ReadFile(path)
			if err != nil {
				return asUsage(err)
			}
			if len(lines) == 0 {
				return asUsage(fmt.Errorf("check profile %s: it sets no value; `gpuaasctl profile show --all` lists what it may set", path))
			}
			if err := new(job).secrets(cmd.Context(), p, false); err != nil {
				return err
			}
			return a.write([]byte(path + ": ok\n"))
		},
	}
}

func newProfilePath(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "path [NAME]",
		Short:             "Print the folder of the profiles, or the path of one",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeProfile,
		RunE: func(_ *cobra.Command, args []string) error {
			path := profile.Dir(a.env)
			if len(args) == 1 {
				path = profile.Path(args[0], path)
			}
			return a.write([]byte(path + "\n"))
		},
	}
}

func (a *app) completeProfile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.profileNames(), cobra.ShellCompDirectiveDefault // or the path of a file
}

// asUsage makes a file that cannot be read a usage error, too: the configuration names it.
func asUsage(err error) error {
	if err == nil || codeOf(err) == exitUsage {
		return err
	}
	return &usageError{err: err}
}
