package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// kindCase is one fault, as in a file, on a machine; spoil removes something from the machine.
type kindCase struct {
	name, kind, params string
	role               Role
	spoil              func(*Machine)
	refused            string // code
}

func kindCases() []kindCase {
	lone := func(unit string, u Unit) func(*Machine) { return func(m *Machine) { m.Units[unit] = u } }
	const agent = "gpuaas-node-agent.service"
	return []kindCase{
		{name: "drop", kind: "net-block", params: `{to: ["${api_host}"], ports: ["${api_port}"], verdict: drop}`},
		{name: "reset, one user's", kind: "net-block", role: RolePlatform,
			params: `{to: ["127.0.0.1"], ports: [6379], verdict: reset, user: gpuaas}`},
		{name: "reject, any", kind: "net-block", params: `{to: [192.0.2.0/24], proto: any, verdict: reject}`},
		{name: "leads nowhere", kind: "net-block", params: `{to: [nowhere.test], verdict: drop}`,
			refused: step.RefusedUnsupported},
		{name: "no nft", kind: "net-block", params: `{to: ["${api_host}"], verdict: drop}`, spoil: func(m *Machine) {
			m.Tools["nft"] = ""
		}, refused: step.RefusedTools},
		{name: "no such user", kind: "net-block", params: `{to: ["${api_host}"], verdict: drop, user: ann}`,
			refused: step.RefusedUnsupported},

		{name: "timeout", kind: "dns-break", params: `{how: timeout, name: "${api_host}"}`},
		{name: "refused", kind: "dns-break", params: `{how: refused, name: "${api_host}"}`},
		{name: "no such name", kind: "dns-break", params: `{how: nxdomain, name: "${api_host}"}`},
		{name: "a server that failed", kind: "dns-break", params: `{how: servfail, name: "${api_host}"}`},
		{name: "over IPv6", kind: "dns-break", params: `{how: nxdomain, name: "${api_host}"}`,
			spoil:   func(m *Machine) { m.Files[resolvFile] = File{Text: "nameserver 10.0.0.1\nnameserver fd00::53\n"} },
			refused: step.RefusedUnsupported},
		{name: "over TCP", kind: "dns-break", params: `{how: servfail, name: "${api_host}"}`,
			spoil: func(m *Machine) {
				m.Files[resolvFile] = File{Text: "nameserver 10.0.0.1\noptions timeout:1 use-vc\n"}
			}, refused: step.RefusedUnsupported},
		{name: "a name by hand", kind: "dns-break", params: `{how: timeout, name: old.test}`,
			spoil: func(m *Machine) { m.Names["old.test"] = addresses("10.0.0.7") }, refused: step.RefusedUnsupported},

		{name: "removed", kind: "hosts", params: `{remove: ["${api_host}"], keep: ["${terminal_host}"]}`},
		{name: "elsewhere", kind: "hosts", params: `{set: {node-api.gpuaas.test: 10.231.77.102, old.test: 10.0.0.8}}`},
		{name: "no namespace", kind: "hosts", params: `{remove: ["${api_host}"]}`,
			spoil: lone(agent, Unit{Loaded: true, Active: "active", PID: 7}), refused: step.RefusedUnsupported},

		{name: "shown to a unit", kind: "file", params: `{path: /etc/motd, text: "bye\n", seenBy: [app]}`},
		{name: "parked", kind: "file", params: `{path: /etc/motd, text: "bye\n"}`},
		{name: "absent", kind: "file", params: `{path: /etc/motd, absent: true}`},
		{name: "not there", kind: "file", params: `{path: /etc/nothing, absent: true}`, refused: step.RefusedUnsupported},

		{name: "one edit", kind: "config", role: RolePlatform,
			params: `{file: /etc/nginx/edge.d/term.conf, unit: nginx, edits: [{find: "location / { proxy_pass http://127.0.0.1:8082; }", replace: "location / { return 404; }"}]}`},
		{name: "another file", kind: "config", role: RolePlatform,
			params:  `{file: /etc/nginx/edge.d/term.conf, unit: nginx, edits: [{find: "location /x", replace: y}]}`,
			refused: step.RefusedUnsupported},

		{name: "set and unset", kind: "env",
			params: `{set: {GPUAAS_API_URL: "${edge_api_url}"}, unset: [GPUAAS_ENROLLMENT_TOKEN]}`},
		{name: "down", kind: "env", params: `{set: {A: b}}`, spoil: lone(agent, Unit{Loaded: true, Active: "inactive"}),
			refused: step.RefusedUnsupported},

		{name: "bundle", kind: "ca", params: `{file: "${agent_dir}/ca-bundle.crt", seenBy: ["${agent_unit}"]}`},
		{name: "two units", kind: "ca", role: RolePlatform,
			params: `{file: /etc/nginx/tls/ingress-ca.crt, seenBy: [nginx, gpuaas-platform]}`},

		{name: "expired", kind: "cert", params: `{as: expired, token: none}`},
		{name: "wrong node", kind: "cert", params: `{as: wrong-node, token: keep}`},
		{name: "recovers", kind: "cert", params: `{as: expired, token: current}`},
		{name: "renewed", kind: "cert", params: `{as: renewed, token: keep}`},
		{name: "no certificate", kind: "cert", params: `{as: wrong-ca}`, spoil: func(m *Machine) {
			m.Files["/etc/gpuaas/cert.pem"] = File{}
		}, refused: step.RefusedUnsupported},

		{name: "one of two, and its alias", kind: "service-stop", params: `{units: [ssh.socket, ssh, sshd]}`},
		{name: "none", kind: "service-stop", params: `{units: [ssh.socket]}`, refused: step.RefusedUnsupported},

		{name: "signal", kind: "service-freeze", params: `{unit: "${agent_unit}"}`},
		{name: "freezer", kind: "service-freeze", params: `{unit: nginx, how: freezer}`, role: RolePlatform},
		{name: "no freezer", kind: "service-freeze", params: `{unit: nginx, how: freezer}`, spoil: func(m *Machine) {
			m.Cgroup2 = false
		}, refused: step.RefusedUnsupported},

		{name: "crash loop", kind: "service-exec", params: `{unit: "${agent_unit}", how: crash-loop}`},
		{name: "incompatible", kind: "service-exec", params: `{unit: "${agent_unit}", how: incompatible}`},
		{name: "program", kind: "service-exec",
			params: `{unit: "${agent_unit}", how: program, program: /usr/local/bin/other-agent, args: [run]}`},
		{name: "program with words", kind: "service-exec",
			params: `{unit: "${agent_unit}", how: program, program: /usr/local/bin/other-agent, args: [--is, "two words", "100%", "$HOME", 'a "b\\c', "", ";"]}`},
		{name: "slow to stop", kind: "service-exec", params: `{unit: "${app_unit}", how: slow-stop, delay: 5s}`},
		{name: "slow", kind: "service-exec", params: `{unit: "${agent_unit}", how: slow-start, delay: 8s}`},
		{name: "no program", kind: "service-exec", params: `{unit: "${agent_unit}", how: program, program: /nowhere}`,
			refused: step.RefusedUnsupported},

		{name: "full", kind: "disk", params: `{dir: "${agent_record}", fill: full}`},
		{name: "percent", kind: "disk", params: `{dir: "${agent_record}", fill: percent, percent: 94}`},
		{name: "inodes", kind: "disk", params: `{dir: "${agent_record}", fill: inodes}`},
		{name: "small", kind: "disk", params: `{dir: "${agent_record}", fill: small, bytes: 65536}`},
		{name: "no folder", kind: "disk", params: `{dir: /nowhere, fill: full}`, refused: step.RefusedUnsupported},

		{name: "hidden", kind: "user-missing", params: `{user: "${os_user}"}`},
		{name: "of a directory", kind: "user-missing", params: `{user: gpuaas}`, refused: step.RefusedUnsupported},

		{name: "exits", kind: "shell", params: `{user: "${os_user}", how: exits}`},
		{name: "delays", kind: "shell", params: `{user: "${os_user}", how: delays, delay: 30s}`},
		{name: "sh itself", kind: "shell", params: `{user: "${os_user}", how: exits}`, spoil: func(m *Machine) {
			m.Files["/bin/bash"] = m.Files["/bin/sh"]
		}, refused: step.RefusedUnsupported},

		{name: "another key", kind: "signing-key", role: RolePlatform,
			params: `{file: /etc/gpuaas-platform/task-signing.key, unit: gpuaas-platform}`},
		{name: "a second machine", kind: "clone", role: RolePeer, params: `{of: n0}`},
		{name: "itself", kind: "clone", role: RolePeer, params: `{of: n1}`, refused: step.RefusedUnsupported},
		{name: "queued", kind: "tasks", role: RolePlatform, params: `{node: n1, api: "http://127.0.0.1:8080", ttl: 1s}`},
		{name: "a node with a strange name", kind: "tasks", role: RolePlatform,
			params: `{node: "n1?x=1", api: "http://127.0.0.1:8080", ttl: 1s}`},
		{name: "down", kind: "guest-agent", role: RolePlatform,
			params: `{node: n1, api: "http://127.0.0.1:8080/", status: down, for: 2m}`},
		{name: "sent elsewhere", kind: "guest-agent", role: RolePlatform,
			params: `{node: n1, api: "https://api.example.test", status: down, for: 2m}`, refused: step.RefusedDrill},
		{name: "released", kind: "release", role: RolePlatform,
			params: `{allocation: alloc-01, api: "http://127.0.0.1:8080", for: 5m}`},
		{name: "released elsewhere", kind: "release", role: RolePlatform,
			params: `{allocation: alloc-01, api: "https://api.example.test", for: 5m}`, refused: step.RefusedDrill},
		{name: "heat and an XID", kind: "gpu-fake",
			params: `{lines: ["@0 nvmlDeviceGetTemperature 96", "@1 event 8 119", "@1 nvmlDeviceGetHandleByIndex_v2 rc=15"]}`},
		{name: "a real library", kind: "gpu-fake", params: `{lines: ["@0 nvmlDeviceGetTemperature 96"]}`,
			spoil: func(m *Machine) { m.Files[gpuFakeFile] = File{} }, refused: step.RefusedUnsupported},
		{name: "no curl", kind: "guest-agent", role: RolePlatform,
			params: `{node: n1, api: "http://127.0.0.1:8080", status: stopped, for: 90s}`, spoil: func(m *Machine) {
				m.Tools["curl"] = ""
			}, refused: step.RefusedTools},
	}
}

func params(t *testing.T, text string) Params {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	return Params{n.Content[0]}
}

// made plans one fault on a machine that has answered the kind's questions.
func made(t *testing.T, tc kindCase) (Made, *step.Refusal) {
	t.Helper()
	k, ok := KindOf(tc.kind)
	if !ok {
		t.Fatalf("no kind %s", tc.kind)
	}
	role := tc.role
	if role == "" {
		role = RoleNode
	}
	if !slices.Contains(k.On, role) {
		t.Fatalf("%s is not made on %s", tc.kind, role)
	}
	m := testMachine(role, "n1")
	if tc.spoil != nil {
		tc.spoil(&m)
	}
	vars := values(testProfile(), "n1", "n2", testFacts().Allocation)
	p := k.params()
	if found := params(t, tc.params).decode(p, "params", func(s string) (string, error) {
		return fill(s, vars)
	}); len(found) > 0 {
		t.Fatalf("%s: %v", tc.name, found)
	}
	if found := k.check(p); len(found) > 0 {
		t.Fatalf("%s: %v", tc.name, found)
	}
	c := &Case{Run: "r1", Step: "s", Profile: testProfile(), Values: vars, Machine: &m, minted: Mint.placeholder}
	q := k.ask(p, c)
	for _, missing := range [...][]string{fresh(q.Tools, m.Tools), fresh(q.Units, m.Units)} {
		if len(missing) > 0 && tc.refused == "" {
			t.Errorf("%s, %s: the machine of the tests does not know %v", tc.kind, tc.name, missing)
		}
	}
	return k.make(p, c)
}

// TestKinds compares the exact text of every kind: do, undo and verify together. Every kind has a case, and every
// refused case is refused for its intended reason.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	out := map[string]*strings.Builder{}
	for _, tc := range kindCases() {
		seen[tc.kind] = true
		w := out[tc.kind]
		if w == nil {
			w = &strings.Builder{}
			out[tc.kind] = w
		}
		m, no := made(t, tc)
		if no != nil {
			fmt.Fprintf(w, "== %s: refused\n%s\n", tc.name, no)
			if no.Code != tc.refused {
				t.Errorf("%s, %s: %v, want %q", tc.kind, tc.name, no, tc.refused)
			}
			continue
		}
		if tc.refused != "" {
			t.Errorf("%s, %s: made, want it refused as %s", tc.kind, tc.name, tc.refused)
		}
		tier := ""
		for _, c := range m.Changes {
			tier = max(tier, c.Tier())
		}
		fmt.Fprintf(w, "== %s: %s (%s)\n", tc.name, m.Title, tier)
		var undos []string
		for n, c := range m.Changes {
			do, undo := c.Lines("r1", "s", n, 90*time.Second)
			fmt.Fprintf(w, "do:\n  %s\n", strings.Join(do, "\n  "))
			undos = append(undo, undos...)
		}
		fmt.Fprintf(w, "undo:\n  %s\n", strings.Join(undos, "\n  "))
		for _, c := range m.Verify {
			unit := ""
			if c.Unit != "" {
				unit = " as " + c.Unit + " sees it"
			}
			fmt.Fprintf(w, "check: %s%s: %s\n", c.Name, unit, c.Line())
		}
		d := step.Drill{Schema: step.Schema, Run: "r1", Scenario: "x", Node: "n1", By: "ann", At: testNow, TTL: 30_000,
			Disposable: true, Steps: []step.Step{{ID: "s", Fault: tc.kind, Tier: tier, Changes: m.Changes, Verify: m.Verify}},
			Scope: m.Scope}
		if err := d.Validate(); err != nil {
			t.Errorf("%s, %s: %v", tc.kind, tc.name, err)
		}
	}
	for _, k := range Kinds() {
		if !seen[k.Name] {
			t.Errorf("kind %s has no case", k.Name)
		}
	}
	for kind, w := range out {
		golden(t, kind+".txt", w.String())
	}
}

// TestKindTable: names are unique, and every row has the texts that people need to choose.
func TestKindTable(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.Name] || k.Title == "" || k.About == "" || len(k.On) == 0 || !strings.HasPrefix(k.Tier, "T") {
			t.Errorf("row %+v", k)
		}
		seen[k.Name] = true
	}
}

// TestUndoNeedsNoNames: a machine gets only addresses, so that no undo waits for a broken DNS.
func TestUndoNeedsNoNames(t *testing.T) {
	for _, tc := range kindCases() {
		m, no := made(t, tc)
		if no != nil {
			continue
		}
		for _, c := range m.Changes {
			if c.Block == nil {
				continue
			}
			for _, r := range c.Block.Remote {
				if strings.ContainsAny(r, "ghijklmnopqrstuvwxyz") {
					t.Errorf("%s, %s: %s is a name, which no undo may have to look up", tc.kind, tc.name, r)
				}
			}
		}
	}
}

// TestParametersCount: a parameter that would be ignored, or mistaken for another one, is refused by name.
func TestParametersCount(t *testing.T) {
	for _, tc := range []struct{ kind, params, key string }{
		{"disk", `{dir: /var, fill: full, seenBy: app}`, "seenBy"},
		{"disk", `{dir: /var, fill: percent, percent: 94, seenBy: app}`, "seenBy"},
		{"disk", `{dir: /var, fill: inodes, seenBy: app}`, "seenBy"},
		{"disk", `{dir: /var, fill: small, bytes: 65536, seenBy: app}`, ""},
		{"service-exec", `{unit: app, how: crash-loop, args: [x]}`, "args"},
		{"service-exec", `{unit: app, how: slow-start, delay: 1s, args: [x]}`, "args"},
		{"service-exec", `{unit: app, how: slow-stop}`, "delay"},
		{"guest-agent", `{node: n1, api: "https://evil.example", status: down, for: 1m}`, "api"},
		{"release", `{allocation: a, api: "https://evil.example", for: 1m}`, "api"},
		{"release", `{allocation: a, api: "http://127.0.0.1:8080", for: 61m}`, "for"},
		{"service-exec", `{unit: app, how: program, program: /opt/our program}`, "program"},
		{"service-exec", `{unit: app, how: program, program: /opt/p, args: [x, "two\nlines"]}`, "args[1]"},
		{"service-exec", `{unit: app, how: program, program: /opt/p, args: ["two words"]}`, ""},
		{"env", `{set: {A: " b"}}`, "set.A"},
	} {
		k, _ := KindOf(tc.kind)
		p := k.params()
		if found := params(t, tc.params).decode(p, "params", func(s string) (string, error) {
			return s, nil
		}); len(found) > 0 {
			t.Fatalf("%s %s: %v", tc.kind, tc.params, found)
		}
		key := ""
		if found := k.check(p); len(found) > 0 {
			key = found[0].Key
		}
		if key != tc.key {
			t.Errorf("%s %s: refused for %q, want %q", tc.kind, tc.params, key, tc.key)
		}
	}
}

// TestEnvironIsExact: a longer value and a longer name do not match, with the real grep.
func TestEnvironIsExact(t *testing.T) {
	tier.NeedsHost(t)
	environ := filepath.Join(t.TempDir(), "environ")
	if err := os.WriteFile(environ, []byte("A=https://a:18443\x00MY_A=https://a:1\x00B=two\nC=d\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := Machine{Tools: map[string]Tool{"grep": "grep"}}
	c := &Case{Machine: &m}
	for name, tc := range map[string]struct {
		check step.Check
		holds bool
	}{
		"the value":              {c.environ("u", "A", "https://a:18443"), true},
		"the begin of the value": {c.environ("u", "A", "https://a:1"), false},
		"absent":                 {c.noEnviron("u", "C"), true},
		"the end of a name":      {c.noEnviron("u", "Y_A"), true},
		"present":                {c.noEnviron("u", "A"), false},
	} {
		argv := slices.Clone(tc.check.Exec.Argv)
		argv[len(argv)-1] = environ
		code := 0
		if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
			code = err.(*exec.ExitError).ExitCode()
		}
		if holds := slices.Contains(tc.check.Exec.Exits, code); holds != tc.holds {
			t.Errorf("%s: %q ends with %d, holds %t", name, argv, code, holds)
		}
	}
}
