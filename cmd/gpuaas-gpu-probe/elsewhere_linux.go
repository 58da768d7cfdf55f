//go:build linux && cgo

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// pciDevices is the kernel's folder of PCI devices.
const pciDevices = "/sys/bus/pci/devices"

// elsewhere returns NVIDIA's GPUs on the PCI bus that are not bound to its driver: another driver has them, such
// as vfio-pci for a virtual machine, or none. It leaves out what cannot be read.
func elsewhere(root string) (all []string) {
	devices, _ := os.ReadDir(root) // empty on a host without a PCI bus
	for _, d := range devices {
		dir := filepath.Join(root, d.Name())
		vendor, _ := os.ReadFile(filepath.Join(dir, "vendor"))
		if strings.TrimSpace(string(vendor)) != "0x10de" {
			continue // do not read more of the hundreds of other devices in every sample
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
