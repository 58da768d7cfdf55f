package chaos

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestParameters: what a kind's parameters must be by themselves. want lists the keys with a problem; "" is none.
func TestParameters(t *testing.T) {
	for _, tc := range []struct{ kind, params, want string }{
		{"net-block", `{to: [a], verdict: drop}`, ""}, {"net-block", `{to: [], verdict: drop}`, "to"},
		{"net-block", `{to: [a], verdict: reset, proto: udp}`, "verdict"},
		{"net-block", `{to: [a], verdict: reset, proto: tcp}`, ""}, {"net-block", `{to: [a], verdict: reset}`, ""},
		{"net-block", `{to: [a], verdict: drop, proto: udp}`, ""}, {"net-block", `{to: [a], proto: icmp}`, "verdict proto"},
		{"dns-break", `{how: timeout, name: a}`, ""}, {"dns-break", `{how: timeout}`, "name"},
		{"hosts", `{}`, "remove"}, {"hosts", `{set: {a: 10.0.0.1}}`, ""}, {"hosts", `{set: {a: b}}`, "set.a"},
		{"hosts", `{remove: [a]}`, ""},
		{"file", `{path: /a, text: x}`, ""}, {"file", `{path: /a, absent: true}`, ""}, {"file", `{path: /a}`, "text"},
		{"file", `{path: /a, text: x, absent: true}`, "text"}, {"file", `{path: /a, text: x, seenBy: [u]}`, ""},
		{"file", `{path: /a, absent: true, seenBy: [u]}`, "seenBy"}, {"file", `{path: a, text: x}`, "path"},
		{"file", `{path: /a, text: x, absent: true, seenBy: [u]}`, "text"},
		{"config", `{file: /a, unit: u, edits: [{find: a, replace: b}]}`, ""}, {"config", `{file: /a, unit: u}`, "edits"},
		{"config", `{file: /a, edits: [{find: "", replace: b}]}`, "unit edits[0].find"},
		{"config", `{file: /a, unit: u, edits: [{find: a, replace: a}]}`, "edits[0].find"},
		{"env", `{}`, "set"}, {"env", `{unset: [A]}`, ""}, {"env", `{set: {A: b}}`, ""}, {"env", `{set: {1A: b}}`, "set"},
		{"env", `{set: {A: " b"}}`, "set.A"}, {"env", `{set: {A: "b\nc"}}`, "set.A"},
		{"ca", `{file: /a, seenBy: []}`, "seenBy"}, {"ca", `{file: /a, seenBy: [u]}`, ""},
		{"cert", `{as: expired}`, ""}, {"cert", `{as: expired, token: some}`, "token"}, {"cert", `{}`, "as"},
		{"service-stop", `{units: []}`, "units"}, {"service-stop", `{units: [u]}`, ""},
		{"service-freeze", `{unit: u, how: ice}`, "how"}, {"service-freeze", `{how: signal}`, "unit"},
		{"service-exec", `{unit: u, how: crash-loop}`, ""},
		{"service-exec", `{unit: u, how: crash-loop, args: [a]}`, "args"},
		{"service-exec", `{unit: u, how: program}`, "program"}, {"service-exec", `{unit: u, how: slow-start}`, "delay"},
		{"service-exec", `{unit: u, how: program, program: /a, args: [a]}`, ""},
		{"service-exec", `{unit: u, how: crash-loop, program: /a}`, "program"},
		{"service-exec", `{unit: u, how: crash-loop, delay: 1s}`, "delay"},
		{"service-exec", `{unit: u, how: slow-stop, delay: 1ms}`, ""},
		{"service-exec", `{unit: u, how: program, program: "/a b"}`, "program"},
		{"service-exec", `{unit: u, how: program, program: "/azAZ09._+-/x"}`, ""},
		{"service-exec", `{unit: u, how: program, program: "/a{"}`, "program"},
		{"service-exec", `{unit: u, how: program, program: "/a@"}`, "program"},
		{"service-exec", `{unit: u, how: program, program: "/a:"}`, "program"},
		{"service-exec", `{unit: u, how: program, program: /a, args: [a, "b\nc"]}`, "args[1]"},
		{"disk", `{dir: /a, fill: full}`, ""}, {"disk", `{dir: /, fill: full}`, ""},
		{"disk", `{dir: a, fill: full}`, "dir"},
		{"disk", `{dir: /, fill: small, bytes: 4096}`, "fill"}, {"disk", `{dir: /a, fill: full, percent: 1}`, "percent"},
		{"disk", `{dir: /a, fill: percent}`, "percent"}, {"disk", `{dir: /a, fill: percent, percent: 1}`, ""},
		{"disk", `{dir: /a, fill: percent, percent: 100}`, ""},
		{"disk", `{dir: /a, fill: percent, percent: 101}`, "percent"},
		{"disk", `{dir: /a, fill: small}`, "bytes"}, {"disk", `{dir: /a, fill: small, bytes: 4096}`, ""},
		{"disk", `{dir: /a, fill: small, bytes: 4095}`, "bytes"}, {"disk", `{dir: /a, fill: full, bytes: 4096}`, "bytes"},
		{"disk", `{dir: /a, fill: full, seenBy: u}`, "seenBy"},
		{"disk", `{dir: /a, fill: small, bytes: 8192, seenBy: u}`, ""},
		{"user-missing", `{}`, "user"}, {"user-missing", `{user: a}`, ""},
		{"shell", `{user: a, how: exits}`, ""}, {"shell", `{user: a, how: delays}`, "delay"},
		{"shell", `{user: a, how: exits, delay: 1s}`, "delay"}, {"shell", `{user: a, how: delays, delay: 1ms}`, ""},
		{"signing-key", `{file: /a}`, "unit"}, {"clone", `{}`, "of"}, {"clone", `{of: n1}`, ""},
		{"tasks", `{node: n1, api: "http://127.0.0.1:8080", ttl: 1s}`, ""}, {"tasks", `{node: n1, ttl: 1s}`, "api"},
		{"tasks", `{node: n1, api: "http://127.0.0.1:8080", ttl: 1500ms}`, "ttl"},
		{"tasks", `{api: "http://127.0.0.1:8080"}`, "node ttl"},
		{"guest-agent", `{node: n1, api: "http://127.0.0.1:8080", status: down, for: 1h}`, ""},
		{"guest-agent", `{node: n1, api: "http://127.0.0.1:8080", status: down, for: 3601s}`, "for"},
		{"guest-agent", `{node: n1, api: "http://127.0.0.1:8080", status: down, for: 1500ms}`, "for"},
		{"guest-agent", `{node: n1, api: "http://127.0.0.1:8080", status: down}`, "for"},
		{"guest-agent", `{api: "http://127.0.0.1:8080", status: up, for: 1s}`, "node status"},
		{"release", `{api: "http://127.0.0.1:8080", for: 1s}`, "allocation"},
	} {
		k, ok := KindOf(tc.kind)
		p := k.params()
		found := params(t, tc.params).decode(p, "", func(s string) (string, error) { return s, nil })
		if !ok || len(found) > 0 {
			t.Errorf("%s %s: %v", tc.kind, tc.params, found)
			continue
		}
		var keys []string
		for _, problem := range k.check(p) {
			keys = append(keys, problem.Key)
		}
		if got := strings.Join(keys, " "); got != tc.want {
			t.Errorf("%s %s: problems with %q, want %q", tc.kind, tc.params, got, tc.want)
		}
	}
}

// TestScenarioRules: the rules about a drill's file besides its faults, with their bounds. Each row changes one thing
// of a valid drill; want is part of the only problem, "" is none.
func TestScenarioRules(t *testing.T) {
	valid := builtin(t)["api-egress-blocked"]
	seconds := func(n int) Duration { return Duration(time.Duration(n) * time.Second) }
	for want, change := range map[string]func(s *Scenario){
		"": func(*Scenario) {},
		"shortest": func(s *Scenario) {
			s.Guards.TTL, s.Expect.DetectWithin, s.Guards.Lease = seconds(10),
				seconds(9), 0
		},
		"guards.ttl: 9s": func(s *Scenario) {
			s.Guards.TTL, s.Expect.DetectWithin, s.Guards.Lease = seconds(9),
				seconds(8), 0
		},
		"longest":                  func(s *Scenario) { s.Guards.TTL = seconds(3600) },
		"guards.ttl: 3601s":        func(s *Scenario) { s.Guards.TTL = seconds(3601) },
		"shortest lease":           func(s *Scenario) { s.Guards.Lease = seconds(10) },
		"guards.lease: 9s":         func(s *Scenario) { s.Guards.Lease = seconds(9) },
		"longest lease":            func(s *Scenario) { s.Guards.Lease = s.Guards.TTL },
		"guards.lease: 91s":        func(s *Scenario) { s.Guards.Lease = s.Guards.TTL + seconds(1) },
		"no lease":                 func(s *Scenario) { s.Guards.Lease = 0 },
		"most nodes":               func(s *Scenario) { s.Target.MaxNodes = 16 },
		"target.maxNodes: 17":      func(s *Scenario) { s.Target.MaxNodes = 17 },
		"longest id":               func(s *Scenario) { s.Metadata.ID, s.File = strings.Repeat("a", 48), "-" },
		"metadata.id: ":            func(s *Scenario) { s.Metadata.ID, s.File = strings.Repeat("a", 49), "-" },
		"metadata.owner":           func(s *Scenario) { s.Metadata.Owner = " " },
		"faults is":                func(s *Scenario) { s.Faults = nil },
		"faults[1].id":             func(s *Scenario) { s.Faults = append(s.Faults, s.Faults[0]) },
		"faults[0].id: \"A\"":      func(s *Scenario) { s.Faults[0].ID = "A" },
		"just within the ttl":      func(s *Scenario) { s.Faults[0].At = s.Guards.TTL - 1 },
		"faults[0].at: 90s":        func(s *Scenario) { s.Faults[0].At = s.Guards.TTL },
		"faults[0].at: -1s":        func(s *Scenario) { s.Faults[0].At = -seconds(1) },
		"faults[0].on":             func(s *Scenario) { s.Faults[0].On = RoleOperator },
		"expect.detectWithin is":   func(s *Scenario) { s.Expect.DetectWithin = 0 },
		"detected in the last ms":  func(s *Scenario) { s.Expect.DetectWithin = s.Guards.TTL - 1 },
		"expect.detectWithin: 90s": func(s *Scenario) { s.Expect.DetectWithin = s.Guards.TTL },
		"expect.others": func(s *Scenario) {
			s.Expect = Expect{Blame: Blame{None: true}, DetectWithin: 1, Reason: []diag.ReasonCode{diag.ReasonAgentDown}}
		},
		"expect.mustStayGreen is": func(s *Scenario) { s.Expect = Expect{Blame: Blame{None: true}, DetectWithin: 1} },
		"nothing to be blamed": func(s *Scenario) {
			s.Expect = Expect{Blame: Blame{None: true}, DetectWithin: 1,
				MustStayGreen: StayGreen{Hops: []diag.HopID{diag.HopNodeHeartbeat}}}
		},
		"expect.blame.hop":         func(s *Scenario) { s.Expect.Blame.Hop, s.Expect.FirstFailedHop = nil, nil },
		"expect.blame.signal":      func(s *Scenario) { s.Expect.Blame.Signal = nil },
		"expect.blame.status":      func(s *Scenario) { s.Expect.Blame.Status = diag.StatusPass },
		"a warning":                func(s *Scenario) { s.Expect.Blame.Status = diag.StatusWarn },
		"expect.terminal":          func(s *Scenario) { s.Expect.Terminal = "node lost" },
		"a terminal's end":         func(s *Scenario) { s.Expect.Terminal = "node_lost" },
		"recovery.within":          func(s *Scenario) { s.Recovery.Within = 0 },
		"recovery.within: want":    func(s *Scenario) { s.Recovery.Within = seconds(3601) },
		"recovers in an hour":      func(s *Scenario) { s.Recovery.Within = seconds(3600) },
		"recovery.proof":           func(s *Scenario) { s.Recovery.Proof.Probe = nil },
		"recovery.proof: is the c": func(s *Scenario) { s.Recovery.Proof = s.VerifyInjected.Control },
		"recovery.proof: is the p": func(s *Scenario) { s.Recovery.Proof = s.VerifyInjected.Probe },
		"verifyInjected.control: is the probe": func(s *Scenario) {
			s.VerifyInjected.Control = s.VerifyInjected.Probe
		},
		"verifyInjected.control is missing": func(s *Scenario) { s.VerifyInjected.Control.Probe = nil },
		"verifyInjected.within":             func(s *Scenario) { s.VerifyInjected.Probe.Within = 0 },
		"verifyInjected.control.view":       func(s *Scenario) { s.VerifyInjected.Control.View = "u" },
		"evidence":                          func(s *Scenario) { s.Evidence = nil },
		"evidence[0]":                       func(s *Scenario) { s.Evidence[0] = "a\tb" },
		"a decision": func(s *Scenario) {
			s.Recovery.Decision = &Decision{Path: "/nodes/${node_id}", Reason: "x"}
		},
		"recovery.decision: want": func(s *Scenario) { s.Recovery.Decision = &Decision{Path: "nodes", Reason: "x"} },
		"recovery.decision want":  func(s *Scenario) { s.Recovery.Decision = &Decision{Path: "/nodes", Reason: " "} },
		"recovery.decision.path":  func(s *Scenario) { s.Recovery.Decision = &Decision{Path: "/${x}", Reason: "x"} },
		"an allowed change": func(s *Scenario) {
			s.Recovery.AllowedChanges = []Allowed{{step.ClassFile, "/a",
				"b"}}
		},
		"recovery.allowedChanges[0]: want class": func(s *Scenario) {
			s.Recovery.AllowedChanges = []Allowed{{step.ClassFile, "/a", ""}}
		},
		"recovery.allowedChanges[0] want class": func(s *Scenario) {
			s.Recovery.AllowedChanges = []Allowed{{step.ClassFile, "", "b"}}
		},
		"recovery.allowedChanges[0].key": func(s *Scenario) {
			s.Recovery.AllowedChanges = []Allowed{{step.ClassFile, "[",
				"b"}}
		},
		"recovery.allowedChanges[0].class": func(s *Scenario) { s.Recovery.AllowedChanges = []Allowed{{"x", "/a", "b"}} },
	} {
		s := valid
		s.Evidence, s.Faults = slices.Clone(s.Evidence), slices.Clone(s.Faults)
		change(&s)
		var found []string
		for _, p := range s.settle() {
			found = append(found, p.Key+": "+p.Text)
		}
		fine := !strings.ContainsAny(want, ".[:") && !slices.Contains([]string{"faults is", "evidence"}, want)
		plain := strings.Replace(strings.Replace(want, " is", ": is", 1), " want", ": want", 1)
		if fine != (len(found) == 0) || (!fine && (len(found) > 1 ||
			(!strings.HasPrefix(found[0], want) && !strings.HasPrefix(found[0], plain)))) {
			t.Errorf("%s: %q", want, found)
		}
	}
}

// TestFindingFits: hop, signal and, if there are any, failure must all be among those that are expected.
func TestFindingFits(t *testing.T) {
	f := Finding{Hop: []diag.HopID{diag.HopNodeHeartbeat, diag.HopGPUHealth},
		Signal: []diag.Signal{diag.SigHeartbeatStale}}
	with := f
	with.Failure = []diag.Failure{diag.TCPRefused}
	for _, tc := range []struct {
		f       Finding
		hop     diag.HopID
		signal  diag.Signal
		failure diag.Failure
		want    bool
	}{
		{f, diag.HopGPUHealth, diag.SigHeartbeatStale, diag.TCPTimeout, true}, {f, diag.HopNodeReadiness,
			diag.SigHeartbeatStale, "", false}, {f, diag.HopGPUHealth, diag.SigDiskFull, "", false},
		{with, diag.HopGPUHealth, diag.SigHeartbeatStale, diag.TCPRefused, true},
		{with, diag.HopGPUHealth, diag.SigHeartbeatStale, diag.TCPTimeout, false},
		{with, diag.HopGPUHealth, diag.SigHeartbeatStale, "", false},
	} {
		if got := tc.f.Matches(tc.hop, tc.signal, tc.failure); got != tc.want {
			t.Errorf("%s fits %s %s %s: %v", tc.f, tc.hop, tc.signal, tc.failure, got)
		}
	}
	for _, n := range reasonNames() {
		if n == string(diag.ReasonNone) {
			t.Error("none is a reason that a drill may expect")
		}
	}
	if len(reasonNames()) < 3 || lastOf(nil) != "" ||
		lastOf([]diag.HopID{diag.HopNodeReadiness, diag.HopNodeOpsAccess}) != lastOf([]diag.HopID{diag.HopNodeOpsAccess,
			diag.HopNodeReadiness}) {
		t.Errorf("%q, or the last hop depends on the order", reasonNames())
	}
}

// TestLocks: whether an earlier drill keeps a machine, by the status that it reports.
func TestLocks(t *testing.T) {
	left := func(ms int64) *step.Millis { m := step.Millis(ms); return &m }
	for name, tc := range map[string]struct {
		st   step.Status
		want bool
	}{
		"armed, with a watchdog":  {step.Status{Phase: step.PhaseArmed, Watchdog: 7, TTLLeft: left(0)}, true},
		"armed, with time left":   {step.Status{Phase: step.PhaseArmed, TTLLeft: left(1), LeaseLeft: left(1)}, true},
		"armed, and no times":     {step.Status{Phase: step.PhaseArmed}, true},
		"armed, its ttl over":     {step.Status{Phase: step.PhaseArmed, TTLLeft: left(0), LeaseLeft: left(1)}, false},
		"armed, its lease over":   {step.Status{Phase: step.PhaseArmed, TTLLeft: left(1), LeaseLeft: left(0)}, false},
		"over":                    {step.Status{Phase: step.PhaseOver, State: step.Reverted}, false},
		"over, with a conflict":   {step.Status{Phase: step.PhaseOver, State: step.Conflict}, true},
		"over, and still watched": {step.Status{Phase: step.PhaseOver, Watchdog: 1}, true},
		"it died while it armed":  {step.Status{Phase: step.PhaseArming}, false},
	} {
		b, err := json.Marshal(step.Reply{Status: &tc.st})
		if err != nil {
			t.Fatal(err)
		}
		if got := locks(base64.StdEncoding.EncodeToString(b)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, text := range []string{"", "%%%", base64.StdEncoding.EncodeToString([]byte(`{"x"`)),
		base64.StdEncoding.EncodeToString([]byte(`{}`))} {
		if locks(text) {
			t.Errorf("%q locks", text)
		}
	}
}

// TestLearn: what the answers of a survey say about a machine, and what is no answer.
func TestLearn(t *testing.T) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	args := SurveyArgs(Questions{Tools: []string{"nft"}, Names: []string{"a.test"}, Units: []string{"a.service"},
		Files: []string{"/f", "/d", "/none"}, Texts: []string{"/t"}, Users: []string{"ann", "bob"}})
	var m Machine
	if err := m.ParseSurvey(args, []string{
		"now 1000 0", "ssh 10.0.0.9 50022 10.0.0.1 22", "cgroup2", "nft",
		"drill r1 " + b64(`{"status":{"phase":"armed"}}`), "drill r2 " + b64(`{"status":{"phase":"over"}}`), "drill r3",
		"at 0 /usr/sbin/nft", "at 1 10.0.0.1 ::ffff:10.0.0.1 x fd00::1",
		"at 2 LoadState=loaded ActiveState=active MainPID=7 Private=yes",
		"at 3 regular_file:644:1:2:5 aa " + b64("/real"), "at 4 directory:755:0:0:9 - " + b64("/d"), "at 5",
		"at 6 regular_empty_file:600:0:0:0 bb " + b64("/t"), "text 6 " + b64("hello"),
		"at 7 " + b64("ann:x:1000:1000::/home/ann:/bin/sh"), "at 8", "done"}); err != nil {
		t.Fatal(err)
	}
	if !m.Now.Equal(time.Unix(1000, 0)) || !m.Root || m.SSH.String() != "10.0.0.9:50022" || !m.Cgroup2 || !m.Nft ||
		m.Locked != "r1" || m.Tools["nft"] != "/usr/sbin/nft" || len(m.Names["a.test"]) != 2 {
		t.Errorf("%+v", m)
	}
	if u := m.Units["a.service"]; !u.Loaded || u.Masked || u.Active != "active" || u.PID != 7 || !u.Private {
		t.Errorf("%+v", u)
	}
	if f := m.Files["/f"]; f.Kind != "file" || f.Path != "/real" || f.Mode != 0o644 || f.UID != 1 || f.GID != 2 ||
		f.SHA256 != "aa" {
		t.Errorf("%+v", f)
	}
	if m.Files["/d"].Kind != "dir" || m.Files["/d"].SHA256 != "" || m.Files["/none"].Kind != "" ||
		m.Files["/t"].Text != "hello" || m.Users["ann"].UID != 1000 || m.Users["bob"].UID != -1 {
		t.Errorf("%+v %+v", m.Files, m.Users)
	}
	for _, said := range []string{"now 1000", "now x 0", "at 9 x", "at -1 x", "at x x", "at 7 %", "at 7 " + b64("no user"),
		"at 3 a b", "at 3 regular:644:1:2 aa " + b64("/"), "at 3 regular:9:1:2:5 aa " + b64("/"),
		"at 3 regular:644:x:2:5 aa " + b64("/"), "at 3 regular:644:1:x:5 aa " + b64("/"), "at 3 regular:644:1:2:5 aa %",
		"text 6 %"} {
		if err := new(Machine).ParseSurvey(args, []string{said, "done"}); err == nil {
			t.Errorf("%q is believed", said)
		}
	}
	for _, words := range [][]string{nil, {"0:644:regular_file"}, {"0:644:regular_file", "%"}, {"0", "x"},
		{"0:x:regular_file", "x"}} {
		if c := consent(words); c.Problem == "" || !c.Present || c.Node != "" {
			t.Errorf("%q: %+v", words, c)
		}
	}
}

// TestWords: small rules that the kinds share.
func TestWords(t *testing.T) {
	for s, want := range map[string]bool{"/a": true, "/a/b": true, "/": false, "": false, "a": false, "/a/": false,
		"/a/../b": false, "/..a": true} {
		if got := len(absolute("k", s)) == 0; got != want {
			t.Errorf("%q is absolute: %v", s, got)
		}
	}
	for s, want := range map[string]string{"nginx": "nginx.service", "a.socket": "a.socket", "a.b": "a.b.service", "": "",
		"service": "service.service", "a.target": "a.target"} {
		if got := unitOf(s); got != want {
			t.Errorf("%q: %q", s, got)
		}
	}
	for text, want := range map[string]string{"\n\n a \nb": "a", "-----BEGIN X-----\nMII\n": "MII",
		"-----A-----\n": "-----A-----",
		"":              ""} {
		if got := firstLine(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for want, remotes := range map[string][]string{"10.0.0.9": {"10.0.0.0/8", "10.0.0.9"}, "10.0.0.1": {"10.0.0.0/8"},
		"10.0.0.7": {"10.0.0.7/32"}, "fd00::1": {"fd00::/8"}, "x": {"x/y"}} {
		if got := oneOf(remotes); got != want {
			t.Errorf("%q: %q, want %q", remotes, got, want)
		}
	}
	for arg, want := range map[string]string{"a": "a", "": `""`, "a b": `"a b"`, "100%": "100%%", "$A": "$$A", `a"b`: `"a\"b"`,
		`a\b`: `"a\\b"`, "a;b": `"a;b"`, "a'b": `"a'b"`} {
		if got := execWord(arg); got != want {
			t.Errorf("%q: %s, want %s", arg, got, want)
		}
	}
	if ports(nil) != "" || ports([]uint16{1, 2}) != ":1,2" || net("fd00::1", "2") != "[fd00::1]:2" {
		t.Error("ports, or an address with its port")
	}
	if text, found := withoutUser("a:x\nab:x\nb:x\n", "a"); !found || text != "ab:x\nb:x\n" {
		t.Errorf("%q, %v", text, found)
	}
	if text, found := withoutUser("ab:x\n", "a"); found || text != "ab:x\n" {
		t.Errorf("%q, %v", text, found)
	}
}

// TestNeeds: a fault is refused on a machine that lacks what it changes.
func TestNeeds(t *testing.T) {
	m := testMachine(RoleNode, "n1")
	m.Units["down.service"], m.Units["odd.service"] = Unit{Loaded: true, Active: "failed", PID: 7}, Unit{Loaded: true,
		Active: "active"}
	m.Users["root"], m.Users["none"], m.Files["/link"] = User{}, User{UID: -1}, File{Kind: "file", Path: "/real"}
	m.Files["/plain"] = File{Kind: "file"}
	c := &Case{Machine: &m}
	for name, want := range map[string]bool{"nginx.service": true, "down.service": false, "odd.service": false,
		"x.service": false} {
		if _, no := c.needUnit(name); (no == nil) != want {
			t.Errorf("%s: %v", name, no)
		}
	}
	for name, want := range map[string]bool{"root": true, "tenant01": true, "none": false, "x": false} {
		if _, no := c.needUser(name); (no == nil) != want {
			t.Errorf("%s: %v", name, no)
		}
	}
	for name, want := range map[string]string{"/link": "/real", "/plain": "/plain", "/dev/shm": "", "/x": ""} {
		if f, no := c.needFile(name); (no == nil) != (want != "") || (no == nil && f.Path != want) {
			t.Errorf("%s: %+v, %v", name, f, no)
		}
	}
	if no := c.needTools("nft", "curl"); no != nil {
		t.Error(no)
	}
	if no := c.needTools("nft", "x"); no == nil || !strings.Contains(no.Text, "has no x") {
		t.Error(no)
	}
}
