//go:build linux

package inprocess

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestStepsToTryAreGreenWhenHealthy: a step that tries a connection from the node succeeds in a healthy world, where
// both listeners have a private CA and ask for the node's certificate, and fails where nothing listens or the bundle is
// another one's. As everything in this world, the node is this machine.
func TestStepsToTryAreGreenWhenHealthy(t *testing.T) {
	t.Parallel()
	for _, program := range [...]string{"curl", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("skipped: needs " + program)
		}
	}
	w := start(t, options{})
	values := map[string]string{
		"api_url": w.platform.NodeAPIURL, "terminal_url": w.platform.NodeTerminalURL,
		"ca_bundle": filepath.Join(w.dir, "ca-bundle.crt"), "cert": filepath.Join(w.dir, "cert.pem"),
		"key": filepath.Join(w.dir, "key.pem"),
	}
	elsewhere := map[string]string{"api_url": "https://127.0.0.1:1", "terminal_url": "https://127.0.0.1:1"}
	tried := 0
	for _, row := range diag.Signals() {
		for _, step := range row.Recovery {
			for _, command := range step.Commands {
				rest, ok := strings.CutPrefix(command, "{exec} ")
				if program, _, _ := strings.Cut(rest, " "); !ok || !slices.Contains([]string{"curl", "openssl"}, program) {
					continue
				}
				tried++
				if out, err := onNode(t, rest, values); err != nil {
					t.Errorf("%s: %s in a healthy world: %v\n%s", row.Signal, rest, err, out)
				} else if strings.Contains(step.Text, "issuers") && !strings.Contains(string(out), issuers) {
					t.Errorf("%s: %s does not print the issuers:\n%s", row.Signal, rest, out)
				}
				if !strings.Contains(rest, "_url}") && !strings.Contains(rest, "_addr}") {
					continue
				}
				if out, err := onNode(t, rest, values, elsewhere); err == nil {
					t.Errorf("%s: %s succeeds where nothing listens:\n%s", row.Signal, rest, out)
				}
				strange := map[string]string{"ca_bundle": foreignBundle(t)}
				if out, err := onNode(t, rest, values, strange); err == nil && strings.Contains(rest, "{ca_bundle}") {
					t.Errorf("%s: %s succeeds without the platform's CA:\n%s", row.Signal, rest, out)
				}
			}
		}
	}
	if tried < 7 {
		t.Errorf("only %d commands", tried)
	}
}

// issuers is the title of openssl's list of accepted issuers.
const issuers = "Acceptable client certificate CA names"

// foreignBundle is a CA bundle with one certificate, of no server here.
func foreignBundle(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	path := filepath.Join(t.TempDir(), "bundle.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onNode runs a command of a step with values, of which later ones replace earlier ones.
func onNode(t *testing.T, command string, values ...map[string]string) ([]byte, error) {
	t.Helper()
	filled, ok := diag.FillCommand(command, func(name string) string {
		for _, v := range slices.Backward(values) {
			if v[name] != "" {
				return v[name]
			}
		}
		return ""
	})
	if !ok {
		t.Fatalf("%s lacks a value", command)
	}
	return exec.CommandContext(t.Context(), "sh", "-c", filled).CombinedOutput()
}
