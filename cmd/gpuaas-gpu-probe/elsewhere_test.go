//go:build linux && cgo

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestElsewhere finds, among all devices on a PCI bus, NVIDIA's GPUs that its driver does not have.
func TestElsewhere(t *testing.T) {
	bus := t.TempDir()
	for address, d := range map[string][3]string{
		"0000:3b:00.0": {"0x10de\n", "0x030200\n", "nvidia"},
		"0000:5e:00.0": {"0x10de\n", "0x030200\n", "vfio-pci"},
		"0000:86:00.0": {"0x10de\n", "0x030000\n", ""},
		"0000:c2:00.0": {"0x10de\n", "0x068000\n", "vfio-pci"}, // an NVSwitch
		"0000:01:00.0": {"0x102b\n", "0x030000\n", "mgag200"},
		"0000:02:00.0": {"", "", ""},
	} {
		dir := filepath.Join(bus, address)
		err := os.MkdirAll(dir, 0o700)
		for i, name := range []string{"vendor", "class"} {
			if err == nil && d[i] != "" {
				err = os.WriteFile(filepath.Join(dir, name), []byte(d[i]), 0o600)
			}
		}
		if err == nil && d[2] != "" {
			err = os.Symlink("../../drivers/"+d[2], filepath.Join(dir, "driver"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := elsewhere(bus); !slices.Equal(got, []string{"0000:5e:00.0 (vfio-pci)", "0000:86:00.0 (no driver)"}) {
		t.Errorf("%q", got)
	}
	if got := elsewhere(filepath.Join(bus, "none")); got != nil {
		t.Errorf("without a bus: %q", got)
	}
}
