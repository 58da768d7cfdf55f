package explaincmd

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/explain"
)

// ofFailure returns the meaning of a signal for the failure of --for.
func ofFailure(cmd *cobra.Command, o *explainOptions, args []string) (explain.Entry, error) {
	var none explain.Entry
	f, known := diag.Failure(o.failure), words("failure")
	switch {
	case len(args) == 0:
		return none, refuse(cmd, "--for %s: give the signal as WORD", f)
	case o.kind != "" && o.kind != "signal":
		return none, refuse(cmd, "--for is for a signal, not for the kind %s", o.kind)
	case !slices.Contains(known, o.failure):
		return none, refuse(cmd, "--for: no failure is called %q%s", o.failure, meant(o.failure, known))
	}
	found := explain.Lookup("signal", args[0])
	if len(found) == 0 {
		return none, refuse(cmd, "--for: %q is not a signal%s", args[0], meant(args[0], words("signal")))
	}
	of := failuresOf(found[0].Word)
	switch {
	case len(of) == 0:
		return none, refuse(cmd, "--for: a blame with %s has no failure; leave --for out", found[0].Word)
	case !slices.Contains(of, o.failure):
		return none, refuse(cmd, "--for: %s is not a failure of %s, which has %s", f, found[0].Word, cmdutil.OneOf(of))
	}
	return found[0].ForFailure(f), nil
}

// failuresOf returns the failures that a signal can have.
func failuresOf(signal string) (all []string) {
	row, _ := diag.LookupSignal(diag.Signal(signal))
	for _, f := range row.Failures {
		all = append(all, string(f))
	}
	return all
}

// completeFailure completes --for with the failures of the signal that is given, else with all.
func completeFailure(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("for",
		func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return failuresOf(args[0]), cobra.ShellCompDirectiveNoFileComp
			}
			return words("failure"), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err) // the flag has no other completion
	}
}
