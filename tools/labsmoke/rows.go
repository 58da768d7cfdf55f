package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/golden"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// tables are the files with one entry for each fault. A changed entry makes its fault due, and no other one.
var tables = []string{"golden/expect.go", "lab/e2e/faults_table_test.go", "lab/e2e/faults_cut_test.go"}

// allRows returns every fault and every drill with the files whose change makes it due. What they exercise is known
// from the recordings, so no machine is asked. root is the module's folder.
func allRows(root string) ([]row, error) {
	src, err := readSources(root)
	if err != nil {
		return nil, err
	}
	var rows []row
	ops := map[string][]diag.Op{} // by hop, and by hop and signal: of the facts that decided a recording
	for _, f := range golden.Faults() {
		failed, err := failedOps(filepath.Join(root, "golden", "reports", f.Name+".json"), f.Hop)
		if err != nil {
			return nil, err
		}
		r := row{kind: "fault", name: f.Name, hop: string(f.Hop), files: src.hops[f.Hop]}
		for _, table := range tables {
			r.files = append(slices.Clip(r.files), table+"#"+f.Name)
		}
		for _, op := range failed {
			r.files = append(r.files, src.ops[op]...)
			ops[string(f.Hop)] = append(ops[string(f.Hop)], op)
			for _, signal := range f.Signal {
				key := string(f.Hop) + " " + string(signal)
				ops[key] = append(ops[key], op)
			}
		}
		rows = append(rows, r)
	}
	drills, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		return nil, err
	}
	for _, d := range drills {
		r, err := drillRow(root, src, ops, d)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	for i := range rows {
		slices.Sort(rows[i].files)
		rows[i].files = slices.Compact(rows[i].files)
	}
	return rows, nil
}

// drillRow takes the operations of a drill's walk from the faults with the same signal, or else the same hop.
func drillRow(root string, src *sources, ops map[string][]diag.Op, d chaos.Scenario) (row, error) {
	r := row{kind: "drill", name: d.Metadata.ID, hop: "none", bare: d.Expect.MustStayGreen.WasGreen,
		files: []string{d.File}}
	blamed := d.Expect.Blame.Hop
	for _, other := range d.Expect.Others {
		blamed = append(slices.Clip(blamed), other.Hop...)
	}
	for i, hop := range blamed {
		if i == 0 {
			r.hop = string(hop)
		}
		r.files = append(r.files, src.hops[hop]...)
		measured := ops[string(hop)]
		for _, signal := range d.Expect.Blame.Signal {
			if more, ok := ops[string(hop)+" "+string(signal)]; ok {
				measured = more
			}
		}
		for _, op := range measured {
			r.files = append(r.files, src.ops[op]...)
		}
	}
	for _, f := range d.Faults {
		file, ok := src.kinds[f.Kind]
		if !ok {
			return r, fmt.Errorf("%s: no file in chaos has the kind %s", d.Metadata.ID, f.Kind)
		}
		r.files = append(r.files, file)
	}
	changes, err := changesOf(filepath.Join(root, "golden", "drills", d.Metadata.ID+".ndjson"))
	if err != nil {
		return r, err
	}
	for _, kind := range changes {
		r.files = append(r.files, src.changes[kind]...)
	}
	return r, nil
}

// failedOps returns the operations of the hop's facts that failed in a recording; of all its facts if none failed.
func failedOps(path string, hop diag.HopID) ([]diag.Op, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r struct{ Facts []diag.Fact }
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all, failed []diag.Op
	for _, f := range r.Facts {
		if !strings.HasPrefix(f.ID, string(hop)+"/") {
			continue
		}
		all = append(all, f.Request.Op)
		if f.Failure != "" {
			failed = append(failed, f.Request.Op)
		}
	}
	if len(failed) > 0 {
		all = failed
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// changesOf returns the kinds of changes that a recorded drill sent to machines.
func changesOf(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var begun struct {
		Plan struct {
			Targets []struct {
				Drill struct {
					Steps []struct{ Changes []step.Change }
				}
			}
		}
	}
	if err := json.NewDecoder(bufio.NewReader(f)).Decode(&begun); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var kinds []string
	for _, target := range begun.Plan.Targets {
		for _, s := range target.Drill.Steps {
			for _, c := range s.Changes {
				kinds = append(kinds, c.Kind())
			}
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}
