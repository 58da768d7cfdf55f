package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// Evidence is everything that is judged together about one node.
type Evidence struct {
	Events   []report.Event // oldest first; events of an earlier boot are ignored
	Sample   *report.Sample // the last one; nil: use DeviceEvents and ProbeEvents
	Expected *int           // number of GPUs with which the node was enrolled; nil: unknown
	Now      time.Time      // zero: the age of the evidence is unknown, and not judged
}

// Limits of evidence.
const (
	MaxEvents  = 1000             // per judgement
	Stale      = 75 * time.Second // a sample this old is not evidence about the present: four samples are missing
	StaleEvent = 3 * time.Minute  // the same for a GPU's last event: nodes send one per minute
)

// Observation is one event, GPU or node to judge.
type Observation struct {
	Subject Subject
	Values  Values
}

// Facts are evidence prepared for rules. They do not depend on a policy.
type Facts struct {
	Node         Values // the fields that every rule may use
	Observations []Observation
	GPUs         []Subject
	Floors       []Finding // findings that no policy can turn into HEALTHY
	Past         []Finding // events that are not judged, and why
	Notes        []string
}

// FactsOf makes evidence ready.
func FactsOf(e Evidence) Facts {
	f := facts{ev: e, Facts: Facts{Node: Values{}}, boot: bootOf(e.Events)}
	f.sample()
	f.coverage()
	f.count()
	for i := range f.gpus {
		f.gpu(&f.gpus[i])
	}
	f.events()
	f.Observations = append(f.Observations, Observation{Subject{About: AboutNode, What: "the node"}, Values{}})
	return f.Facts
}

// bootOf returns the boot of the newest event that has one; "" if none does.
func bootOf(events []report.Event) string {
	for _, e := range slices.Backward(events) {
		switch {
		case e.BootID != "":
			return e.BootID
		case e.Coverage != nil && e.Coverage.BootID != "":
			return e.Coverage.BootID
		}
	}
	return ""
}

// earlier reports whether the event is of an earlier boot.
func (f *facts) earlier(e *report.Event) bool {
	boot := e.BootID
	switch {
	case boot != "":
	case e.XID != nil:
		boot = e.XID.BootID
	case e.Coverage != nil:
		boot = e.Coverage.BootID
	}
	return boot != "" && f.boot != "" && boot != f.boot
}

// facts collects them.
type facts struct {
	Facts
	ev      Evidence
	gpus    []seen
	counted *int // as the driver counts
	boot    string
	actions bool // the driver's recovery action is known for every GPU
}

// seen is a GPU and the time of its reading.
type seen struct {
	report.GPU
	at time.Time
}

func (f *facts) floor(s Subject, format string, args ...any) {
	f.Floors = append(f.Floors, Finding{Subject: s, Health: Unknown, Why: fmt.Sprintf(format, args...)})
}

func onNode(what string) Subject { return Subject{About: AboutNode, What: what} }

// sample finds the GPUs, or the reason why there is none.
func (f *facts) sample() {
	var probe *report.Probe
	driver, others := "", ""
	for i := range f.ev.Events {
		e := &f.ev.Events[i]
		switch {
		case f.earlier(e):
		case e.Probe != nil:
			probe, others = e.Probe, ""
			if probe.State == report.Sampling {
				others = probe.Why
			}
			if f.ev.Expected == nil {
				f.ev.Expected = e.Probe.Expected
			}
			if e.Probe.Count != nil {
				f.counted = e.Probe.Count
			}
		case e.Device != nil:
			f.device(e.Device)
			driver, f.counted = e.Device.Driver, &e.Device.Count
		}
	}
	s := f.ev.Sample
	if s != nil {
		f.gpus, f.counted, probe, others = nil, nil, nil, s.Others()
		for _, g := range s.GPUs {
			f.gpus = append(f.gpus, seen{g, s.At})
		}
		if n, known := s.Count.Number(); known {
			f.counted = new(int)
			*f.counted = int(n)
		}
		if t := s.Library.Driver.Text; t != nil {
			driver = *t
		}
		if s.Library.State != report.Loaded {
			probe = &report.Probe{State: report.Unknown, Library: s.Library.State, Code: s.Library.Code,
				Why: s.Library.Why}
		} else if f.counted == nil {
			f.floor(onNode("the sample"), "the driver did not count its GPUs: %s", s.Count.Why())
		}
		f.verdict(s.Library.Code, s.Library.Driver.Failed, s.Library.NVML.Failed, s.Library.CUDA.Failed, s.Count.Failed)
		f.versions(&s.Library)
	}
	if others != "" {
		f.Notes = append(f.Notes, others)
	}
	f.Node.text("driver", driver)
	if probe != nil && (probe.State == report.Unknown || probe.State == report.Garbled) && s == nil {
		f.verdict(probe.Code)
	}
	switch {
	case probe != nil && probe.State != report.Sampling:
		f.floor(onNode("the probe"), "no GPU can be looked at: %s", probeWords(probe))
	case len(f.gpus) == 0 && f.counted != nil && *f.counted == 0:
		f.floor(onNode("the sample"), "the driver counts no GPU: there is none, or the device nodes /dev/nvidia* are hidden")
	case len(f.gpus) == 0:
		f.floor(onNode("the sample"), "there is no sample of any GPU")
	}
}

// device stores the newest report about a GPU.
func (f *facts) device(d *report.Device) {
	same := func(g seen) bool {
		return g.UUID == d.GPU.UUID && g.PCI == d.GPU.PCI && (g.UUID+g.PCI != "" || g.Index == d.GPU.Index)
	}
	if i := slices.IndexFunc(f.gpus, same); i >= 0 {
		f.gpus[i] = seen{d.GPU, d.SampledAt}
		return
	}
	f.gpus = append(f.gpus, seen{d.GPU, d.SampledAt})
}

func probeWords(p *report.Probe) string {
	words := "the probe is " + string(p.State)
	switch p.State {
	case report.Unknown:
		words = "NVIDIA's library is " + string(p.Library)
		if p.Library == report.InitFailed {
			words = "NVIDIA's library does not start"
		}
	case report.Unstartable:
		words = "the probe cannot be started"
	}
	switch {
	case p.Code != 0 && p.State == report.Unknown:
		words += ": " + report.Explain(p.Code)
	case p.Code != 0:
		words += fmt.Sprintf(", return code %d", p.Code)
	}
	if p.Call != "" {
		words += ", in " + p.Call
	}
	if p.Since != nil {
		words += ", since " + p.Since.UTC().Format(time.RFC3339)
	}
	if p.Why != "" {
		words += ": " + p.Why
	}
	return words
}

// coverage decides whether the absence of events proves that no error was logged.
func (f *facts) coverage() {
	var last *report.Coverage
	var dropped int64
	for i := range f.ev.Events {
		switch e := &f.ev.Events[i]; {
		case f.earlier(e):
		case e.Coverage != nil && e.Source != report.FromNVML: // coverage of the driver's own events
			last = e.Coverage
		case e.Dropped != nil:
			for t, n := range e.Dropped.Count {
				if slices.Contains(eventTypes(), string(t)) {
					dropped += n
				}
			}
		}
	}
	f.actions = len(f.gpus) > 0
	for i := range f.gpus {
		n, known := f.gpus[i].Value(report.RecoveryAction)
		f.actions = f.actions && known && report.ActionOf(n) != report.ActionUnknown
	}
	log := onNode("the kernel log")
	switch {
	case last == nil:
		f.floor(log, "the kernel log was not watched: the absence of events does not prove that none occurred")
	case last.Blind != "":
		f.floor(log, "the kernel log is not watched: %s", last.Blind)
	case last.Lost > 0 || len(last.Gaps) > 0 || dropped > 0:
		words := fmt.Sprintf("%d records of the kernel log were not seen, and %d events were dropped", last.Lost, dropped)
		if f.actions {
			f.Notes = append(f.Notes, words+"; the driver's recovery action is known of every GPU")
			return
		}
		f.floor(log, "%s, and the driver's recovery action is not known of every GPU", words)
	}
}

// count compares the number of GPUs with the expected number.
func (f *facts) count() {
	lost := 0
	for i := range f.gpus {
		if f.gpus[i].Lost() {
			lost++
		}
	}
	f.Node.number("gpus", f.counted)
	f.Node.number("gpus_expected", f.ev.Expected)
	f.Node.number("gpus_lost", &lost)
	switch {
	case f.counted == nil:
	case *f.counted < len(f.gpus):
		f.floor(onNode("the count"), "the driver counts %d GPUs, and reported %d of them in this boot", *f.counted,
			len(f.gpus))
	case *f.counted > len(f.gpus):
		f.floor(onNode("the count"), "the driver counts %d GPUs, and %d were looked at", *f.counted, len(f.gpus))
	}
	switch {
	case f.ev.Expected == nil:
		f.Notes = append(f.Notes, "the expected number of GPUs is not configured, so a missing one is not detected")
	case f.counted != nil && *f.counted < *f.ev.Expected:
		f.floor(onNode("the count"), "the node should have %d GPUs, and the driver counts %d", *f.ev.Expected, *f.counted)
	}
}
