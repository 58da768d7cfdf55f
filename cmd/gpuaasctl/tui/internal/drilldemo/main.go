// Command drilldemo shows the live view of drills that nobody makes, for looking at it on terminals of any size:
//
//	go run ./cmd/gpuaasctl/tui/internal/drilldemo [-pace 2] [-only 1] [-ascii]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	chaosrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/tape"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops"
)

func main() { os.Exit(run()) }

func run() int {
	pace := flag.Float64("pace", 1, "how many times as fast as it was")
	only := flag.Int("only", -1, "only the drill of that number, from 0")
	ascii := flag.Bool("ascii", false, "draw with ASCII only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	tapes := tape.Runs()
	if *only >= 0 {
		tapes = tapes[*only : *only+1]
	}
	look := render.Options{Color: os.Getenv("NO_COLOR") == "", ASCII: *ascii}
	abandoned := make(chan struct{})
	d := demo{tapes, *pace, abandoned}
	_, err := tui.RunDrills(ctx, tui.DrillOptions{Look: look, Count: len(tapes), Abandon: func() { close(abandoned) }},
		d.run, func(w io.Writer, width int, r *drill.Report) error {
			look.Width = width
			return chaosrender.Report(w, r, look)
		})
	if err != nil {
		fmt.Fprintln(os.Stderr, "drilldemo:", err)
		return 1
	}
	return 0
}

// demo is runs that only wait.
type demo struct {
	tapes     [][]tape.Moment
	pace      float64
	abandoned chan struct{}
}

func (d demo) run(ctx context.Context, observe func(ops.Progress)) *drill.Report {
	r := &drill.Report{Head: diag.NewHead(drill.ReportKind), Profile: "lab", EndedBy: diag.EndedCompleted}
	for i, moments := range d.tapes {
		var events []drill.Event
		var at time.Duration
		for _, m := range moments {
			if !d.wait(ctx, m.At-at) {
				break
			}
			at = m.At
			if m.Walk == nil {
				events = append(events, m.Event)
			}
			observe(ops.Progress{Index: i, Count: len(d.tapes), Event: m.Event, Walk: m.Walk})
		}
		s := drill.Tell(events)
		r.Drills = append(r.Drills, s.Drill())
		if ctx.Err() != nil {
			r.EndedBy = diag.EndedInterrupted
			break
		}
		d.wait(ctx, time.Second)
	}
	r.Settle()
	return r
}

// wait waits on the tape's time; once the end is asked for, until it is abandoned.
func (d demo) wait(ctx context.Context, t time.Duration) bool {
	select {
	case <-ctx.Done():
		select {
		case <-d.abandoned:
		case <-time.After(5 * time.Second):
		}
		return false
	case <-time.After(time.Duration(float64(t) / d.pace)):
		return true
	}
}
