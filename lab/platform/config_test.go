package platform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

const goodConfig = `listen: {api: 127.0.0.1:8080, node_api: 127.0.0.1:8081, gateway: 127.0.0.1:8082, node_terminal: 0.0.0.0:18443}
redis: 127.0.0.1:6379
database: /var/lib/gpuaas-platform/platform.db
pki: {signing_ca_cert: a, signing_ca_key: b, ingress_ca: c, node_api_server_cert: d, terminal_cert: e, terminal_key: f, node_ca_bundle: g}
task_signing_key: k
operator_token_file: t
ingress_secret_file: i
endpoints: {api_url: https://node-api.gpuaas.test, terminal_url: "https://term.gpuaas.test:18443", browser_terminal_base: https://term.gpuaas.test}
policy: {node.heartbeat_stale_after_seconds: 8, terminal.node_stream_timeout_seconds: 5}
seed: s
`

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadConfig(t *testing.T) {
	c, err := LoadConfig(file(t, goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	if c.Policy.HeartbeatStaleAfter != 8 || c.Policy.NodeStreamTimeout != 5 || c.Policy.TaskWait != 25 ||
		c.Listen.NodeTerminal != "0.0.0.0:18443" {
		t.Errorf("config %+v", c)
	}
	for _, bad := range []struct{ name, from, to, want string }{
		{"unknown key", "seed: s", "sede: s", "platform.yaml:10: sede: unknown field (did you mean \"seed\"?)"},
		{"unknown policy", "node.heartbeat_stale_after_seconds", "node.heartbeat_stale",
			"platform.yaml:9: policy.node.heartbeat_stale: unknown field"},
		{"missing", "redis: 127.0.0.1:6379\n", "", "platform.yaml: redis is required"},
		{"no number", "_seconds: 8", "_seconds: soon", "platform.yaml:9: want a whole number, not \"soon\""},
		{"no YAML", "redis: ", "redis: [", "platform.yaml:"},
		{"zero policy", "_seconds: 8", "_seconds: 0", "policy node.heartbeat_stale_after_seconds must be positive"},
		{"no URL", "https://node-api.gpuaas.test", "node-api", "endpoints.api_url must be"},
		{"a public address", "api: 127.0.0.1:8080", "api: 0.0.0.0:8080", "listen.api 0.0.0.0:8080 speaks plain HTTP"},
		{"another machine's", "node_api: 127.0.0.1:8081", "node_api: 10.0.0.7:8081", "listen.node_api 10.0.0.7:8081"},
		{"every address", "gateway: 127.0.0.1:8082", "gateway: '[::]:8082'", "listen.gateway [::]:8082"},
		{"a name", "gateway: 127.0.0.1:8082", "gateway: localhost:8082", "listen.gateway localhost:8082"},
		{"no ingress secret", "ingress_secret_file: i\n", "", "ingress_secret_file is required"},
		{"a policy that is no file", "seed: s", "gpu: {policy: mine}", `gpu.policy "mine" is neither an absolute path nor one of`},
		{"a mode", "seed: s", "gpu: {policy: default, mode: shade}", `gpu.mode must be enforce or shadow, not "shade"`},
		{"a program", "seed: s", "gpu: {policy: default, program: p}", "gpu.program must be an absolute path"},
		{"a limit", "seed: s", "gpu: {policy: default, timeout_seconds: -1}", "gpu.timeout_seconds must not be negative"},
		{"a coordinator", "seed: s", "gpu: {policy: default, coordinator: here}", "gpu.coordinator must be"},
		{"a coordinator over http", "seed: s", "gpu: {policy: default, coordinator: 'http://scheduler.example/hook'}",
			"gpu.coordinator on another machine must be an https URL"},
		{"two documents", "seed: s", "seed: s\n---\nseed: t", "one YAML document"},
	} {
		text := strings.Replace(goodConfig, bad.from, bad.to, 1)
		if _, err := LoadConfig(file(t, text)); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v, want %q", bad.name, err, bad.want)
		}
	}
}

func TestLoadSeed(t *testing.T) {
	good := "nodes: [{id: n1, hostname: n1, private_ip: 10.0.0.1, provider_class: lab, enrollment_token_file: f}]\n" +
		"allocations: [{id: a1, node_id: n1, state: active, os_user: u, app: {kind: web, unit: w.service, port: 80}}]\n"
	if s, err := LoadSeed(file(t, good)); err != nil || s.Nodes[0].ID != "n1" || s.Allocations[0].App.Port != 80 {
		t.Fatalf("seed %+v %v", s, err)
	}
	if _, err := LoadSeed(file(t, strings.Replace(good, "{id: n1", "{gpus: -1, id: n1", 1))); err == nil ||
		!strings.Contains(err.Error(), "nodes[0].gpus must not be negative") {
		t.Errorf("GPUs: %v", err)
	}
	if _, err := LoadSeed(file(t, strings.Replace(good, "active", "aktive", 1))); err == nil ||
		!strings.Contains(err.Error(), `allocations[0].state "aktive"`) {
		t.Errorf("state: %v", err)
	}
}

func TestSecretFilesAreChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := readSecret(path); err != nil || s.Reveal() != "hush" {
		t.Errorf("secret %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readSecret(path); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a token that everybody reads: %v", err)
	}
}

func TestProbeDue(t *testing.T) {
	now := time.Date(2026, 5, 25, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		failures int
		ago      time.Duration
		want     bool
	}{{0, 0, true}, {0, time.Hour, true}, {1, 5 * time.Second, false}, {1, 10 * time.Second, true},
		{3, 29 * time.Second, false}, {3, 30 * time.Second, true}, {1000, time.Minute, true},
		{1000, 59 * time.Second, false}} {
		a := store.App{ProbeFailures: c.failures, ProbeFailedAt: now.Add(-c.ago)}
		if got := probeDue(a, now, 10*time.Second); got != c.want {
			t.Errorf("%d failures, the last %s ago: %v", c.failures, c.ago, got)
		}
	}
}
