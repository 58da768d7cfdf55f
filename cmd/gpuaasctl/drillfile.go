package main

import (
	"bytes"
	"fmt"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// drillFormats are what a report of drills can be written as.
func drillFormats() []string { return words(drillrender.Formats[:]) }

// writeDrills writes a report of drills to stdout as one document.
func (a *app) writeDrills(r *drill.Report, format string) error {
	var b bytes.Buffer
	if err := drillrender.Report(&b, r, a.lookAtList(format)); err != nil {
		return fmt.Errorf("render report: %w", err)
	}
	return a.write(b.Bytes())
}

// writeDrillReport puts r as JSON at path, whole or not at all.
func writeDrillReport(path string, r *drill.Report) error {
	var b bytes.Buffer
	if err := drillrender.Report(&b, r, render.Options{Format: render.JSON}); err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := replaceFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// parseDrillReport reads a report of drills strictly.
func parseDrillReport(data []byte) (*drill.Report, error) {
	var of struct{ Kind string }
	if bounded.Unmarshal(data, &of, bounded.Document()) == nil && of.Kind != drill.ReportKind {
		return nil, fmt.Errorf("it is a %q, and no %s", of.Kind, drill.ReportKind)
	}
	r := &drill.Report{}
	if err := strictJSON(data, r); err != nil {
		return nil, err
	}
	return r, nil
}
