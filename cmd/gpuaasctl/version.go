package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

func newVersion(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, printVersion, &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  gpuaasctl version
  gpuaasctl version -o json`,
		Args: cmdutil.Args(0, 0),
	}, "text", "json")
}

func printVersion(a *cmdutil.App, _ *cobra.Command, o *cmdutil.OutputOptions, _ []string) error {
	v := struct {
		diag.Head
		Version string `json:"version"`
		Rules   string `json:"rules_version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{diag.NewHead("Version"), a.ToolVersion(), verdict.RulesVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH}
	return a.Show(v, a.RenderOptions(o.Output), func(w io.Writer, _ render.Options) error {
		fmt.Fprintf(w, "gpuaasctl %s (rules %s, %s %s/%s)\n", v.Version, v.Rules, v.Go, v.OS, v.Arch)
		return nil
	})
}
