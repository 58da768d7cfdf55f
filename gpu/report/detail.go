package report

import (
	"errors"
	"fmt"
)

// Limits of what is listed about a GPU.
const (
	MaxListed    = 16  // GPUs of a node up to which Links and Peers are read
	MaxProcesses = 32  // of one GPU
	AllProcesses = 256 // of all GPUs of a sample
	MaxRefusals  = 16  // of one GPU
)

// MIG is one instance of a divided GPU.
type MIG struct {
	UUID            string `json:"uuid"`
	GPUInstance     int    `json:"gpu_instance"`
	ComputeInstance int    `json:"compute_instance"`
	Profile         string `json:"profile,omitempty"` // "1g.10gb"; "" if the driver did not name it
	Memory          *int64 `json:"memory,omitempty"`  // bytes; absent if it could not be read
}

// Refusal is a call that was refused with a return code that has a meaning for the whole GPU, see CodeOf.
type Refusal struct {
	Call string `json:"call"`
	Code int    `json:"rc"`
}

// Link is one active NVLink.
type Link struct {
	Link   int     `json:"link"`
	Remote Reading `json:"remote"` // text: the PCI address of its other end, 0000:84:00.0
	Type   Reading `json:"type"`   // text: a LinkEnd
}

// LinkEnd is what is at the other end of an NVLink.
type LinkEnd string

// Ends of NVLinks.
const (
	EndGPU    LinkEnd = "gpu"
	EndSwitch LinkEnd = "switch"
	EndCPU    LinkEnd = "cpu" // IBM's
)

// Peer is the PCIe path to another GPU of the node. Each pair is listed once, at the GPU with the lower index.
type Peer struct {
	GPU  int     `json:"gpu"`  // its index
	Path Reading `json:"path"` // text: a Path
}

// Path is what two GPUs have in common on their PCIe paths, in the letters of `nvidia-smi topo`.
type Path string

// Paths, the closest first.
const (
	PathBoard  Path = "PSB"  // both are on one board
	PathBridge Path = "PIX"  // at most one PCIe bridge
	PathNested Path = "PXB"  // several PCIe bridges, and no host bridge
	PathHost   Path = "PHB"  // a PCIe host bridge
	PathNode   Path = "NODE" // host bridges of one NUMA node
	PathSystem Path = "SYS"  // the interconnect between NUMA nodes
)

// ProcessType is how a process uses a GPU.
type ProcessType string

// Types of processes.
const (
	Compute  ProcessType = "compute"
	Graphics ProcessType = "graphics"
	MPS      ProcessType = "mps" // a client of the MPS server
)

// Process is one process on a GPU. Its owner chooses its name. Name, UID and User are private: exports leave them out.
type Process struct {
	PID             int         `json:"pid"`
	Type            ProcessType `json:"type"`
	Memory          *int64      `json:"memory,omitempty"` // bytes of the device memory; absent if the driver does not know
	GPUInstance     *int        `json:"gpu_instance,omitempty"`
	ComputeInstance *int        `json:"compute_instance,omitempty"`
	Name            string      `json:"name,omitempty"` // the kernel's, at most 15 bytes; "" if it could not be read
	UID             *int        `json:"uid,omitempty"`  // as the node counts
	User            string      `json:"user,omitempty"` // of UID in the node's own list of users; "" if it has none
}

// Lost reports whether any call about the GPU returned GPUIsLost.
func (g *GPU) Lost() bool {
	if _, ok := g.refused(GPUIsLost); ok {
		return true
	}
	for _, r := range g.Signals {
		if r.NotAsked == WasLost { // the call may have been one for its name
			return true
		}
	}
	return false
}

// MustReset reports whether the GPU must be reset, by its signal ResetRequired or because a call returned NeedsReset,
// and the name of that call if it is known.
func (g *GPU) MustReset() (call string, must bool) {
	if call, must = g.refused(NeedsReset); must {
		return call, true
	}
	n, _ := g.Value(ResetRequired)
	return "", n != 0
}

// refused reports whether any call about the GPU returned the code, and the name of that call if it is known.
func (g *GPU) refused(code int) (call string, ok bool) {
	for _, r := range g.Refusals {
		if r.Code == code {
			return r.Call, true
		}
	}
	if g.Handle.FailedWith(code) {
		return "nvmlDeviceGetHandleByIndex", true
	}
	for _, r := range g.Signals {
		if r.FailedWith(code) {
			return "", true
		}
	}
	return "", false
}

// Public returns the GPU without what is private: serial number, names and users of processes.
func (g GPU) Public() GPU {
	signals := make(map[Signal]Reading, len(g.Signals))
	for name, r := range g.Signals {
		if !name.Private() {
			signals[name] = r
		}
	}
	processes := make([]Process, len(g.Processes))
	for i, p := range g.Processes {
		p.Name, p.UID, p.User = "", nil, ""
		processes[i] = p
	}
	g.Signals, g.Processes = signals, processes
	return g
}

// Brief returns what an event has of the GPU: what is public, without the lists that only the node's sample has.
func (g GPU) Brief() GPU {
	g = g.Public()
	g.Links, g.Peers, g.Processes = nil, nil, nil
	mig := make([]MIG, len(g.MIG))
	for i, m := range g.MIG {
		mig[i] = MIG{UUID: m.UUID, GPUInstance: m.GPUInstance, ComputeInstance: m.ComputeInstance}
	}
	g.MIG = mig
	return g
}

func (g *GPU) checkDetails() error {
	if len(g.Refusals) > MaxRefusals || len(g.Links) > maxLinks || len(g.Peers) > MaxListed ||
		len(g.Processes) > MaxProcesses {
		return errors.New("it lists too much")
	}
	for _, m := range g.MIG {
		if m.UUID == "" || !short(m.UUID, m.Profile) || m.GPUInstance < 0 || m.ComputeInstance < 0 ||
			negative(m.Memory) {
			return fmt.Errorf("instance of MIG %+v", m)
		}
	}
	for _, r := range g.Refusals {
		if !short(r.Call) || r.Code <= 0 || r.Code == notSupported {
			return fmt.Errorf("refusal %+v", r)
		}
	}
	for _, l := range g.Links {
		if err := errors.Join(l.Remote.check(), l.Type.check()); err != nil || l.Link < 0 || l.Link >= maxLinks {
			return fmt.Errorf("its NVLink %d: %w", l.Link, err)
		}
	}
	for _, p := range g.Peers {
		if err := p.Path.check(); err != nil || p.GPU < 0 || p.GPU >= MaxGPUs {
			return fmt.Errorf("its path to GPU %d: %w", p.GPU, err)
		}
	}
	for _, p := range g.Processes {
		if p.PID < 0 || !short(string(p.Type), p.Name, p.User) || negative(p.Memory) {
			return fmt.Errorf("its process %d", p.PID)
		}
	}
	return nil
}

func negative(n *int64) bool { return n != nil && *n < 0 }
