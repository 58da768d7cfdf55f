package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestPolicyBounds: each key's bounds are allowed, and nothing outside; a key whose bound is its default says that it
// may only be tightened.
func TestPolicyBounds(t *testing.T) {
	// the default, the bounds, and whether a profile may only tighten it upwards or downwards
	want := map[string][3]int64{
		"node.recovery_token_max_age_seconds": {86400, 60, 86400}, "node.heartbeat_stale_after_seconds": {120, 1, 300},
		"node.task_stale_sweep_interval_seconds": {60, 1, 1800}, "audit.dedupe_window_seconds": {300, 1, 86400},
		"node.heartbeat_interval_seconds": {15, 1, 300}, "node.task_wait_seconds": {25, 1, 300},
		"node.disk_pressure_percent": {90, 1, 90}, "terminal.node_stream_timeout_seconds": {20, 1, 120},
		"terminal.token_ttl_seconds": {60, 1, 3600}, "chaos.min_ttl_seconds": {10, 10, 3600},
		"severity.p0_detect_seconds": {60, 1, 60}, "severity.p0_repair_seconds": {900, 1, 900},
		"severity.p1_detect_seconds": {300, 1, 300}, "severity.p1_repair_seconds": {3600, 1, 3600},
		"severity.p2_detect_seconds": {1800, 1, 1800},
	}
	if len(PolicyRows) != len(want) || len(DefaultPolicy()) != len(want) {
		t.Errorf("%d keys, %d defaults, want %d", len(PolicyRows), len(DefaultPolicy()), len(want))
	}
	const tighten = "a profile may tighten it, never weaken it"
	for key, w := range want {
		for v, ok := range map[int64]bool{w[1] - 1: false, w[1]: true, w[0]: true, w[2]: true, w[2] + 1: false} {
			err := checkPolicy(key, v)
			bound := (v > w[2] && w[2] == w[0]) || (v < w[1] && w[1] == w[0])
			if (err == nil) != ok || (err != nil && strings.Contains(err.Error(), tighten) != bound) {
				t.Errorf("%s = %d: %v", key, v, err)
			}
		}
		set := Profile{Policy: map[string]int64{key: w[1]}}
		if got := (Profile{}).PolicyValue(key); got != w[0] || set.PolicyValue(key) != w[1] || DefaultPolicy()[key] != w[0] {
			t.Errorf("%s: %d, set %d", key, got, set.PolicyValue(key))
		}
		if all := withDefaultPolicy(map[string]int64{key: w[1]}); all[key] != w[1] || len(all) != len(want) {
			t.Errorf("%s with defaults: %v", key, all)
		}
	}
	if (Profile{}).PolicyValue("other") != 0 || checkPolicy("other", 1) == nil {
		t.Error("a key that is not there")
	}
}

// TestCheckedValues: for each kind of value, what is just accepted and what is just not.
func TestCheckedValues(t *testing.T) {
	ok := func(err error) bool { return err == nil }
	hex := strings.Repeat("ab", 32)
	for name, tc := range map[string]struct{ good, bad []bool }{
		"port": {[]bool{ok(checkPort(1)), ok(checkPort(65535))}, []bool{ok(checkPort(0)), ok(checkPort(-1)),
			ok(checkPort(65536))}},
		"budget": {[]bool{ok(checkBudget(diag.HopNodeReadiness, time.Millisecond)), ok(checkBudget(diag.HopNodeReadiness,
			5*time.Minute))},
			[]bool{ok(checkBudget(diag.HopNodeReadiness, time.Millisecond-1)), ok(checkBudget(diag.HopNodeReadiness,
				5*time.Minute+1)),
				ok(checkBudget("other", time.Second))}},
		"fingerprint": {[]bool{ok(checkFingerprint(hex))}, []bool{ok(checkFingerprint(hex[2:])), ok(checkFingerprint(hex +
			"ab")),
			ok(checkFingerprint(strings.ToUpper(hex))), ok(checkFingerprint(strings.Repeat("x", 64)))}},
		"id": {[]bool{ok(CheckID("")), ok(CheckID("a.b-c_d:1")), ok(CheckID(strings.Repeat("a", 255)))},
			[]bool{ok(CheckID("-a")), ok(CheckID("a b")), ok(CheckID("a\x01")), ok(CheckID("a$b")),
				ok(CheckID(strings.Repeat("a", 256)))}},
		"login": {[]bool{ok(checkLogin("root")), ok(checkLogin("a-b"))}, []bool{ok(checkLogin("")), ok(checkLogin("-a")),
			ok(checkLogin("a@b"))}},
		"text": {[]bool{ok(checkPlain("")), ok(checkPlain("a b"))}, []bool{ok(checkPlain("a\nb")), ok(checkPlain("a\x00"))}},
		"command": {[]bool{ok(checkCommand([]string{"a"})), ok(checkCommand([]string{"a b", "c"})),
			ok(checkCommand([]string{"a", "b c"}))},
			[]bool{ok(checkCommand(nil)), ok(checkCommand([]string{})), ok(checkCommand([]string{""})),
				ok(checkCommand([]string{"a b"})),
				ok(checkCommand([]string{"a", "b\nc"}))}},
		"path": {[]bool{ok(checkAppPath("/")), ok(checkAppPath("/a"))}, []bool{ok(checkAppPath("a")),
			ok(checkAppPath("/a?b")), ok(checkAppPath("/a b"))}},
		"server": {[]bool{ok(checkServer("10.0.0.1")), ok(checkServer("10.0.0.1:53")), ok(checkServer("::1")),
			ok(checkIP("::1"))},
			[]bool{ok(checkServer("a.test")), ok(checkServer("10.0.0.1:70000")), ok(checkIP("10.0.0.1:53"))}},
		"URL": {[]bool{ok(checkURL("https://a.test")), ok(checkURL("http://a.test:80")), ok(checkURL("https://a.test/x@y"))},
			[]bool{ok(checkURL("https://u@a.test")), ok(checkURL("https://a.test?q")), ok(checkURL("https://a.test#f")),
				ok(checkURL("ftp://a.test")),
				ok(checkURL("https://:80")), ok(checkURL("a.test")), ok(checkURL("https://%"))}},
		"GPU policy": {[]bool{ok(checkGPUPolicy(GPU{})), ok(checkGPUPolicy(GPU{Policy: GPUPolicies()[0]})),
			ok(checkGPUPolicy(GPU{Policy: "./mine.yaml"}))},
			[]bool{ok(checkGPUPolicy(GPU{Policy: "other"})), ok(checkGPUPolicy(GPU{Policy: "./a\nb.yaml"}))}},
	} {
		if i := slices.Index(tc.good, false); i >= 0 {
			t.Errorf("%s: good value %d is refused", name, i)
		}
		if i := slices.Index(tc.bad, true); i >= 0 {
			t.Errorf("%s: bad value %d is accepted", name, i)
		}
	}
	for v, want := range map[string]string{"/a": "/a", "/a?b": "/a…", "?b": "…", "/a#b": "/a…"} {
		if got := withoutQuery(v); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
}

// TestMistakesAreFoundByKey: each value that is checked has its key in the error, whichever part of a profile it is in.
func TestMistakesAreFoundByKey(t *testing.T) {
	for want, p := range map[string]Profile{
		"api_base":                          {APIBase: "x"},
		"ssh.port":                          {SSH: SSH{Port: 70000}},
		"ssh.host":                          {SSH: SSH{Host: "h"}},
		"platform_ssh.port":                 {PlatformSSH: SSH{Port: -1}},
		"platform_ssh.host":                 {PlatformSSH: SSH{Host: "-h"}},
		"nodes":                             {Nodes: map[string]Node{"": {Host: "h"}}},
		"nodes.-n":                          {Nodes: map[string]Node{"-n": {Host: "h"}}},
		"nodes.n.host":                      {Nodes: map[string]Node{"n": {Host: "-h"}}},
		"nodes.n.port":                      {Nodes: map[string]Node{"n": {Host: "h", Port: 70000}}},
		"nodes.n.user":                      {Nodes: map[string]Node{"n": {Host: "h", User: "-u"}}},
		"trust.signing_ca_fingerprint":      {Trust: Trust{SigningCAFingerprint: "x"}},
		"trust.ingress_ca_fingerprint":      {Trust: Trust{IngressCAFingerprint: "x"}},
		"trust.node_api_server_fingerprint": {Trust: Trust{NodeAPIServerFingerprint: "x"}},
		"policy.x":                          {Policy: map[string]int64{"x": 1}},
		"budgets.x":                         {Budgets: map[diag.HopID]time.Duration{"x": time.Second}},
		"mapping.paths.x":                   {Mapping: Mapping{Paths: map[string]string{"x": "/"}}},
		"mapping.fields.x":                  {Mapping: Mapping{Fields: map[string]string{"x": "y"}}},
		"node_name_servers[1]":              {NodeNameServers: []string{"10.0.0.1", "x"}},
		"auth.token_command":                {Auth: Auth{TokenCommand: []string{}}},
		"auth.edge_cookie_command":          {Auth: Auth{EdgeCookieFile: "f", EdgeCookieCommand: []string{"a"}}},
		"agent.version_command":             {Agent: Agent{VersionCommand: []string{}}},
		"chaos.windows[0]":                  {Chaos: Chaos{Windows: []string{"x"}}},
		"app.websocket":                     {App: App{Websocket: "x"}},
		"app.headers_path":                  {App: App{HeadersPath: "x"}},
		"app.injected_headers[1]":           {App: App{InjectedHeaders: []string{"X-A", "a b"}}},
		"gpu.policy":                        {GPU: GPU{Policy: "other"}},
		"terminal_base":                     {TerminalBase: "http://a.test", Auth: Auth{TokenFile: "t"}},
		"": {APIBase: "https://a.test", SSH: SSH{Port: 22, User: "u"},
			Nodes: map[string]Node{"n": {Host: "h"}}},
	} {
		var keys []string
		for _, found := range problems(&p) {
			keys = append(keys, found.key)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

// TestWindowBounds: a drill begins at or after the window's first minute, and ends before its last, on the same day.
func TestWindowBounds(t *testing.T) {
	at := func(clock string) time.Time {
		when, err := time.Parse("2006-01-02 15:04:05", "2026-11-20 "+clock) // a Friday
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, tc := range []struct {
		window, clock string
		takes         time.Duration
		want          bool
	}{
		{"Fri 12:00-13:30", "11:59:59", 0, false}, {"Fri 12:00-13:30", "12:00:00", 0, true},
		{"Fri 12:00-13:30", "13:29:59", 0, true}, {"Fri 12:00-13:30", "13:30:00", 0, false},
		{"Fri 12:00-13:30", "13:20:00", 9 * time.Minute, true}, {"Fri 12:00-13:30", "13:20:00", 10 * time.Minute, false},
		{"Fri 12:00-13:30", "12:10:00", 24 * time.Hour, false}, {"Thu 12:00-13:30", "12:10:00", 0, false},
		{"Sat 12:00-13:30", "12:10:00", 0, false}, {"Fri-Fri 12:00-13:30", "12:10:00", 0, true},
		{"Sat-Thu 12:00-13:30", "12:10:00", 0, false}, {"Sat-Fri 12:00-13:30", "12:10:00", 0, true},
		{"Mon,Fri 12:00-13:30", "12:10:00", 0, true}, {"Fri 14:00-14:30 Europe/Berlin", "13:10:00", 0, true},
		{"Fri 13:00-13:30 Europe/Berlin", "13:10:00", 0, false}, {"Sun-Fri 12:00-13:30", "12:10:00", 0, true},
		{"Thu-Sun 12:00-13:30", "12:10:00", 0, true}, {"Sun 12:00-13:30", "12:10:00", 0, false},
	} {
		w, err := ParseWindow(tc.window)
		if err != nil {
			t.Errorf("%s: %v", tc.window, err)
		} else if got := w.Open(at(tc.clock), tc.takes); got != tc.want {
			t.Errorf("%s at %s for %v: %v", tc.window, tc.clock, tc.takes, got)
		}
	}
	for _, text := range []string{"Fri 12:00-12:00", "Fri 12:00", "Fri x-13:00", "Fri 12:00-x", "Fri-x 12:00-13:00",
		"x-Fri 12:00-13:00", "Fri 12:00-13:00 UTC x", "Fri 13:00-12:00", "Fri, 12:00-13:00"} {
		if _, err := ParseWindow(text); err == nil {
			t.Errorf("%q is a window", text)
		}
	}
	if _, err := ParseWindow("Fri 12:00-12:01"); err != nil {
		t.Error(err)
	}
}

// TestWhoMayUse: of a profile that others could have written, any secret, key or program is refused.
func TestWhoMayUse(t *testing.T) {
	foreign := errors.New("it belongs to user 7")
	for key, p := range map[string]Profile{
		"auth.token_file": {Auth: Auth{TokenFile: "x"}}, "auth.token_command": {Auth: Auth{TokenCommand: []string{"x"}}},
		"auth.edge_cookie_file":    {Auth: Auth{EdgeCookieFile: "x"}},
		"auth.edge_cookie_command": {Auth: Auth{EdgeCookieCommand: []string{"x"}}},
		"ssh.identity":             {SSH: SSH{Identity: "x"}}, "platform_ssh.identity": {PlatformSSH: SSH{Identity: "x"}},
		"agent.version_command": {Agent: Agent{VersionCommand: []string{"x"}}}, "chaos.ca_key": {Chaos: Chaos{CAKey: "x"}},
	} {
		var mistake *FileError
		if err := p.mayUse("p.yaml", map[string]int{key: 7}, foreign); !errors.As(err, &mistake) || mistake.Line != 7 ||
			!strings.Contains(err.Error(), "with "+key+", ") || !strings.Contains(err.Error(), "user 7") {
			t.Errorf("%s: %v", key, err)
		}
		if err := p.mayUse("p.yaml", nil, nil); err != nil {
			t.Errorf("%s, our own profile: %v", key, err)
		}
	}
	if err := (&Profile{APIBase: "https://a.test"}).mayUse("p.yaml", nil, foreign); err != nil {
		t.Errorf("nothing of ours is used: %v", err)
	}
}

// TestSettledPaths: relative paths are the file's, ~/ is the user's, programs without a slash are searched in PATH.
func TestSettledPaths(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for from, want := range map[string]string{"": "", "x": "/p/x", "./x": "/p/x", "/x": "/x", "~/x": "/home/me/x",
		"~x": "/p/~x"} {
		p := Profile{SSH: SSH{Identity: from, KnownHosts: from}, PlatformSSH: SSH{Identity: from, KnownHosts: from},
			Auth: Auth{TokenFile: from, EdgeCookieFile: from}, Trust: Trust{OperatorCA: from, NodeCA: from},
			Chaos: Chaos{CACert: from, CAKey: from}}
		settlePaths(&p, "/p")
		for i, got := range []string{p.SSH.Identity, p.SSH.KnownHosts, p.PlatformSSH.Identity, p.PlatformSSH.KnownHosts,
			p.Auth.TokenFile, p.Auth.EdgeCookieFile, p.Trust.OperatorCA, p.Trust.NodeCA, p.Chaos.CACert, p.Chaos.CAKey} {
			if got != want {
				t.Errorf("path %d %q: %q, want %q", i, from, got, want)
			}
		}
	}
	for _, tc := range []struct{ dir, from, want string }{
		{"/p", "pass", "pass"}, {"/p", "./pass", "/p/pass"}, {"/p", "bin/pass", "/p/bin/pass"}, {"/p", "/pass", "/pass"},
		{"/p", "~/pass", "/home/me/pass"}, {".", "./pass", "./pass"}, {".", "/pass", "/pass"},
		{".", "~/pass", "/home/me/pass"}, {".", "pass", "pass"},
	} {
		p := Profile{Auth: Auth{TokenCommand: []string{tc.from, "./a"}, EdgeCookieCommand: []string{tc.from}},
			GPU: GPU{Policy: "./mine.yaml"}}
		settlePaths(&p, tc.dir)
		if got := p.Auth.TokenCommand; got[0] != tc.want || got[1] != "./a" || p.Auth.EdgeCookieCommand[0] != tc.want {
			t.Errorf("%s in %s: %q and %q, want %q", tc.from, tc.dir, got, p.Auth.EdgeCookieCommand, tc.want)
		}
		if want := filepath.Join(tc.dir, "mine.yaml"); p.GPU.Policy != want {
			t.Errorf("policy in %s: %q, want %q", tc.dir, p.GPU.Policy, want)
		}
	}
	t.Setenv("HOME", "")
	homeless := Profile{SSH: SSH{Identity: "~/x"}}
	if settlePaths(&homeless, "/p"); homeless.SSH.Identity != "~/x" {
		t.Errorf("without a home: %q", homeless.SSH.Identity)
	}
	builtIn := Profile{GPU: GPU{Policy: GPUPolicies()[0]}}
	if settlePaths(&builtIn, "/p"); builtIn.GPU.Policy != GPUPolicies()[0] {
		t.Errorf("a built-in policy became %q", builtIn.GPU.Policy)
	}
}

// TestOverridesReplace: a file or a login given for this run replaces what the profile has beside it.
func TestOverridesReplace(t *testing.T) {
	p := func() *Profile {
		return &Profile{Auth: Auth{TokenCommand: []string{"t"}, EdgeCookieCommand: []string{"c"}},
			Nodes: map[string]Node{"n": {Host: "h", User: "u", Port: 7}}}
	}
	for key, want := range map[string]string{
		"auth.token_file":       "false true u 7",
		"auth.edge_cookie_file": "true false u 7",
		"ssh.user":              "true true  7",
		"ssh.port":              "true true u 0",
		"api_base":              "true true u 7",
	} {
		value := map[string]string{"ssh.port": "22", "api_base": "https://a.test"}[key]
		if value == "" {
			value = "x"
		}
		got, origins := p(), Origins{}
		nodes := got.Nodes
		if err := override(got, origins, map[string]Flag{key: {"--f", value}},
			func(string) string { return "" }); err != nil {
			t.Fatal(err)
		}
		n := got.Nodes["n"]
		if text := fmt.Sprintf("%v %v %s %d", got.Auth.TokenCommand != nil, got.Auth.EdgeCookieCommand != nil, n.User,
			n.Port); text != want || origins[key] != "flag "+
			"--f" || len(origins) != 1 || nodes["n"].User != "u" || nodes["n"].Port != 7 {
			t.Errorf("%s: %s, want %s; %v", key, text, want, origins)
		}
	}
}

// TestSecretsAreOneLine: what is a secret, at its bounds.
func TestSecretsAreOneLine(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want string
		bad  string
	}{
		"a line":            {"s\n", "s", ""},
		"many breaks":       {"s\r\n\n", "s", ""},
		"no break":          {"s t", "s t", ""},
		"the longest":       {strings.Repeat("s", 16<<10), strings.Repeat("s", 16<<10), ""},
		"longer":            {strings.Repeat("s", 16<<10+1), "", "longer than"},
		"empty":             {"", "", "is empty"},
		"blank":             {" \t\n", "", "is empty"},
		"two lines":         {"s\nt", "", "more than one line"},
		"a control":         {"s\x1ft", "", "more than one line"},
		"a deleted one":     {"s\x7f", "", "more than one line"},
		"the first printed": {"a !", "a !", ""},
	} {
		got, err := oneSecret("x", []byte(tc.text))
		if got.Reveal() != tc.want || (err == nil) != (tc.bad == "") || (err != nil && !strings.Contains(err.Error(),
			tc.bad)) {
			t.Errorf("%s: %q, %v", name, got.Reveal(), err)
		}
	}
}

// TestSecretFiles: a file that its group or others may use is refused, by each permission.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	if err := os.WriteFile(path, []byte("s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o600, 0o400, 0o700, 0o601, 0o602, 0o604, 0o610, 0o620, 0o640} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSecret(t.Context(), path); (err == nil) != (mode&0o077 == 0) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	for name, path := range map[string]string{"a folder": dir, "none": dir + "/none"} {
		if _, err := ReadSecret(t.Context(), path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(t.Context(), pipe); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("a pipe that nobody writes to: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(over, path); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestOwnFilesAreBounded: a file of the most bytes is read, a longer one is not.
func TestOwnFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]bool{4: false, 5: true, 6: true} {
		f, err := openOwn(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := f.read(most)
		if (err == nil) != want || (want && string(text) != "12345") {
			t.Errorf("at most %d: %q, %v", most, text, err)
		}
		f.Close()
		if _, err := f.read(most); err == nil {
			t.Error("a closed file is read")
		}
	}
	if _, err := ReadOwn(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if text, err := ReadCA(""); text != "" || err != nil {
		t.Errorf("no path: %q, %v", text, err)
	}
	for _, p := range []string{path, path + "x"} {
		if _, err := ReadCA(p); err == nil {
			t.Errorf("%s holds a certificate", p)
		}
	}
	var b clipped
	b.most = 3
	for _, tc := range []struct {
		text string
		n    int
		full bool
	}{{"ab", 2, false}, {"cd", 1, true}, {"e", 0, true}} {
		if n, err := b.Write([]byte(tc.text)); n != tc.n || (err == nil) != (n == len(tc.text)) || b.full() != tc.full {
			t.Errorf("%s: %d, %v, full %v", tc.text, n, err, b.full())
		}
	}
}

// TestProfileFolders: where profiles lie, and which files are profiles.
func TestProfileFolders(t *testing.T) {
	for xdg, want := range map[string]string{"": "/h/.config/gpuaasctl/profiles", "x": "/h/.config/gpuaasctl/profiles",
		"/x": "/x/gpuaasctl/profiles"} {
		if got := Dir(func(k string) string {
			return map[string]string{"HOME": "/h",
				"XDG_CONFIG_HOME": xdg}[k]
		}); got != want {
			t.Errorf("%q: %s, want %s", xdg, got, want)
		}
	}
	for name, want := range map[string]string{"a": "/d/a.yaml", "a.yaml": "a.yaml", "a.yml": "a.yml", "./a": "./a"} {
		if got := Path(name, "/d"); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yaml", ".yaml", "c.yml", "d"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "e.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := List(dir); !slices.Equal(got, []string{"a", "b"}) || List(dir+"/none") != nil {
		t.Errorf("%v", got)
	}
	for known, want := range map[string]string{"": "it holds no profile", "a": "it has: a"} {
		e := &NotFoundError{Name: "x", Dir: "/d"}
		if known != "" {
			e.Known = []string{known}
		}
		if !strings.Contains(e.Error(), want) {
			t.Error(e)
		}
	}
	p := Profile{Nodes: map[string]Node{"n1": {}, "n2": {}}}
	if p.OtherNodes("n1") != "" || p.OtherNodes("n3") == "" || (&Profile{}).OtherNodes("n3") != "" {
		t.Errorf("%q, %q", p.OtherNodes("n1"), p.OtherNodes("n3"))
	}
	if _, _, err := Load("./none", Sources{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that is not there: %v", err)
	}
}

// TestDefaultProfile: the one in use, else the only one.
func TestDefaultProfile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ file, text, want string }{
		{"", "", ""}, {"profiles/a.yaml", "", "a"}, {"profile", " \n", "a"}, {"profile", "c\n", "c"}, {"profile", "cc", "cc"},
		{"profiles/b.yaml", "", "cc"}, {"profile", "", ""},
	} {
		if step.file != "" {
			if err := os.WriteFile(filepath.Join(filepath.Dir(dir), step.file), []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := Default(dir); got != step.want {
			t.Errorf("with %s %q: %q, want %q", step.file, step.text, got, step.want)
		}
	}
	if err := errors.Join(os.Remove(InUse(dir)), os.Mkdir(InUse(dir), 0o700), os.Remove(dir+"/b.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := Default(dir); got != "a" {
		t.Errorf("the one in use cannot be read: %q", got)
	}
}

// TestPathsThatFollowOthers: a platform without evidence has none of nodes and sessions either, and one with its own
// path for nodes gets no default path for GPUs.
func TestPathsThatFollowOthers(t *testing.T) {
	const own = "/own/{node_id}"
	for name, tc := range map[string]struct {
		paths  map[string]string
		absent []string
	}{
		"the reference platform": {nil, nil},
		"no evidence": {map[string]string{PathEvidence: Absent}, []string{PathEvidence, PathNodeEvidence,
			PathSessionEvidence}},
		"its own evidence": {map[string]string{PathEvidence: "/e"}, nil},
		"none but of nodes": {map[string]string{PathEvidence: Absent, PathNodeEvidence: own},
			[]string{PathEvidence, PathSessionEvidence}},
		"its own nodes":           {map[string]string{PathNode: own}, []string{PathNodeGPU}},
		"its own nodes, and GPUs": {map[string]string{PathNode: own, PathNodeGPU: own}, nil},
		"the same path for nodes": {map[string]string{PathNode: defaultPath(PathNode)}, nil},
		"no path for trust":       {map[string]string{PathTrust: Absent}, []string{PathTrust}},
	} {
		m := Mapping{Paths: tc.paths}
		for _, path := range pathNames() {
			want := slices.Contains(tc.absent, path)
			if m.Lacks(path) != want || (m.Path(path, nil) == "") != want {
				t.Errorf("%s: %s is absent: %v", name, path, m.Lacks(path))
			}
		}
	}
	for v, want := range map[string]bool{"${A}": true, "${A": false, "A}": false, "A": false, "${A}${B}": false,
		"${A/B}": false,
		"${A?}":  false, "": false, "{A}": false} {
		if got := deferred(v); got != want {
			t.Errorf("%q is expanded on the node: %v", v, got)
		}
	}
	for _, tc := range []struct {
		field, path string
		want        bool
	}{
		{"error.code", "a.b-c.0", true}, {"error.code", "a.#.b", false}, {"error.message", "a.#.b", false},
		{"error.message", "a.b", true}, {"node.status", "a.#.b", true}, {"node.status", "", false},
		{"node.status", Absent, true}, {"other", "a", false},
	} {
		if err := checkField(tc.field, tc.path); (err == nil) != tc.want {
			t.Errorf("%s at %q: %v", tc.field, tc.path, err)
		}
	}
}

// TestOneMistakeAtATime: values are checked once a file can be decoded; a file that can be read is returned whole.
func TestOneMistakeAtATime(t *testing.T) {
	_, _, err := parse("f", []byte("ssh: {usr: x}\napi_base: y\n"))
	if err == nil || strings.Contains(err.Error(), "https://") {
		t.Errorf("a file that cannot be decoded: %v", err)
	}
	path := write(t, "p.yml", "api_base: https://a.test\nauth: {token_file: t}\n")
	p, lines, err := ReadFile(path)
	if err != nil || p.Name != "p" || p.APIBase != "https://a.test" || lines["auth.token_file"] != 2 {
		t.Errorf("%+v, %v, %v", p, lines, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if p, lines, err := ReadFile(path); err == nil || p.APIBase != "" || lines != nil {
		t.Errorf("a file of all: %+v, %v, %v", p, lines, err)
	}
	if _, _, err := ReadFile(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := checkURL("https://%"); err == nil || !strings.Contains(err.Error(), "not a URL") {
		t.Error(err)
	}
	if found := (&Profile{APIBase: "http://%", Auth: Auth{TokenFile: "t"}}).plaintext(); len(found) != 0 {
		t.Errorf("a URL that cannot be read: %+v", found)
	}
	for value, want := range map[string]bool{"22": true, "70000": false, "x": false} {
		p := &Profile{}
		err := override(p, Origins{}, map[string]Flag{"ssh.port": {"--ssh-port", value}}, func(string) string { return "" })
		if (err == nil) != want || (p.SSH.Port != 0) != want {
			t.Errorf("port %s: %d, %v", value, p.SSH.Port, err)
		}
	}
}

// TestFilesOfAProfile: every file that a profile names.
func TestFilesOfAProfile(t *testing.T) {
	p := Profile{Auth: Auth{TokenFile: "1", EdgeCookieFile: "2"}, Trust: Trust{OperatorCA: "3", NodeCA: "4"},
		SSH: SSH{Identity: "5", KnownHosts: "6"}, PlatformSSH: SSH{Identity: "7", KnownHosts: "8"}}
	want := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
	if got := p.Files(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	p.GPU.Policy = GPUPolicies()[0]
	if got := p.Files(); !slices.Equal(got, want) {
		t.Errorf("with a built-in policy: %v", got)
	}
	p.GPU.Policy = "./9"
	if got := p.Files(); !slices.Equal(got, append(want, "./9")) {
		t.Errorf("with a policy of its own: %v", got)
	}
}
