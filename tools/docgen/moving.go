package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// The moving picture alternates between two recordings: a walk, whose hops end when they ended, and a drill, whose
// lines appear when its events happened. Both are played faster than in reality.
const (
	walkPlays  = 3 * time.Second
	drillPlays = 4 * time.Second
	rest       = 5 * time.Second // how long each result stays visible
)

// frame is the terminal's content from a moment on.
type frame struct {
	at      time.Duration
	command string
	lines   []string // with colour codes
}

// moving is docs/demo.svg.
func moving(root string) ([]byte, error) {
	walk, err := walkFrames(root)
	if err != nil {
		return nil, err
	}
	run, err := drillFrames(root)
	if err != nil {
		return nil, err
	}
	still := len(walk) - 1 // shown to a reader whose program does not animate
	offset := walk[still].at + rest
	for _, f := range run {
		f.at += offset
		walk = append(walk, f)
	}
	return movie(walk, still, walk[len(walk)-1].at+rest), nil
}

// walkFrames are the rows of a live table during the recorded walk, and then its page.
func walkFrames(root string) ([]frame, error) {
	r, err := replayed(root, pictureOf)
	if err != nil {
		return nil, err
	}
	done := hopEnds(r)
	moments := slices.Compact(append([]int64{0}, slices.Sorted(maps.Values(done))...))
	last := moments[len(moments)-1]
	const command = "gpuaasctl preflight compute-node-01 alloc-01"
	var frames []frame
	for _, now := range moments {
		text, err := liveTable(r, done, now)
		if err != nil {
			return nil, err
		}
		frames = append(frames, frame{walkPlays * time.Duration(now) / time.Duration(last), command, text})
	}
	whole, err := table(root, pictureOf, true)
	return append(frames, frame{walkPlays + 300*time.Millisecond, command, split(string(whole))}), err
}

// hopEnds returns when each hop's last fact was measured, including facts of other hops that it uses.
func hopEnds(r *diag.Report) map[diag.HopID]int64 {
	done := map[diag.HopID]int64{}
	for i := range r.Hops {
		h := &r.Hops[i]
		for k := range r.Facts {
			f := &r.Facts[k]
			if strings.HasPrefix(f.ID, string(h.ID)+"/") ||
				slices.ContainsFunc(h.Steps, func(s diag.StepResult) bool { return s.Fact == f.ID }) {
				done[h.ID] = max(done[h.ID], f.OffsetMS+int64(f.DurationMS))
			}
		}
	}
	return done
}

// liveTable is the table at a moment of the walk: hops that ended by then, and the others as pending.
func liveTable(r *diag.Report, done map[diag.HopID]int64, now int64) ([]string, error) {
	var rows []render.HopRow
	var budgets []int64
	for i := range r.Hops {
		h := &r.Hops[i]
		budgets = append(budgets, h.BudgetMS)
		if done[h.ID] <= now {
			rows = append(rows, render.JudgedRow(h))
			continue
		}
		rows = append(rows, render.HopRow{Hop: string(h.ID), State: page.Cell{Text: "  pending", Style: page.Faint},
			Time: page.Cell{Text: "-/" + render.Budget(h.BudgetMS), Style: page.Faint}})
	}
	var b bytes.Buffer
	err := render.Rows(&b, rows, budgets, render.Options{Format: render.Table, Width: columns, Color: true})
	return append([]string{"\x1b[1m" + render.Headline(&r.Subject) + "\x1b[0m"}, split(b.String())...), err
}

// drillFrames are the lines of a drill's progress during the recorded run, and then its page.
func drillFrames(root string) ([]frame, error) {
	events, story, err := recordedDrill(root)
	if err != nil {
		return nil, err
	}
	command := "gpuaasctl chaos run " + drillOf + " compute-node-01 alloc-01"
	last := events[len(events)-1].MS
	var told drill.Story
	var lines []string
	var frames []frame
	for _, e := range events {
		told.Add(e)
		before := len(lines)
		for _, line := range drillrender.Event(e, &told) {
			lines = append(lines, page.Cut(fmt.Sprintf("%7s  %s", drill.Seconds(e.MS), page.Clean(line)), columns))
		}
		if len(lines) > before {
			at := drillPlays * time.Duration(e.MS) / time.Duration(max(last, 1))
			frames = append(frames, frame{at, command, slices.Clone(lines)})
		}
	}
	whole, err := drillPage(story, render.Options{Format: render.Table, Width: columns, Color: true})
	return append(frames, frame{drillPlays + time.Second, command, split(whole)}), err
}

// recordedDrill is the run that the documentation shows.
func recordedDrill(root string) ([]drill.Event, *drill.Story, error) {
	f, err := os.Open(filepath.Join(root, "golden", "drills", drillOf+".ndjson"))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	events, _, err := drill.ReadEvents(f)
	if err != nil || len(events) == 0 {
		return nil, nil, fmt.Errorf("read the run of %s: %d events, %w", drillOf, len(events), err)
	}
	return events, new(drill.Fold(events)), nil
}

func split(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

// movie draws frames one after another, for ever. A line that does not change is drawn once.
func movie(frames []frame, still int, all time.Duration) []byte {
	rows := 0
	for _, f := range frames {
		rows = max(rows, len(f.lines))
	}
	b := terminal(rows, frames[0].command+", then "+frames[len(frames)-1].command)
	shown := func(i, row int) string {
		switch {
		case row < 0:
			return frames[i].command
		case row < len(frames[i].lines):
			return frames[i].lines[row]
		}
		return ""
	}
	for row := -1; row < rows; row++ {
		for from := 0; from < len(frames); {
			to := from + 1
			for to < len(frames) && shown(to, row) == shown(from, row) {
				to++
			}
			if text := shown(from, row); text != "" {
				end := all
				if to < len(frames) {
					end = frames[to].at
				}
				drawWhile(b, text, row, frames[from].at, end, all, from <= still && still < to)
			}
			from = to
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawWhile draws a line that is visible from one moment to another; row -1 is the bar.
func drawWhile(b *bytes.Buffer, line string, row int, from, to, all time.Duration, still bool) {
	visible := map[bool]int{true: 1}[still]
	if from == 0 && to == all {
		b.WriteString("<g>")
	} else {
		values, times := "0;1;0", fmt.Sprintf("0;%s;%s", part(from, all), part(to, all))
		switch {
		case from == 0:
			values, times = "1;0", "0;"+part(to, all)
		case to == all:
			values, times = "0;1", "0;"+part(from, all)
		}
		fmt.Fprintf(b, `<g opacity="%d"><animate attributeName="opacity" calcMode="discrete" dur="%.1fs" repeatCount="indefinite" `+
			`values="%s" keyTimes="%s"/>`+"\n", visible, all.Seconds(), values, times)
	}
	drawLine(b, line, row)
	b.WriteString("</g>\n")
}

// part returns a moment as a fraction of the whole.
func part(at, all time.Duration) string { return fmt.Sprintf("%.4f", at.Seconds()/all.Seconds()) }
