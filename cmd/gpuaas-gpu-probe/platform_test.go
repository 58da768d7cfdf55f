//go:build linux

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	prober "github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// nodeWithGPU is a node on which only the library and the kernel log are fake: agent, probe, platform and policy
// are real.
type nodeWithGPU struct {
	t   *testing.T
	p   *platformtest.Platform
	log *os.File // source of the fake kernel log
	seq int

	judge, file string // the judging program, and the agent's file about its GPUs
}

// TestFromTheLibraryToThePlatform: values of the driver's library and the kernel log become the node's status,
// through the real programs.
func TestFromTheLibraryToThePlatform(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("skipped: builds binaries")
	}
	// the platform accepts no heartbeat without it
	if id, err := os.ReadFile("/etc/machine-id"); err != nil || len(id) < 2 {
		t.Skip("skipped: needs /etc/machine-id, which a booted machine has")
	}
	cc, dir := compiler(t), t.TempDir()
	probe, fake := filepath.Join(dir, "probe"), filepath.Join(dir, "libnvidia-ml.so")
	goBuild(t, probe, "1", ".")
	compileFake(t, cc, "WHOLE", fake)
	agent, judge := filepath.Join(dir, "gpuaas-agent"), filepath.Join(dir, policy.Program)
	goBuild(t, agent, "0", "../gpuaas-agent")
	goBuild(t, judge, "0", "../gpuaas-gpu-policy")
	start := func(t *testing.T, library string) (*nodeWithGPU, *control) {
		n := &nodeWithGPU{t: t, judge: judge}
		one := 1
		n.p = platformtest.StartPlatform(t, platformtest.Options{
			Nodes:  []platform.SeedNode{{ID: platformtest.NodeID, Hostname: platformtest.NodeID, GPUs: &one}},
			Config: func(c *platform.Config) { c.GPU = platform.GPU{Policy: "default", Program: judge} },
		})
		c := newControl(t, "t4")
		n.startAgent(agent, probe, library, c.path)
		return n, c
	}

	t.Run("errors", func(t *testing.T) {
		t.Parallel()
		n, c := start(t, fake)
		n.await("HEALTHY", "ACTIVE", "")
		n.kernel("NVRM: Xid (PCI:0000:00:1e): 31, pid=4121, name=python3, Ch 00000008, MMU Fault")
		c.raise(0, 8, 13)
		n.await("HEALTHY", "ACTIVE", "xid 31")
		n.await("HEALTHY", "ACTIVE", "xid 13")
		n.kernel("NVRM: Xid (PCI:0000:00:1e): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
		n.await("UNHEALTHY", "UNHEALTHY", "xid 79")
		n.here("UNHEALTHY", "xid 79: ", report.Sampling)
	})
	t.Run("driver", func(t *testing.T) {
		t.Parallel()
		n, c := start(t, fake)
		n.await("HEALTHY", "ACTIVE", "")
		c.raise(0, 8, 119)
		n.await("UNHEALTHY", "UNHEALTHY", "xid 119")
	})
	t.Run("no library", func(t *testing.T) {
		t.Parallel()
		n, _ := start(t, filepath.Join(dir, "none.so"))
		n.await("UNKNOWN", "ACTIVE", "library_not_found")
		n.here("UNKNOWN", "library_not_found", report.Unknown)
		n.kernel("NVRM: Xid (PCI:0000:00:1e): 31, pid=4121, name=python3, Ch 00000008, MMU Fault")
		n.await("UNKNOWN", "ACTIVE", "xid 31")
		n.kernel("NVRM: Xid (PCI:0000:00:1e): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
		n.await("UNHEALTHY", "UNHEALTHY", "xid 79")
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		n, c := start(t, fake)
		n.await("HEALTHY", "ACTIVE", "")
		c.hang(0, "nvmlDeviceGetTemperature")
		n.await("UNKNOWN", "ACTIVE", "the probe is stuck, in nvmlDeviceGetTemperature")
		n.here("UNKNOWN", "the probe is stuck, in nvmlDeviceGetTemperature", report.Stuck)
	})
}

// here returns once the agent's file leads to the same health and decision as the platform's events, judged by the
// same program.
func (n *nodeWithGPU) here(health policy.Health, decided string, probe report.ProbeState) {
	n.t.Helper()
	words, j := "", policy.Judgement{}
	defer func() {
		if n.t.Failed() {
			n.t.Logf("%s: %+v", words, j)
		}
	}()
	p := &prober.Prober{}
	wait.For(n.t, fmt.Sprintf("%s and %q of the node's own file", health, decided), func() bool {
		f := p.Run(n.t.Context(), diag.Request{Op: diag.OpGPU, Target: n.file, Evidence: true})
		if f.GPU.Probe != string(probe) {
			words = fmt.Sprintf("%s %s, the probe is %q", f.Failure, f.Detail, f.GPU.Probe)
			return false
		}
		var lines []byte
		for _, e := range f.GPU.Evidence {
			lines = append(append(lines, e...), '\n')
		}
		r, err := policy.Ask(n.t.Context(), n.judge, "dev", policy.Request{Op: policy.OpJudge,
			Policy: policy.File{Path: "default"}, Events: &policy.File{Path: "events", Text: lines}, Now: &f.At.Time})
		if err != nil {
			n.t.Fatal(err)
		}
		if j, err = r.Judged(); err != nil {
			n.t.Fatal(err)
		}
		if j.Decided != nil {
			words = j.Decided.Subject.What + ": " + j.Decided.Why
		}
		return j.Health == health && strings.Contains(words, decided)
	})
}

// startAgent runs the agent until the test ends.
func (n *nodeWithGPU) startAgent(agent, probe, library, control string) {
	n.t.Helper()
	dir := n.t.TempDir()
	n.file = filepath.Join(dir, "state", "agent", state.FileName)
	log := filepath.Join(dir, "kernel-log")
	if err := syscall.Mkfifo(log, 0o600); err != nil {
		n.t.Fatal(err)
	}
	var err error
	if n.log, err = os.OpenFile(log, os.O_RDWR, 0); err != nil { // so that it has no end
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = n.log.Close() })
	n.kernel("Linux version 6.1.0")
	if err := os.WriteFile(filepath.Join(dir, "ca-bundle.crt"), []byte(n.p.CAPEM), 0o644); err != nil {
		n.t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer said.Close() // the agent has its own
	cmd := exec.Command(agent, "run", "--dir", dir, "--record-dir", filepath.Join(dir, "diag"), "--record-mirror",
		filepath.Join(dir, "mirror"))
	cmd.Env = append(os.Environ(), "GPUAAS_API_URL="+n.p.NodeAPIURL, "GPUAAS_TERMINAL_API_URL="+n.p.NodeTerminalURL,
		"GPUAAS_NODE_ID="+platformtest.NodeID, "GPUAAS_TASK_SIGNING_PUBKEYS="+n.p.TaskPubkeys,
		"GPUAAS_ENROLLMENT_TOKEN="+n.p.EnrollmentToken(platformtest.NodeID).Reveal(), "GPUAAS_HEARTBEAT_INTERVAL=1s",
		"GPUAAS_TASK_WAIT=5s", "GPUAAS_GPU_PROBE="+probe, "GPUAAS_GPU_KERNEL_LOG="+log, libraryVariable+"="+library,
		"GPUAAS_NVML_FAKE="+control)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil || n.t.Failed() {
			text, _ := os.ReadFile(said.Name())
			n.t.Errorf("the agent: %v\n%s", err, text)
		}
	})
}

// kernel prints a line to the kernel log once the previous one was read: each read returns one record.
func (n *nodeWithGPU) kernel(text string) {
	n.t.Helper()
	if n.seq > 0 {
		wait.For(n.t, "the kernel log is read", func() bool {
			left, err := unix.IoctlGetInt(int(n.log.Fd()), unix.TIOCINQ)
			return err == nil && left == 0
		})
	}
	if _, err := fmt.Fprintf(n.log, "4,%d,%d,-;%s\n", n.seq, 1_000_000+n.seq, text); err != nil {
		n.t.Fatal(err)
	}
	n.seq++
}

// await returns when the platform's document about the node has both words, and a finding with that text.
func (n *nodeWithGPU) await(health, status, finding string) {
	n.t.Helper()
	var d struct {
		Health, Status string
		Findings       []policy.Finding
	}
	defer func() {
		if n.t.Failed() {
			n.t.Logf("%+v", d)
		}
	}()
	wait.For(n.t, fmt.Sprintf("%s, %s and %q", health, status, finding), func() bool {
		code, _ := n.p.Do(http.MethodGet, "/v1/admin/nodes/"+platformtest.NodeID+"/gpu", nil, &d)
		found := finding == ""
		for _, f := range d.Findings {
			found = found || strings.Contains(f.Subject.What+": "+f.Why, finding)
		}
		return code == http.StatusOK && d.Health == health && d.Status == status && found
	})
}
