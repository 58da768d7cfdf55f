//go:build linux && cgo

package main

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

typedef struct {
	unsigned int pid;
	unsigned long long memory;
	unsigned int gpu_instance, compute_instance;
} process_info;

// list calls a function of the library that lists processes.
static int list(const char *symbol, void *device, unsigned int *count, process_info *to)
{
	int (*f)(void *, unsigned int *, process_info *);

	*(void **)&f = dlsym(RTLD_DEFAULT, symbol);
	return f ? f(device, count, to) : 13;
}
*/
import "C"

import (
	"math"
	"reflect"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// Sizes of the buffer for processes: usual, and largest. The binding's own call grows its buffer without bound.
const (
	usualProcesses = 64
	mostProcesses  = 4096
	notKnown       = math.MaxUint64 // NVML's value for memory that it does not know
)

// processes queries the processes on the GPU.
func (v *device) processes() {
	n := v.listProcesses(report.ComputeProcesses, report.Compute, "nvmlDeviceGetComputeRunningProcesses")
	v.listProcesses(report.GraphicsProcesses, report.Graphics, "nvmlDeviceGetGraphicsRunningProcesses")
	if n == 0 { // the MPS server itself computes
		v.set(report.MPSProcesses, report.Skipped(report.NotThere))
		return
	}
	v.listProcesses(report.MPSProcesses, report.MPS, "nvmlDeviceGetMPSComputeRunningProcesses")
}

// listProcesses queries the processes of one type, and returns their number, -1 if it is not known.
func (v *device) listProcesses(s report.Signal, t report.ProcessType, symbol string) int {
	newest, older := symbol+"_v3", symbol+"_v2" // which answer alike; the first version answers otherwise
	called := newest
	if !v.lookUp(newest) && v.lookUp(older) {
		called = older
	}
	var found []C.process_info
	count := 0
	why, ok := v.try(called, nil, func() (any, nvml.Return) {
		var rc nvml.Return
		found, count, rc = askProcesses(called, v.handle)
		return nil, rc
	})
	if !ok {
		v.set(s, why)
		return -1
	}
	v.set(s, report.ReadingOf(int64(count)))
	for i := range found {
		if len(v.out.Processes) >= report.MaxProcesses || v.listed >= report.AllProcesses {
			break
		}
		v.out.Processes, v.listed = append(v.out.Processes, v.process(t, &found[i])), v.listed+1
	}
	return count
}

// askProcesses calls the function with a buffer that it may enlarge once. If there are more processes than that, it
// returns only their number.
func askProcesses(symbol string, h nvml.Device) (found []C.process_info, count int, rc nvml.Return) {
	handle := reflect.ValueOf(h).FieldByName("Handle").UnsafePointer()
	name := append([]byte(symbol), 0)
	size := usualProcesses
	for {
		found = make([]C.process_info, size)
		n := C.uint(size)
		rc = nvml.Return(C.list((*C.char)(unsafe.Pointer(&name[0])), handle, &n, &found[0]))
		count = int(n)
		switch {
		case rc == nvml.SUCCESS:
			return found[:min(count, size)], count, rc
		case rc != nvml.ERROR_INSUFFICIENT_SIZE || count <= size:
			return nil, 0, rc
		case size > usualProcesses || count > mostProcesses/2:
			return nil, count, nvml.SUCCESS
		}
		size = 2 * count // more may start meanwhile
	}
}

// process returns what is known about a process.
func (v *device) process(t report.ProcessType, p *C.process_info) report.Process {
	out := report.Process{PID: int(p.pid), Type: t}
	if n := uint64(p.memory); n != notKnown && signed(n) != unreadable {
		out.Memory = new(signed(n))
	}
	if p.gpu_instance != noInstance && p.compute_instance != noInstance {
		out.GPUInstance, out.ComputeInstance = new(int(p.gpu_instance)), new(int(p.compute_instance))
	}
	v.users.describe(&out)
	return out
}
