package report

// Signal names one value that is read from a GPU.
type Signal string

// Sort is how the values of a signal behave.
type Sort string

// Sorts of signals.
const (
	State   Sort = "state"   // an enumeration or a flag: each change is worth an event
	Fact    Sort = "fact"    // part of the GPU's configuration: comparable between GPUs and nodes
	Counter Sort = "counter" // only grows, until a reset, a reboot or a driver reload
	Gauge   Sort = "gauge"   // changes all the time
)

// Info is a row of the table of signals.
type Info struct {
	Signal Signal `json:"signal"`
	Sort   Sort   `json:"sort"`
	Unit   string `json:"unit,omitempty"` // "" for a number without one; "flag" for 0 and 1
	What   string `json:"what"`
}

// The signals. "volatile" is since the driver was loaded, "aggregate" over the life of the GPU.
const (
	RecoveryAction Signal = "recovery_action"
	ResetRequired  Signal = "reset_required"
	DrainAndReset  Signal = "drain_and_reset_recommended"

	ECCMode          Signal = "ecc_mode"
	ECCModePending   Signal = "ecc_mode_pending"
	ECCDBEVolatile   Signal = "ecc_dbe_volatile"
	ECCDBEAggregate  Signal = "ecc_dbe_aggregate"
	ECCSBEVolatile   Signal = "ecc_sbe_volatile"
	ECCSBEAggregate  Signal = "ecc_sbe_aggregate"
	DRAMDBEVolatile  Signal = "dram_dbe_volatile"
	DRAMDBEAggregate Signal = "dram_dbe_aggregate"
	SRAMDBEVolatile  Signal = "sram_dbe_volatile"
	SRAMDBEAggregate Signal = "sram_dbe_aggregate"
	SRAMThreshold    Signal = "sram_threshold_exceeded"

	RemapCorrectable   Signal = "remapped_rows_correctable"
	RemapUncorrectable Signal = "remapped_rows_uncorrectable"
	RemapPending       Signal = "remapped_rows_pending"
	RemapFailure       Signal = "remapped_rows_failure"
	RetiredSBE         Signal = "retired_pages_sbe"
	RetiredDBE         Signal = "retired_pages_dbe"
	RetiredPending     Signal = "retired_pages_pending"

	NVLinks              Signal = "nvlinks"
	NVLinksActive        Signal = "nvlinks_active"
	NVLinkReplayErrors   Signal = "nvlink_replay_errors"
	NVLinkRecoveryErrors Signal = "nvlink_recovery_errors"
	NVLinkCRCErrors      Signal = "nvlink_crc_errors"

	PCIeReplays  Signal = "pcie_replays"
	PCIeGen      Signal = "pcie_gen"
	PCIeGenMax   Signal = "pcie_gen_max"
	PCIeWidth    Signal = "pcie_width"
	PCIeWidthMax Signal = "pcie_width_max"

	Temperature         Signal = "temperature"
	TemperatureMargin   Signal = "temperature_margin"
	TemperatureMemory   Signal = "temperature_memory"
	TemperatureSlowdown Signal = "temperature_slowdown"
	TemperatureShutdown Signal = "temperature_shutdown"
	SlowdownTLimit      Signal = "temperature_slowdown_tlimit"
	ShutdownTLimit      Signal = "temperature_shutdown_tlimit"
	ClocksEventReasons  Signal = "clocks_event_reasons"
	Power               Signal = "power"
	PowerLimit          Signal = "power_limit"

	Utilization       Signal = "utilization"
	MemoryUtilization Signal = "memory_utilization"
	ClockSM           Signal = "clock_sm"
	ClockMemory       Signal = "clock_memory"
	ClockSMMax        Signal = "clock_sm_max"
	ClockMemoryMax    Signal = "clock_memory_max"
	ComputeProcesses  Signal = "compute_processes"
	GraphicsProcesses Signal = "graphics_processes"
	MPSProcesses      Signal = "mps_processes"

	FabricState  Signal = "fabric_state"
	FabricStatus Signal = "fabric_status"
	FabricHealth Signal = "fabric_health_mask"

	PersistenceMode Signal = "persistence_mode"
	MIGMode         Signal = "mig_mode"
	MIGModePending  Signal = "mig_mode_pending"
	GSPMode         Signal = "gsp_mode"
	GSPFirmware     Signal = "gsp_firmware"
	VBIOS           Signal = "vbios"
	InfoROM         Signal = "inforom"
	Architecture    Signal = "architecture"
	MemoryTotal     Signal = "memory_total"
	MemoryUsed      Signal = "memory_used"
	MemoryReserved  Signal = "memory_reserved"
	Serial          Signal = "serial"
)

// Signals returns the table, in the order in which the probe reads: the driver's own verdict on the GPU first.
func Signals() []Info {
	return []Info{
		{RecoveryAction, State, "", "what the driver asks for to recover this GPU; see ActionOf"},
		{ResetRequired, State, "flag", "the GPU must be reset before it can be used"},
		{DrainAndReset, State, "flag", "the driver recommends a reset once the workloads have ended"},
		{ECCMode, Fact, "flag", "ECC is on"},
		{ECCModePending, Fact, "flag", "ECC is on after the next reboot"},
		{ECCDBEVolatile, Counter, "errors", "uncorrected memory errors, volatile"},
		{ECCDBEAggregate, Counter, "errors", "uncorrected memory errors, aggregate"},
		{ECCSBEVolatile, Counter, "errors", "corrected memory errors, volatile"},
		{ECCSBEAggregate, Counter, "errors", "corrected memory errors, aggregate"},
		{DRAMDBEVolatile, Counter, "errors", "uncorrected errors of the device memory, volatile"},
		{DRAMDBEAggregate, Counter, "errors", "uncorrected errors of the device memory, aggregate"},
		{SRAMDBEVolatile, Counter, "errors", "uncorrected errors of the SRAM, volatile"},
		{SRAMDBEAggregate, Counter, "errors", "uncorrected errors of the SRAM, aggregate"},
		{SRAMThreshold, State, "flag", "the SRAM's uncorrected errors are over NVIDIA's limit for a replacement"},
		{RemapCorrectable, Counter, "rows", "rows remapped after corrected errors"},
		{RemapUncorrectable, Counter, "rows", "rows remapped after uncorrected errors"},
		{RemapPending, State, "flag", "a row is remapped at the next reset; running workloads are not affected"},
		{RemapFailure, State, "flag", "a row could not be remapped"},
		{RetiredSBE, Counter, "pages", "pages retired after several corrected errors"},
		{RetiredDBE, Counter, "pages", "pages retired after an uncorrected error"},
		{RetiredPending, State, "flag", "a page is retired at the next reboot"},
		{NVLinks, Fact, "links", "NVLinks that the GPU has"},
		{NVLinksActive, State, "links", "NVLinks that are active"},
		{NVLinkReplayErrors, Counter, "errors", "replays, of all links"},
		{NVLinkRecoveryErrors, Counter, "errors", "recoveries, of all links"},
		{NVLinkCRCErrors, Counter, "errors", "CRC errors of flits, of all links"},
		{PCIeReplays, Counter, "replays", "replays of the PCIe link"},
		{PCIeGen, Gauge, "", "generation of the PCIe link now; an idle GPU lowers it"},
		{PCIeGenMax, Fact, "", "highest generation of the PCIe link here"},
		{PCIeWidth, State, "lanes", "width of the PCIe link now"},
		{PCIeWidthMax, Fact, "lanes", "largest width of the PCIe link here"},
		{Temperature, Gauge, "C", "of the GPU"},
		{TemperatureMargin, Gauge, "C", "how much hotter the GPU may become before it slows down"},
		{TemperatureMemory, Gauge, "C", "of the memory"},
		{TemperatureSlowdown, Fact, "C", "at which the GPU slows down; newer GPUs have SlowdownTLimit instead"},
		{TemperatureShutdown, Fact, "C", "at which the GPU stops; newer GPUs have ShutdownTLimit instead"},
		{SlowdownTLimit, Fact, "C", "the margin at which the GPU slows down, usually negative"},
		{ShutdownTLimit, Fact, "C", "the margin at which the GPU stops, usually negative"},
		{ClocksEventReasons, State, "mask", "why the clocks are lower than they could be; bits as HWSlowdown"},
		{Power, Gauge, "mW", "drawn"},
		{PowerLimit, Fact, "mW", "that is enforced"},
		{Utilization, Gauge, "%", "of the last sampling period, the time in which a kernel ran"},
		{MemoryUtilization, Gauge, "%", "of the last sampling period, the time in which memory was read or written"},
		{ClockSM, Gauge, "MHz", "of the multiprocessors; an idle GPU lowers it"},
		{ClockMemory, Gauge, "MHz", "of the memory"},
		{ClockSMMax, Fact, "MHz", "highest clock of the multiprocessors"},
		{ClockMemoryMax, Fact, "MHz", "highest clock of the memory"},
		{ComputeProcesses, Gauge, "processes", "processes that compute on the GPU"},
		{GraphicsProcesses, Gauge, "processes", "processes that draw on the GPU"},
		{MPSProcesses, Gauge, "processes", "clients of the GPU's MPS server"},
		{FabricState, State, "", "1 not started, 2 in progress, 3 completed; 0 not supported"},
		{FabricStatus, State, "", "NVML's return code of the fabric's registration; 0 success"},
		{FabricHealth, State, "mask", "the fabric's own health mask"},
		{PersistenceMode, Fact, "flag", "the driver stays loaded without a client"},
		{MIGMode, Fact, "flag", "MIG is on"},
		{MIGModePending, Fact, "flag", "MIG is on after the next reset"},
		{GSPMode, Fact, "flag", "the GPU's system processor runs the driver's firmware"},
		{GSPFirmware, Fact, "text", "version of that firmware"},
		{VBIOS, Fact, "text", "version of the VBIOS"},
		{InfoROM, Fact, "text", "version of the InfoROM's image"},
		{Architecture, Fact, "", "NVML's number of the architecture: 6 Turing, 7 Ampere, 8 Ada, 9 Hopper, 10 Blackwell"},
		{MemoryTotal, Fact, "bytes", "of the device memory"},
		{MemoryUsed, Gauge, "bytes", "of the device memory, with what the driver reserves"},
		{MemoryReserved, Gauge, "bytes", "of the device memory, what the driver reserves for itself"},
		{Serial, Fact, "text", "serial number of the board; private, see Private"},
	}
}

// Info returns the signal's row; false for a name that is not in the table.
func (s Signal) Info() (Info, bool) {
	for _, i := range Signals() {
		if i.Signal == s {
			return i, true
		}
	}
	return Info{}, false
}

// Private reports whether the signal's value identifies the hardware to others: exports leave it out.
func (s Signal) Private() bool { return s == Serial }

// Action is the driver's request for recovering a GPU.
type Action string

// Actions of the driver's own enumeration.
const (
	ActionNone          Action = "none"
	ActionReset         Action = "gpu_reset"
	ActionReboot        Action = "node_reboot"
	ActionDrainP2P      Action = "drain_p2p"
	ActionDrainAndReset Action = "drain_and_reset"
	ActionRecoverIMEX   Action = "recover_imex_domain" // for the whole domain, not for this GPU
	ActionUnknown       Action = "unknown"             // a number that this build does not know: never "none"
)

// ActionOf returns the action for the driver's number.
func ActionOf(n int64) Action {
	words := [...]Action{ActionNone, ActionReset, ActionReboot, ActionDrainP2P, ActionDrainAndReset, ActionRecoverIMEX}
	if n < 0 || n >= int64(len(words)) {
		return ActionUnknown
	}
	return words[n]
}

// Bits of ClocksEventReasons that mean a hardware slowdown. The others are caused by the workload or the operator.
const (
	HWSlowdown        = 0x08 // one of the next two, or another hardware reason
	HWThermalSlowdown = 0x40
	HWPowerBrake      = 0x80
	SWThermalSlowdown = 0x20
)
