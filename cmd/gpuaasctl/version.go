package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/preflight"
)

// toolVersion is the version of this build: what the build set, else the module's (go install), else "dev".
func toolVersion() string {
	if version != "dev" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}

func newVersion(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.printVersion(output)
		},
	}
	formatFlag(cmd, &output, "text", "text", "json")
	return cmd
}

func (a *app) printVersion(output string) error {
	v := struct {
		Version string `json:"version"`
		Rules   string `json:"rules_version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{toolVersion(), preflight.RulesVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH}
	switch output {
	case "json":
		return a.writeJSON(v)
	case "text":
		return a.write(fmt.Appendf(nil, "gpuaasctl %s (rules %s, %s %s/%s)\n", v.Version, v.Rules, v.Go, v.OS, v.Arch))
	}
	return badFormat(output, "text", "json")
}

// writeJSON writes v to stdout as one indented document.
func (a *app) writeJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return a.write(append(b, '\n'))
}

// write puts the command's one document on stdout.
func (a *app) write(b []byte) error {
	if _, err := a.stdout.Write(b); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}
