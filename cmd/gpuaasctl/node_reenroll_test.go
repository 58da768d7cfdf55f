package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// issuer is a platform that issues bundles. asked counts the requests.
type issuer struct {
	signing, ingress string
	status           int
	asked            int
	reason, by       string
	force            bool
	lose             func(w http.ResponseWriter, r *http.Request) // called instead of answering
}

const canary = "grt1.canary-of-a-token"

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/admin/trust":
		fmt.Fprintf(w, `{"signing_ca":%q,"ingress_ca":%q}`, i.signing, i.ingress)
	case "POST /v1/admin/nodes/n1/reenroll":
		i.asked++
		var in struct {
			Reason, By string
			Force      bool
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		i.reason, i.by, i.force = in.Reason, in.By, in.Force
		if i.lose != nil {
			i.lose(w, r)
			return
		}
		if i.status != 0 {
			w.WriteHeader(i.status)
			fmt.Fprint(w, `{"error":{"code":"fenced","message":"the node's identity is fenced: settle that first"}}`)
			return
		}
		_ = json.NewEncoder(w).Encode(wire.Bundle{NodeID: "n1", Token: canary, Profile: "lab",
			APIURL: "https://node-api.test", CABundle: "PEM"})
	default:
		http.NotFound(w, r)
	}
}

// reenrollBy runs the command with args against i, and returns exit code, all output, and the bundle's path.
func reenrollBy(t *testing.T, i *issuer, args ...string) (code int, said, bundle string) {
	t.Helper()
	tier.NeedsHost(t)
	server := httptest.NewServer(i)
	defer server.Close()
	dir := t.TempDir()
	token, prof := filepath.Join(dir, "token"), filepath.Join(dir, "p.yaml")
	bundle = filepath.Join(dir, "bundle.json")
	for path, text := range map[string]string{token: "canary-of-the-operator\n",
		prof: "api_base: " + server.URL + "\nauth: {token_file: token}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: func(string) string { return "" }}
	code = execute(a, t.Context(), append([]string{"node", "reenroll", "n1", "--profile", prof, "--out", bundle,
		"--reason", "drift"}, args...))
	said = out.String() + errs.String()
	for _, secret := range []string{canary, "canary-of-the-operator"} {
		if strings.Contains(said, secret) {
			t.Errorf("a secret was said: %s", said)
		}
	}
	return code, said, bundle
}

// TestReenrollOut: the bundle is only in a file that its owner can read.
func TestReenrollOut(t *testing.T) {
	i := &issuer{signing: "aa", ingress: "aa"}
	code, said, bundle := reenrollBy(t, i, "-o", "json")
	if code != cmdutil.ExitPass || !strings.Contains(said, `"control_plane": "matches"`) {
		t.Fatalf("exit %d: %s", code, said)
	}
	st, err := os.Stat(bundle)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v, mode %v", err, st)
	}
	if got := content(t, bundle); !strings.Contains(got, canary) {
		t.Errorf("the bundle holds no token: %s", got)
	}
	if i.reason != "drift" || i.by == "" {
		t.Errorf("the audit hears reason %q by %q", i.reason, i.by)
	}
}

// TestReenrollRefused: while the CAs differ, no token is issued, unless the operator insists.
func TestReenrollRefused(t *testing.T) {
	i := &issuer{signing: "aa", ingress: "bb"}
	code, said, bundle := reenrollBy(t, i)
	if code != cmdutil.ExitFailed || i.asked != 0 ||
		!strings.Contains(said, "never re-enroll alone: aa signs node certificates, and the ingress takes those of bb") {
		t.Errorf("exit %d, asked %d times: %s", code, i.asked, said)
	}
	if _, err := os.Stat(bundle); err == nil {
		t.Error("a bundle was written")
	}
	if code, said, _ = reenrollBy(t, i, "--force"); code != cmdutil.ExitPass || i.asked != 1 ||
		!strings.Contains(said, "differs") {
		t.Errorf("--force: exit %d, asked %d times: %s", code, i.asked, said)
	}
	i = &issuer{status: http.StatusConflict}
	if code, said, bundle = reenrollBy(t, i); code != cmdutil.ExitFailed ||
		!strings.Contains(said, "HTTP 409 fenced: the node's identity is fenced") {
		t.Errorf("exit %d: %s", code, said)
	}
	if _, err := os.Stat(bundle); err == nil {
		t.Error("a bundle was written")
	}
}

// content is a file's text.
func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReenrollAnswerLost: if the answer is lost, the operator must not be led to believe that nothing happened.
func TestReenrollAnswerLost(t *testing.T) {
	hangUp := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	for name, lose := range map[string]func(http.ResponseWriter, *http.Request){
		"silence": func(w http.ResponseWriter, _ *http.Request) { hangUp(w) },
		"an edge": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) },
		"half of it": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"node_id":`))
			_ = http.NewResponseController(w).Flush()
			hangUp(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, said, _ := reenrollBy(t, &issuer{signing: "aa", ingress: "aa", lose: lose})
			if code != cmdutil.ExitFailed || !strings.Contains(said, "may have issued a token") ||
				!strings.Contains(said, "gpuaasctl node status n1 --profile ") {
				t.Errorf("exit %d: %s", code, said)
			}
		})
	}
}

// TestReenrollForce: the platform refuses by itself; --force must be passed to it.
func TestReenrollForce(t *testing.T) {
	i := &issuer{signing: "aa", ingress: "bb"}
	if code, said, _ := reenrollBy(t, i, "--force"); code != cmdutil.ExitPass || !i.force {
		t.Errorf("exit %d, force %t: %s", code, i.force, said)
	}
	i = &issuer{signing: "aa", ingress: "aa"}
	if code, said, _ := reenrollBy(t, i); code != cmdutil.ExitPass || i.force {
		t.Errorf("exit %d, force %t: %s", code, i.force, said)
	}
}
