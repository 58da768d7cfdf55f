package probe

import (
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"

	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestInsideChild is not a test: it is run by the child inside a namespace, since the program that executes itself
// again is the test binary.
func TestInsideChild(t *testing.T) {
	at := slices.Index(os.Args, "inside")
	if at < 0 {
		return
	}
	pid, err := strconv.Atoi(os.Args[at+1])
	if err != nil {
		os.Exit(2)
	}
	if Serve(measure.WithPatience(context.Background(), 20), os.Stdin, os.Stdout, Config{Inside: pid}) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func insideArgs(pid int) []string {
	return []string{"-test.run=^TestInsideChild$", "inside", itoa(pid)}
}

// inNamespace starts a waiting process in a new mount namespace with these mounts.
func inNamespace(t *testing.T, setup string, env ...string) int {
	t.Helper()
	return kit.WaitingIn(t, []string{"unshare", "-m", "--propagation", "private"}, setup, env...)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestAgentsView(t *testing.T) {
	kit.NeedsRoot(t)
	fakes := kit.NewFakes(t)
	file, overlay, same := kit.TempFile(t, "real"), kit.TempFile(t, "overlay"), kit.TempFile(t, "same")
	cert, key := kit.SelfSigned(t, kit.NewKey(t), nil)
	otherCert, otherKey := kit.SelfSigned(t, kit.NewKey(t), nil)
	onlyInside := filepath.Join(t.TempDir(), "only")
	if err := os.Mkdir(onlyInside, 0o755); err != nil {
		t.Fatal(err)
	}
	pid := inNamespace(t, fmt.Sprintf(
		"mount --bind %s %s && mount --bind %s %s && mount -t tmpfs -o size=1m x %s && echo hi >%s/f && mount --bind %s %s",
		overlay, file, otherCert, cert, onlyInside, onlyInside, otherKey, key),
		"GPUAAS_API_URL="+file, "GPUAAS_NODE_ID=node-7")
	fakes.Unit(t, "agent.service", kit.RunningUnit(pid)...)
	fakes.Passwd(t, "root:x:0:0::/:/bin/sh") // the test user may have a slow start-up script
	c := serving(t, Config{Unit: "agent.service", Exec: insideArgs})
	if h, err := c.Hello(t.Context()); err != nil || h.AgentPID != pid {
		t.Fatalf("%+v, %v", h, err)
	}
	facts := c.Probe(t.Context(), []diag.Request{
		{ID: "agent", Op: diag.OpFile, Target: file},
		{ID: "host", Op: diag.OpFile, Target: file, View: diag.ViewHost},
		{ID: "same", Op: diag.OpFile, Target: same, View: diag.ViewAgent},
		{ID: "cert", Op: diag.OpCert, Cert: cert, Key: key, NodeID: "node-7"},
		{ID: "inside", Op: diag.OpFile, Target: onlyInside + "/f"},
		{ID: "expanded", Op: diag.OpFile, Target: "${GPUAAS_API_URL}"},
		{ID: "disk", Op: diag.OpDisk, Target: onlyInside, Write: 8192},
		{ID: "user", Op: diag.OpUser, Target: "root"},
		{ID: "unit", Op: diag.OpUnit, Target: "agent.service"},
	})
	at := map[string]diag.Fact{}
	for _, f := range facts {
		at[f.ID] = f
		want := ViewEntered
		if f.ID == "host" || f.ID == "unit" {
			want = ""
		}
		if f.Failure != diag.OK || f.AgentView != want {
			t.Errorf("%s: view %q, failure %q %s", f.ID, f.AgentView, f.Failure, f.Detail)
		}
	}
	if t.Failed() {
		return
	}
	if f := at["agent"].File; f.SHA256 != hash("overlay") || f.HostSHA != hash("real") {
		t.Errorf("agent: %+v", f)
	}
	if f := at["host"].File; f.SHA256 != hash("real") || f.HostSHA != "" {
		t.Errorf("host: %+v", f)
	}
	if f := at["same"].File; f.SHA256 != hash("same") || f.HostSHA != "" {
		t.Errorf("same: %+v", f)
	}
	if f := at["expanded"]; f.Target != file || f.File.SHA256 != hash("overlay") {
		t.Errorf("expanded: %+v", f)
	}
	if f := at["inside"]; !strings.Contains(f.Detail, "outside of the agent's mounts: file_missing") {
		t.Errorf("inside: %q", f.Detail)
	}
	if d := at["disk"].Disk; d.FSType != "tmpfs" || d.TotalBytes != 1<<20 {
		t.Errorf("disk: %+v", d)
	}
	// Both have one serial number; the key identifies the pair.
	if f := at["cert"].Cert; !*f.KeyMatches || f.Leaf.Fingerprint == fingerprint(t, c, cert) {
		t.Errorf("cert: %+v", f)
	}
}

func fingerprint(t *testing.T, c *Client, cert string) string {
	t.Helper()
	f := c.Probe(t.Context(), []diag.Request{{Op: diag.OpCert, Cert: cert, View: diag.ViewHost}})[0]
	if f.Failure != diag.OK {
		t.Fatalf("%+v", f)
	}
	return f.Cert.Leaf.Fingerprint
}

// A restarted agent has another environment, and other mounts.
func TestAgentRestarts(t *testing.T) {
	kit.NeedsRoot(t)
	fakes := kit.NewFakes(t)
	file, first, second := kit.TempFile(t, "real"), kit.TempFile(t, "first"), kit.TempFile(t, "second")
	pid := inNamespace(t, fmt.Sprintf("mount --bind %s %s", first, file), "GPUAAS_API_URL="+file)
	fakes.Unit(t, "agent.service", kit.RunningUnit(pid)...)
	c := serving(t, Config{Unit: "agent.service", Exec: insideArgs})
	ask := func() diag.Fact {
		return c.Probe(t.Context(), []diag.Request{{Op: diag.OpFile, Target: "${GPUAAS_API_URL}"}})[0]
	}
	if f := ask(); f.Failure != diag.OK || f.File.SHA256 != hash("first") {
		t.Fatalf("%+v", f)
	}
	moved := filepath.Dir(file) + "/./file"
	again := inNamespace(t, fmt.Sprintf("mount --bind %s %s", second, file), "GPUAAS_API_URL="+moved)
	fakes.Unit(t, "agent.service", kit.RunningUnit(again)...)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	kit.AwaitState(t, pid, "Z")
	if f := ask(); f.Failure != diag.OK || f.File.SHA256 != hash("second") || f.Target != moved {
		t.Errorf("after the restart: %+v %+v", f, f.File)
	}
}

func TestNoChildWhereTheNamespaceIsOurs(t *testing.T) {
	fakes := kit.NewFakes(t)
	fakes.Unit(t, "agent.service", kit.RunningUnit(kit.Sleeper(t).Process.Pid)...)
	c := serving(t, Config{Unit: "agent.service", Exec: func(int) []string { t.Error("a child was started"); return nil }})
	f := c.Probe(t.Context(), []diag.Request{{Op: diag.OpFile, Target: kit.TempFile(t, "x")}})[0]
	if f.Failure != diag.OK || f.AgentView != ViewEntered || f.File.HostSHA != "" {
		t.Errorf("%+v", f)
	}
}

func TestAChildThatEndsIsSaid(t *testing.T) {
	kit.NeedsRoot(t)
	fakes := kit.NewFakes(t)
	pid := inNamespace(t, ":")
	fakes.Unit(t, "agent.service", kit.RunningUnit(pid)...)
	c := serving(t, Config{Unit: "agent.service", Exec: func(int) []string { return []string{"-test.run=^NoSuchTest$"} }})
	for _, req := range []diag.Request{{Op: diag.OpFile, Target: kit.TempFile(t, "x")}, {Op: diag.OpUser,
		Target: "root"}} {
		f := c.Probe(t.Context(), []diag.Request{req})[0]
		if f.Failure != diag.OK || !strings.Contains(f.AgentView, "not entered") {
			t.Errorf("%s: %+v", req.Op, f)
		}
	}
}

func TestSpareThreadIsNeverTheFirst(t *testing.T) {
	for range 50 {
		done := make(chan int)
		go hostprobe.OnSpareThread(func() { done <- syscall.Gettid() })
		if tid := <-done; tid == os.Getpid() {
			t.Fatal("the first thread was used")
		}
		runtime.Gosched()
	}
	if ns, err := os.Readlink("/proc/self/ns/mnt"); err != nil || ns == "" {
		t.Error(ns, err)
	}
}

// The agent's network namespace is entered, alone and with its mounts, and a request can exclude the network.
func TestAgentsNetwork(t *testing.T) {
	tier.NeedsHost(t)
	kit.NeedsRoot(t)
	file, overlay := kit.TempFile(t, "real"), kit.TempFile(t, "overlay")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, flags := range map[string]string{"network": "-n", "network and mounts": "-n -m --propagation private",
		"network, mounts and processes": "-n -p -f --mount-proc --kill-child"} {
		t.Run(name, func(t *testing.T) {
			setup, want := "ip link set lo up", "real"
			if strings.Contains(flags, "-m ") {
				setup, want = setup+fmt.Sprintf("; mount --bind %s %s", overlay, file), "overlay"
			}
			fakes := kit.NewFakes(t)
			pid := kit.WaitingIn(t, append([]string{"unshare"}, strings.Fields(flags)...), setup, "GPUAAS_API_URL="+file)
			fakes.Unit(t, "agent.service", kit.RunningUnit(pid)...)
			c := serving(t, Config{Unit: "agent.service", Exec: insideArgs})
			to := l.Addr().String()
			facts := c.Probe(t.Context(), []diag.Request{
				{ID: "agent", Op: diag.OpTCP, Target: to},
				{ID: "host", Op: diag.OpTCP, Target: to, View: diag.ViewHost},
				{ID: "machine", Op: diag.OpTCP, Target: to, Network: diag.ViewHost},
				{ID: "file", Op: diag.OpFile, Target: file},
				{ID: "file of the machine's network", Op: diag.OpFile, Target: file, Network: diag.ViewHost},
			})
			if f := c.Probe(t.Context(), []diag.Request{{Op: diag.OpFile, Target: "${GPUAAS_API_URL}"}})[0]; f.Target != file {
				t.Errorf("its environment: %+v", f)
			}
			for i, wanted := range []struct {
				word diag.Failure
				own  bool
			}{{diag.TCPRefused, true}, {"", false}, {"", false}, {"", true}, {"", false}} {
				if f := facts[i]; f.Failure != wanted.word || f.OwnNetwork != wanted.own {
					t.Errorf("%s: %q %s, own network %t", f.ID, f.Failure, f.Detail, f.OwnNetwork)
				}
			}
			for _, f := range facts[3:] {
				if f.File == nil || f.File.SHA256 != hash(want) {
					t.Errorf("%s: %+v", f.ID, f.File)
				}
			}
			if changed := diag.Changed(&facts[0].Request, &facts[2].Request); !slices.Equal(changed, []string{"network"}) {
				t.Errorf("the pair differs in %v", changed)
			}
		})
	}
}
