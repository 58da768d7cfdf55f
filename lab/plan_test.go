//go:build linux

package lab

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestSourceLinesKeepOnlyTheDistribution(t *testing.T) {
	targets := `http://mirror.test/debian/ bookworm main
http://mirror.test/debian/ bookworm main
http://mirror.test/debian/ bookworm contrib
http://mirror.test/debian/ bookworm-updates main
http://mirror.test/debian-security/ bookworm-security main
http://mirror.test/debian/ bookworm-backports main
http://vendor.test/apt/ bookworm stable
http://vendor.test/pg/ bookworm-pgdg main
`
	want := []string{
		"deb http://mirror.test/debian/ bookworm main",
		"deb http://mirror.test/debian/ bookworm-updates main",
		"deb http://mirror.test/debian-security/ bookworm-security main",
	}
	if got := sourceLines(targets, "bookworm"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAcquireOptionsKeepTheWayToTheArchive(t *testing.T) {
	conf := `APT::Architecture "amd64";
Acquire::http::Proxy "http://proxy.test:3142";
Acquire::Check-Valid-Until "false";
Acquire::Languages:: "none";
Acquire::https "";
DPkg::Post-Invoke:: "rm -f /x";
`
	want := []string{`Acquire::http::Proxy "http://proxy.test:3142";`, `Acquire::Check-Valid-Until "false";`}
	if got := acquireOptions(conf); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestImageKeyFollowsTheRecipe(t *testing.T) {
	a := recipe{Suite: "bookworm", Packages: []string{"nginx"}}
	b := a
	b.Packages = []string{"nginx", "redis-server"}
	if a.key() == b.key() || a.key() != (recipe{Suite: "bookworm", Packages: []string{"nginx"}}).key() {
		t.Errorf("keys %s and %s", a.key(), b.key())
	}
}

func TestMachineCommandLine(t *testing.T) {
	got := strings.Join(nspawnArgv(machines(1, 0)[1], "/r"), " ")
	want := "systemd-nspawn --quiet --boot --machine=gpuaas-lab-compute-node-01 --hostname=compute-node-01 " +
		"--directory=/r " +
		"--network-bridge=lab0 --capability=CAP_NET_ADMIN,CAP_NET_RAW,CAP_BPF --system-call-filter=bpf --register=no " +
		"--keep-unit --link-journal=no " +
		"--resolv-conf=off --timezone=off --console=pipe"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// testLab is a lab that exists only as files.
func testLab(t *testing.T, nodes int) *Lab {
	t.Helper()
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	for _, f := range [...]string{"passwd", "group", "shadow"} {
		if err := writeFile(filepath.Join(image, "etc", f), []byte("root:x:0:0::/root:/bin/bash\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := &Lab{
		opts:  Options{StateDir: filepath.Join(dir, "state"), Libexec: filepath.Join(dir, "bin")},
		state: State{Version: stateVersion, Nodes: nodes, Image: image, Profile: filepath.Join(dir, "profiles", "lab.yaml")},
	}
	if _, err := l.makeSecrets(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCertificatesVerifyOnlyAgainstTheirOwnCA(t *testing.T) {
	l := testLab(t, 1)
	cases := []struct {
		cert, ca, name string
		good           bool
	}{
		{fileEdgeCert, fileEdgeCA, apiHost, true},
		{fileEdgeCert, fileEdgeCA, termHost, true},
		{fileEdgeCert, fileEdgeCA, "alloc-01." + appsDomain, true},
		{fileEdgeCert, fileEdgeCA, nodeAPIHost, false},
		{fileEdgeCert, fileNodeBundle, apiHost, true}, // a node trusts the public edge, too
		{fileEdgeCert, fileNodeCA, apiHost, false},
		{fileNodeAPICert, fileNodeBundle, nodeAPIHost, true},
		{fileNodeAPICert, fileEdgeCA, nodeAPIHost, false},
		{fileTerminalCert, fileNodeBundle, termHost, true},
		{fileTerminalCert, fileSigningCA, termHost, false},
	}
	for _, c := range cases {
		err := verify(t, l.secret(c.cert), l.secret(c.ca), c.name)
		if (err == nil) != c.good {
			t.Errorf("%s for %s by %s: %v, want good=%v", c.cert, c.name, c.ca, err, c.good)
		}
	}
}

func verify(t *testing.T, certFile, caFile, name string) error {
	t.Helper()
	data, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: time.Now()})
	return err
}

func TestSecretsAreKeptAndPrivate(t *testing.T) {
	l := testLab(t, 1)
	before, err := os.ReadFile(l.secret(fileToken))
	if err != nil {
		t.Fatal(err)
	}
	l.state.Nodes = 3
	if _, err := l.makeSecrets(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(l.secret(fileToken))
	if err != nil || string(after) != string(before) {
		t.Errorf("the operator's token changed (%v)", err)
	}
	entries, err := os.ReadDir(l.secret(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", e.Name(), info.Mode(), err)
		}
	}
	known, err := os.ReadFile(l.secret(fileKnownHosts))
	if err != nil || strings.Count(string(known), "\n") != 4 {
		t.Errorf("known_hosts (%v):\n%s", err, known)
	}
}

func TestMachineFiles(t *testing.T) {
	l := testLab(t, 2)
	ms := l.Machines()
	platform, err := l.machineFiles(ms[0])
	if err != nil {
		t.Fatal(err)
	}
	node1, err := l.machineFiles(ms[1])
	if err != nil {
		t.Fatal(err)
	}
	node2, err := l.machineFiles(ms[2])
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range [...]string{"/etc/gpuaas-platform/platform.yaml", "/etc/gpuaas-platform/seed.yaml"} {
		var v map[string]any
		if err := yaml.Unmarshal(find(t, platform, path).data, &v); err != nil || len(v) == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if has(platform, "/etc/gpuaas/agent.env") || has(node2, "/srv/alloc-01/index.html") ||
		!has(node1, "/srv/alloc-01/index.html") ||
		!has(node2, systemUnits+"gpuaas-app-alloc-02.service") {
		t.Error("a machine has another's files")
	}
	env := find(t, node2, "/etc/gpuaas/agent.env")
	if env.mode != 0o600 || !strings.Contains(string(env.data), "GPUAAS_NODE_ID=compute-node-02\n") {
		t.Errorf("agent.env (mode %v):\n%s", env.mode, env.data)
	}
	for _, files := range [][]file{node1, node2} {
		for _, f := range files {
			if strings.Contains(string(f.data), "PRIVATE KEY") && !strings.HasPrefix(f.path, "/etc/ssh/") {
				t.Errorf("a private key of the platform in %s on a node", f.path)
			}
		}
	}
}

func has(files []file, path string) bool {
	return slices.ContainsFunc(files, func(f file) bool { return f.path == path })
}

func find(t *testing.T, files []file, path string) file {
	t.Helper()
	i := slices.IndexFunc(files, func(f file) bool { return f.path == path })
	if i < 0 {
		t.Fatalf("no file %s", path)
	}
	return files[i]
}

func TestFileCannotLeaveTheMachine(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../outside", filepath.Join(dir, "root", "etc")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := (file{path: "/etc/x", data: []byte("x"), mode: 0o644, uid: os.Getuid()}).put(root); err == nil {
		t.Error("a file was put outside of the machine")
	}
}

func TestStateRefusesWhatItDoesNotKnow(t *testing.T) {
	dir := t.TempDir()
	for _, text := range [...]string{`{"version":1}`, `{"version":2,"surprise":true}`, `{"version":2`} {
		if err := os.WriteFile(filepath.Join(dir, "lab.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readState(dir); err == nil || !strings.Contains(err.Error(), "gpuaasctl lab down") {
			t.Errorf("%s: %v, want a refusal that says the way out", text, err)
		}
	}
}

func TestDownReadsTheStateOfAnyBuild(t *testing.T) {
	for _, c := range [...]struct {
		text  string
		want  State
		group string
	}{
		{`{"version":1,"nodes":2}`, State{Version: 1, Nodes: 2}, "gpuaas-lab"},
		{`{"version":9,"id":"ab","nodes":3,"later":{"x":[1]}}`, State{Version: 9, ID: "ab", Nodes: 3}, "gpuaas-lab-ab"},
		{`{"version":9,"id":"ab","nodes":["a","b"],"profile":"/p"}`, State{Version: 9, ID: "ab", Profile: "/p"},
			"gpuaas-lab-ab"},
		{`{"version":9,"nodes":-7}`, State{Version: 9}, "gpuaas-lab"},
		{`{"version":9,"nodes":1000000000}`, State{Version: 9, Nodes: MaxNodes}, "gpuaas-lab"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "lab.json"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readAnyState(dir)
		if err != nil || got != c.want {
			t.Errorf("%s is read as %+v, %v", c.text, got, err)
		}
		if g := (&Lab{state: got}).labGroup(); g != c.group {
			t.Errorf("%s: cgroup %s, want %s", c.text, g, c.group)
		}
	}
	if _, err := readAnyState(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no state: %v", err)
	}
}

// TestStartedWords: a lab that runs is not called a lab whose machines did not start.
func TestStartedWords(t *testing.T) {
	for started, want := range map[int]string{
		0: "all 3 already running", 2: "2 started, 1 already running", 3: "3 started",
	} {
		if got := startedWords(started, 3); got != want {
			t.Errorf("%d of 3: %q, want %q", started, got, want)
		}
	}
}
