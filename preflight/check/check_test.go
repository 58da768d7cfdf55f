package check

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// ran is the fact of a command that ended by itself.
func ran(exit int, out string) *diag.Fact {
	return &diag.Fact{ID: "x.a/check", Command: &diag.CommandFacts{Exit: &exit, Out: out}}
}

func of(protocol string) *diag.Check {
	return &diag.Check{Title: "it works", Protocol: protocol, Request: diag.Request{Op: diag.OpCommand,
		Command: &diag.Program{Argv: []string{"/bin/check"}}}}
}

// TestProtocols: what commands print and how they end is read as each protocol says; what is not understood is never a
// pass. The lines of the plugins are as Debian's print them.
func TestProtocols(t *testing.T) {
	for _, p := range []struct {
		protocol string
		exit     int
		out      string
		want     diag.Status
		says     string
	}{
		{diag.ProtocolNagios, 0, "DISK OK - free space: / 29512MiB (61% inode=95%);| /=18446MiB;47957;48957;0;49957\n",
			diag.StatusPass, "DISK OK"},
		{diag.ProtocolNagios, 1, "LOAD WARNING - total load average: 5.10, 4.80, 4.70|load1=5.100;5.000;10.000;0; \n",
			diag.StatusWarn, "LOAD WARNING"},
		{diag.ProtocolNagios, 2, "connect to address 127.0.0.1 and port 9: Connection refused\nHTTP CRITICAL\n",
			diag.StatusFail, "connect to address"},
		{diag.ProtocolNagios, 3, "check_disk: Could not parse arguments\n", diag.StatusInconclusive, "parse arguments"},
		{diag.ProtocolNagios, 137, "OK", diag.StatusInconclusive, "exit 137"},
		{diag.ProtocolNagios, 0, "", diag.StatusInconclusive, "printed nothing"},
		{diag.ProtocolNPD, 0, "ntp is in sync", diag.StatusPass, "in sync"},
		{diag.ProtocolNPD, 1, "ntp is not in sync", diag.StatusFail, "not in sync"},
		{diag.ProtocolNPD, 2, "", diag.StatusInconclusive, "does not know"},
		{diag.ProtocolJSON, 0, `{"status":"pass","message":"all good","metrics":{"n":2}}`, diag.StatusPass, "all good"},
		{diag.ProtocolJSON, 1, `{"status":"fail","message":"two links down"}`, diag.StatusFail, "two links"},
		{diag.ProtocolJSON, 1, `{"status":"pass"}`, diag.StatusInconclusive, "exit 1"},
		{diag.ProtocolJSON, 0, `{"status":"green"}`, diag.StatusInconclusive, "green"},
		{diag.ProtocolJSON, 0, `{"status":"pa`, diag.StatusInconclusive, "not understood"},
		{diag.ProtocolExit, 0, "fine", diag.StatusPass, "fine"},
		{diag.ProtocolExit, 7, "", diag.StatusFail, "exit 7"},
		{"later", 0, "ok", diag.StatusInconclusive, "does not know the protocol"},
	} {
		r := resultOf(ran(p.exit, p.out), of(p.protocol))
		if r.status != p.want || !strings.Contains(r.text, p.says) {
			t.Errorf("%s %d %q: %+v", p.protocol, p.exit, p.out, r)
		}
	}
}

// TestEveryProtocolIsRead: the names that a profile may use and the parsers are the same.
func TestEveryProtocolIsRead(t *testing.T) {
	for _, p := range diag.CheckProtocols {
		if parsers[p.Name] == nil {
			t.Errorf("nothing reads %s", p.Name)
		}
	}
	if len(parsers) != len(diag.CheckProtocols) {
		t.Errorf("%d parsers for %d protocols", len(parsers), len(diag.CheckProtocols))
	}
	for _, row := range diag.CheckRows {
		if parsers[row.Protocol] == nil {
			t.Errorf("nothing reads %s", row.Name)
		}
	}
}

// TestPerfdata: performance data has quoted labels, units, ranges, and further lines.
func TestPerfdata(t *testing.T) {
	r := resultOf(ran(0, "OK | 'a b'=1.5MB;2;3 load=0.2\nmore text | x=7c\n'it''s'=-3%;;\nbad y=1\n"),
		of(diag.ProtocolNagios))
	for name, want := range map[string]string{"a b": "1.5", "load": "0.2", "x": "7", "it's": "-3"} {
		if r.fields[name] != want {
			t.Errorf("%s is %q in %v", name, r.fields[name], r.fields)
		}
	}
	most := 0.1
	c := of(diag.ProtocolNagios)
	c.Pass = &diag.CheckRule{Field: map[string]diag.CheckMatch{"load": {AtMost: &most}}}
	if r := resultOf(ran(0, "OK | load=0.2"), c); r.status != diag.StatusFail || !strings.Contains(r.text, "above 0.1") {
		t.Errorf("%+v", r)
	}
	if r := resultOf(ran(0, "OK"), c); r.status != diag.StatusFail || !strings.Contains(r.text, "no load") {
		t.Errorf("%+v", r)
	}
}

// TestNotRun: a command that was not run, did not end or was ended is neither healthy nor failed.
func TestNotRun(t *testing.T) {
	c := of(diag.ProtocolExit)
	for says, f := range map[string]*diag.Fact{
		"helper is older":  {Failure: diag.Unsupported, Detail: `reading a request: unknown field "command"`},
		"not run in time":  {Failure: diag.Timeout, Phase: "queue"},
		"was not run":      {Failure: diag.NotPermitted, Detail: "it can be written by others"},
		"did not end":      {Failure: diag.Timeout, Command: &diag.CommandFacts{Ended: diag.EndedByLimit}},
		"MiB":              {Command: &diag.CommandFacts{Ended: diag.EndedByFlood}},
		"ended by SIGKILL": {Command: &diag.CommandFacts{Signal: "SIGKILL"}},
	} {
		if r := resultOf(f, c); r.status != diag.StatusInconclusive || !strings.Contains(r.text, says) {
			t.Errorf("%s: %+v", says, r)
		}
	}
}

// TestRules: what a measurement must be for a check to pass.
func TestRules(t *testing.T) {
	yes, no, n := true, false, 80
	http := func(status int) diag.Fact {
		f := diag.Fact{DurationMS: 900, HTTP: &diag.HTTPFacts{Status: status, Fields: map[string]string{"a.b": "ok"}}}
		if status >= 400 {
			f.Failure = diag.HTTPStatus
		}
		return f
	}
	text := "ok"
	for name, r := range map[string]struct {
		rule diag.CheckRule
		f    diag.Fact
		want diag.Status
	}{
		"status":         {diag.CheckRule{Status: []int{200, 401}}, http(401), diag.StatusPass},
		"another status": {diag.CheckRule{Status: []int{200}}, http(503), diag.StatusFail},
		"field": {diag.CheckRule{Field: map[string]diag.CheckMatch{"a.b": {Equals: &text}}}, http(200),
			diag.StatusPass},
		"no field": {diag.CheckRule{Field: map[string]diag.CheckMatch{"c": {Equals: &text}}}, http(200),
			diag.StatusFail},
		"slow": {diag.CheckRule{LatencyBelow: diag.CheckSpan(8e8)}, http(200), diag.StatusFail},
		"full": {diag.CheckRule{UsedPercentBelow: &n}, diag.Fact{Disk: &diag.DiskFacts{UsedPercent: 80}},
			diag.StatusFail},
		"not full": {diag.CheckRule{UsedPercentBelow: &n}, diag.Fact{Disk: &diag.DiskFacts{UsedPercent: 79}},
			diag.StatusPass},
		"absent":  {diag.CheckRule{Exists: &no}, diag.Fact{Failure: diag.FileMissing}, diag.StatusPass},
		"present": {diag.CheckRule{Exists: &yes}, diag.Fact{Failure: diag.FileMissing}, diag.StatusFail},
		"must be closed": {diag.CheckRule{Failure: []diag.Failure{diag.TCPRefused}}, diag.Fact{Failure: diag.TCPRefused},
			diag.StatusPass},
		"must be closed, and is open": {diag.CheckRule{Failure: []diag.Failure{diag.TCPRefused}},
			diag.Fact{TCP: &diag.TCPFacts{}}, diag.StatusFail},
		"no state":    {diag.CheckRule{State: []string{"active"}}, diag.Fact{Failure: diag.UnitMissing}, diag.StatusFail},
		"not allowed": {diag.CheckRule{Exists: &yes}, diag.Fact{Failure: diag.NotPermitted}, diag.StatusInconclusive},
		"no clock":    {diag.CheckRule{SkewBelow: 1}, diag.Fact{}, diag.StatusFail},
	} {
		c := &diag.Check{Title: name, Request: diag.Request{Op: diag.OpHTTP}, Pass: &r.rule}
		if got := resultOf(&r.f, c); got.status != r.want {
			t.Errorf("%s: %+v", name, got)
		}
		if c.Pass, c.Warn = nil, &r.rule; r.want == diag.StatusFail && r.f.Failure == diag.OK {
			if got := resultOf(&r.f, c); got.status != diag.StatusWarn {
				t.Errorf("%s as a warning: %+v", name, got)
			}
		}
	}
}

// FuzzParsers: no output makes a parser panic, and a program that failed never passes.
func FuzzParsers(f *testing.F) {
	f.Add(1, "OK | 'a'=1;")
	f.Add(0, `{"status":"pass"}`)
	f.Fuzz(func(t *testing.T, exit int, out string) {
		for name := range parsers {
			if r := resultOf(ran(exit, out), of(name)); r.status == diag.StatusPass && exit != 0 {
				t.Errorf("%s: exit %d passes: %+v", name, exit, r)
			}
		}
	})
}
