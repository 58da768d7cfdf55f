package chaoscmd

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/history"
)

// keptRuns lists this user's runs.
func keptRuns(a *cmdutil.App) (diag.Documents[drill.KeptRun], error) {
	folder, err := drillsFolder(a)
	if err != nil {
		return nil, &cmdutil.UsageError{Err: err}
	}
	return drill.ListKept(folder)
}

// runFolder returns the folder of a run, by its id or a suffix of it.
func runFolder(a *cmdutil.App, name string) (string, error) {
	kept, err := keptRuns(a)
	if err != nil {
		return "", err
	}
	switch found := drill.FindKept(kept, name); len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &cmdutil.UsageError{
			Err:     fmt.Errorf("neither a file nor a kept run is called %q (--list lists the runs)", name),
			Command: "gpuaasctl chaos report",
		}
	default:
		return "", cmdutil.Usagef("%s is the end of %d runs: give more of it", name, len(found))
	}
}

func completeDrillRuns(a *cmdutil.App) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		kept, err := keptRuns(a)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var words []string
		for _, k := range kept {
			words = append(words, k.Run+"\t"+k.Scenario+" "+string(k.Verdict.Word))
		}
		return words, cobra.ShellCompDirectiveDefault // or the path of a file
	}
}

// drillsFolder returns the folder of runs: next to the history of walks.
func drillsFolder(a *cmdutil.App) (string, error) {
	path, err := history.Path(a.Env, os.Geteuid() == 0)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), "drills"), nil
}
