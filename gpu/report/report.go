// Package report has the types of a node's reports about its GPUs: one sample of gpuaas-gpu-probe, and raw events.
//
// It judges nothing: no type here has a value for a healthy GPU. A signal is a value, or the reason why there is none:
// "the driver does not support it", "the call failed" and "it was not asked" are distinct reasons, and distinct from
// zero. The probe writes samples; the agent writes events, from samples, the kernel log and the probe's own state. The
// agent, the platform, policies and hop 18 read them. It reads no driver, no log and no clock.
package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Head of every document of this package.
const (
	APIVersion = "gpuaas/v1"
	KindSample = "GPUSample"
	KindEvent  = "GPUEvent"
)

// Limits of one document. The largest sample has 16 GPUs with every signal.
const (
	MaxSample = 256 << 10 // bytes
	MaxEvent  = 4 << 10   // bytes: the wire's limit for the detail of an event (wire.MaxEventDetail)
	MaxGPUs   = 64
	maxText   = 256 // bytes of a text value, such as a version or a name
	maxMIG    = 64  // per GPU
	maxLinks  = 64
)

// Sample is one reading of all GPUs of a node.
type Sample struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at"`
	TookMS     int64     `json:"took_ms"`
	Library    Library   `json:"library"`
	// Count is the driver's number of GPUs. GPUs has those whose handle was requested: as many as Count if that is a
	// value, else none.
	Count Reading `json:"count"`
	GPUs  []GPU   `json:"gpus,omitempty"`
	// Elsewhere are NVIDIA GPUs on the PCI bus that NVIDIA's driver is not bound to, each with the driver that is:
	// "0000:3b:00.0 (vfio-pci)" for a GPU that is passed through to a virtual machine.
	Elsewhere []string `json:"elsewhere,omitempty"`
}

// Others describes the GPUs bound to other drivers; "" if there are none.
func (s *Sample) Others() string {
	if len(s.Elsewhere) == 0 {
		return ""
	}
	return "NVIDIA's driver does not have " + strings.Join(s.Elsewhere, ", ")
}

// ExitReloaded is the probe's exit code if the driver was unloaded or reloaded while it ran.
const ExitReloaded = 4

// Library is the state of the driver's library.
type Library struct {
	State  LibraryState `json:"state"`
	Code   int          `json:"rc,omitempty"`     // NVML's return code of Init, if not 0
	Path   string       `json:"path,omitempty"`   // if a library other than the system's was requested
	Why    string       `json:"why,omitempty"`    // for a library that cannot be loaded, the loader's message
	Driver Reading      `json:"driver"`           // version, text
	NVML   Reading      `json:"nvml"`             // version of the library, text
	CUDA   Reading      `json:"cuda"`             // the version that the driver supports, 12020 for 12.2
	Absent []string     `json:"absent,omitempty"` // symbols used by the probe that the library lacks
}

// LibraryState is whether the driver's library can be queried.
type LibraryState string

// States of the library. All but Loaded mean that nothing is known about any GPU.
const (
	Loaded          LibraryState = "loaded"
	LibraryNotFound LibraryState = "library_not_found" // Init's 12: no such file, or it cannot be loaded
	DriverNotLoaded LibraryState = "driver_not_loaded" // Init's 9: the library exists, but the kernel module is not loaded
	InitFailed      LibraryState = "init_failed"       // any other code of Init
	BuiltWithout    LibraryState = "built_without"     // the probe was built without NVML
)

// GPU is one GPU as the driver reports it.
type GPU struct {
	Index  int     `json:"index"`
	UUID   string  `json:"uuid,omitempty"`
	PCI    string  `json:"pci,omitempty"` // 0000:3b:00.0
	Name   string  `json:"name,omitempty"`
	Handle Reading `json:"handle"` // value 1, or why there is no handle
	MIG    []MIG   `json:"mig,omitempty"`
	// Signals has a reading for every signal of the table Signals.
	Signals map[Signal]Reading `json:"signals,omitempty"`
	// LinksDown are the GPU's NVLinks that are not active.
	LinksDown []int `json:"nvlinks_down,omitempty"`
	// Refusals are the calls that were refused for a reason that concerns the whole GPU, whether or not a signal has
	// their answer: the first of each return code.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Links is where the GPU's NVLinks lead, Peers how its PCIe paths to the other GPUs run. Neither is read of a node
	// with more than MaxListed GPUs.
	Links []Link `json:"nvlinks_to,omitempty"`
	Peers []Peer `json:"peers,omitempty"`
	// Processes are those that the signals of processes count, at most MaxProcesses of them.
	Processes []Process `json:"processes,omitempty"`
}

// Value returns the number of a signal; false if the GPU has none.
func (g *GPU) Value(s Signal) (int64, bool) { return g.Signals[s].Number() }

func sampleLimits() bounded.Limits {
	return bounded.Limits{Bytes: MaxSample, Elements: 8_000, Values: 40_000, Depth: 8}
}

// DecodeSample decodes one sample: no trailing data, every rule of Check. It leaves out fields and signals that this
// build does not know, since a newer probe may have written them.
func DecodeSample(line []byte) (*Sample, error) {
	var s Sample
	if err := bounded.Unmarshal(line, &s, sampleLimits()); err != nil {
		return nil, fmt.Errorf("decode a GPU sample: %w", err)
	}
	for i := range s.GPUs {
		s.GPUs[i].ForgetUnknown()
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("check a GPU sample: %w", err)
	}
	return &s, nil
}

// ForgetUnknown drops the signals that this build does not know.
func (g *GPU) ForgetUnknown() {
	for name := range g.Signals {
		if _, known := name.Info(); !known {
			delete(g.Signals, name)
		}
	}
}

// Check reports whether a sample is valid.
func (s *Sample) Check() error {
	if s.APIVersion != APIVersion || s.Kind != KindSample {
		return fmt.Errorf("it is %q %q, want %q %q", s.APIVersion, s.Kind, APIVersion, KindSample)
	}
	if s.At.IsZero() || s.TookMS < 0 {
		return errors.New("it has no time")
	}
	if len(s.Elsewhere) > MaxGPUs || !short(s.Elsewhere...) {
		return errors.New("it has too many GPUs of other drivers")
	}
	if err := s.Library.check(); err != nil {
		return err
	}
	if err := s.Count.check(); err != nil {
		return fmt.Errorf("count: %w", err)
	}
	n, known := s.Count.Number()
	switch {
	case known && s.Library.State != Loaded:
		return fmt.Errorf("it counts GPUs, and the library is %s", s.Library.State)
	case known && (n < 0 || n > MaxGPUs):
		return fmt.Errorf("%d GPUs, at most %d", n, MaxGPUs)
	case int64(len(s.GPUs)) != n:
		return fmt.Errorf("%d GPUs are listed, and the driver counted %s", len(s.GPUs), s.Count)
	}
	for i := range s.GPUs {
		if err := s.GPUs[i].check(); err != nil {
			return fmt.Errorf("GPU %d: %w", i, err)
		}
		if s.GPUs[i].Index != i {
			return fmt.Errorf("GPU %d has the index %d", i, s.GPUs[i].Index)
		}
	}
	return nil
}

func (l *Library) check() error {
	switch l.State {
	case Loaded, BuiltWithout:
		if l.Code != 0 {
			return fmt.Errorf("the library is %s with code %d", l.State, l.Code)
		}
	case LibraryNotFound, DriverNotLoaded, InitFailed:
		if l.Code == 0 {
			return fmt.Errorf("the library is %s without a code", l.State)
		}
	default:
		return fmt.Errorf("unknown state of the library %q", l.State)
	}
	if len(l.Absent) > 1000 || len(l.Path) > 4096 || !short(l.Why) || !short(l.Absent...) {
		return errors.New("the library has texts that are too long")
	}
	return errors.Join(l.Driver.check(), l.NVML.check(), l.CUDA.check())
}

func (g *GPU) check() error {
	if !short(g.UUID, g.PCI, g.Name) || len(g.MIG) > maxMIG || len(g.LinksDown) > maxLinks {
		return errors.New("its identity is too long")
	}
	if err := g.checkDetails(); err != nil {
		return err
	}
	if err := g.Handle.check(); err != nil {
		return fmt.Errorf("handle: %w", err)
	}
	if g.Index < 0 || g.Index >= MaxGPUs {
		return fmt.Errorf("its index is %d", g.Index)
	}
	for _, n := range g.LinksDown {
		if n < 0 || n >= maxLinks {
			return fmt.Errorf("its NVLink %d", n)
		}
	}
	for name, r := range g.Signals {
		if _, ok := name.Info(); !ok {
			return fmt.Errorf("unknown signal %q", name)
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// short reports whether all texts are UTF-8 within the maximum length.
func short(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(t string) bool { return len(t) > maxText || !utf8.ValidString(t) })
}
