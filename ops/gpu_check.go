package ops

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Programs that a check runs.
const (
	gpuProbe   = "gpuaas-gpu-probe"
	agentProbe = "gpuaas-agent" // the helper that reads a node's kernel log
)

// Limits of a check.
const (
	gpuCallDeadline = 10 * time.Second                 // of one call into the driver, and of all of a sample together
	gpuProbeTime    = gpuCallDeadline + 10*time.Second // of one run of the probe; a busy node starts it slowly
	gpuLogTime      = 15 * time.Second                 // of reading the kernel log
	gpuProbeOutput  = report.MaxSample + 16*report.MaxEvent
	gpuLogOutput    = 4 << 20
)

// Variables of an agent's environment for the probe: the library to load, and the answers of the lab's fake of it.
const (
	gpuLibraryVariable = "GPUAAS_NVML_LIBRARY"
	gpuFakeVariable    = "GPUAAS_NVML_FAKE"
)

// GPUCheck is what a machine itself says of its GPUs: a sample, and what its kernel log still has of this boot. No
// agent and no platform is asked.
type GPUCheck struct {
	Node      string
	At        time.Time // when, by the machine's own clock
	Sample    *report.Sample
	Events    []report.Event
	KernelLog *diag.KernelLogFacts // what was read of it; nil: nothing
	Module    string               // version of the driver's kernel module; "" if none is loaded
	Notes     []string
}

// addKernel adds what the machine's kernel says.
func (c *GPUCheck) addKernel(f *diag.Fact) {
	if f.GPU == nil {
		c.blind(cmp.Or(f.Detail, string(f.Failure), "it was not read"))
		return
	}
	c.At, c.Module, c.KernelLog = f.At.Time, f.GPU.Module, f.GPU.KernelLog
	for _, text := range f.GPU.Evidence {
		e, err := report.DecodeEvent(text)
		if err != nil { // one that cannot be read may be the one that matters
			c.blind("what the machine said of it cannot be read: " + err.Error())
			return
		}
		c.Events = append(c.Events, *e)
	}
	if c.KernelLog == nil {
		c.blind(cmp.Or(f.Detail, "it was not read"))
	}
}

// blind records that the kernel log was not read.
func (c *GPUCheck) blind(why string) {
	c.At = cmp.Or(c.At, time.Now().UTC())
	now := c.At
	c.KernelLog = &diag.KernelLogFacts{Blind: why}
	c.Events = append(c.Events, report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent,
		Type: report.CoverageEvent, Source: report.FromAgent, At: now,
		Coverage: &report.Coverage{From: now, To: now, Blind: why}})
}

// unprobed records that there is no sample.
func (c *GPUCheck) unprobed(state report.ProbeState, why string) {
	c.At = cmp.Or(c.At, time.Now().UTC())
	p := report.Probe{State: state, Why: why}
	if state == report.Stuck {
		p.Since = &c.At
	}
	c.Events = append(c.Events, report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent,
		Type: report.ProbeEvent, Source: report.FromAgent, At: c.At, Probe: &p})
}

// probed takes the output of a probe that ended with an exit code, and words on stderr.
func (c *GPUCheck) probed(out []byte, code int, words string) {
	why := crash(words)
	for line := range bytes.Lines(out) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(line) <= report.MaxEvent {
			if e, err := report.DecodeEvent(line); err == nil {
				c.Events = append(c.Events, *e)
				continue
			}
		}
		s, err := report.DecodeSample(line)
		if err != nil {
			c.Sample = nil
			c.unprobed(report.Garbled, err.Error())
			return
		}
		c.Sample = s
	}
	stuck := slices.ContainsFunc(c.Events, func(e report.Event) bool {
		return e.Probe != nil && e.Probe.State == report.Stuck
	})
	switch {
	case c.Sample != nil || stuck:
	case code == report.ExitReloaded:
		c.unprobed(report.Ended, "the driver was unloaded or reloaded; check again")
	case code == 126 || code == 127 || strings.Contains(words, "GLIBC_"):
		c.unprobed(report.Unstartable, strings.TrimSpace(
			"the machine's C library is another one than glibc, or older than the one it was built with: "+why))
	default:
		c.unprobed(report.Ended, strings.TrimSpace(fmt.Sprintf("exit code %d %s", code, why)))
	}
}

// crash returns what a probe that crashed says of it, without the traceback of Go's runtime; other words as they are.
// Over SSH they come on one line.
func crash(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	head, trace, _ := strings.Cut(words, " goroutine ")
	if trace == "" || trace[0] < '0' || trace[0] > '9' {
		return words
	}
	first, _, _ := strings.Cut(head, " PC=")
	if strings.Contains(head, "signal arrived during cgo execution") {
		return "in a call of NVIDIA's library: " + first
	}
	return first
}

// CheckHere checks the GPUs of this machine. kernelLog is the path of its kernel log, "" for /dev/kmsg.
func (s *Site) CheckHere(ctx context.Context, kernelLog string) (*GPUCheck, error) {
	c := &GPUCheck{Node: here()}
	var wg sync.WaitGroup
	var f diag.Fact
	wg.Go(func() { f = readKernel(ctx, kernelLog) })
	out, code, words, err := s.probeHere(ctx)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.addKernel(&f)
	var none *noProbeError
	switch {
	case errors.As(err, &none):
		c.unprobed(none.state, none.Error())
	case err != nil:
		c.unprobed(report.Stuck, err.Error())
	default:
		c.probed(out, code, words)
	}
	return c, nil
}

// Judge makes the admission document of a check by a policy's judgement of Request.
func (c *GPUCheck) Judge(j policy.Judgement) (*reading.GPUAdmission, error) {
	doc, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("write the judgement: %w", err)
	}
	f := diag.Fact{Request: diag.Request{Since: diag.At(c.now())}, GPUJudged: &diag.GPUJudged{Health: string(j.Health),
		Policy: j.Policy, SHA256: j.Digest, Tables: j.Catalogue, Document: doc}}
	a := reading.JudgedHere(c.Node, &f, nil)
	if a == nil {
		return nil, errors.New("the policy's judgement cannot be read")
	}
	if c.Sample != nil {
		a.Sampled = diag.At(c.Sample.At)
	}
	a.Notes = append(slices.Clone(c.Notes), a.Notes...)
	if why := c.noGPU(); why != "" {
		a.Notes = append([]string{why}, a.Notes...)
	}
	return a, nil
}

// now is when all of the check was read: the sample may be newer than what the kernel said.
func (c *GPUCheck) now() time.Time {
	if c.Sample != nil && c.Sample.At.After(c.At) {
		return c.Sample.At.UTC()
	}
	return c.At.UTC()
}

// noGPU says that the machine has no GPU, "" if it may have one.
func (c *GPUCheck) noGPU() string {
	s := c.Sample
	if s == nil || c.Module != "" || len(s.Elsewhere) > 0 || s.Library.Path != "" {
		return ""
	}
	if of := s.Library.State; of != report.LibraryNotFound && of != report.DriverNotLoaded {
		return ""
	}
	return "this machine has no GPU and no driver: the kernel module nvidia is not loaded, and no GPU of NVIDIA is seen " +
		"on its PCI bus"
}

// Request is the request to judge the check by a policy.
func (c *GPUCheck) Request(by policy.File, expected *int) (policy.Request, error) {
	now := c.now()
	q := policy.Request{Op: policy.OpJudge, Policy: by, Expected: expected, Now: &now}
	if c.Sample != nil {
		text, err := json.Marshal(c.Sample)
		if err != nil {
			return q, fmt.Errorf("write the sample: %w", err)
		}
		q.Sample = &policy.File{Path: "sample", Text: text}
	}
	var lines bytes.Buffer
	for i := range c.Events {
		line, err := json.Marshal(&c.Events[i])
		if err = errors.Join(err, c.Events[i].Check()); err != nil {
			return q, fmt.Errorf("write the events: %w", err)
		}
		lines.Write(append(line, '\n'))
	}
	q.Events = &policy.File{Path: "events", Text: lines.Bytes()}
	return q, nil
}
