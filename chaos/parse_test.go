package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// TestFindReadsFilesAlone: only regular files are read, since others may never end, and of a large one no more
// than necessary.
func TestFindReadsFilesAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(os.DevNull, filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, 1<<40)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{dir: "not a file", filepath.Join(dir, "a.yaml"): "not a file",
		large: "is larger than 65536 bytes"} {
		if _, err := Find(fstest.MapFS{}, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := FindGameDay(fstest.MapFS{}, name+"/"); err == nil {
			t.Errorf("game day %s: read", name)
		}
	}
	if _, _, err := FindGameDay(fstest.MapFS{}, large); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("game day %s: %v", large, err)
	}
}

// TestParseRefuses: every mistake names file, line and field, and more than one is reported at once.
func TestParseRefuses(t *testing.T) {
	text, err := os.ReadFile("../scenarios/api-egress-blocked.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const file = "api-egress-blocked.yaml"
	for _, tc := range []struct{ from, to, want string }{
		{"owner:", "ownr:", `api-egress-blocked.yaml:5: metadata.ownr: unknown field (did you mean "owner"?)`},
		{"id: api-egress-blocked", "id: other", `:2: metadata.id: "other" is not the file's name`},
		{"title: ", `title: "\e[2J" #`, `:3: "\x1b[2J" has characters that are not seen`},
		{"title: ", `title: "two\nlines" #`, ":3: metadata.title: is more than one line"},
		{"severity: P1", "severity: high", ":4: metadata.severity: unknown"},
		{"kind: net-block", "kind: net-blok", `faults[0].kind: unknown kind "net-blok" (did you mean "net-block"?)`},
		{"verdict: drop", "verdct: drop", `faults[0].params.verdct: unknown field (did you mean "verdict"?)`},
		{"verdict: drop", "verdict: vanish", "faults[0].params.verdict: unknown"},
		{`["${api_port}"]`, "[http]", `faults[0].params.ports`},
		{`["${api_port}"]`, `["${api_prt}"]`, `unknown variable ${api_prt} (did you mean "api_port"?)`},
		{"ttl: 90s", "ttl: 500ms", ":13: guards.ttl: 500ms is not between 10s and 1h"},
		{"ttl: 90s", "ttl: 90", `:13: guards.ttl: want a duration with its unit (30s, 2m), not "90"`},
		{"ttl: 90s", "ttl: 0", "guards.ttl: want a duration with its unit"},
		{"  ttl: 90s\n", "", "guards.ttl: is missing"},
		{"lease: 20s", "lease: 1s", "guards.lease: 1s is not between 10s"},
		{"lease: 20s", "lease: 20s\n  window: always", "guards.window:"},
		{"lease: 20s", "lease: 20s\n  stopIf: [node_runtime_api_reachability]",
			"guards.stopIf: node_runtime_api_reachability is what the drill is to find"},
		{"maxNodes: 1", "maxNodes: 0", "target.maxNodes: 0 targets: want 1 to 16"},
		{"role: node", "role: nodes", `target.role: unknown "nodes"`},
		{"role: node", "role: platform\n  labels: {a: [b]}", "target.labels.a"},
		{"  control:\n", "  contrl:\n", "verifyInjected.contrl: unknown field"},
		{"[nc, ", "[bash, ", "verifyInjected.probe: bash: want a program with its arguments, not a shell"},
		{"[nc, ", "[gpuaas-agent, ", "verifyInjected.probe: gpuaas-agent: want a standard tool of the machine"},
		{"[nc, ", "[env, A=b, sh, ", "verifyInjected.probe: sh: want a program with its arguments, not a shell"},
		{"[nc, ", `[/usr/bin/timeout, "5", /usr/local/bin/gpuaas-agent, `,
			"verifyInjected.probe: /usr/local/bin/gpuaas-agent: want a standard tool of the machine"},
		{"[nc, ", `[su, tenant, "-c", "bash -c true", `,
			"verifyInjected.probe: bash: want a program with its arguments, not a shell"},
		{"[nc, ", `[timeout, "5", nc, `, ""},
		{"[nc, ", `[timeout, "5", pgrep, gpuaas-agent, `, ""},
		{"[nc, ", `[sudo, -n, timeout, 5s, find, ., `, ""},
		{"[nc, ", `[., `, "verifyInjected.probe: .: is missing"},
		{"[nc, ", `[sudo, "-u", tenant, nice, gpuaas-agent, `,
			"verifyInjected.probe: gpuaas-agent: want a standard tool of the machine"},
		{"[nc, ", `[timeout, "5", su, tenant, "-c", "bash -c true", `,
			"verifyInjected.probe: bash: want a program with its arguments, not a shell"},
		{"[nc, ", "[sha256sum, /usr/local/bin/gpuaas-agent, ", ""},
		{"from: operator", "from: elsewhere", "verifyInjected.control.from: unknown"},
		{"hop: [node_runtime_api_reachability]", "hop: [node_runtime_api]", "expect.blame.hop: unknown hop"},
		{"hop: [node_runtime_api_reachability]", "hop: [x.vpn, node_runtime_api_reachability]", ""},
		{"hop: [node_runtime_api_reachability]", "hop: [x.]", "expect.blame.hop: unknown hop"},
		{"signal: [node_agent_api_unreachable]", "signal: [api_down]", "expect.blame.signal: unknown signal"},
		{"failure: [tcp_timeout]", "failure: [tcp_timout]",
			`unknown failure word "tcp_timout" (did you mean "tcp_timeout"?)`},
		{"firstFailedHop: [", "firstFailedHop: [app_user_route, ",
			"expect.firstFailedHop: app_user_route comes after node_runtime_api_reachability"},
		{"detectWithin: 30s", "reason: [agent_gone]\n  detectWithin: 30s", "expect.reason: unknown reason \"agent_gone\""},
		{"detectWithin: 30s", "reason: [none]\n  detectWithin: 30s", "expect.reason: unknown reason \"none\""},
		{"detectWithin: 30s", "detectWithin: 2h", "expect.detectWithin: 2h is not within the ttl"},
		{"mustStayGreen: [", "mustStayGreen: [node_runtime_api_reachability, ",
			"expect.mustStayGreen: node_runtime_api_reachability cannot fail and stay green"},
		{"green: 2", "green: 1", "recovery.green: 1 walks in a row"},
		{"  proof:\n", "  prof:\n", "recovery.prof: unknown field"},
		{"residue: none", "residue: some", "recovery.residue: want none"},
		{"metadata:", "metadata: &m", "anchors and aliases"},
		{"metadata:", "---\nmetadata:", ""},
		{"evidence:", "---\nevidence:", "more than one YAML document"},
		{"verdict: drop", "verdict: [drop", "api-egress-blocked.yaml:"},
	} {
		wrong := strings.Replace(string(text), tc.from, tc.to, 1)
		if wrong == string(text) {
			t.Errorf("%q is not in the file", tc.from)
			continue
		}
		_, err := Parse(file, []byte(wrong))
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%q: %v", tc.to, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) ||
			(!strings.HasPrefix(err.Error(), file+":") && !strings.HasPrefix(err.Error(), file+" "))):
			t.Errorf("%q: want an error with %q, got: %v", tc.to, tc.want, err)
		}
	}
	cut := func(from, to string) string {
		begin, end := strings.Index(string(text), from), strings.Index(string(text), to)
		return string(text)[:begin] + string(text)[end:]
	}
	for want, wrong := range map[string]string{
		"recovery.proof: is missing":         cut("  proof:\n", "  residue"),
		"recovery.green":                     cut("recovery:\n", "evidence:"),
		"verifyInjected.control: is missing": cut("  control:\n", "expect:\n"),
		"faults: is missing":                 cut("faults:\n", "verifyInjected:"),
		"evidence: is missing":               string(text)[:strings.Index(string(text), "evidence:\n")],
	} {
		if _, err := Parse(file, []byte(wrong)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := Parse(file, nil); err == nil || !strings.Contains(err.Error(), "want a mapping with metadata") {
		t.Errorf("an empty file: %v", err)
	}
	looks := func(injected, control, proof string) string {
		look := func(name, probe string) string {
			return name + ":\n  probe: [" + probe + "]\n  from: node\n  expect: {exit: [0]}\n  within: 5s\n"
		}
		deeper := func(s string) string {
			return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
		}
		head, rest := cut("verifyInjected:\n", "expect:\n"), ""
		head, rest, _ = strings.Cut(head, "expect:\n")
		rest = "expect:\n" + rest[:strings.Index(rest, "  proof:\n")] + deeper(look("proof", proof)) +
			"  residue: none\nevidence: [x]\n"
		return head + look("verifyInjected", injected) + deeper(look("control", control)) + rest
	}
	for want, wrong := range map[string]string{
		"":                                       looks("a", "b", "c"),
		"verifyInjected.control: is the probe":   looks("a", "a", "c"),
		"recovery.proof: is the control":         looks("a", "b", "b"),
		"recovery.proof: is the probe by which ": looks("a", "b", "a"),
	} {
		if _, err := Parse(file, []byte(wrong)); (err != nil) != (want != "") ||
			(err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	both := strings.NewReplacer("owner:", "ownr:", "ttl: 90s", "ttl: 90").Replace(string(text))
	if _, err := Parse(file, []byte(both)); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two mistakes are reported as %v", err)
	}
}

func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("../scenarios/lab/three-faults.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("metadata: {id: x}\nfaults: [{kind: net-block, params: [1]}]"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = Parse("x.yaml", data) })
}
