package chaoscmd

import (
	"bytes"
	"fmt"
	"io"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// drillFormats returns the formats of a report of drills.
func drillFormats() []string { return step.Texts(drillrender.Formats[:]) }

// writeDrills writes a report of drills to stdout as one document. from is the file that it was read from, or "".
func writeDrills(a *cmdutil.App, r *drill.Report, format, from string) error {
	look := a.RenderOptions(format)
	look.From = from
	return a.Show(r, look, func(w io.Writer, o render.Options) error {
		return drillrender.Report(w, r, o)
	})
}

// writeDrillReport writes r as JSON to path, completely or not at all.
func writeDrillReport(path string, r *drill.Report) error {
	var b bytes.Buffer
	if err := drillrender.Report(&b, r, render.Options{Format: render.JSON}); err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := cmdutil.ReplaceFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// parseDrillReport parses a report of drills. It ignores fields that a newer version added, and names them on stderr.
func parseDrillReport(a *cmdutil.App, data []byte) (*drill.Report, error) {
	var of struct{ Kind string }
	if bounded.Unmarshal(data, &of, bounded.Document()) == nil && of.Kind != drill.ReportKind {
		return nil, fmt.Errorf("it is a %q, and no %s", of.Kind, drill.ReportKind)
	}
	r := &drill.Report{}
	unknown, err := cmdutil.ReadJSON(data, r)
	if err != nil {
		return nil, err
	}
	a.NoteUnknown(r.Kind, r.ToolVersion, unknown)
	return r, nil
}
