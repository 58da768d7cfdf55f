package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

const (
	replays   = 10_000
	fleetRows = 10_000

	goalReplays = 10_000.0
	goalSupport = 80 // percent
	goalFleet   = 50 * time.Millisecond
)

// judging replays recorded reports, measured by the CPU time of this process and its garbage collection, and
// writes a table with one row per node of a large fleet.
func judging(ctx context.Context, _ options, t *table) error {
	raw, err := recorded()
	if err != nil {
		return err
	}
	var reports []*diag.Report
	decoded, err := replaying(func(i int) error {
		var r diag.Report
		if err := json.Unmarshal(raw[i%len(raw)], &r); err != nil {
			return fmt.Errorf("read a recorded report: %w", err)
		}
		if i < len(raw) {
			reports = append(reports, &r)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	judged, err := replaying(func(i int) error { return judge(reports[i%len(reports)]) })
	if err != nil {
		return err
	}
	rate := func(d time.Duration) float64 { return replays / d.Seconds() }
	again := rate(judged)
	t.aim(fmt.Sprintf("judge %d recorded reports again (of %d kinds), a second of CPU time", replays, len(raw)),
		fmt.Sprintf("%.0f/s", again), "> 10,000/s", again > goalReplays)
	t.addLine("the same, with reading their JSON", "%.0f/s", rate(judged+decoded))
	// The goal is older than the recordings and was set for the report of one healthy walk.
	if i := slices.IndexFunc(reports, func(r *diag.Report) bool { return r.Verdict.Outcome == diag.OutcomePass }); i >= 0 {
		healthy, err := replaying(func(int) error { return judge(reports[i]) })
		if err != nil {
			return err
		}
		t.aim("that of a healthy walk alone", fmt.Sprintf("%.0f/s", rate(healthy)), "> 10,000/s", rate(healthy) > goalReplays)
	}
	if err := answers(t); err != nil {
		return err
	}
	return fleet(reports, t)
}

// replaying returns the CPU time of replays calls, including their garbage collection.
func replaying(one func(int) error) (time.Duration, error) {
	began, err := ownCPU()
	if err != nil {
		return 0, err
	}
	for i := range replays {
		if err := one(i); err != nil {
			return 0, err
		}
	}
	ended, err := ownCPU()
	return ended - began, err
}

func judge(r *diag.Report) error {
	_, err := verdict.Replay(hops.BuiltIn(), r)
	return err
}

// fleet writes one line per node with the writer of the tool's own lists.
func fleet(reports []*diag.Report, t *table) error {
	began := time.Now()
	list := page.Table{Columns: page.Titles("node", "outcome", "first failed hop", "signal", "owner", "reason")}
	for i := range fleetRows {
		v := reports[i%len(reports)].Verdict
		signal := ""
		if v.Blame != nil {
			signal = string(v.Blame.Signal)
		}
		list.Rows = append(list.Rows, page.Cells(fmt.Sprintf("compute-node-%05d", i), string(v.Outcome),
			string(v.FirstFailedHop), signal, v.Owner, string(v.Reason)))
	}
	page.Text(page.Layout{Width: 200}, list)
	took := time.Since(began)
	t.aim(fmt.Sprintf("table of %d nodes", fleetRows), short(took), "< 50 ms", took < goalFleet)
	began = time.Now()
	var out strings.Builder
	const some = 1000
	for i := range some {
		if err := render.Report(&out, reports[i%len(reports)], render.Options{Format: render.Table}); err != nil {
			return err
		}
	}
	t.addLine("render one report as a table", "%s", short(time.Since(began)/some))
	return nil
}

// recorded returns reports that were recorded on real machines.
func recorded() ([][]byte, error) {
	files, err := filepath.Glob(filepath.Join("golden", "reports", "*.json"))
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, f := range append(files, ownReport()) {
		if data, err := os.ReadFile(f); err == nil {
			all = append(all, data)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no recorded report: golden/reports is empty, and no walk was made")
	}
	return all, nil
}

// ownReport is the file of the last report of this run's walks.
func ownReport() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("gpuaasctl-bench-%d.json", os.Getpid()))
}
