package hops

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// kernelRow is what a kind of line in the kernel log shows.
type kernelRow struct {
	kind   diag.KernelKind
	fails  bool
	signal diag.Signal
	says   string        // what the lines say, behind their number
	within time.Duration // only if the last is younger than this; 0: any of this boot
}

// kernelRows are the kinds that are judged. What the kernel repaired, or what is long over, is not a fault of today.
var kernelRows = []kernelRow{
	{diag.KernelGPULost, true, diag.SigHostGPUErrors, "a GPU has fallen off the bus", 0},
	{diag.KernelUncorrected, true, diag.SigHostMemoryErrors, "an error of hardware that was not corrected", 0},
	{diag.KernelRemounted, true, diag.SigHostReadOnly, "a file system was made read-only after an error", day},
	{diag.KernelXID, false, diag.SigHostGPUErrors, "an error of a GPU", week},
	{diag.KernelNVMe, false, diag.SigHostStorage, "an NVMe device did not answer in time", week},
	{diag.KernelIO, false, diag.SigHostStorage, "a disk could not be read or written", week},
	{diag.KernelFileSystem, false, diag.SigHostStorage, "a file system found an error in itself", week},
	{diag.KernelCorrected, false, diag.SigHostMemoryErrors, "an error of hardware that was corrected", week},
	{diag.KernelBug, false, diag.SigHostKernel, "a fault of the kernel itself", week},
	{diag.KernelOOM, false, diag.SigHostMemoryShort, "a process was ended for lack of memory", day},
	{diag.KernelHung, false, diag.SigHostStuck, "a process hung for minutes", day},
	{diag.KernelNFS, false, diag.SigHostMountHangs, "a file server did not answer", time.Hour},
}

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// judgeKernel returns a finding for each kind of line that is a fault. The log of a container is its host's: nothing in
// it is known to be about this node.
func judgeKernel(f *diag.Fact) (out []diag.Finding) {
	if !f.Passed() || f.Kernel == nil || f.Kernel.Container != "" {
		return nil
	}
	for _, r := range kernelRows {
		for i := range f.Kernel.Events {
			e := &f.Kernel.Events[i]
			ago := time.Duration(e.AgoS) * time.Second
			if e.Kind != r.kind || (r.within > 0 && ago > r.within) {
				continue
			}
			judge := reading.Warn
			if r.fails {
				judge = reading.Fail
			}
			found := judge(r.signal, f, "kernel log: %s (%s, the last %s ago): %s", r.says, reading.Times(e.Count),
				diag.Age(ago), reading.OneLine(e.Text))
			found.Direct = r.fails
			if e.Device != "" {
				found.Culprit = fmt.Sprintf("node GPU %s", e.Device)
			}
			out = append(out, found)
		}
	}
	return out
}
