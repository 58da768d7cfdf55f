package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops"
)

// DrillOptions configure the live view of drills.
type DrillOptions struct {
	In      *os.File       // for Ctrl-C; nil is standard input
	Out     *os.File       // nil is standard output
	Display render.Options // colour and ASCII; width and format are ignored
	Count   int            // number of drills to run
	// called at most once, at the second Ctrl-C, to leave the machines to their watchdogs; may be nil
	Abandon func()
}

// Drills runs drills one after the other and reports their progress to observe. It returns soon after ctx ends, with
// everything reverted, or sooner once the runs are abandoned.
type Drills func(ctx context.Context, observe func(ops.Progress)) *drill.Report

// RunDrills runs drills, shows them live, and lets finish write the report in the place of the live view, on a terminal
// of that many columns (0: none). The first Ctrl-C ends the runs' context, the second one calls o.Abandon. If nothing
// can be drawn, there is only the report. It returns the report even if drawing or writing it failed.
func RunDrills(ctx context.Context, o DrillOptions, run Drills,
	finish func(w io.Writer, width int, r *drill.Report) error) (*drill.Report, error) {
	o.In = cmp.Or(o.In, os.Stdin)
	o.Out = cmp.Or(o.Out, os.Stdout)
	var report *drill.Report
	var err error
	if Possible(o.In, o.Out) {
		report, err = drillsLive(ctx, o, run)
	} else {
		report = run(ctx, func(ops.Progress) {})
	}
	if report == nil {
		return nil, err
	}
	width := 0
	if w, _, bad := term.GetSize(int(o.Out.Fd())); bad == nil {
		width = w
	}
	return report, errors.Join(err, finish(o.Out, width, report))
}

func drillsLive(ctx context.Context, o DrillOptions, run Drills) (report *drill.Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	m := newDrillModel(o, cancel)
	if w, h, bad := term.GetSize(int(o.Out.Fd())); bad == nil && w > 0 && h > 0 {
		m.width, m.height = w, h // the first frame is as high as the others
	}
	err = show(o.In, o.Out, m, cancel, func(send func(tea.Msg)) {
		stop := context.AfterFunc(ctx, func() { send(endingMsg{}) })
		defer stop()
		report = run(ctx, func(u ops.Progress) { send(drillMsg{u, time.Since(start)}) })
	})
	if err != nil {
		return report, fmt.Errorf("show the drills: %w", err)
	}
	return report, nil
}
