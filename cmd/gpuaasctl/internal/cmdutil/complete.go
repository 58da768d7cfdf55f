package cmdutil

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Completion looks at local files only: it must answer while the user types, also where no network is.

// Complete offers fixed words for a flag.
func Complete(cmd *cobra.Command, flag string, words ...string) {
	CompleteFunc(cmd, flag, func() []string { return words })
}

// CompleteFunc offers words that are found when asked. A flag that is not there is a mistake of ours, and the tests
// that build the tree would see it.
func CompleteFunc(cmd *cobra.Command, flag string, words func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return words(), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err)
	}
}

func HopNames() []string {
	names := make([]string, len(diag.HopIDs()))
	for i, id := range diag.HopIDs() {
		names[i] = string(id)
	}
	return names
}

// ProfileNames lists the profiles that can be chosen by name.
func (a *App) ProfileNames() []string { return profile.List(profile.Dir(a.Env)) }

// NodeIDs lists the nodes of the chosen profile; none where it cannot be read.
func (a *App) NodeIDs(profileName string) []string {
	p, _, err := profile.Load(a.Chosen(profileName, false), profile.Sources{Env: a.Env, Dir: profile.Dir(a.Env)})
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.Nodes))
}
