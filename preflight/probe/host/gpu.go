package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/fault"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// gpuPaths are the kernel's files about GPUs; the zero value is the real ones.
type gpuPaths struct{ log, module string }

const (
	nvidiaModule = "/sys/module/nvidia/version"
	maxModule    = 256 // bytes of it
	gpuErrors    = 16  // newest errors in a fact
)

// gpu reads Target, the agent's state file about GPUs, and the version of the kernel module. With Evidence it returns
// raw events, and reads the rest of the kernel log if the agent no longer does. Without Target it leaves the agent's
// file alone, and reads all that the kernel log still has. Failures: file_missing, file_unreadable, file_unparseable.
func (p *Prober) gpu(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.GPU = &diag.GPUFacts{Path: req.Target, Module: p.nvidiaModule()}
	var s *state.State
	var err error
	if req.Target != "" {
		s, err = state.Read(req.Target)
	}
	switch {
	case errors.Is(err, state.ErrMalformed), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		measure.Fail(f, "read", diag.FileUnparseable, err)
	case err != nil:
		measure.Fail(f, "read", measure.FileWord(err), err)
	}
	if s == nil {
		s = &state.State{}
	}
	boot, err := kmsg.BootID()
	if err != nil {
		f.Detail = measure.JoinDetail(f.Detail, err.Error())
	}
	describe(f.GPU, s, f.At.Time)
	if boot != "" && s.BootID != "" && s.BootID != boot {
		f.GPU.EarlierBoot = true
		f.GPU.Errors, f.GPU.ErrorCount = nil, 0
	}
	switch {
	case req.Evidence && boot != "":
		p.gpuEvidence(ctx, f, s, boot)
	case f.GPU.EarlierBoot:
		s.Log = nil // its times are relative to that boot
	}
	if s.Log != nil {
		c := state.CoverageOf(*s.Log, cmp.Or(s.At, f.At.Time), f.At.Time, kmsg.Uptime())
		l := &diag.KernelLogFacts{From: diag.At(c.From), Until: diag.At(c.To), Blind: c.Blind, Lost: c.Lost}
		if was := f.GPU.KernelLog; was != nil {
			l.ReadOn, l.Why = was.ReadOn, was.Why
		}
		f.GPU.KernelLog = l
	}
}

// gpuEvidence adds the raw events of this boot.
func (p *Prober) gpuEvidence(ctx context.Context, f *diag.Fact, s *state.State, boot string) {
	if ok, why := s.LogIsCurrent(boot, kmsg.Uptime()); !ok {
		path := cmp.Or(p.gpus.log, p.KernelLog)
		if path == "" && f.Request.Target == "" {
			path = p.agentsLog(ctx)
		}
		if f.Request.Target == "" {
			why = ""
		}
		if err := s.ReadOn(cmp.Or(path, kmsg.Path), boot, f.At.Time, kmsg.Uptime); err != nil {
			f.Detail = measure.JoinDetail(f.Detail, err.Error())
		}
		f.GPU.KernelLog = &diag.KernelLogFacts{ReadOn: s.Log.Blind == "", Why: why}
		f.GPU.Errors, f.GPU.ErrorCount = gpuErrorsOf(s)
	}
	s.Begin(boot)
	for _, e := range s.Evidence(f.At.Time, kmsg.Uptime()) {
		text, err := json.Marshal(&e)
		if err == nil && len(text) > report.MaxEvent {
			err = fmt.Errorf("an event of type %s has %d bytes, more than %d", e.Type, len(text), report.MaxEvent)
		}
		if err != nil { // a GPU without evidence must not be judged healthy
			f.Detail = measure.JoinDetail(f.Detail, err.Error())
			continue
		}
		f.GPU.Evidence = append(f.GPU.Evidence, text)
	}
}

// agentsLog returns the kernel log that the agent's environment names, as a container without /dev/kmsg needs one; ""
// if it names none.
func (p *Prober) agentsLog(ctx context.Context) string {
	const name = "GPUAAS_GPU_KERNEL_LOG"
	if p.Agent.Unit == "" && p.Agent.EnvFile == "" {
		return ""
	}
	var f diag.Fact
	p.env(ctx, diag.Request{Env: []string{name}}, &f)
	if f.Env == nil {
		return ""
	}
	return f.Env.Values[name]
}

// nvidiaModule returns the version of the kernel module, "" if none is loaded or the file cannot be read.
func (p *Prober) nvidiaModule() string {
	file, err := os.OpenFile(cmp.Or(p.gpus.module, nvidiaModule), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close() // it was read only
	text, err := bounded.Read(file, maxModule)
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
}

// describe fills in the fields from the file.
func describe(g *diag.GPUFacts, s *state.State, now time.Time) {
	if s.At.IsZero() {
		return
	}
	g.WrittenAt = diag.At(s.At)
	if s.Probe != nil {
		p := s.Probe.Probe
		g.Probe, g.ProbeAt, g.Expected = string(p.State), diag.At(s.Probe.At), p.Expected
		said := ""
		if p.State == report.Unknown && p.Code != 0 {
			said = report.Explain(p.Code)
		}
		g.ProbeWhy = scrub.Text(strings.Join(words(string(p.Library), said, pairOf("in ", p.Call), p.Why), ", "))
	}
	if s.Sample != nil {
		sample := s.Sample
		g.SampledAt, g.Library = diag.At(sample.At), string(sample.Library.State)
		g.AgeMS = new(max(now.Sub(sample.At).Milliseconds(), 0))
		g.Driver, g.NVML, g.CUDA = gpuReading(sample.Library.Driver), gpuReading(sample.Library.NVML),
			gpuReading(sample.Library.CUDA)
		g.Count = gpuReading(sample.Count)
		for i := range sample.GPUs {
			g.GPUs = append(g.GPUs, gpuDevice(&sample.GPUs[i]))
		}
	}
	g.Errors, g.ErrorCount = gpuErrorsOf(s)
}

func words(all ...string) (set []string) {
	for _, w := range all {
		if w != "" && w != string(report.Loaded) {
			set = append(set, w)
		}
	}
	return set
}

func pairOf(label, v string) string {
	if v == "" {
		return ""
	}
	return label + v
}

// gpuReading converts a reading of a sample.
func gpuReading(r report.Reading) *diag.GPUReading {
	return &diag.GPUReading{Value: r.Value, Text: r.Text, NotSupported: r.Unsupported, Failed: r.Failed,
		NotAsked: string(r.NotAsked)}
}

// gpuDevice returns the GPU's configuration and state, without gauges and counters except for the PCIe link.
func gpuDevice(g *report.GPU) diag.GPUDevice {
	d := diag.GPUDevice{Index: g.Index, UUID: g.UUID, PCI: g.PCI, Name: g.Name, Lost: g.Lost(),
		Handle: gpuReading(g.Handle), MIG: len(g.MIG), LinksDown: g.LinksDown,
		Config: map[string]diag.GPUReading{}, State: map[string]diag.GPUReading{}}
	for _, row := range report.Signals() {
		r, there := g.Signals[row.Signal]
		if !there || row.Signal.Private() {
			continue
		}
		switch {
		case row.Sort == report.Fact, row.Signal == report.NVLinksActive, row.Signal == report.PCIeWidth:
			d.Config[string(row.Signal)] = *gpuReading(r)
		case row.Sort == report.State, row.Signal == report.PCIeGen: // an idle GPU lowers it
			d.State[string(row.Signal)] = *gpuReading(r)
		}
	}
	return d
}

// gpuErrorsOf returns the newest errors of the file, and their total number. What several sources report is one.
func gpuErrorsOf(s *state.State) (newest []diag.GPUError, all int) {
	faults := fault.Merge(s.Events, s.Named)
	for i := range faults {
		e := &faults[i].Event
		g := diag.GPUError{At: diag.At(e.At), What: string(e.Type), PCI: e.GPU.PCI, UUID: e.GPU.UUID}
		if x := e.XID; x != nil {
			g.Times, g.Text = x.Times, scrub.Text(x.Text)
			if x.Code != nil {
				g.What += fmt.Sprint(" ", *x.Code)
			}
		}
		if e.Action != nil {
			g.What += " " + string(e.Action.Action)
		}
		newest = append(newest, g)
	}
	all = len(newest)
	return newest[max(0, all-gpuErrors):], all
}

// gpuJudge lets the policy Target judge Events as of Since. Failures: unsupported (no judge on this side), unknown (no
// judgement, with the reason).
func (p *Prober) gpuJudge(ctx context.Context, req diag.Request, f *diag.Fact) {
	if p.JudgeGPUs == nil {
		measure.Fail(f, "judge", diag.Unsupported, errors.New("GPUs are judged on the operator's side alone"))
		return
	}
	judged, err := p.JudgeGPUs(ctx, req.Target, req.Events, req.Since.Time)
	if err != nil {
		measure.Fail(f, "judge", diag.Unknown, err)
		return
	}
	f.GPUJudged = &judged
}
