package cmdutil

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/profile"
)

// EnvNode is the variable with the node for command lines that name none.
const EnvNode = profile.EnvPrefix + "NODE_ID"

// NodeFlag declares --node-id, which is equivalent to NODE: it is for a node with the name of a subcommand, or of an
// existing file. Both are completed with the nodes of the profile.
func (a *App) NodeFlag(cmd *cobra.Command, id *string, of *ProfileFlags) {
	cmd.Flags().StringVar(id, "node-id", "", "the same as `NODE`, whatever it is called")
	CompleteFunc(cmd, "node-id", func() []string { return a.NodeIDs(of.Name) })
	cmd.ValidArgsFunction = a.CompleteNode(of, false)
}

// CompleteNode completes NODE, also with files if the command accepts a recording.
func (a *App) CompleteNode(of *ProfileFlags, files bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) > 0:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case files:
			return a.NodeIDs(of.Name), cobra.ShellCompDirectiveDefault
		}
		return a.NodeIDs(of.Name), cobra.ShellCompDirectiveNoFileComp
	}
}

// Node returns the node of a command line: NODE (args has it, or is empty), --node-id (id), GPUAASCTL_NODE_ID, or the
// only node of the profile. It refuses an empty value, as from an unset variable.
func (a *App) Node(cmd *cobra.Command, args []string, id string, p *profile.Profile) (string, error) {
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	refuse := func(err error) (string, error) {
		return "", &UsageError{Err: err, Command: cmd.CommandPath()}
	}
	switch {
	case len(args) > 0 && arg == "":
		return refuse(Usagef("NODE is empty: which node is meant?%s", a.nodesOf(p)))
	case id == "" && flagGiven(cmd, "node-id"):
		return refuse(Usagef("--node-id: it is empty: which node is meant?%s", a.nodesOf(p)))
	case arg != "" && id != "" && arg != id:
		return refuse(Usagef("which node is meant: NODE is %s, and --node-id %s", arg, id))
	}
	if node := cmp.Or(arg, id, a.Env(EnvNode)); node != "" {
		return node, nil
	}
	if len(p.Nodes) == 1 {
		return slices.Collect(maps.Keys(p.Nodes))[0], nil
	}
	return refuse(Usagef("NODE is missing: which node is meant?%s", a.nodesOf(p)))
}

func flagGiven(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.Changed
}

// nodesOf lists the nodes to choose from, as a sentence to append.
func (a *App) nodesOf(p *profile.Profile) string {
	switch {
	case len(p.Nodes) > 0:
		return " The profile " + p.Name + " has " + OneOf(slices.Sorted(maps.Keys(p.Nodes)))
	case p.Name != "":
		return " The profile " + p.Name + " lists none"
	}
	return " And " + a.NoProfile()
}

// NoProfile is the message that no profile is chosen, with the existing profiles and how to choose one.
func (a *App) NoProfile() string {
	names := profile.List(profile.Dir(a.Env))
	if len(names) == 0 {
		return "there is no profile in " + profile.Dir(a.Env) +
			" (gpuaasctl profile init writes one, and gpuaasctl lab up another)"
	}
	return "no profile is chosen (there are " + strings.Join(names, ", ") + "): give --profile NAME, or run gpuaasctl " +
		"profile use NAME"
}

// ProfileSource returns how the profile is chosen: by its flag, by GPUAASCTL_PROFILE, by `profile use`, or because it
// is the only one. The last two apply only if neither flags nor environment name an API: the settings of a profile are
// for its own platform.
func (a *App) ProfileSource(name string, ownAPI bool) string {
	if name = cmp.Or(name, a.Env(profile.EnvProfile)); name != "" || ownAPI || a.Env(profile.EnvPrefix+"API_BASE") != "" {
		return name
	}
	return profile.Default(profile.Dir(a.Env))
}

// IsRecording reports whether arg, in the place of NODE, is a recording: stdin (-), a path with a slash, a name with
// the extension of reports or bundles, or an existing file. A node with such a name needs --node-id.
func IsRecording(arg string) bool {
	if arg == "-" || strings.ContainsRune(arg, '/') || strings.HasSuffix(arg, ".json") ||
		strings.HasSuffix(arg, ".tar.gz") {
		return true
	}
	info, err := os.Stat(arg)
	return arg != "" && err == nil && !info.IsDir()
}

// NoRecording refuses a file where NODE or ALLOCATION is meant, as from a pattern that matches several files.
func NoRecording(args ...string) error {
	i := slices.IndexFunc(args, IsRecording)
	switch {
	case i < 0:
		return nil
	case len(args) > 1 && IsRecording(args[0]) && IsRecording(args[1]):
		return errors.New("one report at a time; --compare takes the second")
	case i == 0 && len(args) > 1:
		return fmt.Errorf("%s is a report, which is judged alone (--node-id takes a node of any name)", args[0])
	case i > 0:
		return fmt.Errorf("%s is a file, and ALLOCATION is meant here (--allocation-id takes one of any name)", args[i])
	}
	return fmt.Errorf("%s is a file, and NODE is meant here", args[i])
}
