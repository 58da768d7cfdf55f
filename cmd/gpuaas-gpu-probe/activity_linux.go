//go:build linux && cgo

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// rareEvery is how often the answers of rarely are read again.
const rareEvery = 10 * time.Minute

// activity queries how busy the GPU is.
func (v *device) activity() {
	h := v.handle
	v.several("nvmlDeviceGetUtilizationRates", []report.Signal{report.Utilization, report.MemoryUtilization},
		[]string{"gpu", "memory"}, func() ([]int64, nvml.Return) {
			rates, rc := h.GetUtilizationRates()
			return []int64{int64(rates.Gpu), int64(rates.Memory)}, rc
		})
	v.clocks("nvmlDeviceGetClockInfo", h.GetClockInfo, report.ClockSM, report.ClockMemory)
}

// clocks queries the clocks of multiprocessors and memory.
func (v *device) clocks(symbol string, f func(nvml.ClockType) (uint32, nvml.Return), sm, memory report.Signal) {
	v.number(sm, symbol, func() (int64, nvml.Return) { return of(f(nvml.CLOCK_SM)) }, int(nvml.CLOCK_SM))
	v.number(memory, symbol, func() (int64, nvml.Return) { return of(f(nvml.CLOCK_MEM)) }, int(nvml.CLOCK_MEM))
}

// rare are answers that do not change while the driver is loaded, and the time when they were read.
type rare struct {
	at      time.Time
	up      []int // the NVLinks that were active
	signals map[report.Signal]report.Reading
	links   []report.Link
	peers   []report.Peer
}

// rarely sets what hardly ever changes. It asks only every rareEvery, and again as long as a call is refused.
func (v *device) rarely() {
	v.rare = v.rares[v.out.UUID]
	if v.rare == nil || v.lost || v.out.UUID == "" || time.Since(v.rare.at) >= rareEvery ||
		!slices.Equal(v.rare.up, v.up) {
		v.rare = &rare{at: time.Now(), up: v.up}
		v.askRarely()
		return
	}
	for s, r := range v.rare.signals {
		v.set(s, r)
	}
	v.out.Links = v.rare.links
}

func (v *device) askRarely() {
	h := v.handle
	v.clocks("nvmlDeviceGetMaxClockInfo", h.GetMaxClockInfo, report.ClockSMMax, report.ClockMemoryMax)
	v.several("nvmlDeviceGetMemoryInfo_v2", []report.Signal{report.MemoryReserved},
		[]string{"reserved", "free", "total", "used", "version"}, func() ([]int64, nvml.Return) {
			memory, rc := h.GetMemoryInfo_v2()
			return []int64{signed(memory.Reserved), signed(memory.Free), signed(memory.Total), signed(memory.Used),
				int64(memory.Version)}, rc
		})
	v.set(report.Serial, v.secret("nvmlDeviceGetSerial", h.GetSerial))
	v.remotes()
	signals, whole := map[report.Signal]report.Reading{}, true
	for _, s := range [...]report.Signal{report.ClockSMMax, report.ClockMemoryMax, report.MemoryReserved,
		report.Serial} {
		signals[s] = v.out.Signals[s]
		whole = whole && settled(signals[s])
	}
	for _, l := range v.out.Links {
		whole = whole && settled(l.Remote) && settled(l.Type)
	}
	if v.rare.signals, v.rare.links = signals, v.out.Links; whole {
		v.rares[v.out.UUID] = v.rare
	}
}

// settled reports whether the driver would give the same answer again.
func settled(r report.Reading) bool {
	return r.Known() || r.Unsupported || r.NotAsked == report.NoSymbol
}

// secret queries a text that a recording does not get.
func (v *device) secret(symbol string, f func() (string, nvml.Return)) report.Reading {
	text := ""
	why, ok := v.try(symbol, nil, func() (any, nvml.Return) {
		var rc nvml.Return
		text, rc = f()
		return nil, rc
	})
	if ok {
		return report.Words(text)
	}
	return why
}

// remotes queries where the active NVLinks lead.
func (v *device) remotes() {
	if v.many {
		return
	}
	for _, link := range v.up {
		l := report.Link{Link: link}
		remote := ""
		why, ok := v.try("nvmlDeviceGetNvLinkRemotePciInfo_v2|nvmlDeviceGetNvLinkRemotePciInfo", []any{link},
			func() (any, nvml.Return) {
				pci, rc := v.handle.GetNvLinkRemotePciInfo(link)
				remote = fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
				return nil, rc
			})
		if l.Remote = why; ok {
			l.Remote = report.Words(remote)
		}
		var kind nvml.IntNvLinkDeviceType
		why, ok = v.try("nvmlDeviceGetNvLinkRemoteDeviceType", []any{link}, func() (any, nvml.Return) {
			var rc nvml.Return
			kind, rc = v.handle.GetNvLinkRemoteDeviceType(link)
			return nil, rc
		})
		if l.Type = why; ok {
			l.Type = endOf(kind)
		}
		v.out.Links = append(v.out.Links, l)
	}
}

// endOf returns the name of what is at the other end of an NVLink.
func endOf(kind nvml.IntNvLinkDeviceType) report.Reading {
	switch kind {
	case nvml.NVLINK_DEVICE_TYPE_GPU:
		return report.Words(string(report.EndGPU))
	case nvml.NVLINK_DEVICE_TYPE_SWITCH:
		return report.Words(string(report.EndSwitch))
	case nvml.NVLINK_DEVICE_TYPE_IBMNPU:
		return report.Words(string(report.EndCPU))
	}
	return report.Skipped(report.NoAnswer)
}

// peers queries the PCIe paths between the GPUs, of each pair once, as rarely as rarely.
func peers(all []*device) {
	for i, v := range all {
		if v.many || v.rare == nil {
			continue
		}
		if v.rare.peers != nil {
			v.out.Peers = v.rare.peers
			continue
		}
		whole := true
		for j := i + 1; j < len(all); j++ {
			if all[j].handle == nil || all[j].lost {
				whole = false
				continue
			}
			path := v.pathTo(all[j])
			whole = whole && settled(path)
			v.out.Peers = append(v.out.Peers, report.Peer{GPU: j, Path: path})
		}
		if whole {
			v.rare.peers = v.out.Peers
		}
	}
}

// pathTo queries the path to another GPU.
func (v *device) pathTo(other *device) report.Reading {
	var level nvml.GpuTopologyLevel
	why, ok := v.try("nvmlDeviceGetTopologyCommonAncestor", []any{other.out.Index}, func() (any, nvml.Return) {
		var rc nvml.Return
		level, rc = v.handle.GetTopologyCommonAncestor(other.handle)
		return nil, rc
	})
	if !ok {
		return why
	}
	path, known := map[nvml.GpuTopologyLevel]report.Path{
		nvml.TOPOLOGY_INTERNAL: report.PathBoard, nvml.TOPOLOGY_SINGLE: report.PathBridge,
		nvml.TOPOLOGY_MULTIPLE: report.PathNested, nvml.TOPOLOGY_HOSTBRIDGE: report.PathHost,
		nvml.TOPOLOGY_NODE: report.PathNode, nvml.TOPOLOGY_SYSTEM: report.PathSystem,
	}[level]
	if !known {
		return report.Skipped(report.NoAnswer)
	}
	return report.Words(string(path))
}
