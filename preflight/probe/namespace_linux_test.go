package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
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
	if Serve(WithPatience(context.Background(), 20), os.Stdin, os.Stdout, Config{Inside: pid}) != nil {
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
	return waitingIn(t, []string{"unshare", "-m", "--propagation", "private"}, setup, env...)
}

// waitingIn starts a program that waits for its input.
func waitingIn(t *testing.T, argv []string, setup string, env ...string) int {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command(argv[0], append(argv[1:], "sh", "-c", setup+"; exec cat")...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, env...)
	cmd.Stderr = os.Stderr
	startAnswering(t, cmd)
	return cmd.Process.Pid
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestAgentsView(t *testing.T) {
	needsRoot(t)
	fakes := newFakes(t)
	file, overlay, same := write(t, "real"), write(t, "overlay"), write(t, "same")
	cert, key := credential(t, ecKey(t), nil)
	otherCert, otherKey := credential(t, ecKey(t), nil)
	onlyInside := filepath.Join(t.TempDir(), "only")
	if err := os.Mkdir(onlyInside, 0o755); err != nil {
		t.Fatal(err)
	}
	pid := inNamespace(t, fmt.Sprintf(
		"mount --bind %s %s && mount --bind %s %s && mount -t tmpfs -o size=1m x %s && echo hi >%s/f && mount --bind %s %s",
		overlay, file, otherCert, cert, onlyInside, onlyInside, otherKey, key),
		"GPUAAS_API_URL="+file, "GPUAAS_NODE_ID=node-7")
	fakes.unit(t, "agent.service", running(pid)...)
	fakes.passwd(t, "root:x:0:0::/:/bin/sh") // the test user may have a slow start-up script
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
	needsRoot(t)
	fakes := newFakes(t)
	file, first, second := write(t, "real"), write(t, "first"), write(t, "second")
	pid := inNamespace(t, fmt.Sprintf("mount --bind %s %s", first, file), "GPUAAS_API_URL="+file)
	fakes.unit(t, "agent.service", running(pid)...)
	c := serving(t, Config{Unit: "agent.service", Exec: insideArgs})
	ask := func() diag.Fact {
		return c.Probe(t.Context(), []diag.Request{{Op: diag.OpFile, Target: "${GPUAAS_API_URL}"}})[0]
	}
	if f := ask(); f.Failure != diag.OK || f.File.SHA256 != hash("first") {
		t.Fatalf("%+v", f)
	}
	moved := filepath.Dir(file) + "/./file"
	again := inNamespace(t, fmt.Sprintf("mount --bind %s %s", second, file), "GPUAAS_API_URL="+moved)
	fakes.unit(t, "agent.service", running(again)...)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitState(t, pid, "Z")
	if f := ask(); f.Failure != diag.OK || f.File.SHA256 != hash("second") || f.Target != moved {
		t.Errorf("after the restart: %+v %+v", f, f.File)
	}
}

func TestNoChildWhereTheNamespaceIsOurs(t *testing.T) {
	fakes := newFakes(t)
	fakes.unit(t, "agent.service", running(sleeper(t).Process.Pid)...)
	c := serving(t, Config{Unit: "agent.service", Exec: func(int) []string { t.Error("a child was started"); return nil }})
	f := c.Probe(t.Context(), []diag.Request{{Op: diag.OpFile, Target: write(t, "x")}})[0]
	if f.Failure != diag.OK || f.AgentView != ViewEntered || f.File.HostSHA != "" {
		t.Errorf("%+v", f)
	}
}

func TestAChildThatEndsIsSaid(t *testing.T) {
	needsRoot(t)
	fakes := newFakes(t)
	pid := inNamespace(t, ":")
	fakes.unit(t, "agent.service", running(pid)...)
	c := serving(t, Config{Unit: "agent.service", Exec: func(int) []string { return []string{"-test.run=^NoSuchTest$"} }})
	for _, req := range []diag.Request{{Op: diag.OpFile, Target: write(t, "x")}, {Op: diag.OpUser, Target: "root"}} {
		f := c.Probe(t.Context(), []diag.Request{req})[0]
		if f.Failure != diag.OK || !strings.Contains(f.AgentView, "not entered") {
			t.Errorf("%s: %+v", req.Op, f)
		}
	}
}

func TestSpareThreadIsNeverTheFirst(t *testing.T) {
	for range 50 {
		done := make(chan int)
		go onSpareThread(func() { done <- syscall.Gettid() })
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
	needsRoot(t)
	file, overlay := write(t, "real"), write(t, "overlay")
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
			fakes := newFakes(t)
			pid := waitingIn(t, append([]string{"unshare"}, strings.Fields(flags)...), setup, "GPUAAS_API_URL="+file)
			fakes.unit(t, "agent.service", running(pid)...)
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

// TestInMachinesNetwork: what a process finds out about itself, in a tree like /proc, and in its own namespaces.
func TestInMachinesNetwork(t *testing.T) {
	const inUnit, first = "0::/system.slice/agent.service\n", "0::/init.scope\n"
	for name, tc := range map[string]struct {
		ours, first string
		sameNetwork bool
		want        bool
	}{
		"a service of the machine":           {inUnit, first, true, true},
		"of version 1 control groups":        {"1:name=systemd:/a\n", "1:name=systemd:/init.scope\n", true, true},
		"a network of its own":               {inUnit, first, false, false},
		"processes of its own":               {inUnit, inUnit, true, false},
		"processes and a network of its own": {inUnit, inUnit, false, false},
		"a container":                        {"0::/\n", "0::/\n", true, false},
		"process 1 is hidden":                {inUnit, "", true, false},
	} {
		proc := t.TempDir()
		for who, group := range map[string]string{"thread-self": tc.ours, "1": tc.first} {
			if group == "" {
				continue
			}
			if err := os.MkdirAll(filepath.Join(proc, who, "net"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(proc, who, "cgroup"), []byte(group), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ours, theirs := filepath.Join(proc, "thread-self/net/dev"), filepath.Join(proc, "1/net/dev")
		if err := os.WriteFile(ours, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		switch {
		case tc.first == "":
		case tc.sameNetwork:
			if err := os.Link(ours, theirs); err != nil {
				t.Fatal(err)
			}
		default:
			if err := os.WriteFile(theirs, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := inMachinesNetwork(host.Proc(proc)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestOwnNetworkIsNotMistaken: an agent in its own namespaces never takes their network for the machine's.
func TestOwnNetworkIsNotMistaken(t *testing.T) {
	tier.NeedsHost(t)
	needsRoot(t)
	for _, flags := range []string{"-n", "-pf --mount-proc -n", "-pf --mount-proc", "-pf -n", "-pf --mount-proc -n -C"} {
		argv := append(strings.Fields(flags), os.Args[0], "-test.run=^TestSeenNetwork$", "network")
		out, err := exec.Command("unshare", argv...).CombinedOutput()
		if own := strings.Contains(flags, "-n"); err != nil || (own && !strings.Contains(string(out), "machines: false")) {
			t.Errorf("unshare %s: %v, %s", flags, err, out)
		}
	}
}

// TestSeenNetwork is not a test: TestOwnNetworkIsNotMistaken runs it in other namespaces.
func TestSeenNetwork(t *testing.T) {
	if !slices.Contains(os.Args, "network") {
		return
	}
	fmt.Println("machines:", InMachinesNetwork())
	os.Exit(0)
}
