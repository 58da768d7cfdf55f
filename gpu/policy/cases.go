package policy

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// Cases are a file of evidence, each with the health that a policy must return.
type Cases struct {
	Path  string
	Cases []Case
}

// Case is one case.
type Case struct {
	Name     string
	Line     int
	Evidence Evidence
	Health   Health // expected
	Rule     string // the rule expected to decide; "": not checked
}

// caseFile is the YAML of such a file. People write it, so it has only what differs from a healthy node.
type caseFile struct {
	Version int        `yaml:"version"`
	Cases   []caseText `yaml:"cases"`
}

type caseText struct {
	Name     string        `yaml:"name"`
	Events   []eventText   `yaml:"events"`
	GPUs     []gpuText     `yaml:"gpus"` // GPUs of the sample
	Library  string        `yaml:"library"`
	Probe    string        `yaml:"probe"`
	NoSample bool          `yaml:"no_sample"`
	Expected *int          `yaml:"gpus_expected"`
	Log      string        `yaml:"kernel_log"`
	Age      time.Duration `yaml:"age"` // age of the sample
	Expect   struct {
		Health Health `yaml:"health"`
		Rule   string `yaml:"rule"`
	} `yaml:"expect"`
}

type eventText struct {
	Type     string `yaml:"type"`
	Code     *int   `yaml:"code"`
	PCI      string `yaml:"pci"`
	UUID     string `yaml:"uuid"`
	CausedBy *int   `yaml:"caused_by"`
	Recovery *int64 `yaml:"recovery"` // the driver's number of the action
	Severity string `yaml:"severity"`
	Reset    string `yaml:"reset"`
	Link     *int   `yaml:"link"`
	Injected bool   `yaml:"injected"`
	PID      *int   `yaml:"pid"`
	Process  string `yaml:"process"`
	Text     string `yaml:"text"`
	Times    int64  `yaml:"times"`
	Boot     string `yaml:"boot"`
}

type gpuText struct {
	UUID      string                 `yaml:"uuid"`
	PCI       string                 `yaml:"pci"`
	Name      string                 `yaml:"name"`
	Signals   map[string]readingText `yaml:"signals"`
	LinksDown []int                  `yaml:"nvlinks_down"`
}

// readingText is a reading: a number, true or false, a text, not_supported, or {failed: CODE}.
type readingText struct {
	of report.Reading
}

// UnmarshalYAML decodes one reading.
func (r *readingText) UnmarshalYAML(n *yaml.Node) error {
	wrong := &yaml.TypeError{Errors: []string{fmt.Sprintf(
		"line %d: want a number, true, false, a text, not_supported or {failed: CODE}", n.Line)}}
	if n.Kind == yaml.MappingNode {
		code := 0
		if len(n.Content) != 2 || n.Content[0].Value != "failed" || n.Content[1].Decode(&code) != nil || code <= 0 {
			return wrong
		}
		r.of = report.Refused(code)
		return nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return wrong
	}
	switch v := v.(type) {
	case string:
		r.of = report.Words(v)
		if v == "not_supported" {
			r.of = report.Reading{Unsupported: true}
		}
	case bool:
		r.of = report.Flag(v)
	case int:
		r.of = report.ReadingOf(int64(v))
	default:
		return wrong
	}
	return nil
}

// MaxCases is the maximum number of cases in one file.
const MaxCases = 500

// caseTime is the time of everything in a case. It is arbitrary: no policy sees it.
func caseTime() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// LoadCases parses a file of cases. Its error has a line "FILE:LINE: MISTAKE" for each mistake.
func LoadCases(path string, data []byte) (Cases, error) {
	c := Cases{Path: path}
	doc, err := strictyaml.Parse(path, data)
	if err != nil {
		return c, err
	}
	var f caseFile
	found := doc.Decode(&f)
	bad := func(key, format string, args ...any) {
		found = append(found, strictyaml.Problem{Key: key, Text: fmt.Sprintf(format, args...)})
	}
	if len(found) == 0 && f.Version != fileVersion {
		bad("version", "want %d, not %d", fileVersion, f.Version)
	}
	if len(found) == 0 && (len(f.Cases) == 0 || len(f.Cases) > MaxCases) {
		bad("cases", "want 1 to %d cases, not %d", MaxCases, len(f.Cases))
	}
	if len(found) > 0 {
		return c, doc.Error(found)
	}
	seen := map[string]int{}
	for i := range f.Cases {
		t, key := &f.Cases[i], fmt.Sprintf("cases[%d]", i)
		if first, twice := seen[t.Name]; t.Name == "" || twice {
			bad(key+".name", "want a unique name, not %q (cases[%d])", cut(t.Name), first)
		}
		seen[t.Name] = i
		if problem := wrongHealth(t.Expect.Health); problem != "" {
			bad(key+".expect.health", "%s", problem)
		}
		e, err := t.evidence()
		if err != nil {
			bad(key, "%v", err)
		}
		c.Cases = append(c.Cases, Case{t.Name, doc.LineOf(key), e, t.Expect.Health, t.Expect.Rule})
	}
	return c, doc.Error(found)
}

// evidence converts a case to the types that nodes report, with their checks.
func (t *caseText) evidence() (Evidence, error) {
	at := caseTime()
	e := Evidence{Expected: t.Expected, Now: at.Add(t.Age)}
	add := func(source report.Source, ev report.Event) {
		ev.APIVersion, ev.Kind, ev.At, ev.Source = report.APIVersion, report.KindEvent, at, source
		e.Events = append(e.Events, ev)
	}
	coverage := &report.Coverage{From: at, To: at, BootID: "this"}
	switch t.Log {
	case "", "watched":
		add(report.FromAgent, report.Event{Type: report.CoverageEvent, Coverage: coverage})
	case "lost":
		coverage.Lost = 1
		add(report.FromAgent, report.Event{Type: report.CoverageEvent, Coverage: coverage})
	case "blind":
		coverage.Blind = "it cannot be opened"
		add(report.FromAgent, report.Event{Type: report.CoverageEvent, Coverage: coverage})
	case "not_watched":
	default:
		return e, fmt.Errorf("kernel_log: want watched, not_watched, lost or blind, not %q", cut(t.Log))
	}
	for _, x := range t.Events {
		add(report.FromKernelLog, x.event())
	}
	if t.Probe != "" {
		p := &report.Probe{State: report.ProbeState(t.Probe)}
		if p.State == report.Stuck {
			p.Since = &at
		}
		add(report.FromAgent, report.Event{Type: report.ProbeEvent, Probe: p})
	}
	for i := range e.Events {
		if err := e.Events[i].Check(); err != nil {
			return e, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	if t.NoSample || t.Probe != "" {
		if len(t.GPUs) > 0 {
			return e, fmt.Errorf("has GPUs, and no sample that could have them")
		}
		return e, nil
	}
	sample, err := t.sample()
	if err != nil {
		return e, err
	}
	if err := sample.Check(); err != nil {
		return e, fmt.Errorf("sample: %w", err)
	}
	e.Sample = sample
	return e, nil
}

func (x *eventText) event() report.Event {
	ev := report.Event{Type: report.EventType(x.Type)}
	if x.PCI != "" || x.UUID != "" {
		ev.GPU = &report.Identity{PCI: x.PCI, UUID: x.UUID}
	}
	if ev.Type == report.RecoveryEvent {
		if x.Recovery != nil {
			ev.Action = &report.Recovery{To: *x.Recovery, Action: report.ActionOf(*x.Recovery)}
		}
		return ev
	}
	ev.XID = &report.XID{
		Code: x.Code, PID: x.PID, Process: x.Process, Text: x.Text, CausedBy: x.CausedBy, Recovery: x.Recovery,
		Severity: x.Severity, Reset: x.Reset, Link: x.Link, Injected: x.Injected, Times: max(x.Times, 1), BootID: x.Boot,
	}
	return ev
}

// sample returns the case's sample. A signal that it does not list is one that the GPU does not support.
func (t *caseText) sample() (*report.Sample, error) {
	none := report.Skipped(report.NoLibrary)
	s := &report.Sample{
		APIVersion: report.APIVersion, Kind: report.KindSample, At: caseTime(),
		Library: report.Library{State: report.LibraryState(t.Library), Driver: none, NVML: none, CUDA: none},
	}
	if t.Library == "" {
		s.Library.State = report.Loaded
	}
	switch s.Library.State {
	case report.Loaded:
		s.Count = report.ReadingOf(int64(len(t.GPUs)))
	case report.LibraryNotFound:
		s.Library.Code, s.Count = 12, none
	case report.DriverNotLoaded:
		s.Library.Code, s.Count = 9, none
	case report.InitFailed:
		s.Library.Code, s.Count = 999, none
	default:
		s.Count = none
	}
	for i, g := range t.GPUs {
		gpu := report.GPU{
			Index: i, UUID: g.UUID, PCI: g.PCI, Name: g.Name, Handle: report.ReadingOf(1), LinksDown: g.LinksDown,
			Signals: map[report.Signal]report.Reading{},
		}
		var known []string
		for _, row := range report.Signals() {
			gpu.Signals[row.Signal] = report.Reading{Unsupported: true}
			known = append(known, string(row.Signal))
		}
		for name, r := range g.Signals {
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("gpus[%d].signals: there is no signal %q%s", i, cut(name), strictyaml.Nearest(name, known))
			}
			gpu.Signals[report.Signal(name)] = r.of
		}
		s.GPUs = append(s.GPUs, gpu)
	}
	return s, nil
}
