//go:build linux && cgo

package main

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// signals queries everything, in the order of report.Signals: the driver's own state of the GPU first.
func (v *device) signals() {
	if v.handle == nil {
		for _, row := range report.Signals() {
			v.set(row.Signal, report.Skipped(report.NoHandle))
		}
		return
	}
	h := v.handle
	v.fieldValues()
	v.several("nvmlDeviceGetEccMode", []report.Signal{report.ECCMode, report.ECCModePending},
		[]string{"current", "pending"}, func() ([]int64, nvml.Return) {
			current, pending, rc := h.GetEccMode()
			return []int64{int64(current), int64(pending)}, rc
		})
	v.memoryErrors()
	v.several("nvmlDeviceGetRemappedRows", []report.Signal{report.RemapCorrectable, report.RemapUncorrectable,
		report.RemapPending, report.RemapFailure}, []string{"corrRows", "uncRows", "isPending", "failureOccurred"},
		func() ([]int64, nvml.Return) {
			corrected, uncorrected, pending, failure, rc := h.GetRemappedRows()
			return []int64{int64(corrected), int64(uncorrected), flag01(pending), flag01(failure)}, rc
		})
	v.links()
	v.number(report.PCIeReplays, "nvmlDeviceGetPcieReplayCounter", func() (int64, nvml.Return) {
		return of(h.GetPcieReplayCounter())
	})
	v.number(report.PCIeGen, "nvmlDeviceGetCurrPcieLinkGeneration", func() (int64, nvml.Return) {
		return of(h.GetCurrPcieLinkGeneration())
	})
	v.number(report.PCIeGenMax, "nvmlDeviceGetMaxPcieLinkGeneration", func() (int64, nvml.Return) {
		return of(h.GetMaxPcieLinkGeneration())
	})
	v.number(report.PCIeWidth, "nvmlDeviceGetCurrPcieLinkWidth", func() (int64, nvml.Return) {
		return of(h.GetCurrPcieLinkWidth())
	})
	v.number(report.PCIeWidthMax, "nvmlDeviceGetMaxPcieLinkWidth", func() (int64, nvml.Return) {
		return of(h.GetMaxPcieLinkWidth())
	})
	v.heat()
	v.fabric()
	v.configuration()
}

// memoryErrors queries the ECC counters.
func (v *device) memoryErrors() {
	h := v.handle
	for _, c := range [...]struct {
		signal report.Signal
		kind   nvml.MemoryErrorType
		since  nvml.EccCounterType
	}{
		{report.ECCDBEVolatile, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC},
		{report.ECCDBEAggregate, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC},
		{report.ECCSBEVolatile, nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC},
		{report.ECCSBEAggregate, nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC},
	} {
		v.number(c.signal, "nvmlDeviceGetTotalEccErrors", func() (int64, nvml.Return) {
			return of64(h.GetTotalEccErrors(c.kind, c.since))
		}, int(c.kind), int(c.since))
	}
	for _, c := range [...]struct {
		signal report.Signal
		since  nvml.EccCounterType
		where  nvml.MemoryLocation
	}{
		{report.DRAMDBEVolatile, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_DRAM},
		{report.DRAMDBEAggregate, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_DRAM},
		{report.SRAMDBEVolatile, nvml.VOLATILE_ECC, nvml.MEMORY_LOCATION_SRAM},
		{report.SRAMDBEAggregate, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_SRAM},
	} {
		v.number(c.signal, "nvmlDeviceGetMemoryErrorCounter", func() (int64, nvml.Return) {
			return of64(h.GetMemoryErrorCounter(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, c.since, c.where))
		}, int(nvml.MEMORY_ERROR_TYPE_UNCORRECTED), int(c.since), int(c.where))
	}
	v.several("nvmlDeviceGetSramEccErrorStatus", []report.Signal{report.SRAMThreshold}, []string{"bThresholdExceeded",
		"version", "aggregateUncParity", "aggregateUncSecDed", "aggregateCor", "volatileUncParity", "volatileUncSecDed",
		"volatileCor", "aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie", "aggregateUncBucketMcu",
		"aggregateUncBucketOther"}, func() ([]int64, nvml.Return) {
		s, rc := h.GetSramEccErrorStatus()
		return []int64{int64(s.BThresholdExceeded), int64(s.Version), signed(s.AggregateUncParity),
			signed(s.AggregateUncSecDed), signed(s.AggregateCor), signed(s.VolatileUncParity), signed(s.VolatileUncSecDed),
			signed(s.VolatileCor), signed(s.AggregateUncBucketL2), signed(s.AggregateUncBucketSm),
			signed(s.AggregateUncBucketPcie), signed(s.AggregateUncBucketMcu), signed(s.AggregateUncBucketOther)}, rc
	})
}

// heat queries temperatures, limits, power, and the reasons for low clocks.
func (v *device) heat() {
	h := v.handle
	v.number(report.Temperature, "nvmlDeviceGetTemperature", func() (int64, nvml.Return) {
		return of(h.GetTemperature(nvml.TEMPERATURE_GPU))
	}, int(nvml.TEMPERATURE_GPU))
	v.several("nvmlDeviceGetMarginTemperature", []report.Signal{report.TemperatureMargin},
		[]string{"marginTemperature", "version"}, func() ([]int64, nvml.Return) {
			margin, rc := h.GetMarginTemperature()
			return []int64{int64(margin.MarginTemperature), int64(margin.Version)}, rc
		})
	for _, c := range [...]struct {
		signal report.Signal
		which  nvml.TemperatureThresholds
	}{
		{report.TemperatureSlowdown, nvml.TEMPERATURE_THRESHOLD_SLOWDOWN},
		{report.TemperatureShutdown, nvml.TEMPERATURE_THRESHOLD_SHUTDOWN},
	} {
		v.number(c.signal, "nvmlDeviceGetTemperatureThreshold", func() (int64, nvml.Return) {
			return of(h.GetTemperatureThreshold(c.which))
		}, int(c.which))
	}
	if v.lookUp("nvmlDeviceGetCurrentClocksEventReasons") {
		v.number(report.ClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons", func() (int64, nvml.Return) {
			return of64(h.GetCurrentClocksEventReasons())
		})
	} else { // its name before driver 535
		v.number(report.ClocksEventReasons, "nvmlDeviceGetCurrentClocksThrottleReasons", func() (int64, nvml.Return) {
			return of64(h.GetCurrentClocksThrottleReasons()) //nolint:staticcheck // older drivers have only this one
		})
	}
	v.number(report.Power, "nvmlDeviceGetPowerUsage", func() (int64, nvml.Return) { return of(h.GetPowerUsage()) })
	v.number(report.PowerLimit, "nvmlDeviceGetEnforcedPowerLimit", func() (int64, nvml.Return) {
		return of(h.GetEnforcedPowerLimit())
	})
}

// fabric queries the GPU's registration with the NVLink fabric.
func (v *device) fabric() {
	signals := []report.Signal{report.FabricState, report.FabricStatus}
	names := []string{"state", "status"}
	var cluster [16]uint8
	fill := func(value map[string]any) { value["clusterUuid"] = uuidText(cluster) }
	if !v.lookUp("nvmlDeviceGetGpuFabricInfoV") { // drivers before 545 have no health mask
		v.structure("nvmlDeviceGetGpuFabricInfo", signals, append(names, "cliqueId"), fill,
			func() ([]int64, nvml.Return) {
				info, rc := v.handle.GetGpuFabricInfo() //nolint:staticcheck // older drivers have only this one
				cluster = info.ClusterUuid
				return []int64{int64(info.State), int64(info.Status), int64(info.CliqueId)}, rc
			})
		v.set(report.FabricHealth, report.Skipped(report.NoSymbol))
		return
	}
	v.structure("nvmlDeviceGetGpuFabricInfoV", append(signals, report.FabricHealth),
		append(names, "healthMask", "cliqueId", "version"), fill, func() ([]int64, nvml.Return) {
			info, rc := v.handle.GetGpuFabricInfoV().V2()
			cluster = info.ClusterUuid
			return []int64{int64(info.State), int64(info.Status), int64(info.HealthMask), int64(info.CliqueId),
				int64(info.Version)}, rc
		})
}

func uuidText(b [16]uint8) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// configuration queries settings to compare between GPUs and nodes.
func (v *device) configuration() {
	h := v.handle
	v.number(report.PersistenceMode, "nvmlDeviceGetPersistenceMode", func() (int64, nvml.Return) {
		return of(h.GetPersistenceMode())
	})
	v.several("nvmlDeviceGetMigMode", []report.Signal{report.MIGMode, report.MIGModePending},
		[]string{"currentMode", "pendingMode"}, func() ([]int64, nvml.Return) {
			current, pending, rc := h.GetMigMode()
			return []int64{int64(current), int64(pending)}, rc
		})
	v.several("nvmlDeviceGetGspFirmwareMode", []report.Signal{report.GSPMode}, []string{"isEnabled"},
		func() ([]int64, nvml.Return) {
			enabled, _, rc := h.GetGspFirmwareMode()
			return []int64{flag01(enabled)}, rc
		})
	v.set(report.GSPFirmware, v.words("nvmlDeviceGetGspFirmwareVersion", h.GetGspFirmwareVersion))
	v.set(report.VBIOS, v.words("nvmlDeviceGetVbiosVersion", h.GetVbiosVersion))
	v.set(report.InfoROM, v.words("nvmlDeviceGetInforomImageVersion", h.GetInforomImageVersion))
	v.number(report.Architecture, "nvmlDeviceGetArchitecture", func() (int64, nvml.Return) {
		return of(h.GetArchitecture())
	})
	v.several("nvmlDeviceGetMemoryInfo", []report.Signal{report.MemoryTotal, report.MemoryUsed},
		[]string{"total", "used", "free"}, func() ([]int64, nvml.Return) {
			memory, rc := h.GetMemoryInfo()
			return []int64{signed(memory.Total), signed(memory.Used), signed(memory.Free)}, rc
		})
	v.activity()
	v.processes()
	v.rarely()
	if on, ok := v.out.Value(report.MIGMode); ok && on == 1 {
		v.instances()
	}
}
