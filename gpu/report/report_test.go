package report

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

func at() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// full returns a sample of n GPUs with every signal, with readings from reading.
func full(n int, reading func(Signal) Reading) *Sample {
	s := &Sample{
		APIVersion: APIVersion, Kind: KindSample, At: at(), TookMS: 12, Count: ReadingOf(int64(n)),
		Library: Library{State: Loaded, Driver: Words("535.161.08"), NVML: Words("12.535.161.08"), CUDA: ReadingOf(12020)},
	}
	for i := range n {
		g := GPU{Index: i, UUID: "GPU-ee7954ec-da95-fd7a-ddfd-c6b32cc2f8aa", PCI: "0000:19:00.0",
			Name: "NVIDIA H100 80GB HBM3", Handle: ReadingOf(1), Signals: map[Signal]Reading{}}
		for _, row := range Signals() {
			g.Signals[row.Signal] = reading(row.Signal)
		}
		s.GPUs = append(s.GPUs, g)
	}
	return s
}

func zero(Signal) Reading { return ReadingOf(0) }

func text(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSampleIsReadAsItWasWritten: zero, not supported, failed and not asked stay distinct.
func TestSampleIsReadAsItWasWritten(t *testing.T) {
	answers := []Reading{ReadingOf(0), ReadingOf(-8), Flag(true), Words(""), Refused(3), Refused(15), Refused(6),
		Skipped(NoSymbol)}
	i := 0
	s := full(8, func(Signal) Reading { i++; return answers[i%len(answers)] })
	back, err := DecodeSample(text(t, s))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for n := range s.GPUs {
		for name, r := range s.GPUs[n].Signals {
			got := back.GPUs[n].Signals[name]
			if !got.Equal(r) || got.Known() != r.Known() {
				t.Errorf("%s was %s, is %s", name, r, got)
			}
			seen[r.String()] = true
		}
	}
	if len(seen) != len(answers) {
		t.Errorf("answers that read the same: %v", seen)
	}
	if got := back.GPUs[0].Signals["never"]; got.Known() || got.check() == nil {
		t.Error("a signal that is missing is read as a value")
	}
}

// TestSamplesAreRefused: each rule that a sample may break.
func TestSamplesAreRefused(t *testing.T) {
	if err := full(2, zero).Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Sample){
		"it is":                        func(s *Sample) { s.Kind = KindEvent },
		"no time":                      func(s *Sample) { s.At = time.Time{} },
		"unknown state of the library": func(s *Sample) { s.Library.State = "fine" },
		"without a code": func(s *Sample) {
			s.Library.State, s.Count, s.GPUs = DriverNotLoaded, Refused(9), nil
		},
		"it counts GPUs":            func(s *Sample) { s.Library.State, s.Library.Code = LibraryNotFound, 12 },
		"loaded with code 12":       func(s *Sample) { s.Library.Code = 12 },
		"the driver counted 8":      func(s *Sample) { s.Count = ReadingOf(8) },
		"counted failed (15)":       func(s *Sample) { s.Count = Refused(GPUIsLost) },
		"has the index 0":           func(s *Sample) { s.GPUs[1].Index = 0 },
		"lists too much":            func(s *Sample) { s.GPUs[0].Processes = make([]Process, MaxProcesses+1) },
		"its process -1":            func(s *Sample) { s.GPUs[0].Processes = []Process{{PID: -1}} },
		"its NVLink 64":             func(s *Sample) { s.GPUs[0].Links = []Link{{64, Words(""), Words("")}} },
		"its NVLink 1: ":            func(s *Sample) { s.GPUs[0].Links = []Link{{1, Words(""), Reading{}}} },
		"its path to GPU 64":        func(s *Sample) { s.GPUs[0].Peers = []Peer{{64, Words("SYS")}} },
		"refusal {Call:a Code:3}":   func(s *Sample) { s.GPUs[0].Refusals = []Refusal{{"a", 3}} },
		"0 answers":                 func(s *Sample) { s.GPUs[0].Signals[Temperature] = Reading{} },
		"2 answers":                 func(s *Sample) { r := ReadingOf(1); r.Failed = 15; s.GPUs[0].Signals[Power] = r },
		"not_supported, not failed": func(s *Sample) { s.GPUs[0].Signals[Power] = Reading{Failed: 3} },
		"unknown reason":            func(s *Sample) { s.GPUs[0].Signals[Power] = Skipped("lazy") },
		"65 GPUs":                   func(s *Sample) { *s = *full(65, zero) },
		"too long":                  func(s *Sample) { s.GPUs[0].Name = strings.Repeat("x", 257) },
		"instance of MIG":           func(s *Sample) { s.GPUs[0].MIG = []MIG{{GPUInstance: 1}} },
		"NVLink -1":                 func(s *Sample) { s.GPUs[0].LinksDown = []int{-1} },
	} {
		s := full(2, zero)
		spoil(s)
		if _, err := DecodeSample(text(t, s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	line := text(t, full(1, zero))
	for want, bad := range map[string][]byte{
		"after top-level": append(line, "{}"...),
		"unexpected end":  line[:len(line)/2],
		"bytes":           append(line, make([]byte, MaxSample)...),
		"cannot":          []byte(strings.Replace(string(line), `"took_ms":12`, `"took_ms":"12"`, 1)),
	} {
		if _, err := DecodeSample(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := DecodeSample(make([]byte, MaxSample+1)); !errors.Is(err, bounded.ErrLimit) {
		t.Errorf("too long: %v", err)
	}
}

// list adds as many links, paths and processes as a GPU has.
func list(g *GPU) {
	for n := range 18 {
		g.Links = append(g.Links, Link{n, Words("0000:84:00.0"), Words(string(EndSwitch))})
	}
	for n := g.Index + 1; n < MaxListed; n++ {
		g.Peers = append(g.Peers, Peer{n, Words(string(PathNode))})
	}
	for n := range AllProcesses / MaxListed {
		g.Processes = append(g.Processes, Process{PID: 4194303 - n, Type: Compute, Memory: new(int64(80 << 30)),
			GPUInstance: new(7), ComputeInstance: new(0), Name: "python3 -m trai", UID: new(1000000000),
			User: "a-user-of-some-length"})
	}
	g.Refusals = append(g.Refusals, Refusal{"nvmlDeviceGetMemoryInfo", NeedsReset}, Refusal{"nvmlDeviceGetName", 999})
}

// TestLargestDocumentsFit: 16 GPUs with the longest usual answers fit into a sample, and each of them into an event.
func TestLargestDocumentsFit(t *testing.T) {
	s := full(16, func(n Signal) Reading {
		if row, _ := n.Info(); row.Unit == "text" {
			return Words("G520.0200.00.05 " + strings.Repeat("x", 16))
		}
		return ReadingOf(math.MaxInt32)
	})
	for i := range 16 {
		for n := range 7 {
			s.GPUs[i].MIG = append(s.GPUs[i].MIG, MIG{UUID: "MIG-ee7954ec-da95-fd7a-ddfd-c6b32cc2f8aa",
				GPUInstance: n, ComputeInstance: n, Profile: "1g.10gb", Memory: new(int64(10 << 30))})
		}
		list(&s.GPUs[i])
		for n := range 18 {
			s.GPUs[i].LinksDown = append(s.GPUs[i].LinksDown, n)
		}
	}
	line := text(t, s)
	if _, err := DecodeSample(line); err != nil || len(line) > MaxSample/2 {
		t.Errorf("%d bytes: %v", len(line), err)
	}
	e := Event{APIVersion: APIVersion, Kind: KindEvent, Type: DeviceEvent, Source: FromNVML, At: at(),
		Device: &Device{SampledAt: at(), Driver: "535.161.08", Count: 16, GPU: s.GPUs[15].Brief()}}
	detail := text(t, e)
	back, err := DecodeEvent(detail)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(detail), err)
	}
	if id := back.Of(); *id.Index != 15 || id.UUID != s.GPUs[15].UUID {
		t.Errorf("%+v", id)
	}
	t.Logf("a sample of 16 GPUs %d bytes, one of them as an event %d", len(line), len(detail))
}

// TestOneLostCallMeansLost: one lost call decides, whatever the other calls answer.
func TestOneLostCallMeansLost(t *testing.T) {
	s := full(1, zero)
	g := &s.GPUs[0]
	if g.Lost() {
		t.Error("lost without a call that failed")
	}
	for _, code := range []int{3, 6, 999} {
		g.Signals[Power] = Refused(code)
		if g.Lost() {
			t.Errorf("lost by code %d", code)
		}
	}
	for _, row := range Signals() {
		was := g.Signals[row.Signal]
		g.Signals[row.Signal] = Refused(GPUIsLost)
		if !g.Lost() {
			t.Errorf("not lost by %s", row.Signal)
		}
		g.Signals[row.Signal] = was
	}
	g.Handle = Refused(GPUIsLost)
	if !g.Lost() {
		t.Error("not lost by its handle")
	}
}

// TestActions: a number that this build does not know is unknown, never none.
func TestActions(t *testing.T) {
	seen := map[Action]bool{}
	for n := int64(0); n <= 5; n++ {
		seen[ActionOf(n)] = true
	}
	if len(seen) != 6 || seen[ActionUnknown] || ActionOf(0) != ActionNone {
		t.Errorf("%v", seen)
	}
	for _, n := range []int64{-1, 6, 7, 255, math.MaxInt64, math.MinInt64} {
		if got := ActionOf(n); got != ActionUnknown {
			t.Errorf("%d is %s", n, got)
		}
	}
}

// TestSignalsAreATable: a name has one row, and each row has a description.
func TestSignalsAreATable(t *testing.T) {
	seen := map[Signal]bool{}
	for _, row := range Signals() {
		if seen[row.Signal] || row.What == "" || row.Sort == "" {
			t.Errorf("%+v", row)
		}
		seen[row.Signal] = true
	}
	if _, ok := Signal("health").Info(); ok {
		t.Error("a signal that nobody declared")
	}
}

// TestEvents: each type reads back as it was written, and only with its own section.
func TestEvents(t *testing.T) {
	n, big := 79, int64(7)
	events := map[EventType]Event{
		XIDEvent:      {Source: FromKernelLog, GPU: &Identity{PCI: "0000:3b:00.0"}, XID: &XID{Code: &n, Times: 1}},
		SXIDEvent:     {Source: FromKernelLog, XID: &XID{Code: &n, Severity: "Fatal", Times: 3}},
		LostEvent:     {Source: FromKernelLog, XID: &XID{Times: 1}},
		RecoveryEvent: {Source: FromNVML, Action: &Recovery{To: big, Action: ActionUnknown}},
		DeviceEvent:   {Source: FromNVML, Device: &Device{SampledAt: at(), GPU: full(1, zero).GPUs[0]}},
		ProbeEvent: {Source: FromAgent, Probe: &Probe{State: Unknown, Library: DriverNotLoaded, Code: 9,
			Why: "the kernel's module is not loaded"}},
		CoverageEvent: {Source: FromAgent, Coverage: &Coverage{From: at(), To: at().Add(time.Hour),
			Gaps: []Gap{{Cause: "overrun", From: at(), Lost: 7}}}},
		DroppedEvent: {Source: FromAgent,
			Dropped: &Dropped{Since: at(), Count: map[EventType]int64{XIDEvent: 4}, Why: "rate"}},
	}
	for typ, e := range events {
		e.APIVersion, e.Kind, e.Type, e.At = APIVersion, KindEvent, typ, at()
		detail := text(t, e)
		back, err := DecodeEvent(detail)
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		if again := text(t, back); string(again) != string(detail) {
			t.Errorf("%s is\n%s\nwas\n%s", typ, again, detail)
		}
		if !IsWireKind(typ.WireKind()) {
			t.Errorf("%s is no kind on the wire", typ.WireKind())
		}
		for other := range events {
			wrong := e
			wrong.Type = other
			sameSection := e.XID != nil && events[other].XID != nil && (typ == LostEvent) == (other == LostEvent)
			if _, err := DecodeEvent(text(t, wrong)); (err == nil) != (other == typ || sameSection) {
				t.Errorf("%s as %s: %v", typ, other, err)
			}
		}
	}
}

// TestEventsAreRefused: the fields that an event must have.
func TestEventsAreRefused(t *testing.T) {
	n, long := 79, strings.Repeat("x", MaxEvent)
	for want, e := range map[string]Event{
		"unknown type":     {Type: "health", Source: FromNVML},
		"unknown source":   {Type: XIDEvent, Source: "rumour", XID: &XID{Code: &n, Times: 1}},
		"reported 0 times": {Type: XIDEvent, Source: FromNVML, XID: &XID{Code: &n}},
		"is unknown, not":  {Type: RecoveryEvent, Source: FromNVML, Action: &Recovery{To: 7, Action: ActionNone}},
		"without since":    {Type: ProbeEvent, Source: FromAgent, Probe: &Probe{State: Stuck}},
		"unknown state":    {Type: ProbeEvent, Source: FromAgent, Probe: &Probe{State: "healthy"}},
		"whose library is": {Type: ProbeEvent, Source: FromAgent, Probe: &Probe{State: Unknown, Library: Loaded}},
		"ends before":      {Type: CoverageEvent, Source: FromAgent, Coverage: &Coverage{From: at(), To: at().Add(-1)}},
		"what was dropped": {Type: DroppedEvent, Source: FromAgent, Dropped: &Dropped{Since: at()}},
		"more than 4096":   {Type: XIDEvent, Source: FromNVML, XID: &XID{Code: &n, Times: 1, Text: long}},
		"with code: false": {Type: XIDEvent, Source: FromNVML, XID: &XID{Times: 1}},
		"identity is too": {Type: XIDEvent, Source: FromNVML, GPU: &Identity{UUID: long[:300]},
			XID: &XID{Code: &n, Times: 1}},
		"sample has no time": {Type: DeviceEvent, Source: FromNVML, Device: &Device{GPU: full(1, zero).GPUs[0]}},
	} {
		e.APIVersion, e.Kind, e.At = APIVersion, KindEvent, at()
		if _, err := DecodeEvent(text(t, e)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// FuzzDecode: no input makes the decoder fail, and what it accepts can be encoded and accepted again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"gpuaas/v1","kind":"GPUSample","at":"2026-03-01T12:00:00Z","took_ms":1,` +
		`"library":{"state":"built_without","driver":{"not_asked":"no_library"},"nvml":{"not_asked":"no_library"},` +
		`"cuda":{"not_asked":"no_library"}},"count":{"not_asked":"no_library"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if s, err := DecodeSample(line); err == nil {
			if _, err := DecodeSample(text(t, s)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		if e, err := DecodeEvent(line); err == nil {
			if err := e.Check(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestNewerDocumentsAreRead: what a newer probe or node has added is left out, and the rest is read.
func TestNewerDocumentsAreRead(t *testing.T) {
	s := full(2, zero)
	s.GPUs[1].Signals["colour"] = Words("green")
	newer := []byte(strings.Replace(string(text(t, s)), `{"index":1`, `{"shape":[{"a":1}],"index":1`, 1))
	got, err := DecodeSample(newer)
	if err != nil || len(got.GPUs[1].Signals) != len(Signals()) {
		t.Fatalf("%v", err)
	}
	e := Event{APIVersion: APIVersion, Kind: KindEvent, Type: DeviceEvent, Source: FromNVML, At: at(),
		Device: &Device{SampledAt: at(), Count: 2, GPU: s.GPUs[1].Brief()}}
	back, err := DecodeEvent([]byte(strings.Replace(string(text(t, e)), `{`, `{"more":{},`, 1)))
	if err != nil || len(back.Device.GPU.Signals) != len(Signals())-1 { // without the serial number
		t.Errorf("%v", err)
	}
}

// TestCodesAreATable: each return code has one row and words; one about more than its call has a repair, and who can
// do it.
func TestCodesAreATable(t *testing.T) {
	last := 0
	for _, row := range Codes() {
		if row.Code <= last || row.Name == "" || row.Means == "" || (row.Do == "") != (row.Who == "") ||
			(row.About != AboutCall && row.Do == "") || !strings.Contains(Explain(row.Code), row.Means) {
			t.Errorf("%+v", row)
		}
		last = row.Code
	}
	want := "driver and library are of two versions (NVML's return code 18): reboot, or reload the driver"
	if got := Refused(18).Why(); got != want {
		t.Errorf("18 is %q", got)
	}
	if got := Explain(77); !strings.Contains(got, "77") || CodeOf(77).About == AboutCall {
		t.Errorf("an unknown code is %q", got)
	}
	if got := Refused(3).Why(); got != "not supported" {
		t.Errorf("3 is %q", got)
	}
}

// TestResetRequiredByAnyCall: a GPU must be reset whichever call reported so, even one that gives no signal.
func TestResetRequiredByAnyCall(t *testing.T) {
	well := map[Signal]Reading{Power: ReadingOf(1), ResetRequired: ReadingOf(0)}
	for name, tc := range map[string]struct {
		gpu  GPU
		call string
		must bool
	}{
		"well":       {GPU{Handle: ReadingOf(1), Signals: well}, "", false},
		"its handle": {GPU{Handle: Refused(NeedsReset)}, "nvmlDeviceGetHandleByIndex", true},
		"its name": {GPU{Handle: ReadingOf(1), Signals: well, Refusals: []Refusal{{"nvmlDeviceGetPower", 999},
			{"nvmlDeviceGetName", NeedsReset}}}, "nvmlDeviceGetName", true},
		"a signal":     {GPU{Handle: ReadingOf(1), Signals: map[Signal]Reading{MemoryUsed: Refused(NeedsReset)}}, "", true},
		"its field":    {GPU{Handle: ReadingOf(1), Signals: map[Signal]Reading{ResetRequired: ReadingOf(1)}}, "", true},
		"another code": {GPU{Handle: ReadingOf(1), Signals: map[Signal]Reading{Power: Refused(999)}}, "", false},
	} {
		if call, must := tc.gpu.MustReset(); must != tc.must || call != tc.call {
			t.Errorf("%s: %t by %q", name, must, call)
		}
	}
}

// TestLostByAnyCall: a GPU is lost whichever call reported so, even one that gives no signal.
func TestLostByAnyCall(t *testing.T) {
	for name, tc := range map[string]struct {
		gpu  GPU
		lost bool
	}{
		"well":         {GPU{Handle: ReadingOf(1), Signals: map[Signal]Reading{Power: ReadingOf(1)}}, false},
		"its handle":   {GPU{Handle: Refused(GPUIsLost)}, true},
		"its name":     {GPU{Handle: ReadingOf(1), Signals: map[Signal]Reading{Power: Skipped(WasLost)}}, true},
		"a signal":     {GPU{Handle: ReadingOf(1), Signals: map[Signal]Reading{Power: Refused(GPUIsLost)}}, true},
		"another code": {GPU{Handle: ReadingOf(1), Signals: map[Signal]Reading{Power: Refused(999)}}, false},
		"too late":     {GPU{Handle: ReadingOf(1), Signals: map[Signal]Reading{Power: Skipped(Late)}}, false},
	} {
		if tc.gpu.Lost() != tc.lost {
			t.Errorf("%s: lost is %t", name, !tc.lost)
		}
	}
}

// TestPrivateValuesAreLeftOut: no serial number, and no name or user of a process, is in what others get; the rest is.
func TestPrivateValuesAreLeftOut(t *testing.T) {
	g := full(1, func(s Signal) Reading {
		if s.Private() {
			return Words("private-serial")
		}
		return ReadingOf(7)
	}).GPUs[0]
	g.Processes = []Process{{PID: 4121, Type: Compute, Memory: new(int64(5)), Name: "private-name", UID: new(1001),
		User: "private-user"}}
	before := string(text(t, g))
	for what, got := range map[string]GPU{"public": g.Public(), "brief": g.Brief()} {
		line := string(text(t, got))
		if strings.Contains(line, "private") || strings.Contains(line, "1001") || got.Signals[Power].String() != "7" ||
			strings.Contains(line, "4121") != (what == "public") {
			t.Errorf("%s: %s", what, line)
		}
	}
	if after := string(text(t, g)); after != before {
		t.Errorf("it is now %s", after)
	}
}
