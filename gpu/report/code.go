package report

import "fmt"

// CodeInfo is a row of the table of NVML's return codes.
type CodeInfo struct {
	Code  int     `json:"code"`
	Name  string  `json:"name"`  // NVML's, without the prefix NVML_ERROR_
	Means string  `json:"means"` // in words
	Do    string  `json:"do,omitempty"`
	Who   Who     `json:"who,omitempty"`
	About Concern `json:"about"`
}

// Who can repair it.
type Who string

// Those who can.
const (
	ByNode     Who = "node administrator" // root on the node, or who runs its container
	ByHardware Who = "hardware support"
	ByTool     Who = "gpuaasctl's developers"
)

// Concern is what a refusal says something about.
type Concern string

// Concerns of refusals.
const (
	AboutCall   Concern = "call"   // this one value alone
	AboutGPU    Concern = "gpu"    // something is wrong with the GPU, and its other answers still hold
	AboutAnswer Concern = "driver" // no answer about the GPU, or about any GPU, can be relied on until it is repaired
)

// NVML's return codes that are a verdict on the GPU: they outweigh every other answer about it.
const (
	GPUIsLost  = 15 // the driver can no longer reach it; libraries continue to answer other calls from memory
	NeedsReset = 16 // it must be reset before it can be used
)

// NVML's return codes of a driver that cannot be used.
const (
	NotLoaded     = 9  // its kernel module is not loaded
	VersionsApart = 18 // the library is of another version
)

// Codes returns the table of NVML's return codes other than 0, in their order.
func Codes() []CodeInfo {
	return []CodeInfo{
		{1, "UNINITIALIZED", "the library is not initialised", "start the probe again", ByNode, AboutAnswer},
		{2, "INVALID_ARGUMENT", "the driver does not know what was asked for", "", "", AboutCall},
		{3, "NOT_SUPPORTED", "this GPU or driver does not support it", "", "", AboutCall},
		{4, "NO_PERMISSION", "this user or container has no permission for it",
			"run as root, or give access to /dev/nvidiactl and /dev/nvidia*", ByNode, AboutCall},
		{5, "ALREADY_INITIALIZED", "the library is already initialised", "", "", AboutCall},
		{6, "NOT_FOUND", "there is none", "", "", AboutCall},
		{7, "INSUFFICIENT_SIZE", "the answer is longer than expected", "", "", AboutCall},
		{8, "INSUFFICIENT_POWER", "the GPU's power cables are not properly attached",
			"power the node off, and attach them", ByHardware, AboutAnswer},
		{NotLoaded, "DRIVER_NOT_LOADED", "the driver's kernel module is not loaded",
			"load it with modprobe nvidia; the kernel log says why if that fails", ByNode, AboutAnswer},
		{10, "TIMEOUT", "the driver did not answer in time", "", "", AboutCall},
		{11, "IRQ_ISSUE", "the kernel does not get the GPU's interrupts",
			"see the kernel log, and reboot; check the BIOS's settings if it stays", ByNode, AboutAnswer},
		{12, "LIBRARY_NOT_FOUND", "the driver's library libnvidia-ml.so.1 cannot be loaded",
			"install the driver's libraries, or mount them into the container", ByNode, AboutAnswer},
		{13, "FUNCTION_NOT_FOUND", "the library lacks the function", "install a newer driver", ByNode, AboutCall},
		{14, "CORRUPTED_INFOROM", "the InfoROM of the GPU is corrupted",
			"update or repair the InfoROM, or have the GPU replaced", ByHardware, AboutGPU},
		{GPUIsLost, "GPU_IS_LOST", "the driver cannot reach the GPU any more",
			"reboot the node; have the GPU replaced if it is lost again", ByNode, AboutAnswer},
		{NeedsReset, "RESET_REQUIRED", "the GPU must be reset before it can be used",
			"end what uses it, and reset it with nvidia-smi --gpu-reset, or reboot the node", ByNode, AboutAnswer},
		{17, "OPERATING_SYSTEM", "the operating system or a control group blocks the device nodes",
			"give access to /dev/nvidiactl and /dev/nvidia*", ByNode, AboutAnswer},
		{VersionsApart, "LIB_RM_VERSION_MISMATCH", "driver and library are of two versions",
			"reboot, or reload the driver", ByNode, AboutAnswer},
		{19, "IN_USE", "the GPU is in use", "", "", AboutCall},
		{20, "MEMORY", "there was not enough memory", "free memory of the node", ByNode, AboutCall},
		{21, "NO_DATA", "there is no data yet", "", "", AboutCall},
		{22, "VGPU_ECC_NOT_SUPPORTED", "virtual GPUs do not support it while ECC is on", "", "", AboutCall},
		{23, "INSUFFICIENT_RESOURCES", "the driver has run out of a resource other than memory",
			"end what uses the GPU, and reset it, or reboot the node", ByNode, AboutGPU},
		{24, "FREQ_NOT_SUPPORTED", "the frequency is not supported", "", "", AboutCall},
		{25, "ARGUMENT_VERSION_MISMATCH", "this driver has another version of the structure", "update gpuaasctl", ByTool,
			AboutCall},
		{26, "DEPRECATED", "the driver no longer answers this", "", "", AboutCall},
		{27, "NOT_READY", "the driver is not ready yet", "try again later", ByNode, AboutCall},
		{28, "GPU_NOT_FOUND", "no GPU was found", "check that the GPUs are on the PCI bus, and bound to the driver", ByNode,
			AboutAnswer},
		{29, "INVALID_STATE", "the GPU is not in a state in which this can be asked", "", "", AboutCall},
		{30, "RESET_TYPE_NOT_SUPPORTED", "the GPU does not support this kind of reset", "", "", AboutCall},
		{999, "UNKNOWN", "an internal error of the driver", "see the kernel log; reboot if it stays", ByNode, AboutGPU},
	}
}

// CodeOf returns the row of an NVML return code. A code that the table lacks is about the GPU: it may be one of
// those that are.
func CodeOf(code int) CodeInfo {
	for _, row := range Codes() {
		if row.Code == code {
			return row
		}
	}
	return CodeInfo{Code: code, Name: fmt.Sprint(code), Means: "a code that this build does not know", About: AboutGPU}
}

// Explain returns a return code in words, with the repair if there is one: "driver and library are of two versions
// (NVML's return code 18): reboot, or reload the driver".
func Explain(code int) string {
	row := CodeOf(code)
	if row.Do == "" {
		return row.Words()
	}
	return row.Words() + ": " + row.Do
}

// Words returns what the code means, without the repair.
func (c CodeInfo) Words() string { return fmt.Sprintf("%s (NVML's return code %d)", c.Means, c.Code) }

// Why describes a reading that has no value, with the words of its return code.
func (r Reading) Why() string {
	if r.Failed != 0 {
		return Explain(r.Failed)
	}
	return r.String()
}
