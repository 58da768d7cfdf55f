//go:build linux && cgo

package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/lab/hosttools"
)

// driverLibrary returns NVIDIA's library from a package that is unpacked on this host; without one the test is
// skipped.
func driverLibrary(t *testing.T, name string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(hosttools.Package(name), "usr/lib/*/nvidia/*/libnvidia-ml.so.1"))
	if hosttools.Package(name) == "" || len(found) != 1 {
		t.Skipf("skipped: needs %s (make needs unpacks it as root on Debian)", name)
	}
	return found[0]
}

// askedFor lists the symbols that the probe looks up, according to its sources.
func askedFor(t *testing.T) (symbols []string) {
	t.Helper()
	sources, err := filepath.Glob("*_linux.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(nvml[A-Z][\w|]+)"`).FindAllStringSubmatch(string(text), -1) {
			symbols = append(symbols, m[1])
		}
	}
	symbols = slices.DeleteFunc(symbols, func(s string) bool { // words of recordings
		return slices.Contains([]string{"nvmlDevice", "nvmlDeviceGet", "nvmlSystemGet", "nvmlReturn"}, s)
	})
	slices.Sort(symbols)
	if symbols = slices.Compact(symbols); len(symbols) < 40 {
		t.Fatalf("only %d symbols in %q", len(symbols), sources)
	}
	return symbols
}

// defined lists the functions in a library's symbol table.
func defined(t *testing.T, library string) map[string]bool {
	t.Helper()
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, s := range symbols {
		has[s.Name] = has[s.Name] || s.Section != elf.SHN_UNDEF
	}
	return has
}

// TestDriverLibraries loads NVIDIA's own libraries on a host without the driver: the driver is reported as not
// loaded, which differs from a missing library; no GPU is invented; and each lookup finds the entry in the
// library's own table.
func TestDriverLibraries(t *testing.T) {
	compiler(t)
	b := built{probe: filepath.Join(t.TempDir(), "probe")}
	goBuild(t, b.probe, "1", ".")
	for _, name := range [...]string{"libnvidia-tesla-470-ml1", "libnvidia-tesla-ml1", "libnvidia-ml1"} {
		t.Run(name, func(t *testing.T) {
			library := driverLibrary(t, name)
			if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
				t.Skip("skipped: needs GPUAAS_NVML_LIBRARY: this host has NVIDIA's driver, which is asked as it is")
			}
			for path, want := range map[string]report.Library{
				library:           {State: report.DriverNotLoaded, Code: 9},
				library + ".none": {State: report.LibraryNotFound, Code: 12},
			} {
				s := b.once(t, path, nil)
				if s.Library.State != want.State || s.Library.Code != want.Code || s.Count.Known() || len(s.GPUs) != 0 {
					t.Errorf("%s: %+v, count %s", path, s.Library, s.Count)
				}
				f := policy.FactsOf(policy.Evidence{Sample: s})
				if !slices.ContainsFunc(f.Floors, func(x policy.Finding) bool {
					return x.Health == policy.Unknown && strings.Contains(x.Why, string(want.State))
				}) || len(f.GPUs) != 0 {
					t.Errorf("%s: %+v", path, f.Floors)
				}
			}
			var lacks []string
			has := defined(t, library)
			d := newDriver(options{library: library, deadline: callDeadline}, os.Stderr,
				func(c call) { t.Errorf("%s hangs", c.symbol) })
			d.open()
			for _, symbols := range askedFor(t) {
				want := slices.ContainsFunc(strings.Split(symbols, "|"), func(s string) bool { return has[s] })
				if got := d.lookUp(symbols); got != want {
					t.Errorf("%s is found: %t, and the library's table has it: %t", symbols, got, want)
				}
				if !want {
					lacks = append(lacks, firstOf(symbols))
				}
			}
			if len(lacks) == 0 || !slices.Equal(d.missing(), lacks) {
				t.Errorf("it lacks %q by its table, %q by look-ups", lacks, d.missing())
			}
			t.Logf("%s lacks %d of %d: %q", filepath.Base(realPath(library)), len(lacks), len(askedFor(t)), lacks)
		})
	}
}

func realPath(path string) string {
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	return to
}
