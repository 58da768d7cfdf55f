package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight"
)

func newHops(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "hops",
		Short: "List the hops in the order of the chain",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.printHops(output) },
	}
	formatFlag(cmd, &output, formatTable, formatTable, formatWide, formatJSON)
	return cmd
}

func (a *app) printHops(format string) error {
	var hops []render.HopInfo
	for _, h := range preflight.Chain() {
		info := render.HopInfo{
			ID: h.ID, Title: h.Title, Layer: h.Layer, Vantages: append([]string{}, h.From()...), Budget: h.Budget,
			Steps: []string{}, ExplainedBy: h.ExplainedBy,
		}
		for _, s := range h.Steps {
			info.Steps = append(info.Steps, s.Name)
		}
		hops = append(hops, info)
	}
	var b bytes.Buffer
	if err := render.Hops(&b, hops, a.lookAtList(format)); err != nil {
		return fmt.Errorf("render hops: %w", err)
	}
	return a.write(b.Bytes())
}
