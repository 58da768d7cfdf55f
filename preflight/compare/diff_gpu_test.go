package compare

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// withGPUs returns a walk of a node with eight GPUs.
func withGPUs(t *testing.T, change func(*diag.GPUFacts)) *diag.Report {
	t.Helper()
	number := func(n int64) diag.GPUReading { return diag.GPUReading{Value: &n} }
	text := func(s string) diag.GPUReading { return diag.GPUReading{Text: &s} }
	driver, count := text("535.161.08"), number(8)
	g := &diag.GPUFacts{Driver: &driver, Module: "535.161.08", Count: &count, Library: "loaded"}
	for i := range 8 {
		config := map[string]diag.GPUReading{"vbios": text("96.00.89"), "nvlinks_active": number(18), "ecc_mode": number(1),
			"inforom": {NotSupported: true}}
		g.GPUs = append(g.GPUs, diag.GPUDevice{Index: i, UUID: fmt.Sprint("GPU-", i), Name: "NVIDIA H100",
			PCI: fmt.Sprintf("0000:%02x:00.0", i+1), Config: config})
	}
	if change != nil {
		change(g)
	}
	return changed(t, func(r *diag.Report) {
		r.Facts = slices.DeleteFunc(r.Facts, func(f diag.Fact) bool { return f.GPU != nil })
		r.Facts = append(r.Facts, diag.Fact{ID: hop.FactID(diag.HopGPUHealth, "node"), Vantage: hop.Node,
			Request: diag.Request{Op: diag.OpGPU, Target: "/gpu.json"}, GPU: g})
	})
}

// TestGPUsCompareByGPU: another driver, setting, link or GPU is a change; the same GPUs in another order are not. Fewer
// of something is a regression.
func TestGPUsCompareByGPU(t *testing.T) {
	for _, c := range []struct {
		name       string
		kind       diag.ChangeKind // "": no change
		after      string
		regression bool
		change     func(*diag.GPUFacts)
	}{
		{name: "nothing"},
		{name: "another order", change: func(g *diag.GPUFacts) { slices.Reverse(g.GPUs) }},
		{"another driver", diag.ChangeGPU, "550.54.15", false, func(g *diag.GPUFacts) {
			text := "550.54.15"
			g.Driver = &diag.GPUReading{Text: &text}
		}},
		{"one VBIOS of eight", diag.ChangeGPU, "96.00.89 on 7, 96.00.90 on 1 (0000:04:00.0)", false,
			func(g *diag.GPUFacts) {
				text := "96.00.90"
				g.GPUs[3].Config["vbios"] = diag.GPUReading{Text: &text}
			}},
		{"what is supported now", diag.ChangeGPU, "not supported on 7, failed (999) on 1 (0000:01:00.0)", false,
			func(g *diag.GPUFacts) { g.GPUs[0].Config["inforom"] = diag.GPUReading{Failed: 999} }},
		{"a link less", diag.ChangeGPULess, "18 on 7, 17 on 1 (0000:08:00.0)", true, func(g *diag.GPUFacts) {
			n := int64(17)
			g.GPUs[7].Config["nvlinks_active"] = diag.GPUReading{Value: &n}
		}},
		{"a GPU replaced", diag.ChangeGPUIdentity, "", false, func(g *diag.GPUFacts) { g.GPUs[5].UUID = "GPU-9" }},
		{"a count less", diag.ChangeGPULess, "7", true, func(g *diag.GPUFacts) {
			n := int64(7)
			g.Count = &diag.GPUReading{Value: &n}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Diff(withGPUs(t, nil), withGPUs(t, c.change), nil)
			if c.kind == "" {
				if len(d.Changes) > 0 {
					t.Errorf("%+v", d.Changes)
				}
				return
			}
			if len(d.Changes) != 1 || d.Changes[0].Kind != c.kind || d.Changes[0].Regression != c.regression ||
				(c.after != "" && d.Changes[0].After != c.after) {
				t.Errorf("%+v", d.Changes)
			}
		})
	}
	here, there := withGPUs(t, nil), withGPUs(t, func(g *diag.GPUFacts) {
		for i := range g.GPUs {
			g.GPUs[i].UUID += "-there"
		}
	})
	a, b := diag.FactsByID(here.Facts)["gpu_health/node"], diag.FactsByID(there.Facts)["gpu_health/node"]
	if got := differentProperties(a, b, true); len(got) > 0 {
		t.Errorf("two nodes with the same GPUs: %+v", got)
	}
}
