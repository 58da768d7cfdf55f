package preflightcmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// TestOptions: how a command line is parsed into options, without a walk.
func TestOptions(t *testing.T) {
	var got *preflightOptions
	cmd := New(&cmdutil.App{Env: func(string) string { return "" },
		Instead: func(_ *cobra.Command, o any, _ []string) error {
			got, _ = o.(*preflightOptions)
			return nil
		}})
	cmd.SetArgs([]string{"--node-id", "n1", "--allocation-id", "a1", "--run-ws-smoke=false", "--skip",
		"gpu_health,node_readiness", "--deadline", "5s", "--fail-on", "regression", "--no-save", "-o", "json"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got == nil || got.NodeID != "n1" || got.allocationID != "a1" || got.session || got.Deadline != 5*time.Second ||
		!slices.Equal(got.skip, []string{"gpu_health", "node_readiness"}) || got.failOn != cmdutil.FailOnRegression ||
		!got.noSave || got.output != cmdutil.FormatJSON || got.dryRun {
		t.Errorf("%+v", got)
	}
}

// TestOwnHopInFlags: --only and --skip take the hops of the app's chain, and no others.
func TestOwnHopInFlags(t *testing.T) {
	own := hops.WithOwn(hop.Hop{ID: "x.example", Meaning: hop.Meaning{Title: "the example service answers"},
		Steps: []hop.Step{{Name: "health", From: hop.Operator}}})
	for _, flag := range []string{"--only", "--skip"} {
		for _, chain := range []*hop.Chain{own, nil} {
			var out, errs strings.Builder
			cmd := New(&cmdutil.App{Env: func(string) string { return "" }, Stdout: &out, Stderr: &errs, Hops: chain})
			cmd.SetArgs([]string{"--node-id", "n1", "--api-base", "https://api.test", "--dry-run", flag, "x.example"})
			err := cmd.ExecuteContext(t.Context())
			if (err == nil) != (chain == own) || (chain == own) != strings.Contains(out.String(), "x.example") {
				t.Errorf("%s: %v\n%s%s", flag, err, out.String(), errs.String())
			}
		}
	}
}
