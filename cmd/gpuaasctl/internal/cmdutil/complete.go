package cmdutil

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/profile"
)

// Completion reads only local files: it must answer while the user types, even without a network.

// CompleteFunc offers words that are computed when needed. A missing flag is a mistake of ours, which the tests that
// build the tree would find.
func CompleteFunc(cmd *cobra.Command, flag string, words func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return words(), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err)
	}
}

// ProfileNames lists the profiles that can be chosen by name, without those whose names are not safe words: SafeWords
// sees only the first line of a name, up to a tab.
func (a *App) ProfileNames() []string {
	return slices.DeleteFunc(profile.List(profile.Dir(a.Env)),
		func(name string) bool { return strings.ContainsFunc(name, unsafeInWord) })
}

// NodeIDs lists the nodes of the chosen profile; none if it cannot be read.
func (a *App) NodeIDs(profileName string) []string {
	p, _, err := profile.Load(a.ProfileSource(profileName, false), profile.Sources{Env: a.Env, Dir: profile.Dir(a.Env)})
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.Nodes))
}
