package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// drillOf is the recorded run that the documentation shows.
const drillOf = "api-egress-blocked"

// drillText is what `gpuaasctl chaos report` writes of it, 100 columns wide, as far as the times: what was expected, done
// and walked stands in the plan as well.
func drillText(root string) (string, error) {
	f, err := os.Open(filepath.Join(root, "golden", "drills", drillOf+".ndjson"))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	events, _, err := drill.ReadEvents(f)
	if err != nil {
		return "", fmt.Errorf("read the run of %s: %w", drillOf, err)
	}
	story := drill.Tell(events)
	r := drill.Report{Kind: drill.ReportKind, Profile: story.Plan.Profile, Drills: []drill.Drill{story.Drill()}}
	r.Settle()
	var b bytes.Buffer
	if err := drillrender.Report(&b, &r, render.Options{Format: render.Table, Width: 100}); err != nil {
		return "", err
	}
	text, _, ok := strings.Cut(b.String(), "\nexpected")
	if !ok {
		return "", fmt.Errorf("the report of %s has no line of what was expected", drillOf)
	}
	return text + "\n", nil
}
