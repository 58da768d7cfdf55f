package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/golden"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

func allRowsHere(t *testing.T) map[string]row {
	t.Helper()
	rows, err := allRows("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]row{}
	for _, r := range rows {
		if _, twice := all[r.String()]; twice {
			t.Errorf("%s is there twice", r)
		}
		all[r.String()] = r
	}
	return all
}

// TestEveryRowIsKnown: every fault and every drill can be tried, and the files that make it due exist.
func TestEveryRowIsKnown(t *testing.T) {
	rows := allRowsHere(t)
	drills, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	if want := len(golden.Faults()) + len(drills); len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, f := range golden.Faults() {
		if r := rows["fault:"+f.Name]; r.hop != string(f.Hop) {
			t.Errorf("fault %s: %+v", f.Name, r)
		}
	}
	for _, d := range drills {
		if r := rows["drill:"+d.Metadata.ID]; !slices.Contains(r.files, d.File) {
			t.Errorf("drill %s: %+v", d.Metadata.ID, r)
		}
	}
	for name, r := range rows {
		judged := slices.ContainsFunc(r.files, func(f string) bool { return strings.HasPrefix(f, "preflight/") })
		if !judged && r.hop != "none" {
			t.Errorf("%s: no file of its hop or its probes: %v", name, r.files)
		}
		for _, f := range r.files {
			f, _, _ = strings.Cut(f, "#")
			if _, err := os.Stat(filepath.Join("..", "..", f)); err != nil {
				t.Error(name, err)
			}
		}
	}
}

// TestEverySourceOfAHopIsItsHops: each hop has its files, each file of a hop has a hop, each operation and each kind of
// change has its file.
func TestEverySourceOfAHopIsItsHops(t *testing.T) {
	src, err := readSources("../..")
	if err != nil {
		t.Fatal(err)
	}
	owned := map[string]bool{}
	for _, id := range diag.HopIDs() {
		if !slices.ContainsFunc(src.hops[id], func(f string) bool { return strings.HasPrefix(f, "preflight/hops/") }) {
			t.Errorf("%s has %v", id, src.hops[id])
		}
		for _, f := range src.hops[id] {
			owned[f] = true
		}
	}
	files, err := filepath.Glob("../../preflight/hops/*.go")
	if err != nil || len(files) < len(diag.HopIDs()) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if at := "preflight/hops/" + filepath.Base(f); !owned[at] && !strings.HasSuffix(at, "/chain.go") &&
			!strings.HasSuffix(at, "/rows.go") && !strings.HasSuffix(at, "_test.go") {
			t.Errorf("%s belongs to no hop, so its change makes no row due", at)
		}
	}
	for op, files := range src.ops {
		if len(files) == 0 || slices.Contains(files, "") {
			t.Errorf("%s has %q", op, files)
		}
	}
	for _, op := range []diag.Op{diag.OpSSH, diag.OpHTTP, diag.OpUnit, diag.OpGPU, diag.OpSession} {
		if len(src.ops[op]) == 0 {
			t.Errorf("no file of the operation %s", op)
		}
	}
	for _, k := range chaos.Kinds() {
		if src.kinds[k.Name] == "" {
			t.Errorf("no file of the kind %s", k.Name)
		}
	}
	for _, kind := range []string{"block", "file", "mount", "unit", "pause", "hold", "run"} {
		if len(src.changes[kind]) == 0 {
			t.Errorf("no file of the change %s", kind)
		}
	}
}

// TestWhatMakesARowDue: some rows with the files that must make them due, and that must not.
func TestWhatMakesARowDue(t *testing.T) {
	rows := allRowsHere(t)
	for name, want := range map[string]string{
		"fault:agent-stopped": "preflight/hops/readiness.go preflight/probe/host/unit.go " +
			"golden/expect.go#agent-stopped",
		"fault:disk-full":                 "preflight/hops/readiness.go preflight/probe/host/disk.go",
		"fault:terminal-upgrade-rejected": "preflight/hops/browser_ws.go preflight/probe/net/session.go",
		"fault:ops-path-lost":             "preflight/hops/ops_access.go preflight/vantage/node.go",
		"drill:api-egress-blocked": "preflight/hops/runtime_api.go preflight/probe/net/http.go chaos/fault_net_block.go " +
			"chaos/node/place_block.go",
		"drill:disk-full": "preflight/hops/readiness.go preflight/probe/host/disk.go chaos/fault_disk.go " +
			"chaos/node/place_hold.go",
		"drill:gpu-lost": "preflight/hops/gpu.go preflight/hops/gpu_node.go chaos/fault_gpu_fake.go " +
			"chaos/node/place_file.go",
		"drill:three-faults": "preflight/hops/public_route.go chaos/fault_disk.go chaos/fault_service.go " +
			"chaos/fault_config.go",
	} {
		for f := range strings.FieldsSeq(want) {
			if !slices.Contains(rows[name].files, f) {
				t.Errorf("%s is not due when %s changes: %v", name, f, rows[name].files)
			}
		}
	}
	for name, not := range map[string]string{
		"fault:agent-stopped": "preflight/hops/app.go preflight/probe/dns.go golden/expect.go#agent-frozen " +
			"golden/expect.go",
		"drill:api-egress-blocked": "chaos/fault_disk.go chaos/node/place_mount.go scenarios/api-egress-rejected.yaml",
	} {
		for f := range strings.FieldsSeq(not) {
			if slices.Contains(rows[name].files, f) {
				t.Errorf("%s is due when %s changes", name, f)
			}
		}
	}
}
