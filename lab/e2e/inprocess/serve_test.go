//go:build linux

package inprocess

import (
	"encoding/json"
	"io"
	"net/url"
	"os"
	"testing"
)

// serveVariable makes TestServe run: it is set by `tools/bench -only wire`, which walks this world over a slow link.
const serveVariable = "GPUAASCTL_SERVE_WORLD"

// served describes a running world to the program that walks it. tools/bench has the same fields.
type served struct {
	Profile string            `json:"profile"` // its file
	Tool    string            `json:"tool"`    // the program, of this tree and of the version that the world's helper has
	Libexec string            `json:"libexec"` // folder of the programs for nodes
	Ports   map[string]string `json:"ports"`   // name of each server that a walk's operator connects to, by port
}

// TestServe starts a healthy world, describes it on descriptor 3, and ends with its standard input. It tests nothing:
// the caller does.
func TestServe(t *testing.T) {
	if os.Getenv(serveVariable) == "" {
		t.Skip("only for tools/bench, which sets " + serveVariable)
	}
	w := start(t, options{process: true})
	tool, err := toolProgram()
	if err != nil {
		t.Fatal(err)
	}
	port := func(of string) string {
		u, err := url.Parse(of)
		if err != nil {
			t.Fatal(err)
		}
		return u.Port()
	}
	out := os.NewFile(3, "description")
	if err := json.NewEncoder(out).Encode(served{Profile: w.profile, Tool: tool, Libexec: w.helpers,
		Ports: map[string]string{
			port(w.platform.APIBase): "API", port(w.platform.TerminalBase): "terminal", port(w.platform.AppEdge.URL): "workload",
			port("ssh://" + w.ssh.Addr): "SSH",
		}}); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
