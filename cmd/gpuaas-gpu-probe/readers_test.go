//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/lab/hosttools"
	"github.com/gpuaas/gpuaasctl/tools/testkit/screentest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// pynvmlScript prints what pynvml reads: a list of each GPU's values, by name; an error is its code in a list.
const pynvmlScript = `
import json, pynvml as n
n.nvmlInit()
def ask(f, *args):
    try: return f(*args)
    except n.NVMLError as e: return [e.value]
gpus = []
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    pci, memory = n.nvmlDeviceGetPciInfo(h), ask(n.nvmlDeviceGetMemoryInfo, h)
    pair = lambda x: x if len(x) == 1 else x[0]
    rows = ask(n.nvmlDeviceGetRemappedRows, h)
    gpus.append({
        "name": n.nvmlDeviceGetName(h), "uuid": n.nvmlDeviceGetUUID(h),
        "pci": "%04x:%02x:%02x.0" % (pci.domain, pci.bus, pci.device),
        "memory_total": memory if type(memory) is list else memory.total,
        "temperature": ask(n.nvmlDeviceGetTemperature, h, 0), "power": ask(n.nvmlDeviceGetPowerUsage, h),
        "power_limit": ask(n.nvmlDeviceGetEnforcedPowerLimit, h),
        "ecc_mode": pair(ask(n.nvmlDeviceGetEccMode, h)), "mig_mode": pair(ask(n.nvmlDeviceGetMigMode, h)),
        "ecc_dbe_volatile": ask(n.nvmlDeviceGetTotalEccErrors, h, 1, 0),
        "ecc_sbe_aggregate": ask(n.nvmlDeviceGetTotalEccErrors, h, 0, 1),
        "remapped_rows_uncorrectable": rows if len(rows) == 1 else rows[1],
        "remapped_rows_pending": rows if len(rows) == 1 else rows[2],
        "pcie_replays": ask(n.nvmlDeviceGetPcieReplayCounter, h), "pcie_width": ask(n.nvmlDeviceGetCurrPcieLinkWidth, h),
        "persistence_mode": ask(n.nvmlDeviceGetPersistenceMode, h), "vbios": ask(n.nvmlDeviceGetVbiosVersion, h),
    })
print(json.dumps({"driver": n.nvmlSystemGetDriverVersion(), "gpus": gpus}))
`

// asSystems creates a folder in which the fake has the file names of the system's library.
func asSystems(t *testing.T, fake string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range [...]string{"libnvidia-ml.so", "libnvidia-ml.so.1"} {
		if err := os.Symlink(fake, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// unpackedPackage returns the folder of a package; without it the test is skipped.
func unpackedPackage(t *testing.T, name string) string {
	t.Helper()
	dir := hosttools.Package(name)
	if dir == "" {
		t.Skipf("skipped: needs %s (make needs unpacks it as root on Debian)", name)
	}
	return dir
}

// otherReaders: pynvml and nvtop, which are independent of this project, read the same values from the library as
// the probe.
func otherReaders(t *testing.T, b *built) {
	tier.NeedsHost(t)
	t.Run("pynvml", func(t *testing.T) {
		module := filepath.Join(unpackedPackage(t, "python3-pynvml"), "usr/lib/python3/dist-packages")
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Skip("skipped: needs python3 (to run pynvml)")
		}
		for _, profile := range [...]string{"h100x8", "h100-broken", "a100-mig", "a10-remap", "t4", "rtx4000-ada"} {
			c := newControl(t, profile)
			cmd := exec.CommandContext(t.Context(), python, "-c", pynvmlScript)
			cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "LD_LIBRARY_PATH="+asSystems(t, b.fake),
				"GPUAAS_NVML_FAKE="+c.path)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", profile, err, out)
			}
			var theirs struct {
				Driver string                       `json:"driver"`
				GPUs   []map[string]json.RawMessage `json:"gpus"`
			}
			if err := json.Unmarshal(out, &theirs); err != nil {
				t.Fatalf("%s: %v\n%s", profile, err, out)
			}
			agree(t, profile, b.once(t, b.fake, c), theirs.Driver, theirs.GPUs)
		}
	})
	t.Run("nvtop", func(t *testing.T) {
		folder := unpackedPackage(t, "nvtop")
		libraries, _ := filepath.Glob(filepath.Join(unpackedPackage(t, "libncursesw6"), "usr/lib/*-linux-gnu"))
		c := newControl(t, "h100x8")
		c.head().gpus = 2 // as many as a terminal shows
		cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "usr/bin/nvtop"), "-p", "-C", "-c",
			filepath.Join(t.TempDir(), "none"))
		cmd.Env = []string{"TERM=xterm", "HOME=" + t.TempDir(), "GPUAAS_NVML_FAKE=" + c.path,
			"LD_LIBRARY_PATH=" + strings.Join(append(libraries, asSystems(t, b.fake)), ":")}
		screen := screentest.Start(t, cmd)
		s := b.once(t, b.fake, c)
		if len(s.GPUs) != 2 {
			t.Fatalf("%d GPUs", len(s.GPUs))
		}
		for i := range s.GPUs {
			g := &s.GPUs[i]
			value := func(s report.Signal) int64 {
				n, ok := g.Value(s)
				if !ok {
					t.Fatalf("GPU %d has no %s", i, s)
				}
				return n
			}
			screen.Await(fmt.Sprintf("Device %d [%s]", i, g.Name))
			screen.Await(fmt.Sprintf("PCIe GEN %d@%dx", value(report.PCIeGen), value(report.PCIeWidth)))
			screen.Await(fmt.Sprintf("TEMP %3d", value(report.Temperature)))
			screen.Await(fmt.Sprintf("POW %3d / %d W", value(report.Power)/1000, value(report.PowerLimit)/1000))
			screen.Await(fmt.Sprintf("/%.3fGi]", float64(value(report.MemoryTotal))/(1<<30)))
		}
		screen.Press("q")
		screen.Ends(0)
	})
}

// agree compares the values that both read.
func agree(t *testing.T, profile string, s *report.Sample, driver string, gpus []map[string]json.RawMessage) {
	t.Helper()
	if s.Library.Driver.String() != driver || len(s.GPUs) != len(gpus) {
		t.Fatalf("%s: driver %s and %d GPUs, theirs %s and %d", profile, s.Library.Driver, len(s.GPUs), driver, len(gpus))
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		ours := map[string]any{"name": g.Name, "uuid": g.UUID, "pci": g.PCI}
		for name := range gpus[i] {
			r, ok := g.Signals[report.Signal(name)]
			switch {
			case !ok:
			case r.Unsupported:
				ours[name] = []int{3}
			case r.Failed != 0:
				ours[name] = []int{r.Failed}
			case r.Text != nil:
				ours[name] = *r.Text
			default:
				ours[name] = *r.Value
			}
		}
		for name, theirs := range gpus[i] {
			text, err := json.Marshal(ours[name])
			if err != nil || strings.ReplaceAll(string(theirs), " ", "") != strings.ReplaceAll(string(text), " ", "") {
				t.Errorf("%s: GPU %d: %s is %s, theirs is %s", profile, i, name, text, theirs)
			}
		}
	}
}
