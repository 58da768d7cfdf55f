package xid

import (
	"slices"
	"testing"
)

// specified are the codes in this project's sources, with the class that follows from them. A code here without a row,
// and a row with another class, fails.
var specified = []struct {
	class    Class
	from, to int
}{
	{App, 8, 8}, {App, 11, 11}, {App, 13, 13}, {App, 25, 25}, {App, 31, 32}, {App, 39, 41}, {App, 43, 43}, {App, 60, 60},
	{App, 68, 72}, {App, 75, 77}, {App, 80, 80}, {App, 82, 86}, {App, 88, 89}, {App, 94, 94}, {App, 96, 105},
	{App, 126, 135}, {App, 139, 139},
	{Info, 37, 38}, {Info, 44, 44}, {Info, 63, 63}, {Info, 66, 67}, {Info, 137, 137}, {Info, 141, 141}, {Info, 152, 153},
	{Info, 160, 161},
	{Sympathetic, 45, 45},
	{GPUReset, 46, 46}, {GPUReset, 48, 48}, {GPUReset, 62, 62}, {GPUReset, 64, 64}, {GPUReset, 95, 95},
	{GPUReset, 109, 110}, {GPUReset, 119, 120}, {GPUReset, 136, 136}, {GPUReset, 140, 140}, {GPUReset, 143, 143},
	{GPUReset, 155, 156}, {GPUReset, 158, 158},
	{Hands, 54, 54}, {Support, 61, 61}, {Link, 74, 74}, {Software, 78, 78}, {Reboot, 79, 79}, {Degraded, 92, 93},
	{Degraded, 121, 121}, {Link, 144, 150}, {VM, 151, 151}, {Carrier, 154, 154}, {Degraded, 157, 157},
	{Unknown, 162, 176},
	// No application prints it, and the catalogue calls it unused.
	{Support, 87, 87},
	// Not specified: the catalogue has an action, or it is a test message of a management bus.
	{Info, 14, 14}, {Info, 106, 108},
}

// TestEveryCodeHasItsClass: each specified code has a row of its class, and each other row is Support, the class of
// codes whose only published action is to contact support.
func TestEveryCodeHasItsClass(t *testing.T) {
	want := map[int]Class{}
	for _, s := range specified {
		for code := s.from; code <= s.to; code++ {
			if was, twice := want[code]; twice {
				t.Errorf("%d is specified as %s and %s", code, was, s.class)
			}
			want[code] = s.class
		}
	}
	for code, class := range want {
		if r, ok := Lookup(code); !ok || r.Class != class {
			t.Errorf("%d: %q, want %q", code, r.Class, class)
		}
	}
	for i, r := range Rows() {
		if r.Code != i+1 {
			t.Fatalf("row %d is of %d: the codes of the driver 595.45.04 are 1 to 176 without a gap", i, r.Code)
		}
		if want[r.Code] == "" && r.Class != Support {
			t.Errorf("%d is %s, and no source is given for that in this test", r.Code, r.Class)
		}
	}
	if len(Rows()) != 176 {
		t.Errorf("%d codes", len(Rows()))
	}
}

// TestEveryRowIsWhole: a row has a title, a reason, steps and provenance, and can be looked up; a view's source is
// known, and every source has a view.
func TestEveryRowIsWhole(t *testing.T) {
	used, titles := map[SourceID]bool{NVSwitchDriver: true, FMGuide: true}, map[string]int{}
	for _, r := range Rows() {
		if got, ok := Lookup(r.Code); !ok || got.Code != r.Code {
			t.Errorf("%d is not found", r.Code)
		}
		if r.Title == "" || r.Reason() == "" || len(r.Steps()) == 0 || r.Condemns() == "" {
			t.Errorf("%d lacks something: %+v", r.Code, r)
		}
		if other := titles[r.Title]; other != 0 {
			t.Errorf("%d and %d are both %q", other, r.Code, r.Title)
		}
		titles[r.Title] = r.Code
		if !slices.ContainsFunc(r.Views, func(v View) bool { return v.Source == Driver || v.Source == Catalog }) {
			t.Errorf("%d has no provenance of NVIDIA's", r.Code)
		}
		for _, v := range r.Views {
			used[v.Source] = true
			if v.Says == "" {
				t.Errorf("%d: %s has no words", r.Code, v.Source)
			}
		}
	}
	for _, s := range Sources() {
		if !used[s.ID] || s.Title == "" || s.Edition == "" || s.Address == "" || s.Licence == "" {
			t.Errorf("source %s is used: %v; %+v", s.ID, used[s.ID], s)
		}
		delete(used, s.ID)
	}
	if len(used) > 0 {
		t.Errorf("no rows for the sources %v", used)
	}
}

// TestSwitchRows: every code of the NVSwitch driver is found, and the lists of the guide have as many as it has.
func TestSwitchRows(t *testing.T) {
	count := map[Class]int{}
	for _, r := range SwitchRows() {
		if got, ok := LookupSwitch(r.Code); !ok || got != r || r.Symbol == "" || !ClassRowOf(r.Class).SXID {
			t.Errorf("%+v", r)
		}
		count[r.Class]++
	}
	for class, n := range map[Class]int{Nonfatal: 26, Fatal: 41, AlwaysFatal: 21, Notable: 5, Unlisted: 306} {
		if count[class] != n {
			t.Errorf("%d are %s, want %d", count[class], class, n)
		}
	}
	for code, class := range map[int]Class{
		20034: Fatal, 19084: Nonfatal, 10003: AlwaysFatal, 22012: Notable, 11002: Unlisted,
	} {
		if r, _ := LookupSwitch(code); r.Class != class {
			t.Errorf("%d is %s, want %s", code, r.Class, class)
		}
	}
}

// TestDisputes: the known disagreements between NVIDIA's own programs are listed, and no agreement is.
func TestDisputes(t *testing.T) {
	for code, want := range map[int][]SourceID{
		13: {FleetManager}, 31: {FleetManager}, 32: {Gpud}, 43: {FleetManager}, 45: nil, 63: {Gpud, FleetManager},
		68: {Gpud}, 69: {Gpud}, 94: {Gpud}, 121: {Gpud}, 109: {Gpud, DevicePlugin}, 48: nil, 79: nil, 119: nil, 64: nil,
		8: nil, 95: nil, 1: nil, 176: nil, 136: {Gpud},
	} {
		r, _ := Lookup(code)
		var got []SourceID
		for _, v := range r.Disputed() {
			got = append(got, v.Source)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d (%s): against it are %v, want %v", code, r.Class, got, want)
		}
	}
}

// TestUnknownIsNeverMild: a code that is not in a table is undecided, and an unpublished code is not found.
func TestUnknownIsNeverMild(t *testing.T) {
	if got := ClassRowOf("nothing of this name").Condemns; got != Undecided {
		t.Errorf("an unknown class condemns %s", got)
	}
	for _, code := range []int{-1, 0, 177, 999, 20034, 1 << 40} {
		if _, ok := Lookup(code); ok {
			t.Errorf("%d is found", code)
		}
	}
}

// TestNear: the codes next to an unknown one, without overflow.
func TestNear(t *testing.T) {
	for _, tc := range []struct {
		code int
		sxid bool
		want []int
	}{
		{177, false, []int{176, 175, 174}}, {0, false, []int{1, 2, 3}}, {20035, true, []int{20035, 20034, 20036}},
		{-1 << 63, false, []int{1, 2, 3}}, {1<<63 - 1, true, []int{30006, 30005, 30004}},
	} {
		if got := Nearest(tc.code, 3, tc.sxid); !slices.Equal(got, tc.want) {
			t.Errorf("%d: %v, want %v", tc.code, got, tc.want)
		}
	}
}
