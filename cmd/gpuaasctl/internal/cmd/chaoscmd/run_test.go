package chaoscmd

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// TestRunOptions: how a command line is parsed into options, without a machine.
func TestRunOptions(t *testing.T) {
	var got *runOptions
	var drills []string
	cmd := newChaosRun(&cmdutil.App{Env: func(string) string { return "" },
		Instead: func(_ *cobra.Command, o any, args []string) error {
			got, drills = o.(*runOptions), args
			return nil
		}})
	cmd.SetArgs([]string{"disk-full", "api-egress-blocked", "--node-id", "n1", "--peer-id", "n2", "--allocation-id", "a1",
		"--seed", "7", "--out", "r.json", "-o", "markdown"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got == nil || !slices.Equal(drills, []string{"disk-full", "api-egress-blocked"}) ||
		got.drills.target.NodeID != "n1" || got.drills.peer != "n2" ||
		got.drills.allocation != "a1" || got.seed != 7 || got.report != "r.json" || got.output != cmdutil.FormatMarkdown {
		t.Errorf("%q, %+v", drills, got)
	}
}
