package step

import (
	"strings"
	"testing"
	"time"
)

// TestWholeDrill: the rules about a drill besides its changes, with their bounds. One mistake is one line. want is
// part of it; "" = the drill is valid.
func TestWholeDrill(t *testing.T) {
	step := func(spoil func(*Step)) func(*Drill) { return func(d *Drill) { spoil(&d.Steps[5]) } }
	allow := func(c Class, key, why string) func(*Drill) {
		return func(d *Drill) { d.Allowed = []Allow{{ClassFile, "/etc/*", "known"}, {c, key, why}} }
	}
	for name, tc := range map[string]struct {
		spoil func(*Drill)
		want  string
	}{
		"the shortest":      {func(d *Drill) { d.TTL = 10_000 }, ""},
		"shorter":           {func(d *Drill) { d.TTL = 9_999 }, "ttl_ms: 9.999s"},
		"the longest":       {func(d *Drill) { d.TTL = 3_600_000 }, ""},
		"longer":            {func(d *Drill) { d.TTL = 3_600_001 }, "ttl_ms: 1h0m0.001s"},
		"shortest lease":    {func(d *Drill) { d.Lease = 2_000 }, ""},
		"shorter lease":     {func(d *Drill) { d.Lease = 1_999 }, "lease_ms: 1.999s"},
		"negative lease":    {func(d *Drill) { d.Lease = -1 }, "lease_ms"},
		"lease that wraps":  {func(d *Drill) { d.Lease = -10_000_000_000_000 }, "lease_ms"}, // 267 years as nanoseconds
		"no node":           {func(d *Drill) { d.Node = "" }, "node is missing"},
		"no time":           {func(d *Drill) { d.At = time.Time{} }, "at is missing"},
		"longest name":      {func(d *Drill) { d.Run = strings.Repeat("a", 24) }, ""},
		"longer name":       {func(d *Drill) { d.Run = strings.Repeat("a", 25) }, "at most 24"},
		"a name with upper": {func(d *Drill) { d.Run = "R1" }, "at most 24"},
		"a name in two":     {func(d *Drill) { d.Run = "r1\nr2" }, "at most 24"},
		"a name of a dash":  {func(d *Drill) { d.Run = "r1-" }, "at most 24"},
		"harmless":          {func(d *Drill) { d.Disposable, d.Steps = false, d.Steps[:1] }, ""},
		"no id":             {step(func(s *Step) { s.ID = "" }), `id ""`},
		"no kind":           {step(func(s *Step) { s.Fault = "" }), "fault is missing"},
		"no tier":           {step(func(s *Step) { s.Tier = "" }), `tier ""`},
		"no changes":        {step(func(s *Step) { s.Changes = nil }), "no changes"},
		"weaker than it is": {step(func(s *Step) { s.Tier = TierPersistent }), ""},
		"stronger":          {step(func(s *Step) { s.Tier = TierWatchdog }), "promises more"},
		"a check of no name": {step(func(s *Step) { s.Verify[0].Name = "" }),
			"verify[0]: name is missing"},
		"tolerance":           {func(d *Drill) { d.Scope = Scope{Bytes: 1, Inodes: 1} }, ""},
		"negative bytes":      {func(d *Drill) { d.Scope.Bytes = -1 }, "a tolerance is negative"},
		"negative inodes":     {func(d *Drill) { d.Scope.Inodes = -1 }, "a tolerance is negative"},
		"scope of a relative": {func(d *Drill) { d.Scope.Files = []string{"/etc", "x"} }, `scope: path "x"`},
		"scope of no unit":    {func(d *Drill) { d.Scope.Units = []string{"a.service", "x"} }, `scope: unit "x"`},
		"allowed":             {allow(ClassNft, "*", "why"), ""},
		"no such class":       {allow("files", "*", "why"), `allowed[1]: class "files"`},
		"no reason":           {allow(ClassFile, "*", ""), "allowed[1]: why is missing"},
		"no pattern":          {allow(ClassFile, "[", "why"), "allowed[1]: syntax error"},
	} {
		d := whole()
		tc.spoil(&d)
		err := d.Validate()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: want one line with %q, got %v", name, tc.want, err)
		}
	}
}

// TestResidue: a difference counts unless its class and its key are allowed.
func TestResidue(t *testing.T) {
	changed := Residue{Class: ClassFile, Key: "/etc/hosts", Before: "a", After: "b"}
	for name, tc := range map[string]struct {
		a    Allow
		want bool
	}{
		"the key":       {Allow{ClassFile, "/etc/hosts", "x"}, true},
		"a pattern":     {Allow{ClassFile, "/etc/*", "x"}, true},
		"another class": {Allow{ClassMount, "/etc/hosts", "x"}, false},
		"another key":   {Allow{ClassFile, "/etc/passwd", "x"}, false},
		"not below":     {Allow{ClassFile, "/*", "x"}, false},
		"no pattern":    {Allow{ClassFile, "[", "x"}, false},
	} {
		if got := tc.a.Covers(changed); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	allowed := changed
	allowed.Allowed = "known"
	appeared, gone := Residue{Class: ClassNft, Key: "k", After: "a"}, Residue{Class: ClassNft, Key: "k", Before: "b"}
	if got := Unexplained([]Residue{allowed, changed, gone}); len(got) != 2 || got[0] != changed || got[1] != gone {
		t.Errorf("%v", got)
	}
	for r, want := range map[Residue]string{
		changed: "file /etc/hosts: a -> b", appeared: "nft k: appeared: a", gone: "nft k: gone: b",
	} {
		if r.String() != want {
			t.Errorf("%q, want %q", r, want)
		}
	}
}
