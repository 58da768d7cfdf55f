//go:build linux && cgo

package main

import (
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// maxInstances is more than the number of instances of any GPU.
const maxInstances = 16

// instances lists the GPU's MIG instances.
func (v *device) instances() {
	most := 0
	_, ok := v.try("nvmlDeviceGetMaxMigDeviceCount", nil, func() (any, nvml.Return) {
		var rc nvml.Return
		most, rc = v.handle.GetMaxMigDeviceCount()
		return most, rc
	})
	if !ok || !v.lookUp("nvmlDeviceGetGpuInstanceId") || !v.lookUp("nvmlDeviceGetComputeInstanceId") ||
		!v.lookUp("nvmlDeviceGetUUID") {
		return
	}
	for i := range min(most, maxInstances) {
		// a slot without an instance is "not found"
		_, _ = v.try("nvmlDeviceGetMigDeviceHandleByIndex", []any{i}, func() (any, nvml.Return) {
			h, rc := v.handle.GetMigDeviceHandleByIndex(i)
			if rc != nvml.SUCCESS {
				return nil, rc
			}
			return nil, v.instance(h)
		})
	}
}

// instance adds one MIG instance.
func (v *device) instance(h nvml.Device) nvml.Return {
	uuid, rc := h.GetUUID()
	if rc != nvml.SUCCESS {
		return rc
	}
	gi, rc := h.GetGpuInstanceId()
	if rc != nvml.SUCCESS {
		return rc
	}
	ci, rc := h.GetComputeInstanceId()
	name, ok := nameOf(report.Words(uuid))
	if !ok || rc != nvml.SUCCESS {
		return rc
	}
	m := report.MIG{UUID: name, GPUInstance: gi, ComputeInstance: ci}
	m.Profile, m.Memory = v.shapeOf(name, h)
	v.out.MIG = append(v.out.MIG, m)
	v.records.instance(v.out.UUID, name, gi, ci)
	return nvml.SUCCESS
}

// shape is what never changes of a MIG instance: another one has another UUID.
type shape struct {
	profile string
	memory  *int64
}

// maxShapes bounds what is remembered of MIG instances that may be gone.
const maxShapes = 1000

// shapeOf returns the profile of a MIG instance, from the end of its name, and its memory.
func (v *device) shapeOf(uuid string, h nvml.Device) (profile string, memory *int64) {
	if s, known := v.shapes[uuid]; known {
		return s.profile, s.memory
	}
	whole := true
	if v.lookUp("nvmlDeviceGetName") {
		name, rc := h.GetName()
		_, text, _ := strings.Cut(name, " MIG ")
		profile, _ = nameOf(report.Words(text))
		whole = rc == nvml.SUCCESS
	}
	if v.lookUp("nvmlDeviceGetAttributes_v2|nvmlDeviceGetAttributes") {
		a, rc := h.GetAttributes()
		if n := signed(a.MemorySizeMB); rc == nvml.SUCCESS && n > 0 && n < 1<<40 {
			memory = new(n << 20)
		}
		whole = whole && rc == nvml.SUCCESS
	}
	if whole && len(v.shapes) < maxShapes {
		v.shapes[uuid] = shape{profile, memory}
	}
	return profile, memory
}
