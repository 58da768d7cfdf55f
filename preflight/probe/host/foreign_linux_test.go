//go:build linux

package host

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// TestSettingsOfFiles reads values as agents of others keep them, and refuses what may be a secret.
func TestSettingsOfFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kubelet.conf": "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: QUJD\n" +
			"    server: https://10.0.0.1:6443\n  name: one\ncontexts: []\nusers:\n- name: default\n",
		"teleport.yaml": "version: v3 # newest\nteleport:\n  nodename: \"box1\"\n  proxy_server: tele.corp:443\n" +
			"  auth_servers:\n    - a.corp:3025\n    - 'b.corp:3025'\n  log: {output: stderr, severity: INFO}\n" +
			"  join_params: |\n    server: https://wrong\n  token: s3cret\n  note: two words\n",
		"fleet.toml": "# a comment\nname = \"n-1\"\n[server.api]\nurl = \"https://user:pass@fleet.corp/x?sig=1\" # it\n",
		"fleet.json": `{"server":{"urls":["https://a.corp","https://b.corp"],"port":8443}}`,
		"fleet.env":  "export FLEET_URL='https://fleet.corp'\n",
		"slurm.conf": "SlurmctldHost=ctl.corp\nSlurmdPort=6818\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[string]string{
		"kubelet.conf#clusters.0.cluster.server": "https://10.0.0.1:6443",
		"kubelet.conf#clusters.0.name":           "one",
		"teleport.yaml#teleport.nodename":        "box1",
		"teleport.yaml#teleport.proxy_server":    "tele.corp:443",
		"teleport.yaml#teleport.auth_servers.1":  "b.corp:3025",
		"teleport.yaml#teleport.log.severity":    "INFO",
		"fleet.toml#name":                        "n-1",
		"fleet.toml#server.api.url":              "https://fleet.corp/x",
		"fleet.json#server.urls.1":               "https://b.corp",
		"fleet.json#server.port":                 "8443",
		"fleet.env#FLEET_URL":                    "https://fleet.corp",
		"slurm.conf#SlurmctldHost":               "ctl.corp",
		"teleport.yaml#teleport.token":           "",
		"teleport.yaml#teleport.note":            "",
		"teleport.yaml#teleport.server":          "",
		"none.yaml#a":                            "",
	} {
		agent := &AgentView{}
		got, err := agent.setting(filepath.Join(dir, at), true)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v, want %q", at, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "two words") {
			t.Errorf("%s: the value is shown: %v", at, err)
		}
		if _, err := agent.setting(filepath.Join(dir, at), false); err == nil {
			t.Errorf("%s: a request of the platform reads it", at)
		}
	}
	agent := &AgentView{Env: map[string]string{"GPUAAS_API_URL": "https://u:p@a.corp"}}
	req, err := Expand(diag.Request{Target: "${" + filepath.Join(dir, "teleport.yaml#teleport.proxy_server") + "}/ping"},
		agent, true)
	if err != nil || req.Target != "https://tele.corp:443/ping" {
		t.Errorf("%q %v", req.Target, err)
	}
	if req, err = Expand(diag.Request{Target: "${GPUAAS_API_URL}/x"}, agent, false); err != nil ||
		req.Target != "https://a.corp/x" {
		t.Errorf("%q %v", req.Target, err)
	}
}

// TestSettingsInAFact: what is read is in the fact of the settings, beside nothing else.
func TestSettingsInAFact(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("api: https://a.corp\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Prober{Commands: true}
	f := diag.Fact{}
	p.env(t.Context(), diag.Request{Op: diag.OpEnv, Env: []string{file + "#api", file + "#none"}}, &f)
	if !f.Passed() || f.Env == nil || len(f.Env.Values) != 1 || f.Env.Values[file+"#api"] != "https://a.corp" {
		t.Errorf("%s %s %+v", f.Failure, f.Detail, f.Env)
	}
	f = diag.Fact{}
	p.env(t.Context(), diag.Request{Op: diag.OpEnv, Env: []string{"/nonexistent/a.yaml#api"}}, &f)
	if f.Failure != diag.FileMissing || f.Env != nil {
		t.Errorf("%s %+v", f.Failure, f.Env)
	}
}

// TestProcessByName finds a process by the name of its program, and not one that is not there.
func TestProcessByName(t *testing.T) {
	tier.NeedsHost(t)
	program := filepath.Join(t.TempDir(), "fleetd-under-test")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(sleep, program); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	})
	p := &Prober{}
	var f diag.Fact
	ask := func() bool { // a process has its name a moment after its exec
		f = diag.Fact{}
		p.unit(t.Context(), diag.Request{Op: diag.OpUnit, Target: "process:fleetd-under-test"}, &f)
		return f.Passed()
	}
	wait.Until(t, ask)
	if !f.Passed() || f.Unit == nil || f.Unit.PID != cmd.Process.Pid {
		t.Errorf("%s %s %+v", f.Failure, f.Detail, f.Unit)
	}
	f = diag.Fact{}
	p.unit(t.Context(), diag.Request{Op: diag.OpUnit, Target: "process:no-such-daemon"}, &f)
	if f.Failure != diag.UnitMissing || !strings.Contains(f.Detail, "no process has this name") {
		t.Errorf("%s %s", f.Failure, f.Detail)
	}
}

// TestContainerByRuntime asks a runtime for a container that runs, that ended, and that it does not have.
func TestContainerByRuntime(t *testing.T) {
	tier.NeedsHost(t)
	socket := filepath.Join(t.TempDir(), "d.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]container{}
	up, ended := container{RestartCount: 1}, container{}
	up.State.Status, up.State.Running, up.State.Pid = "running", true, os.Getpid()
	ended.State.Status, ended.State.ExitCode = "exited", 3
	states["kubelet"], states["ended"] = up, ended
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/containers/"), "/json")
		c, ok := states[name]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(&c) // the client sees what is missing
	})}
	go func() { _ = server.Serve(l) }() // until Close
	t.Cleanup(func() { _ = server.Close() })
	for name, want := range map[string]diag.Failure{
		"container:kubelet@" + socket: diag.OK, "container:ended@" + socket: diag.UnitFailed,
		"container:none@" + socket: diag.UnitMissing, "container:kubelet@/nonexistent/d.sock": diag.Unsupported,
		"container:../x@" + socket: diag.Unsupported,
	} {
		p := &Prober{}
		var f diag.Fact
		p.unit(t.Context(), diag.Request{Op: diag.OpUnit, Target: name}, &f)
		if f.Failure != want {
			t.Errorf("%s: %q %s %+v, want %q", name, f.Failure, f.Detail, f.Unit, want)
		}
	}
}

// TestCredentialInOneFile checks a certificate and its key in one file, and says what PKCS#12 is.
func TestCredentialInOneFile(t *testing.T) {
	dir := t.TempDir()
	cert, key := kit.SelfSigned(t, kit.NewKey(t), nil)
	a, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(dir, "both.pem")
	if err := os.WriteFile(both, append(a, b...), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Prober{}
	var f diag.Fact
	p.cert(t.Context(), diag.Request{Op: diag.OpCert, Cert: both, Key: both}, &f)
	if !f.Passed() || f.Cert == nil || f.Cert.KeyMatches == nil || !*f.Cert.KeyMatches {
		t.Errorf("%s %s", f.Failure, f.Detail)
	}
	p12 := filepath.Join(dir, "a.der")
	data := []byte{0x30, 0x82, 0x01, 0x00, 0x02, 0x01, 0x03, 0x30, 0x82, 0x00, 0xf0, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86,
		0xf7, 0x0d, 0x01, 0x07, 0x01}
	if err := os.WriteFile(p12, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f = diag.Fact{}
	if p.cert(t.Context(), diag.Request{Op: diag.OpCert, Cert: p12}, &f); !strings.Contains(f.Detail, "PKCS#12") {
		t.Errorf("%s %s", f.Failure, f.Detail)
	}
}
