package diag

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// GPUFacts is what a node knows about its own GPUs: the state file that its agent keeps, and what the kernel shows. It
// contains no judgement.
type GPUFacts struct {
	Path string `json:"path"`
	// when the agent wrote the file; absent without a readable file
	WrittenAt Time `json:"written_at,omitzero"`
	// the file was written in an earlier boot, so it shows nothing about the present
	EarlierBoot bool `json:"earlier_boot,omitempty"`

	Probe    string `json:"probe,omitempty"` // sampling | unknown | stuck | ended | missing | unstartable | garbled
	ProbeAt  Time   `json:"probe_at,omitzero"`
	ProbeWhy string `json:"probe_why,omitempty"`

	SampledAt Time        `json:"sampled_at,omitzero"`
	AgeMS     *int64      `json:"sample_age_ms,omitempty"` // by the node's clock
	Library   string      `json:"library,omitempty"`       // of the driver library: "loaded", or why not
	Driver    *GPUReading `json:"driver,omitempty"`        // version
	NVML      *GPUReading `json:"nvml,omitempty"`          // version of the library
	CUDA      *GPUReading `json:"cuda,omitempty"`          // the version that the driver supports, 12020 for 12.2
	Module    string      `json:"module,omitempty"`        // version of the kernel module; absent if none is loaded
	Count     *GPUReading `json:"count,omitempty"`         // as the driver counts
	// number of GPUs that the node should have; absent: not configured
	Expected *int        `json:"expected,omitempty"`
	GPUs     []GPUDevice `json:"gpus,omitempty"`

	KernelLog *KernelLogFacts `json:"kernel_log,omitempty"`
	// errors of this boot that the driver reported, the newest of ErrorCount
	Errors     []GPUError `json:"errors,omitempty"`
	ErrorCount int        `json:"error_count,omitempty"`

	// on request: everything as raw events, for a policy
	Evidence []json.RawMessage `json:"evidence,omitempty"`
}

// GPUReading is one value read from a GPU: exactly one of its fields is set.
type GPUReading struct {
	Value        *int64  `json:"value,omitempty" bounded:"signed"`
	Text         *string `json:"text,omitempty"`
	NotSupported bool    `json:"not_supported,omitempty"` // this GPU or driver does not support it
	Failed       int     `json:"failed,omitempty"`        // NVML's return code
	NotAsked     string  `json:"not_asked,omitempty"`     // why it was not asked
}

// Words is the reading for people; "" if there is none.
func (r *GPUReading) Words() string {
	switch {
	case r == nil:
		return ""
	case r.Value != nil:
		return strconv.FormatInt(*r.Value, 10)
	case r.Text != nil:
		return *r.Text
	case r.NotSupported:
		return "not supported"
	case r.Failed != 0:
		return fmt.Sprintf("failed (%d)", r.Failed)
	case r.NotAsked != "":
		return "not asked (" + r.NotAsked + ")"
	}
	return ""
}

// Number returns the reading's value, and whether it has one.
func (r *GPUReading) Number() (int64, bool) {
	if r == nil || r.Value == nil {
		return 0, false
	}
	return *r.Value, true
}

// GPUDevice is one GPU of the last sample. Config is its identity and configuration, which can be compared between GPUs
// and nodes; State is its current state.
type GPUDevice struct {
	Index     int                   `json:"index"`
	UUID      string                `json:"uuid,omitempty"`
	PCI       string                `json:"pci,omitempty"`
	Name      string                `json:"name,omitempty"`
	Lost      bool                  `json:"lost,omitempty"` // the driver can no longer reach it
	Handle    *GPUReading           `json:"handle,omitempty"`
	MIG       int                   `json:"mig_instances,omitempty"`
	LinksDown []int                 `json:"nvlinks_down,omitempty"`
	Config    map[string]GPUReading `json:"config,omitempty"`
	State     map[string]GPUReading `json:"state,omitempty"`
}

// KernelLogFacts is the part of the kernel log that was searched for GPU errors.
type KernelLogFacts struct {
	From  Time   `json:"from,omitzero"`
	Until Time   `json:"until,omitzero"`
	Blind string `json:"blind,omitempty"` // why it cannot be read now
	Lost  uint64 `json:"lost,omitempty"`  // records that were not read
	// ReadOn: the agent had not read all of it, so this measurement read the rest. Why is why.
	ReadOn bool   `json:"read_on,omitempty"`
	Why    string `json:"why,omitempty"`
}

// GPUError is one error that the driver reported.
type GPUError struct {
	At    Time   `json:"at,omitzero"`
	What  string `json:"what"` // "xid 79", "sxid 12028", "lost", "recovery_action gpu_reset"
	PCI   string `json:"pci,omitempty"`
	UUID  string `json:"uuid,omitempty"`
	Times int64  `json:"times,omitempty"`
	Text  string `json:"text,omitempty"`
}

// Words returns a line for the driver, for each GPU and for each error.
func (g *GPUFacts) Words() []Line {
	age, expected := "", ""
	if g.AgeMS != nil {
		age = "sampled " + Millis(*g.AgeMS).Words() + " before"
	}
	if g.Expected != nil {
		expected = fmt.Sprintf("%d expected", *g.Expected)
	}
	earlier := ""
	if g.EarlierBoot {
		earlier = "of an earlier boot"
	}
	lines := []Line{line("gpus", pair("count ", g.Count.Words()), expected, pair("driver ", g.Driver.Words()),
		pair("kernel module ", g.Module), pair("NVML ", g.NVML.Words()), pair("CUDA ", g.cuda()), pair("library ", g.Library),
		pair("probe ", g.Probe), g.ProbeWhy, age, earlier)}
	if l := g.KernelLog; l != nil {
		lost := ""
		if l.Lost > 0 {
			lost = fmt.Sprintf("%d records not read", l.Lost)
		}
		read := "read by the agent"
		if l.ReadOn {
			read = "read by this measurement: " + l.Why
		}
		lines = append(lines, line("kernel log", read, pair("not read now: ", l.Blind), lost))
	}
	for i := range g.GPUs {
		d := &g.GPUs[i]
		lost := ""
		if d.Lost {
			lost = "lost"
		}
		words := []string{d.Name, d.PCI, d.UUID, lost}
		for _, name := range slices.Sorted(maps.Keys(d.Config)) {
			r := d.Config[name]
			if r.Value != nil || r.Text != nil {
				words = append(words, name+" "+r.Words())
			}
		}
		lines = append(lines, Line{fmt.Sprint("  GPU ", d.Index), words})
	}
	for _, e := range g.Errors {
		times := ""
		if e.Times > 1 {
			times = fmt.Sprintf("%d times", e.Times)
		}
		lines = append(lines, line("  "+e.What, e.PCI, e.At.Format(TimeLayout), times, e.Text))
	}
	return lines
}

// cuda formats the version as NVIDIA writes it.
func (g *GPUFacts) cuda() string {
	if n, ok := g.CUDA.Number(); ok {
		return fmt.Sprintf("%d.%d", n/1000, n%1000/10)
	}
	return g.CUDA.Words()
}

// gpuIdentity is the property that has the GPUs' UUIDs; two nodes never share it.
const gpuIdentity = "gpu.uuids"

// Properties returns the driver and the configuration of the GPUs. A value that all GPUs share is one property.
// Otherwise each value has the number of GPUs and, except for the most common one, their indices. So neither the
// driver's order nor a UUID is a difference between two nodes.
func (g *GPUFacts) Properties(*Fact) []Property {
	properties := []Property{
		{ChangeGPU, "gpu.driver", g.Driver.Words()},
		{ChangeGPU, "gpu.module", g.Module},
		{ChangeGPU, "gpu.nvml", g.NVML.Words()},
		{ChangeGPU, "gpu.cuda", g.cuda()},
		{ChangeGPU, "gpu.library", g.Library},
		{ChangeGPULess, "gpu.count", g.Count.Words()},
	}
	names, uuids := map[string]bool{}, []string{}
	for i := range g.GPUs {
		for name := range g.GPUs[i].Config {
			names[name] = true
		}
		uuids = append(uuids, g.GPUs[i].UUID)
	}
	slices.Sort(uuids)
	properties = append(properties, Property{ChangeGPUIdentity, gpuIdentity, strings.Join(uuids, " ")},
		Property{ChangeGPU, "gpu.name", g.shared(func(d *GPUDevice) string { return d.Name })})
	for _, name := range slices.Sorted(maps.Keys(names)) {
		kind := ChangeGPU
		if name == "nvlinks_active" || name == "pcie_width" {
			kind = ChangeGPULess
		}
		properties = append(properties, Property{kind, "gpu." + name, g.shared(func(d *GPUDevice) string {
			r := d.Config[name]
			return r.Words()
		})})
	}
	return properties
}

// shared returns a value of all GPUs as one text.
func (g *GPUFacts) shared(of func(*GPUDevice) string) string {
	has := map[string][]string{} // the PCI addresses by value
	for i := range g.GPUs {
		v := cmp.Or(of(&g.GPUs[i]), "not reported")
		has[v] = append(has[v], g.GPUs[i].PCI)
	}
	values := slices.SortedFunc(maps.Keys(has), func(a, b string) int {
		if d := len(has[b]) - len(has[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	if len(values) < 2 {
		return strings.Join(values, "")
	}
	var parts []string
	for i, v := range values {
		at := has[v]
		slices.Sort(at)
		part := fmt.Sprintf("%s on %d", v, len(at))
		if i > 0 {
			part += " (" + strings.Join(at, ", ") + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
