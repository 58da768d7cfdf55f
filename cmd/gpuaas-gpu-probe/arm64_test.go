//go:build linux

package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestForARM64: what a cross compiler makes is a dynamic program for arm64 that binds NVML's calls only when it makes
// them, and looks up the newest name of each. Where QEMU is installed, it reads the same as the one of this machine.
func TestForARM64(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("skipped: builds binaries")
	}
	const target = "aarch64-linux-gnu"
	cc, err := exec.LookPath(target + "-gcc")
	if err != nil {
		t.Skip("skipped: needs gcc-aarch64-linux-gnu (to compile for arm64)")
	}
	dir := t.TempDir()
	probe, fake := filepath.Join(dir, "probe"), filepath.Join(dir, "libnvidia-ml.so")
	cmd := exec.CommandContext(t.Context(), "tools/probe.sh", dir+"/", "-trimpath", "-buildvcs=false", "-ldflags",
		"-s -w -X main.version=v9")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "GOOS=linux", "GOARCH=arm64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(dir, "gpuaas-gpu-probe"), probe); err != nil {
		t.Fatal(err)
	}
	looksUpNames(t, probe)
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("skipped the run: needs qemu-user-static")
	}
	compileFake(t, cc, "WHOLE", fake)
	run := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), emulator, append([]string{"-L", "/usr/" + target, probe}, args...)...)
		cmd.Env = append(os.Environ(), libraryVariable+"="+fake, "GPUAAS_NVML_FAKE="+newControl(t, "h100x8").path)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	if got := string(run("--version")); got != "gpuaas-gpu-probe v9\n" {
		t.Errorf("%q", got)
	}
	s := decode(t, run(patient))
	if len(s.GPUs) != 8 || len(s.Library.Absent) > 0 || s.GPUs[7].Signals[report.TemperatureMargin].String() != "56" ||
		len(s.GPUs[0].Links) != 18 || s.GPUs[0].Signals[report.ComputeProcesses].String() != "0" {
		t.Errorf("%+v", s)
	}
}

// looksUpNames checks the file of the program for arm64.
func looksUpNames(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || f.Machine != elf.EM_AARCH64 || f.Section(".interp") == nil ||
		!slices.Contains(libraries, "libc.so.6") {
		t.Fatalf("it is for %s and needs %v: %v", f.Machine, libraries, err)
	}
	if slices.ContainsFunc(libraries, func(l string) bool { return strings.Contains(l, "nvidia") }) {
		t.Errorf("it starts only with %v", libraries)
	}
	for tag, now := range map[elf.DynTag]uint64{elf.DT_FLAGS: uint64(elf.DF_BIND_NOW),
		elf.DT_FLAGS_1: uint64(elf.DF_1_NOW)} {
		values, err := f.DynValue(tag)
		if err != nil || slices.ContainsFunc(values, func(v uint64) bool { return v&now != 0 }) {
			t.Errorf("it binds every symbol when it starts: %s is %v: %v", tag, values, err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [...]string{"nvmlInit_v2|nvmlInit", "nvmlDeviceGetHandleByIndex_v2|nvmlDeviceGetHandleByIndex",
		"nvmlDeviceGetPciInfo_v3|nvmlDeviceGetPciInfo_v2|nvmlDeviceGetPciInfo", "nvmlDeviceGetGpuFabricInfoV",
		"nvmlDeviceGetNvLinkRemotePciInfo_v2|nvmlDeviceGetNvLinkRemotePciInfo"} {
		if !strings.Contains(string(text), names) {
			t.Errorf("it does not look up %s", names)
		}
	}
}
