package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	drill "github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// The recordings in the documentation: a fault whose first failed hop is not the one to blame, and a healthy walk.
const (
	pictureOf = "terminal-egress-blocked"
	textOf    = "healthy"
)

// pages generates every page, by path below root. Pages that are only partly generated are read first.
func pages(root string) (map[string][]byte, error) {
	picture, err := table(root, pictureOf, true)
	if err != nil {
		return nil, err
	}
	text, err := table(root, textOf, false)
	if err != nil {
		return nil, err
	}
	one, err := drillText(root)
	if err != nil {
		return nil, err
	}
	demo, err := moving(root)
	if err != nil {
		return nil, err
	}
	drills, err := drillsPage(root)
	if err != nil {
		return nil, err
	}
	mapping := profile.DefaultMapping()
	out := map[string][]byte{
		"docs/demo.svg":  demo,
		"docs/drills.md": []byte(drills),
		"docs/table.svg": svg(string(picture),
			"gpuaasctl preflight --profile lab --node-id compute-node-01 --allocation-id alloc-01"),
		"docs/hops.md":    []byte(written("hops", hops.BuiltIn().List())),
		"docs/runbook.md": []byte(runbookPage()),
	}
	for path, blocks := range map[string]map[string]string{
		"README.md":           {"table": fenced(string(text)), "drill": fenced(one), "exits": written("exits", diag.Exits())},
		"docs/run-a-drill.md": {"claims": written("claims", drill.ClaimRows())},
		"docs/gpu.md": {"fields": written("conditions", policy.Fields()),
			"codes": written("nvml", report.Codes())},
		"docs/contract.md": {"paths": written("paths", mapping), "fields": written("fields", mapping),
			"policy": written("policy", profile.PolicyRows)},
	} {
		page, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		if out[path], err = fillBlocks(page, blocks); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out, nil
}

// table is the output of `gpuaasctl preflight REPORT` for a recorded report, 80 columns wide.
func table(root, name string, color bool) ([]byte, error) {
	r, err := replayed(root, name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = render.Report(&b, r, render.Options{Format: render.Table, Width: 80, Color: color})
	return b.Bytes(), err
}

// replayed returns a recorded report, judged by today's rules.
func replayed(root, name string) (*diag.Report, error) {
	data, err := os.ReadFile(filepath.Join(root, "golden", "reports", name+".json"))
	if err != nil {
		return nil, err
	}
	var recorded diag.Report
	if err := json.Unmarshal(data, &recorded); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	r, err := verdict.Replay(hops.BuiltIn(), &recorded)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", name, err)
	}
	return r, nil
}

func fenced(text string) string { return "```text\n" + text + "```\n" }

// fillBlocks replaces the text between <!-- NAME: ... --> and <!-- /NAME -->, for every block.
func fillBlocks(page []byte, blocks map[string]string) ([]byte, error) {
	text := string(page)
	for name, block := range blocks {
		before, rest, ok := strings.Cut(text, "<!-- "+name+": ")
		note, rest, closed := strings.Cut(rest, " -->\n")
		_, after, ended := strings.Cut(rest, "<!-- /"+name+" -->")
		if !ok || !closed || !ended {
			return nil, fmt.Errorf("no block <!-- %s: ... --> to <!-- /%s -->", name, name)
		}
		text = before + "<!-- " + name + ": " + note + " -->\n" + block + "<!-- /" + name + " -->" + after
	}
	return []byte(text), nil
}
