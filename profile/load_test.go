package profile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// write writes text to a new profile file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryMistakeHasItsLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", "api_base: https://a.test\nterminal_bass: https://t.test\n",
			`:2: terminal_bass: unknown field (did you mean "terminal_base"?)`},
		{"unknown nested field", "ssh:\n  usr: root\n", `:2: ssh.usr: unknown field (did you mean "user"?)`},
		{"wrong type", "ssh:\n  user: root\n  port: http\n", `:3: ssh.port: want a whole number, not "http"`},
		{"list for a mapping", "ssh: [a, b]\n", `:1: ssh: want a mapping here, not a list`},
		{"bad URL", "\napi_base: api.test\n", `:2: want https://host[:port], not "api.test"`},
		{"URL with login", "api_base: https://me:canary@api.test\n", `:1: a URL here must not hold a login`},
		{"URL without host", "api_base: https://\n", `:1: the URL "https://" has no host`},
		{"bad name server", "node_name_servers: [10.0.0.1, \"10.0.0.2:5353\", dns.test]\n",
			`:1: want an IP address, not "dns.test"`},
		{"bad address", "api_resolve_address: api.test\n", `:1: want an IP address, not "api.test"`},
		{"duration without unit", "budgets:\n  node_readiness: 5\n",
			`:2: budgets.node_readiness: want a duration with its unit (5s, 500ms), not "5"`},
		{"negative duration", "budgets:\n  node_readiness: -5s\n",
			`:2: the budget of node_readiness must be between 1ms and 5m0s, not -5s`},
		{"no name of an own hop", "budgets:\n  x.: 5s\n", `:2: unknown hop "x."`},
		{"unknown hop", "budgets:\n  node_readyness: 5s\n",
			`:2: unknown hop "node_readyness" (did you mean "node_readiness"?)`},
		{"negative policy", "policy:\n  node.heartbeat_stale_after_seconds: -1\n",
			`:2: policy node.heartbeat_stale_after_seconds must be between 1 and 300, not -1`},
		{"weakened policy", "policy:\n  node.disk_pressure_percent: 99\n",
			`:2: policy node.disk_pressure_percent must be between 1 and 90, not 99: above this, recovery already competes for space; a profile may tighten it, never weaken it`},
		{"unknown policy", "policy:\n  node.heartbeat_stale: 5\n",
			`:2: unknown policy key "node.heartbeat_stale" (did you mean "node.heartbeat_stale_after_seconds"?)`},
		{"unknown path", "mapping:\n  paths:\n    nodes: /x\n", `:3: unknown path "nodes" in mapping (did you mean "node"?)`},
		{"foreign placeholder", "mapping:\n  paths:\n    node: /n/{task_id}\n",
			`:3: path node cannot use {task_id}; it has {node_id}`},
		{"open placeholder", "mapping:\n  paths:\n    node: /n/{node_id\n", `:3: path node has a { without its }`},
		{"relative path", "mapping:\n  paths:\n    node: n\n", `:3: path node must begin with /`},
		{"unknown mapped field", "mapping:\n  fields:\n    node.state: s\n", `:3: unknown field "node.state" in mapping`},
		{"empty mapped field", "mapping:\n  fields:\n    node.status: ''\n", `:3: field node.status is empty`},
		{"unknown mapping key", "mapping:\n  pathes: {}\n", `:2: mapping.pathes: unknown field (did you mean "paths"?)`},
		{"a node's typo", "nodes:\n  n1: {host: a, prot: 22}\n", `:2: nodes.n1.prot: unknown field (did you mean "port"?)`},
		{"a field of another place", "trust:\n  port: 22\n", `:2: trust.port: unknown field`},
		{"a field of the whole file", "nodes:\n  n1: {host: a, chaos: x}\n", `:2: nodes.n1.chaos: unknown field`},
		{"a node's port", "nodes:\n  n1: {host: a}\n  n2:\n    host: b\n    port: 70000\n",
			`:5: want a port between 1 and 65535, not 70000`},
		{"a node's user", "nodes:\n  n1:\n    host: a\n    user: -oProxyCommand=x\n", `:4: not a login name`},
		{"bad fingerprint", "trust:\n  ingress_ca_fingerprint: AA:BB\n",
			`:2: want the sha256 of a certificate as 64 lower-case hex digits`},
		{"bad port", "platform_ssh:\n  port: 70000\n", `:2: want a port between 1 and 65535, not 70000`},
		{"no window", "chaos:\n  windows: [Mon-Fri 08:00-17:00 UTC, always]\n",
			`:2: chaos.windows: "always": want days, hours and a zone, as in Mon-Fri 08:00-17:00 UTC`},
		{"the second window", "chaos:\n  windows:\n    - Mon-Fri 08:00-17:00 UTC\n    - Sat 22:00-06:00\n",
			`:4: chaos.windows: "Sat 22:00-06:00": want`},
		{"a window's zone", "chaos:\n  windows:\n    - Sat 08:00-17:00 Mars/Base\n",
			`:3: chaos.windows: "Sat 08:00-17:00 Mars/Base": no zone "Mars/Base"`},
		{"a command as text", "auth:\n  token_command: pass show x\n", `:2: auth.token_command: want a list, not "pass sh`},
		{"a command for a shell", "auth:\n  token_command: [pass show x]\n", `:2: no shell reads "pass show x"`},
		{"no command", "auth:\n  edge_cookie_command: []\n", `:2: want a program and its arguments as a list`},
		{"a file and a command", "auth:\n  token_file: t\n  token_command: [pass, show, x]\n",
			`:3: give token_file or token_command, not both`},
		{"login as option", "ssh:\n  user: -oProxyCommand=x\n", `:2: not a login name`},
		{"broken YAML", "api_base: [\n", `:1: did not find expected node content`},
		{"doubled key", "api_base: https://a.test\napi_base: https://b.test\n",
			`:2: api_base: mapping key "api_base" already defined at line 1`},
		{"two types on a line", "ssh: {user: [a], port: b}\n", `:1: want text here, not a list`},
		{"merged", "x: &x {usr: root}\nssh: {<<: *x}\n", `:1: ssh.usr: unknown field (did you mean "user"?)`},
		{"two documents", "api_base: https://a.test\n---\nfoo: bar\n", `holds more than one YAML document`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "p.yaml", c.text)
			_, _, err := Load(path, Sources{})
			if err == nil {
				t.Fatalf("accepted:\n%s", c.text)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s%s", err, path, c.want)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Fatalf("the error shows a login: %v", err)
			}
			var fe *FileError
			if !errors.As(err, &fe) {
				t.Fatalf("not a *FileError: %T", err)
			}
		})
	}
}

// TestAForeignProfileUsesNothingOfOurs: a profile that others could have written is refused if it is used with a
// secret, a key or a program, whichever way they are given, and accepted without them.
func TestAForeignProfileUsesNothingOfOurs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives a file away, which needs root")
	}
	const api = "api_base: https://a.test\n"
	file := Sources{Env: func(k string) string {
		return map[string]string{"GPUAASCTL_TOKEN_FILE": "/root/.vault-token"}[k]
	}}
	for _, c := range [...]struct {
		name, text string
		from       Sources
		want       string
	}{
		{"token file", api + "auth: {token_file: ~/.vault-token}\n", Sources{}, ":2: with auth.token_file, "},
		{"cookie file", api + "auth: {edge_cookie_file: x}\n", Sources{}, ":2: with auth.edge_cookie_file, "},
		{"token command", "auth: {token_command: [pass, show, x]}\n", Sources{}, ":1: with auth.token_command, "},
		{"cookie command", "auth: {edge_cookie_command: [pass]}\n", Sources{}, ":1: with auth.edge_cookie_command, "},
		{"by a merge key", "auth: {<<: {token_command: [pass]}}\n", Sources{}, "p.yaml: with auth.token_command, "},
		{"SSH identity", "ssh: {identity: x}\n", Sources{}, ":1: with ssh.identity, "},
		{"platform's identity", "platform_ssh: {host: h, identity: x}\n", Sources{}, ":1: with platform_ssh.identity, "},
		{"program on nodes", "agent: {version_command: [sh]}\n", Sources{}, ":1: with agent.version_command, "},
		{"CA key", "chaos: {ca_key: x}\n", Sources{}, ":1: with chaos.ca_key, "},
		{"token of the environment", api, file, "p.yaml: with auth.token_file, "},
		{"token of a flag", api, Sources{Flags: map[string]Flag{"auth.token_file": {"--token-file", "x"}}},
			"p.yaml: with auth.token_file, "},
		{"nothing", api, Sources{}, ""},
	} {
		for by, spoil := range map[string]func(path string) error{
			"belongs to user 12345":         func(path string) error { return os.Chown(path, 12345, -1) },
			"(mode 0666); run: chmod go-w ": func(path string) error { return os.Chmod(path, 0o666) },
			"(mode 0777); run: chmod go-w ": func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) },
		} {
			path := write(t, "p.yaml", c.text)
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			_, _, err := Load(path, c.from)
			if (err == nil) != (c.want == "") ||
				(err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), by))) {
				t.Errorf("%s, %s: got %v, want %q", c.name, by, err, c.want)
			}
			var mistake *FileError
			if err != nil && !errors.As(err, &mistake) {
				t.Errorf("%s: %T is not a mistake of the file", c.name, err)
			}
		}
	}
}

func TestAllMistakesAtOnceInOrder(t *testing.T) {
	path := write(t, "p.yaml", "terminal_base: x\napi_base: y\npolicy:\n  a: 1\n")
	_, _, err := Load(path, Sources{})
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 {
		t.Fatalf("want three mistakes, got:\n%v", err)
	}
	for i, n := range []string{":1:", ":2:", ":4:"} {
		if !strings.Contains(lines[i], n) {
			t.Errorf("mistake %d is not on line %s: %s", i, n, lines[i])
		}
	}
}

func TestPrecedenceAndOrigin(t *testing.T) {
	path := write(t, "p.yaml",
		"api_base: https://file.test\nterminal_base: https://file-term.test\nssh:\n  user: filer\n  port: 2222\n")
	env := map[string]string{"GPUAASCTL_API_BASE": "https://env.test", "GPUAASCTL_TERMINAL_BASE": "https://env-term.test",
		"GPUAASCTL_NODE_USER": "enver"}
	p, origins, err := Load(path, Sources{
		Env:   func(k string) string { return env[k] },
		Flags: map[string]Flag{"api_base": {"--api-base", "https://flag.test"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, got, want, origin string }{
		{"api_base", p.APIBase, "https://flag.test", "flag --api-base"},
		{"terminal_base", p.TerminalBase, "https://env-term.test", "env GPUAASCTL_TERMINAL_BASE"},
		{"ssh.user", p.SSH.User, "enver", "env GPUAASCTL_NODE_USER"},
	} {
		if c.got != c.want || origins[c.key] != c.origin {
			t.Errorf("%s is %q from %q, want %q from %q", c.key, c.got, origins[c.key], c.want, c.origin)
		}
	}
	if p.SSH.Port != 2222 || origins["ssh.port"] != path+":5" {
		t.Errorf("port is %d from %q", p.SSH.Port, origins["ssh.port"])
	}
}

func TestOverridesAreCheckedToo(t *testing.T) {
	_, _, err := Load("", Sources{
		Env:   func(k string) string { return map[string]string{"GPUAASCTL_SSH_PORT": "no"}[k] },
		Flags: map[string]Flag{"api_base": {"--api-base", "x"}},
	})
	if err == nil || !strings.Contains(err.Error(), "--api-base: want https://") ||
		!strings.Contains(err.Error(), "env GPUAASCTL_SSH_PORT: want a whole number") {
		t.Fatalf("got %v", err)
	}
}

func TestProfileByNameFromTheEnvironment(t *testing.T) {
	path := write(t, "demo.yaml", "api_base: https://demo.test\n")
	dir := filepath.Dir(path)
	env := func(k string) string { return map[string]string{"GPUAASCTL_PROFILE": "demo"}[k] }
	p, _, err := Load("", Sources{Env: env, Dir: dir})
	if err != nil || p.Name != "demo" || p.APIBase != "https://demo.test" {
		t.Fatalf("got %+v, %v", p, err)
	}
	_, _, err = Load("other", Sources{Env: env, Dir: dir})
	var nf *NotFoundError
	if !errors.As(err, &nf) || len(nf.Known) != 1 || nf.Known[0] != "demo" {
		t.Fatalf("got %v", err)
	}
}

func TestRelativePathsAreTheFilesOwn(t *testing.T) {
	path := write(t, "p.yaml", "auth:\n  token_file: token\ntrust:\n  operator_ca: /etc/ca.pem\n")
	p, _, err := Load(path, Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(filepath.Dir(path), "token"); p.Auth.TokenFile != want ||
		p.Trust.OperatorCA != "/etc/ca.pem" {
		t.Fatalf("got %q, %q", p.Auth.TokenFile, p.Trust.OperatorCA)
	}
}

func TestShownProfileReadsBack(t *testing.T) {
	sudo := false
	p := Profile{
		APIBase: "https://a.test", SSH: SSH{User: "root", Sudo: &sudo}, Nodes: map[string]Node{"n.1": {Host: "10.0.0.1"}},
		Budgets: map[diag.HopID]time.Duration{diag.HopNodeReadiness: 1500 * time.Millisecond},
	}.WithDefaults()
	text, err := YAML(p, Origins{"api_base": "flag --api-base"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "api_base: https://a.test # flag --api-base\n") ||
		!strings.Contains(string(text), "# default") {
		t.Errorf("origins are missing:\n%s", text)
	}
	got, _, err := parse("again", text)
	if err != nil {
		t.Fatalf("what is shown does not read back: %v\n%s", err, text)
	}
	again, err := YAML(got, nil)
	if err != nil {
		t.Fatal(err)
	}
	if plain, _ := YAML(p, nil); string(plain) != string(again) {
		t.Errorf("reads back as another profile:\n%s\nwas\n%s", again, plain)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("api_base: https://a.test\nbudgets: {node_readiness: 5s}\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("nodes: {n: {host: h, labels: {a: b}}}\nmapping: {peek: false}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _, err := parse("f.yaml", data)
		if err == nil {
			_ = p.WithDefaults().Mapping.Path(PathNode, map[string]string{"node_id": "x"})
		}
	})
}

// TestWhoseAgent: the agent is ours by the names of its program and unit; a version command makes it a third-party
// agent.
func TestWhoseAgent(t *testing.T) {
	for _, c := range []struct {
		a    Agent
		ours bool
	}{
		{Agent{}, true},
		{Agent{Binary: "/opt/gpuaas-agent-next", Unit: "gpuaas-agent.service"}, true},
		{Agent{Binary: "/usr/local/bin/fleetd"}, false},
		{Agent{Binary: "/usr/local/bin/gpuaas-agentd"}, false},
		{Agent{Unit: "kubelet.service"}, false},
		{Agent{VersionCommand: []string{"/usr/local/bin/gpuaas-agent", "version"}}, false},
	} {
		if got := (Profile{Agent: c.a}).WithDefaults().Agent.IsOurs(); got != c.ours {
			t.Errorf("%+v: %v", c.a, got)
		}
	}
	for text, says := range map[string]string{
		"agent: {version_command: [/usr/bin/fleetd, --version]}": "",
		"agent: {version_command: []}":                           "want a program and its arguments",
		"agent: {version_command: [\"fleetd --version\"]}":       "no shell reads",
		"agent: {version_comand: [x]}":                           "version_command",
	} {
		path := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Load(path, Sources{})
		if (says == "" && err != nil) || (says != "" && (err == nil || !strings.Contains(err.Error(), says))) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestNoErrorShowsALogin: errors about a URL contain neither its credentials nor its query.
func TestNoErrorShowsALogin(t *testing.T) {
	for _, text := range []string{
		"api_base: https://u:CANARY@h/", "api_base: ftp://u:CANARY@h/", "api_base: u:CANARY@h", "api_base: '://u:CANARY@h'",
		"api_base: https://u:%zzCANARY@h/", "terminal_base: wss://u:CANARY@h:x/", "api_base: https://h/?token=CANARY",
		"api_base: https://h:x/?token=CANARY", "api_base: ftp://h/#CANARY", "api_base: https:///?CANARY",
		"app: {headers_path: /x?CANARY}",
	} {
		_, _, err := parse("f", []byte(text))
		if err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
