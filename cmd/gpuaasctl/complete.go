package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Completion looks at local files only: it must answer while somebody types, also where no network is.

// complete offers fixed words for a flag.
func complete(cmd *cobra.Command, flag string, words ...string) {
	completeFunc(cmd, flag, func() []string { return words })
}

// completeFunc offers words that are found when asked. A flag that is not there is a mistake of ours, and the tests
// that build the tree would see it.
func completeFunc(cmd *cobra.Command, flag string, words func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err)
	}
}

func hopNames() []string {
	names := make([]string, len(diag.Hops))
	for i, id := range diag.Hops {
		names[i] = string(id)
	}
	return names
}

// profileNames lists the profiles that can be chosen by name.
func (a *app) profileNames() []string { return profile.List(profile.Dir(a.env)) }

// nodeIDs lists the nodes of the chosen profile; none where it cannot be read.
func (a *app) nodeIDs(profileName string) []string {
	p, _, err := profile.Load(profileName, profile.Sources{Env: a.env, Dir: profile.Dir(a.env)})
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.Nodes))
}
