package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/hostiletest"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// runPushed is what a pushed copy of this binary does: it has no name while it runs.
func runPushed() {
	if filepath.Dir(os.Args[0]) != "/proc/self/fd" || len(os.Args) < 2 {
		return
	}
	if os.Args[1] == "probe" {
		agentProgram()
	} else {
		gpuProbe()
	}
	os.Exit(0)
}

// agentProgram is gpuaas-agent of this build, as far as a check runs it.
func agentProgram() {
	var cfg probe.Config
	f := flag.NewFlagSet("probe", flag.ExitOnError)
	f.StringVar(&cfg.Unit, "unit", "", "")
	f.StringVar(&cfg.EnvFile, "env-file", "", "")
	f.BoolVar(&cfg.Finish, "finish", false, "")
	_ = f.Parse(os.Args[2:]) // it exits
	if err := probe.Serve(context.Background(), os.Stdin, os.Stdout, cfg); err != nil {
		os.Exit(1)
	}
}

// gpuProbe is a gpuaas-gpu-probe whose driver is the file GPUAAS_NVML_FAKE: a sample, or a word for how it fails.
func gpuProbe() {
	text, err := os.ReadFile(os.Getenv("GPUAAS_NVML_FAKE"))
	words, _, _ := strings.Cut(string(text), "\n")
	switch {
	case err != nil:
		os.Exit(9)
	case words == "hangs":
		never, _, _ := os.Pipe()
		_, _ = never.Read(make([]byte, 1))
	case words == "floods":
		for {
			if _, err := fmt.Println(strings.Repeat("x", 1<<20)); err != nil {
				os.Exit(1)
			}
		}
	case strings.HasPrefix(words, "ends "):
		fmt.Fprintln(os.Stderr, strings.TrimPrefix(words, "ends "))
		os.Exit(1)
	default:
		_, _ = os.Stdout.Write(text)
	}
}

// checkedNode is a machine to check: this one or one over SSH, with these answers of its driver and its kernel log.
type checkedNode struct {
	answers, log string
	hold         *os.File // keeps the kernel log open
}

func newCheckedNode(t *testing.T) *checkedNode {
	t.Helper()
	tier.NeedsHost(t)
	dir := t.TempDir()
	n := &checkedNode{answers: filepath.Join(dir, "answers"), log: filepath.Join(dir, "kmsg")}
	if err := syscall.Mkfifo(n.log, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error // like /dev/kmsg, it has no end
	if n.hold, err = os.OpenFile(n.log, os.O_RDWR|syscall.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.hold.Close() })
	return n
}

// says makes the driver answer with text, and the kernel print a line if there is one.
func (n *checkedNode) says(t *testing.T, answers, line string) {
	t.Helper()
	if err := os.WriteFile(n.answers, []byte(answers), 0o644); err != nil {
		t.Fatal(err)
	}
	if line == "" {
		line = "all is well"
	}
	if _, err := fmt.Fprintf(n.hold, "4,0,%d,-;%s\n", kmsg.Uptime().Microseconds(), line); err != nil {
		t.Fatal(err)
	}
}

// sampleOf is a sample of one GPU, which change alters.
func sampleOf(t *testing.T, change func(*report.Sample)) string {
	t.Helper()
	g := report.GPU{UUID: "GPU-1", PCI: "0000:3b:00.0", Name: "NVIDIA H100", Handle: report.ReadingOf(1),
		Signals: map[report.Signal]report.Reading{}}
	for _, row := range report.Signals() {
		g.Signals[row.Signal] = report.Reading{Unsupported: true}
	}
	for signal, n := range map[report.Signal]int64{report.RecoveryAction: 0, report.Utilization: 37,
		report.Temperature: 41, report.MemoryUsed: 3 << 30, report.MemoryTotal: 80 << 30, report.ClockSM: 1980,
		report.ClockSMMax: 1980,
		report.Power:      118_400, report.PowerLimit: 700_000} {
		g.Signals[signal] = report.ReadingOf(n)
	}
	g.Signals[report.Serial] = report.Words("165292200")
	g.Processes = []report.Process{{PID: 4121, Type: report.Compute, Memory: new(int64(2 << 30)), Name: "python3",
		User: "alice"}}
	g.Peers = []report.Peer{{GPU: 1, Path: report.Words(string(report.PathNode))}}
	g.Links = []report.Link{{Link: 0, Remote: report.Words("0000:84:00.0"), Type: report.Words(string(report.EndGPU))}}
	g.MIG = []report.MIG{{UUID: "MIG-1", GPUInstance: 3, Profile: "1g.10gb"}}
	s := &report.Sample{APIVersion: report.APIVersion, Kind: report.KindSample, At: time.Now().UTC(),
		Count: report.ReadingOf(1), GPUs: []report.GPU{g}, Library: report.Library{State: report.Loaded,
			Driver: report.Words("580.159.04"), NVML: report.Words("13"), CUDA: report.ReadingOf(13000)}}
	if change != nil {
		change(s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

const lostLine = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

// checkFunc runs a check with further arguments.
type checkFunc func(t *testing.T, args ...string) (code int, out, errs string)

// checkRun runs a check to its end.
func checkRun(t *testing.T, env []string, args ...string) (code int, out, errs string) {
	t.Helper()
	cmd, stdout := command(t, append([]string{"gpuaasctl", "gpu", "check"}, args...)...)
	stderr := &bytes.Buffer{}
	cmd.Stderr, cmd.Env = stderr, append(cmd.Env, env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return waitCode(t, cmd), stdout.String(), stderr.String()
}

// TestGPUCheck: here and over SSH, the same evidence gives the same page, document and exit code.
func TestGPUCheck(t *testing.T) {
	n := newCheckedNode(t)
	for place, run := range map[string]checkFunc{
		"here": n.here, "over SSH": n.overSSH(t),
	} {
		t.Run(place, func(t *testing.T) { n.checked(t, run, place != "here") })
	}
}

// here checks this machine.
func (n *checkedNode) here(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	return checkRun(t, []string{"GPUAAS_NVML_LIBRARY=/none", "GPUAAS_NVML_FAKE=" + n.answers,
		"GPUAAS_GPU_KERNEL_LOG=" + n.log}, args...)
}

// overSSH returns a function that checks the machine over SSH.
func (n *checkedNode) overSSH(t *testing.T) checkFunc {
	t.Helper()
	profile := n.profile(t, sshtest.Start(t, sshtest.Config{}))
	return func(t *testing.T, args ...string) (int, string, string) {
		t.Helper()
		return checkRun(t, nil, append([]string{"n1", "--profile", profile}, args...)...)
	}
}

// profile writes a profile that reaches the machine by a server, and the environment of its agent.
func (n *checkedNode) profile(t *testing.T, s *sshtest.Server) string {
	t.Helper()
	dir, login := t.TempDir(), s.Login(t)
	env, path := filepath.Join(dir, "agent.env"), filepath.Join(dir, "p.yaml")
	text := "nodes: {n1: {host: 127.0.0.1}}\nssh: {user: root, port: " + strconv.Itoa(s.Port) +
		", sudo: false, identity: " + login.Identity + ", known_hosts: " + login.KnownHosts +
		"}\nagent: {unit: none.service, env_file: " + env + "}\n"
	if err := errors.Join(os.WriteFile(env, []byte("GPUAAS_NVML_FAKE="+n.answers+"\nGPUAAS_GPU_KERNEL_LOG="+n.log+"\n"),
		0o600), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// checked runs the cases of evidence; where programs are pushed, which takes longer, some of them.
func (n *checkedNode) checked(t *testing.T, run checkFunc, pushed bool) {
	lost := func(s *report.Sample) {
		s.GPUs[0].Handle = report.Refused(report.GPUIsLost)
	}
	without := func(s *report.Sample) {
		none := report.Skipped(report.NoLibrary)
		s.Library = report.Library{State: report.DriverNotLoaded, Code: 9, Why: "no module", Driver: none, NVML: none,
			CUDA: none}
		s.Count, s.GPUs = none, nil
	}
	healthy := sampleOf(t, nil)
	for name, c := range map[string]struct {
		answers, line, args string
		code                int
		says                string // parts, separated by |
		pushed              bool   // is also judged where programs are pushed
	}{
		"healthy": {healthy, "", "--gpus-expected 1", cmdutil.ExitPass, "HEALTHY|1 reported, 1 expected|" +
			"580.159.04, CUDA 13.0|37 %|3072 of 81920 MiB|41 C|1980 of 1980 MHz|118 of 700 W|165292200|" +
			"4121 alice 2048 MiB compute python3|gpu 0000:84:00.0 1 NVLinks|GPU 1 PCIe: NODE|3/0 1g.10gb|" +
			"kernel log read from", true},
		"the kernel log condemns it": {healthy, lostLine, "", cmdutil.ExitFailed,
			"UNHEALTHY|xid 79 of GPU 0, 0000:3b:00.0, GPU-1|gpuaasctl gpu xid explain 79", true},
		"the driver has lost it": {sampleOf(t, lost), "", "", cmdutil.ExitFailed, "UNHEALTHY|gpu-lost", false},
		"one is missing":         {healthy, "", "--gpus-expected 2", cmdutil.ExitFailed, "1 not reported", false},
		"another policy": {healthy, "NVRM: Xid (PCI:0000:3b:00): 31, pid=7", "--policy strict", cmdutil.ExitFailed,
			"xid 31", false},
		"no driver":                 {sampleOf(t, without), "", "", cmdutil.ExitInconclusive, "UNKNOWN|no module", false},
		"no driver, and a lost GPU": {sampleOf(t, without), lostLine, "", cmdutil.ExitFailed, "UNHEALTHY|xid 79", true},
		"no sample":                 {"{}\n", "", "", cmdutil.ExitInconclusive, "UNKNOWN|garbled", false},
		"no sample, and a lost GPU": {"", lostLine, "", cmdutil.ExitFailed, "UNHEALTHY|xid 79", true},
		"a flood":                   {"floods", "", "", cmdutil.ExitInconclusive, "UNKNOWN|more than a sample has", false},
		"it cannot run here": {"ends ./p: /lib/libc.so.6: version `GLIBC_2.38' not found", "", "",
			cmdutil.ExitInconclusive, "UNKNOWN|older than the one|GLIBC_2.38", false},
		"a policy that is not there": {healthy, "", "--policy none", cmdutil.ExitUsage, "built-in policies are", false},
	} {
		if pushed && !c.pushed {
			continue
		}
		t.Run(name, func(t *testing.T) {
			n.says(t, c.answers, c.line)
			code, out, errs := run(t, strings.Fields(c.args)...)
			words := strings.Join(strings.Fields(out+errs), " ")
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, part := range strings.Split(c.says, "|") {
				if !strings.Contains(words, part) {
					t.Errorf("no %q in\n%s%s", part, out, errs)
				}
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		n.says(t, sampleOf(t, nil), "")
		code, out, errs := run(t, "-o", "json")
		var doc struct {
			Kind, Health, Node string
			JudgedBy           string `json:"judged_by"`
			Sample             *report.Sample
			Log                struct{ From, Until string } `json:"kernel_log"`
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil || code != cmdutil.ExitPass || doc.Kind != "GPUAdmission" ||
			doc.JudgedBy != "gpuaasctl" || doc.Health != "HEALTHY" || doc.Sample.Check() != nil || doc.Log.Until == "" {
			t.Errorf("exit code %d, %v, %s%s", code, err, out, errs)
		}
	})
	t.Run("hostile", func(t *testing.T) {
		evil := strings.Repeat(hostiletest.Hostile, 2)
		n.says(t, sampleOf(t, func(s *report.Sample) {
			s.GPUs[0].Processes[0].Name, s.GPUs[0].Name = evil, evil
		}), "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name="+strings.ReplaceAll(evil, "\n", " "))
		for _, format := range []string{cmdutil.FormatTable, cmdutil.FormatJSON, cmdutil.FormatMarkdown} {
			_, out, errs := run(t, "-o", format)
			hostiletest.HarmlessText(t, "gpu check -o "+format, out+errs)
		}
	})
}

// TestGPUCheckHereOptions: a profile that is named gives the policy here as well; a deadline that passes is reported.
func TestGPUCheckHereOptions(t *testing.T) {
	n := newCheckedNode(t)
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte("gpu: {policy: strict}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	xid := "NVRM: Xid (PCI:0000:3b:00): 31, pid=7"
	for _, c := range []struct {
		answers string
		args    []string
		code    int
		says    string
	}{
		{sampleOf(t, nil), []string{"--profile", path}, cmdutil.ExitFailed, "strict, sha256"},
		{sampleOf(t, nil), []string{"--profile", path, "--policy", "default"}, cmdutil.ExitPass, "default, sha256"},
		{"hangs", []string{"--deadline", "500ms"}, cmdutil.ExitInconclusive, "did not end within the deadline"},
	} {
		n.says(t, c.answers, xid)
		code, out, errs := n.here(t, append([]string{"--here"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%q: exit code %d, want %d and %q, not\n%s%s", c.args, code, c.code, c.says, out, errs)
		}
	}
}

// TestGPUCheckOfNothing: what is to be checked must be known, before anything is run.
func TestGPUCheckOfNothing(t *testing.T) {
	if _, err := os.Stat("/sys/module/nvidia"); err == nil {
		t.Skip("skipped: needs a machine without NVIDIA's driver")
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "give the NODE to check over SSH, or --here"},
		{[]string{"--here", "--profile", "nosuch"}, "nosuch"},
		{[]string{"--here", "n1"}, "give it or NODE"},
		{[]string{"n1", "--policy", ""}, "--policy"},
		{[]string{"--here", "--gpus-expected", "-2"}, "--gpus-expected"},
		{[]string{"--here", "--deadline", "0s"}, "--deadline"},
		{[]string{"n1", "--node-host", ""}, "--node-host"},
	} {
		code, out, errs := checkRun(t, nil, c.args...)
		if code != cmdutil.ExitUsage || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit code %d: %s%s", c.args, code, out, errs)
		}
	}
	code, out, _ := checkRun(t, []string{"GPUAAS_GPU_KERNEL_LOG=/nowhere", "GPUAAS_NVML_FAKE=/nowhere"}, "--here")
	if code != cmdutil.ExitInconclusive || !strings.Contains(out, "not read: open the kernel log /nowhere") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestGPUCheckOfNobody: a node that cannot be asked is not judged.
func TestGPUCheckOfNobody(t *testing.T) {
	n := newCheckedNode(t)
	s := sshtest.Start(t, sshtest.Config{})
	profile := n.profile(t, s)
	s.Set(sshtest.RejectAuth)
	code, out, errs := checkRun(t, nil, "n1", "--profile", profile)
	if code != cmdutil.ExitInconclusive || out != "" || !strings.Contains(errs, "check the GPUs of n1: ssh_auth") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	s.Set(sshtest.None)
	n.says(t, "hangs", "")
	code, out, errs = checkRun(t, nil, "n1", "--profile", profile, "--deadline", "20s")
	if code != cmdutil.ExitInconclusive || out != "" || !strings.Contains(errs, "deadline") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// TestGPUCheckIsInterrupted: Ctrl-C ends a check while the node's driver hangs.
func TestGPUCheckIsInterrupted(t *testing.T) {
	n := newCheckedNode(t)
	s := sshtest.Start(t, sshtest.Config{})
	n.says(t, "hangs", "")
	cmd, _ := start(t, "gpuaasctl", "gpu", "check", "n1", "--profile", n.profile(t, s))
	wait.For(t, "the probe runs", func() bool {
		return strings.Contains(strings.Join(s.Execs(), " "), "--call-deadline")
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := waitCode(t, cmd); code != cmdutil.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

// TestGPUCheckWithTheFake: the real probe, with the fake of NVIDIA's library, in place of this package's.
func TestGPUCheckWithTheFake(t *testing.T) {
	n := newCheckedNode(t)
	if testing.Short() {
		t.Skip("skipped: it compiles C, and looks for no race")
	}
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := exec.LookPath(strings.TrimSpace(string(cc)))
	if err != nil {
		t.Skip("skipped: needs a C compiler")
	}
	dir := t.TempDir()
	library, nvml := filepath.Join(dir, "libnvidia-ml.so"), filepath.Join("..", "..", "lab", "nvml")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir, "../gpuaas-gpu-probe")
	tier.NeedsHost(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-Wno-deprecated-declarations")
	for _, cmd := range []*exec.Cmd{build,
		exec.Command(compiler, "-shared", "-fPIC", "-o", library, filepath.Join(nvml, "fake.c"))} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	judge, err := exec.LookPath(policy.Program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(judge, filepath.Join(dir, policy.Program)); err != nil {
		t.Fatal(err)
	}
	answers, err := filepath.Abs(filepath.Join(nvml, "profiles", "lab.txt"))
	if err != nil {
		t.Fatal(err)
	}
	n.says(t, "", "")
	code, out, errs := checkRun(t, []string{"GPUAAS_NVML_LIBRARY=" + library, "GPUAAS_NVML_FAKE=" + answers,
		"GPUAAS_GPU_KERNEL_LOG=" + n.log}, "--libexec", dir, "--gpus-expected", "2")
	if code != cmdutil.ExitPass || !strings.Contains(out, "NVIDIA H100 80GB HBM3") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
