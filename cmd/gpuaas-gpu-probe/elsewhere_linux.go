//go:build linux && cgo

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// pciDevices is where the kernel shows what is on the PCI bus.
const pciDevices = "/sys/bus/pci/devices"

// elsewhere are NVIDIA's GPUs on the PCI bus that its driver does not have: another one does, as vfio-pci for a virtual
// machine, or none. What cannot be read is left out.
func elsewhere(root string) (all []string) {
	devices, _ := os.ReadDir(root) // empty on a host without that bus
	for _, d := range devices {
		dir := filepath.Join(root, d.Name())
		vendor, _ := os.ReadFile(filepath.Join(dir, "vendor"))
		if strings.TrimSpace(string(vendor)) != "0x10de" {
			continue // of the hundreds of others, nothing else is read in every sample
		}
		if class, _ := os.ReadFile(filepath.Join(dir, "class")); !strings.HasPrefix(string(class), "0x03") {
			continue
		}
		by := "no driver"
		if link, err := os.Readlink(filepath.Join(dir, "driver")); err == nil {
			by = filepath.Base(link)
		}
		if by != "nvidia" {
			all = append(all, d.Name()+" ("+by+")")
		}
		if len(all) == report.MaxGPUs {
			break
		}
	}
	return all
}
