package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// aCase returns a file with one case of these fields.
func aCase(fields string) string {
	return "version: 1\ncases:\n- {name: a, " + fields + "expect: {health: UNKNOWN}}\n"
}

// TestReadingsOfCases: a reading is a number, true or false, a text, not_supported or a failure, and nothing else.
func TestReadingsOfCases(t *testing.T) {
	for text, want := range map[string]report.Reading{
		"41": report.ReadingOf(41), "-3": report.ReadingOf(-3), "0": report.ReadingOf(0), "true": report.Flag(true),
		"false":   report.Flag(false),
		"96.00.1": report.Words("96.00.1"), `"41"`: report.Words("41"), "not_supported": {Unsupported: true},
		"{failed: 1}": report.Refused(1), "{failed: 999}": report.Refused(999),
	} {
		c, err := LoadCases("c", []byte(aCase("gpus: [{signals: {power: "+text+"}}], ")))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Cases[0].Evidence.Sample.GPUs[0].Signals[report.Power]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{"1.5", "[1]", "{}", "{failed: 0}", "{failed: -1}", "{failed: often}",
		"{failed: 1, x: 2}",
		"{fails: 1}", "99999999999999999999"} {
		if _, err := LoadCases("c", []byte(aCase("gpus: [{signals: {power: "+text+"}}], "))); err == nil ||
			!strings.Contains(err.Error(), "c:3: ") ||
			!strings.Contains(err.Error(), "want a number, true, false, a text, not_supported or {failed: CODE}") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestMistakesOfCases: a file of cases is refused with every mistake, or, if its form is wrong, with that.
func TestMistakesOfCases(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "- {name: n%d, no_sample: true, expect: {health: UNKNOWN}}\n", i)
		}
		return "version: 1\ncases:\n" + b.String()
	}
	for name, tc := range map[string]struct{ text, want string }{
		"as it should be": {aCase(""), ""},
		"as many as may":  {many(500), ""},
		"one more":        {many(501), "c:2: cases: want 1 to 500 cases, not 501"},
		"none":            {"version: 1\ncases: []\n", "c:2: cases: want 1 to 500 cases, not 0"},
		"no version":      {strings.Replace(aCase(""), "version: 1\n", "", 1), "c:1: version: want 1, not 0"},
		"another version, and a case without a name": {strings.NewReplacer("version: 1", "version: 2", "name: a, ",
			"").Replace(aCase("")), "c:1: version: want 1, not 2"},
		"an unknown field, and another version": {"version: 2\ncase: []\n",
			`c:2: case: unknown field (did you mean "cases"?)`},
		"not YAML": {"version: [", "c:1: did not find expected node content"},
		"a case unnamed": {strings.Replace(aCase(""), "name: a, ", "", 1),
			`c:3: cases[0].name: want a unique name, not "" (cases[0])`},
		"two of one name": {aCase("") + "- {name: a, expect: {health: UNKNOWN}}\n",
			`c:4: cases[1].name: want a unique name, not "a" (cases[0])`},
		"no health": {"version: 1\ncases:\n- name: a\n",
			`c:3: cases[0].expect.health: want one of HEALTHY, UNKNOWN, DEGRADED, UNHEALTHY, not ""`},
		"two mistakes of one case": {"version: 1\ncases:\n- {name: a, kernel_log: lots}\n",
			`c:3: cases[0]: kernel_log: want watched, not_watched, lost or blind, not "lots"` + "\n" +
				`c:3: cases[0].expect.health: want one of HEALTHY, UNKNOWN, DEGRADED, UNHEALTHY, not ""`},
		"GPUs without a sample": {aCase("no_sample: true, gpus: [{}], "),
			"c:3: cases[0]: has GPUs, and no sample that could have them"},
		"GPUs of a stuck probe": {aCase("probe: stuck, gpus: [{}], "),
			"c:3: cases[0]: has GPUs, and no sample that could have them"},
		"GPUs of no library": {aCase("library: library_not_found, gpus: [{}], "),
			"c:3: cases[0]: sample: 1 GPUs are listed, and the driver counted not asked (no_library)"},
		"an unknown signal": {aCase("gpus: [{}, {signals: {powr: 1}}], "),
			`c:3: cases[0]: gpus[1].signals: there is no signal "powr" (did you mean "power"?)`},
		"an unknown type":   {aCase("events: [{type: xdi}], "), `c:3: cases[0]: event 2: unknown type "xdi"`},
		"an XID of no code": {aCase("events: [{type: xid}], "), "c:3: cases[0]: event 2: type xid with code: false"},
		"a lost with code": {aCase("events: [{type: lost, code: 1}], "),
			"c:3: cases[0]: event 2: type lost with code: true"},
		"no action": {aCase("events: [{type: recovery_action}], "),
			"c:3: cases[0]: event 2: type recovery_action: the section of recovery_action is set: false"},
		"an unknown state": {aCase("probe: asleep, "), `c:3: cases[0]: event 2: unknown state of the probe "asleep"`},
	} {
		_, err := LoadCases("c", []byte(tc.text))
		if got := fmt.Sprint(err); (err == nil) != (tc.want == "") || (err != nil && got != tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestEvidenceOfCases: what a case does not list is as on a healthy node whose kernel log is watched.
func TestEvidenceOfCases(t *testing.T) {
	number := func(n int) *int { return &n }
	action := int64(1)
	at := caseTime()
	for fields, want := range map[string]Evidence{
		"": {Events: []report.Event{{Coverage: &report.Coverage{}}},
			Sample: &report.Sample{Count: report.ReadingOf(0)}},
		"kernel_log: watched, ":     {Events: []report.Event{{Coverage: &report.Coverage{}}}, Sample: &report.Sample{}},
		"kernel_log: not_watched, ": {Sample: &report.Sample{}},
		"kernel_log: lost, ": {Events: []report.Event{{Coverage: &report.Coverage{Lost: 1}}},
			Sample: &report.Sample{}},
		"kernel_log: blind, ": {Events: []report.Event{{Coverage: &report.Coverage{Blind: "it cannot be opened"}}},
			Sample: &report.Sample{}},
		"no_sample: true, age: 3m, ": {Events: []report.Event{{Coverage: &report.Coverage{}}},
			Now: at.Add(3 * time.Minute)},
		"gpus_expected: 8, ": {Events: []report.Event{{Coverage: &report.Coverage{}}}, Sample: &report.Sample{},
			Expected: number(8)},
		"gpus: [{}, {}], ": {Events: []report.Event{{Coverage: &report.Coverage{}}},
			Sample: &report.Sample{Count: report.ReadingOf(2)}},
		"library: loaded, gpus: [{}],": {Events: []report.Event{{Coverage: &report.Coverage{}}},
			Sample: &report.Sample{Count: report.ReadingOf(1)}},
		"library: library_not_found, ": {Events: []report.Event{{Coverage: &report.Coverage{}}}, Sample: &report.Sample{
			Library: report.Library{State: report.LibraryNotFound, Code: 12}, Count: report.Skipped(report.NoLibrary)}},
		"library: driver_not_loaded, ": {Events: []report.Event{{Coverage: &report.Coverage{}}}, Sample: &report.Sample{
			Library: report.Library{State: report.DriverNotLoaded, Code: 9}, Count: report.Skipped(report.NoLibrary)}},
		"library: init_failed, ": {Events: []report.Event{{Coverage: &report.Coverage{}}}, Sample: &report.Sample{
			Library: report.Library{State: report.InitFailed, Code: 999}, Count: report.Skipped(report.NoLibrary)}},
		"library: built_without, ": {Events: []report.Event{{Coverage: &report.Coverage{}}}, Sample: &report.Sample{
			Library: report.Library{State: report.BuiltWithout}, Count: report.Skipped(report.NoLibrary)}},
		"probe: ended, ": {Events: []report.Event{{Coverage: &report.Coverage{}},
			{Probe: &report.Probe{State: report.Ended}}}},
		"probe: stuck, ": {Events: []report.Event{{Coverage: &report.Coverage{}},
			{Probe: &report.Probe{State: report.Stuck, Since: &at}}}},
		"kernel_log: not_watched, events: [{type: xid, code: 45, caused_by: 79, pci: p, pid: 7, process: x, text: " +
			"words}], ": {
			Events: []report.Event{{GPU: &report.Identity{PCI: "p"}, XID: &report.XID{Code: number(45), CausedBy: number(79),
				PID: number(7), Process: "x", Text: "words", Times: 1}}}, Sample: &report.Sample{}},
		"kernel_log: not_watched, events: [{type: sxid, code: 3, severity: Fatal, times: 2, boot: b, uuid: u}], ": {
			Events: []report.Event{{GPU: &report.Identity{UUID: "u"}, XID: &report.XID{Code: number(3), Severity: "Fatal",
				Times: 2, BootID: "b"}}}, Sample: &report.Sample{}},
		"kernel_log: not_watched, events: [{type: lost}, {type: xid, code: 154, recovery: 1}], ": {Events: []report.Event{
			{XID: &report.XID{Times: 1}}, {XID: &report.XID{Code: number(154), Recovery: &action, Times: 1}}},
			Sample: &report.Sample{}},
		"kernel_log: not_watched, events: [{type: recovery_action, recovery: 1, uuid: u}], ": {Events: []report.Event{
			{GPU: &report.Identity{UUID: "u"}, Action: &report.Recovery{To: 1, Action: report.ActionReset}}},
			Sample: &report.Sample{}},
	} {
		c, err := LoadCases("c", []byte(aCase(fields)))
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		got := c.Cases[0].Evidence
		if want.Now.IsZero() {
			want.Now = at
		}
		for i := range got.Events { // the same for every event
			e := &got.Events[i]
			source := report.FromAgent
			if e.XID != nil || e.Action != nil {
				source = report.FromKernelLog
			}
			if e.Source != source || !e.At.Equal(at) {
				t.Errorf("%s: %+v", fields, e)
			}
			e.APIVersion, e.Kind, e.Type, e.At, e.Source = "", "", "", time.Time{}, ""
			if e.Coverage != nil {
				e.Coverage.From, e.Coverage.To, e.Coverage.BootID = time.Time{}, time.Time{}, ""
			}
		}
		if s := got.Sample; s != nil && want.Sample != nil {
			w := want.Sample
			if w.Library.State == "" {
				w.Library.State = report.Loaded
			}
			if w.Count.NotAsked == "" && w.Count.Value == nil {
				w.Count = report.ReadingOf(0)
			}
			if s.Library.State != w.Library.State || s.Library.Code != w.Library.Code || !s.Count.Equal(w.Count) ||
				int64(len(s.GPUs)) != valueOf(s.Count) {
				t.Errorf("%s: %+v, want %+v", fields, s, w)
			}
			got.Sample, want.Sample = nil, nil
		}
		if a, b := asText(t, got), asText(t, want); a != b {
			t.Errorf("%s:\n%s\n%s", fields, a, b)
		}
	}
}

func valueOf(r report.Reading) int64 { n, _ := r.Number(); return n }

func asText(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestLoadSample: the last sample of a file counts, and a mistake in it has its line.
func TestLoadSample(t *testing.T) {
	c, err := LoadCases("c", []byte(aCase("gpus: [{name: first}], ")))
	if err != nil {
		t.Fatal(err)
	}
	line := asText(t, c.Cases[0].Evidence.Sample)
	s, err := LoadSample("s", []byte(line+"\n"+strings.Replace(line, "first", "last", 1)+"\n\n"))
	if err != nil || s.GPUs[0].Name != "last" {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{"": "s:1: decode a GPU sample", line + "\n{}": "s:2: check a GPU sample"} {
		if _, err := LoadSample("s", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLoadEvents: an event on each line; empty lines count as lines only.
func TestLoadEvents(t *testing.T) {
	c, err := LoadCases("c", []byte(aCase("events: [{type: lost}], ")))
	if err != nil {
		t.Fatal(err)
	}
	first, second := asText(t, c.Cases[0].Evidence.Events[0]), asText(t, c.Cases[0].Evidence.Events[1])
	all, err := LoadEvents("e", []byte("\n"+first+"\n \n"+second+"\n"))
	if err != nil || asText(t, all) != "["+first+","+second+"]" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := LoadEvents("e", []byte(first+"\n\n{}\n")); err == nil || !strings.HasPrefix(err.Error(),
		"e:3: check a GPU event") {
		t.Error(err)
	}
	if all, err := LoadEvents("e", nil); len(all) > 0 || err != nil {
		t.Errorf("an empty file: %+v, %v", all, err)
	}
}
