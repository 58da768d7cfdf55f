package main

import (
	"bytes"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// drillOf is the recorded run that the documentation shows.
const drillOf = "api-egress-blocked"

// drillText is the output of `gpuaasctl chaos report` for it, 100 columns wide.
func drillText(root string) (string, error) {
	_, story, err := recordedDrill(root)
	if err != nil {
		return "", err
	}
	return drillPage(story, render.Options{Format: render.Table, Width: 100})
}

// drillPage is the report of one run.
func drillPage(story *drill.Story, o render.Options) (string, error) {
	r := drill.Report{Head: diag.NewHead(drill.ReportKind), Profile: story.Plan.Profile,
		EndedBy: diag.EndedCompleted, Drills: []drill.Drill{story.Drill()}}
	r.SetVerdict()
	var b bytes.Buffer
	if err := drillrender.Report(&b, &r, o); err != nil {
		return "", err
	}
	return b.String(), nil
}
