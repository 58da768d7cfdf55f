//go:build linux && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// sample writes samples and events. It does not wait for a call that hangs: the process exits while it is in
// progress.
func sample(ctx context.Context, o options, w *writer, errs io.Writer) int {
	if err := limitMemory(); err != nil {
		fmt.Fprintln(errs, "gpuaas-gpu-probe:", err)
		return exitFailed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := newDriver(o, errs, func(c call) {
		if err := w.write(stuckEvent(c)); err != nil {
			cancel(err)
		}
		if o.interval == 0 {
			cancel(errStuck)
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx, w) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	switch {
	case errors.Is(err, errStuck):
		fmt.Fprintln(errs, "gpuaas-gpu-probe: gpu: unknown, a call into the driver does not return")
		return exitStuck
	case errors.Is(err, errReloaded):
		fmt.Fprintln(errs, "gpuaas-gpu-probe:", err)
		return report.ExitReloaded
	case err != nil && !errors.Is(err, context.Canceled):
		fmt.Fprintln(errs, "gpuaas-gpu-probe:", err)
		return exitFailed
	}
	return exitOK
}

type constError string

func (e constError) Error() string { return string(e) }

const (
	errStuck = constError("a call into the driver does not return")
	// errReloaded ends the process: the loaded library belongs to a driver that is gone.
	errReloaded = constError("the driver was unloaded or reloaded; start the probe again")
)

// stuckEvent reports a call that has been in progress for too long.
func stuckEvent(c call) *report.Event {
	began := c.began.UTC()
	e := event(report.ProbeEvent, time.Now())
	e.Probe = &report.Probe{State: report.Stuck, Call: firstOf(c.symbol), Since: &began, PID: os.Getpid()}
	if c.gpu != noGPU {
		e.GPU = &report.Identity{Index: &c.gpu, UUID: c.uuid}
	}
	return e
}

func event(t report.EventType, at time.Time) *report.Event {
	return &report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent, Type: t, Source: report.FromNVML,
		At: at.UTC()}
}

// firstOf returns the first of "a|b".
func firstOf(symbols string) string {
	first, _, _ := strings.Cut(symbols, "|")
	return first
}

// run writes one sample, or one per interval until ctx ends.
func (d *driver) run(ctx context.Context, w *writer) error {
	l := newListener(d, w)
	open := false
	for {
		began := time.Now()
		lib := report.Library{State: report.Loaded, Path: d.library}
		if !open {
			lib = d.open()
			open = lib.State == report.Loaded
		}
		if !open {
			d.tell(lib)
			s := unknown(lib)
			s.Elsewhere = elsewhere(pciDevices)
			if err := w.write(s); err != nil {
				return err
			}
		} else {
			s, handles := d.sample(lib)
			switch {
			case s.Count.Failed == 0:
			case d.interval > 0 && slices.Contains(gone[:], s.Count.Failed):
				return errReloaded
			default:
				d.tell(report.Library{Code: s.Count.Failed})
			}
			l.compare(s)
			l.addRefusals(s)
			if err := w.write(s); err != nil {
				return err
			}
			if d.interval > 0 {
				l.attend(ctx, handles)
			}
		}
		if err := d.records.save(d.record); err != nil {
			return err
		}
		if d.interval == 0 {
			return nil
		}
		if !sleep.For(ctx, d.interval-time.Since(began)) {
			return nil
		}
	}
}

// tell writes for people why the library cannot be queried, when that changes.
func (d *driver) tell(lib report.Library) {
	words := "gpuaas-gpu-probe: gpu: unknown, " + report.Explain(lib.Code)
	if lib.Why != "" {
		words += "; " + lib.Why
	}
	if words != d.told {
		fmt.Fprintln(d.errs, words)
	}
	d.told = words
}

// sample takes one sample.
func (d *driver) sample(lib report.Library) (*report.Sample, []listened) {
	began := time.Now()
	s := &report.Sample{APIVersion: report.APIVersion, Kind: report.KindSample, At: began.UTC(), Library: lib}
	s.Library.Driver = d.systemText("nvmlSystemGetDriverVersion", d.nvml.SystemGetDriverVersion)
	s.Library.NVML = d.systemText("nvmlSystemGetNVMLVersion", d.nvml.SystemGetNVMLVersion)
	s.Library.CUDA = d.systemNumber("nvmlSystemGetCudaDriverVersion", d.nvml.SystemGetCudaDriverVersion)
	s.Count = d.systemNumber("nvmlDeviceGetCount_v2|nvmlDeviceGetCount", d.nvml.DeviceGetCount)
	n, ok := s.Count.Number()
	if ok && (n < 0 || n > report.MaxGPUs) {
		s.Count, n = report.Skipped(report.NoAnswer), 0
	}
	handles := make([]listened, 0, n)
	s.GPUs = make([]report.GPU, n)
	d.listed = 0
	all := make([]*device, n)
	for i := range s.GPUs {
		v := d.device(i, &s.GPUs[i], began.Add(d.deadline))
		all[i], v.many = v, n > report.MaxListed
		v.signals()
		if v.handle != nil && !v.lost {
			handles = append(handles, listened{v.handle, i, s.GPUs[i].UUID, s.GPUs[i].PCI})
		}
	}
	peers(all)
	s.Library.Absent, s.Elsewhere = d.missing(), elsewhere(pciDevices)
	s.TookMS = time.Since(began).Milliseconds()
	return s, handles
}

// device queries the handle and the identity of a GPU.
func (d *driver) device(i int, out *report.GPU, until time.Time) *device {
	*out = report.GPU{Index: i, Signals: map[report.Signal]report.Reading{}}
	v := &device{driver: d, until: until, out: out}
	const symbols = "nvmlDeviceGetHandleByIndex_v2|nvmlDeviceGetHandleByIndex"
	if !d.lookUp(symbols) {
		out.Handle = report.Skipped(report.NoSymbol)
		return v
	}
	done := d.calls.begin(call{symbol: symbols, gpu: i})
	h, rc := d.nvml.DeviceGetHandleByIndex(i)
	done()
	if rc != nvml.SUCCESS {
		out.Handle, v.lost = report.Refused(int(rc)), rc == nvml.ERROR_GPU_IS_LOST
		d.records.other("HandleByIndex", []any{i}, int(rc), nil)
		return v
	}
	v.handle, out.Handle = h, report.ReadingOf(1)
	r := v.words("nvmlDeviceGetUUID", h.GetUUID)
	if name, ok := nameOf(r); ok {
		out.UUID = name
		d.records.device(out.UUID, "UUID", nil, 0, out.UUID)
		d.records.device(out.UUID, "Index", nil, 0, i)
	} else { // after any other response it is unknown which GPU this is
		if out.Handle = r; r.Text != nil {
			out.Handle = report.Skipped(report.NoAnswer)
		}
	}
	out.Name, _ = nameOf(v.words("nvmlDeviceGetName", h.GetName))
	_, ok := v.try("nvmlDeviceGetPciInfo_v3|nvmlDeviceGetPciInfo_v2|nvmlDeviceGetPciInfo", nil,
		func() (any, nvml.Return) {
			pci, rc := h.GetPciInfo()
			out.PCI = fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
			return map[string]any{"domain": pci.Domain, "bus": pci.Bus, "device": pci.Device,
				"pciDeviceId": pci.PciDeviceId, "pciSubSystemId": pci.PciSubSystemId, "busId": textOf(pci.BusId[:]),
				"busIdLegacy": textOf(pci.BusIdLegacy[:])}, rc
		})
	if !ok {
		out.PCI = ""
	}
	return v
}

// nameOf returns a reading with a name; false if it is missing or empty.
func nameOf(r report.Reading) (string, bool) {
	if r.Text == nil || *r.Text == "" {
		return "", false
	}
	return *r.Text, true
}

// textOf returns the text of an NVML structure, which may lack a terminating NUL.
func textOf(b []int8) string {
	text := make([]byte, 0, len(b))
	for _, c := range b {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

func (d *driver) systemText(symbol string, f func() (string, nvml.Return)) report.Reading {
	if !d.lookUp(symbol) {
		return report.Skipped(report.NoSymbol)
	}
	done := d.calls.begin(call{symbol: symbol, gpu: noGPU})
	text, rc := f()
	done()
	d.records.global(keyOf(symbol), nil, int(rc), text)
	if rc != nvml.SUCCESS {
		return report.Refused(int(rc))
	}
	return report.Words(text)
}

func (d *driver) systemNumber(symbols string, f func() (int, nvml.Return)) report.Reading {
	if !d.lookUp(symbols) {
		return report.Skipped(report.NoSymbol)
	}
	done := d.calls.begin(call{symbol: symbols, gpu: noGPU})
	n, rc := f()
	done()
	d.records.global(strings.TrimPrefix(keyOf(symbols), "Device"), nil, int(rc), n)
	if rc != nvml.SUCCESS {
		return report.Refused(int(rc))
	}
	return report.ReadingOf(int64(n))
}
