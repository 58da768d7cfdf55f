//go:build linux

package main

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// called lists the calls of a sample, by their names in the control file; the second list has those about no GPU.
func called(t *testing.T, b *built) (of, about []string) {
	t.Helper()
	c := newControl(t, "h100x8")
	b.once(t, b.fake, c)
	for i, name := range callNames(t) {
		switch {
		case testing.Short() && i%5 != 0, strings.HasPrefix(name, "nvmlEvent"):
		case c.asked(2, name) > 0:
			of = append(of, name)
		case c.asked(noGPUs, name) > 0:
			about = append(about, name)
		}
	}
	return of, about
}

// symbolOf returns the call that an entry of the control file belongs to.
func symbolOf(entry string) string {
	if strings.HasPrefix(entry, "field_") {
		return "nvmlDeviceGetFieldValues"
	}
	for _, with := range [...]string{"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetMemoryErrorCounter",
		"nvmlDeviceGetTemperatureThreshold"} {
		if strings.HasPrefix(entry, with+"_") {
			return with
		}
	}
	return strings.TrimSuffix(entry, "_v2") // Init's entry is for all its versions
}

// rareCalls are those that a running probe does not make for each sample.
var rareCalls = [...]string{"nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetSerial",
	"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetTopologyCommonAncestor"}

// hangsAnywhere: if any call hangs, it is reported with its GPU, and no sample arrives until it returns.
func hangsAnywhere(t *testing.T, b *built) {
	of, about := called(t, b)
	about = slices.DeleteFunc(about, func(name string) bool { return name == "nvmlInit_v2" })
	of = slices.CompactFunc(of, func(x, y string) bool { return symbolOf(x) == symbolOf(y) }) // one entry of each call
	isRare := func(name string) bool { return slices.Contains(rareCalls[:], name) }
	rare := slices.DeleteFunc(slices.Clone(of), func(name string) bool { return !isRare(name) })
	of = slices.DeleteFunc(of, isRare)
	stuck := func(r *running, gpu int, entry string) int {
		return r.count(func(e *report.Event) bool {
			return e.Probe != nil && e.Probe.State == report.Stuck &&
				strings.TrimSuffix(e.Probe.Call, "_v2") == symbolOf(entry) &&
				(gpu == noGPUs) == (e.GPU == nil) && (gpu == noGPUs || *e.GPU.Index == gpu)
		})
	}
	const side = 8 // concurrent processes, each of which waits a second for each call
	var wg sync.WaitGroup
	for i := range side {
		wg.Go(func() {
			c := newControl(t, "h100x8")
			r := b.start(t, c, "--call-deadline=1s")
			try := func(gpu int, entry string) {
				before := stuck(r, gpu, entry)
				c.hang(gpu, entry)
				wait.For(t, entry+" is reported as stuck", func() bool { return stuck(r, gpu, entry) > before })
				c.release(gpu, entry)
			}
			for k := i; k < len(of); k += side {
				try(2, of[k])
			}
			for k := i; k < len(about); k += side {
				try(noGPUs, about[k])
			}
		})
	}
	first := func(gpu int, entry string) { // these are called once, rarely, or are expected to wait
		c := newControl(t, "h100x8")
		c.hang(gpu, entry)
		r := b.start(t, c, "--call-deadline=1s")
		wait.For(t, entry+" is reported as stuck", func() bool { return stuck(r, gpu, entry) > 0 })
		if n := len(r.all()); n > 0 && !strings.HasPrefix(entry, "nvmlEvent") {
			t.Errorf("%d samples while %s does not return", n, entry)
		}
		c.release(gpu, entry)
	}
	for _, entry := range [...]string{"nvmlInit_v2", "nvmlEventSetCreate", "nvmlEventSetWait_v2"} {
		wg.Go(func() { first(noGPUs, entry) })
	}
	for _, entry := range rare {
		wg.Go(func() { first(2, entry) })
	}
	wg.Wait()
}

// all returns the samples that arrived.
func (r *running) all() []*report.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.samples)
}

// crashesAnywhere: if any call crashes the process, its output ends with a complete line and holds no sample of
// the failed call.
func crashesAnywhere(t *testing.T, b *built) {
	of, about := called(t, b)
	try := func(gpu int, entry string) {
		c := newControl(t, "h100x8")
		c.entry(gpu, entry).crash = 1
		cmd := b.command(t, b.fake, c, patient)
		if out, err := cmd.Output(); err == nil || len(out) != 0 {
			t.Errorf("%s: %v, it wrote %q", entry, err, out)
		}
	}
	for _, entry := range of {
		try(2, entry)
	}
	for _, entry := range about {
		try(noGPUs, entry)
	}
}

// oddTexts: an unterminated text, or one that is not UTF-8, does not end a sample. A GPU without an identity gets
// no handle.
func oddTexts(t *testing.T, b *built) {
	texts := map[string]report.Signal{"nvmlDeviceGetUUID": "", "nvmlDeviceGetName": "",
		"nvmlDeviceGetVbiosVersion": report.VBIOS, "nvmlDeviceGetInforomImageVersion": report.InfoROM,
		"nvmlDeviceGetGspFirmwareVersion": report.GSPFirmware, "nvmlSystemGetDriverVersion": "",
		"nvmlSystemGetNVMLVersion": ""}
	for entry, signal := range texts {
		for _, odd := range [...]uint32{full, noise} {
			c := newControl(t, "h100x8")
			c.entry(2, entry).odd, c.entry(noGPUs, entry).odd = odd, odd
			s := b.once(t, b.fake, c)
			g := &s.GPUs[2]
			if r := g.Signals[signal]; signal != "" && r.Known() != (odd == full) {
				t.Errorf("%s, %d: %s is %s", entry, odd, signal, r)
			}
			if wrong := entry == "nvmlDeviceGetUUID" && odd == noise; g.Handle.Known() == wrong || (g.UUID == "") != wrong {
				t.Errorf("%s, %d: %q has the handle %s", entry, odd, g.UUID, g.Handle)
			}
		}
	}
	c := newControl(t, "h100x8")
	c.words(5, "nvmlDeviceGetUUID", "")
	if g := &b.once(t, b.fake, c).GPUs[5]; g.Handle.Known() {
		t.Errorf("a GPU without a UUID has the handle %s", g.Handle)
	}
}

// hugeNumbers: an out-of-range number is reported as unreadable, never as zero or negative, and there are never
// more GPUs than possible.
func hugeNumbers(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	for _, entry := range callNames(t) {
		e := c.entry(2, entry)
		if strings.HasPrefix(entry, "nvmlDeviceGet") && e.rc == 0 {
			e.v = [4]int64{-1, -1, -1, -1}
		}
	}
	c.entry(2, "nvmlDeviceGetNvLinkState").v = [4]int64{18, 1<<18 - 1}
	s := b.once(t, b.fake, c)
	for _, row := range report.Signals() {
		r := s.GPUs[2].Signals[row.Signal]
		if n, known := r.Number(); known && (row.Sort == report.Counter || row.Signal == report.MemoryTotal) && n != 1<<32-1 {
			t.Errorf("%s is %s", row.Signal, r)
		}
	}
	for _, n := range [...]uint32{1<<32 - 1, 1 << 31, report.MaxGPUs + 1} {
		c := newControl(t, "h100x8")
		c.head().gpus = n
		if s := b.once(t, b.fake, c); s.Count.NotAsked != report.NoAnswer || len(s.GPUs) != 0 {
			t.Errorf("%d GPUs: count %s, %d are listed", n, s.Count, len(s.GPUs))
		}
	}
	c = newControl(t, "h100x8")
	c.head().gpus = report.MaxGPUs
	s = b.once(t, b.fake, c)
	if g := &s.GPUs[report.MaxGPUs-1]; len(s.GPUs) != report.MaxGPUs || g.Handle.Failed != invalidCode {
		t.Errorf("%d GPUs, the handle of the last: %s", len(s.GPUs), g.Handle)
	}
}

// invalidCode is NVML's INVALID_ARGUMENT.
const invalidCode = 2

// printingLibrary: a library's output does not mix with the probe's lines.
func printingLibrary(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	for g := range 8 {
		c.entry(g, "nvmlDeviceGetPowerUsage").odd = talks
	}
	r := b.start(t, c, patient)
	r.next(3)
	_ = r.stdin.Close()
	err := <-r.ended
	r.ended <- err
	if err != nil || len(r.odd) != 0 || !strings.Contains(r.errs.String(), "is called") {
		t.Errorf("%v, odd lines %q, stderr %.100q", err, r.odd, r.errs.String())
	}
}

// eatsMemory: a library that leaks memory cannot exceed the process's limit, and samples continue.
func eatsMemory(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, patient)
	r.next(1)
	c.entry(2, "nvmlDeviceGetPowerUsage").odd = eats
	s := r.await("memory is refused", func(s *report.Sample) bool { return !s.GPUs[2].Signals[report.Power].Known() })
	if got := s.GPUs[2].Signals[report.Power]; got.Failed != 20 || !s.GPUs[3].Signals[report.Power].Known() {
		t.Errorf("power of the GPU: %s", got)
	}
	r.next(2)
}

// unloadedWithin: if the driver disappears during a sample, GPUs have no values, and the next sample ends the
// probe.
func unloadedWithin(t *testing.T, b *built) {
	for _, code := range [...]int{1, 9, 18} {
		c := newControl(t, "h100x8")
		for g := 3; g < 8; g++ {
			for _, entry := range callNames(t) {
				c.refuse(g, entry, code)
			}
		}
		s := b.once(t, b.fake, c)
		for i := range s.GPUs {
			g := &s.GPUs[i]
			if g.Handle.Known() != (i < 3) || g.Signals[report.Power].Known() != (i < 3) || g.Handle.Failed != 0 == (i < 3) {
				t.Errorf("code %d, GPU %d: handle %s, power %s", code, i, g.Handle, g.Signals[report.Power])
			}
		}
		r := b.start(t, c, patient)
		r.next(1)
		c.refuse(noGPUs, "nvmlDeviceGetCount_v2", code)
		err := <-r.ended
		r.ended <- err
		if r.cmd.ProcessState.ExitCode() != report.ExitReloaded || !strings.Contains(r.errs.String(), "driver was unloaded") {
			t.Errorf("code %d: %v: %s", code, err, r.errs.Bytes())
		}
	}
}

// handedOver: GPUs that the driver no longer has, since they were passed to a virtual machine, are not invented,
// and a value that the owner of a MIG instance may not query is refused, not zero. An unset expected number of
// GPUs is reported as such.
func handedOver(t *testing.T, b *built) {
	c := newControl(t, "h100x8")
	r := b.start(t, c, patient)
	r.next(1)
	said := func(s *report.Sample) string {
		f := policy.FactsOf(policy.Evidence{Sample: s})
		var all bytes.Buffer
		for _, floor := range f.Floors {
			all.WriteString(floor.Why + "; ")
		}
		return all.String() + strings.Join(f.Notes, "; ")
	}
	for _, n := range [...]uint32{6, 0, 8} {
		now := time.Now()
		c.head().gpus = n
		s := r.await("the driver's count", func(s *report.Sample) bool {
			got, known := s.Count.Number()
			return known && got == int64(n) && s.At.After(now)
		})
		got := said(s)
		if len(s.GPUs) != int(n) || !strings.Contains(got, "the expected number of GPUs is not configured") ||
			strings.Contains(got, "the driver counts no GPU") != (n == 0) {
			t.Errorf("%d GPUs, %d are listed: %s", n, len(s.GPUs), got)
		}
	}
	m := newControl(t, "a100-mig")
	const noPermission = 4
	for _, entry := range callNames(t) {
		if entry != "nvmlDeviceGetHandleByIndex_v2" && entry != "nvmlDeviceGetUUID" {
			m.refuse(0, entry, noPermission)
		}
	}
	g := &b.once(t, b.fake, m).GPUs[0]
	for _, row := range report.Signals() {
		if reading := g.Signals[row.Signal]; reading.Known() || reading.Unsupported {
			t.Errorf("without permission: %s is %s", row.Signal, reading)
		}
	}
	if !g.Handle.Known() || g.Lost() || len(g.MIG) != 0 {
		t.Errorf("without permission: %+v", g)
	}
}
