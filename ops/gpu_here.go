package ops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// driverMarks are files that a machine has while NVIDIA's driver is loaded.
var driverMarks = [...]string{"/proc/driver/nvidia/version", "/sys/module/nvidia"}

// HasDriver reports whether this machine has NVIDIA's driver, or library names another one to use.
func HasDriver(library string) bool {
	if library != "" {
		return true
	}
	for _, path := range driverMarks {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// here is the name of this machine in a document.
func here() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
}

// readKernel measures what this machine's kernel says of its GPUs.
func readKernel(ctx context.Context, path string) diag.Fact {
	p := probe.Prober{Vantage: hop.Operator, Start: time.Now(), Host: hostprobe.Prober{KernelLog: path}}
	req := gpuLogRequest()
	req.TimeoutMS = gpuLogTime.Milliseconds()
	return p.Run(ctx, req)
}

// noProbeError means that no probe could be started here.
type noProbeError struct {
	state report.ProbeState
	text  string
}

func (e *noProbeError) Error() string { return e.text }

// probeGrace is how long a probe that was killed may take to end: one that hangs in the kernel never does.
const probeGrace = 2 * time.Second

// probeHere runs the probe of this build on this machine, as a process of its own: a call into the driver may hang or
// crash. It gets nothing of the caller's environment but the names of NVIDIA's library.
func (s *Site) probeHere(ctx context.Context) (out []byte, code int, words string, err error) {
	dirs := vantage.HelperDirs(s.Libexec)
	found, refused := vantage.Programs(dirs, gpuProbe, s.Build)
	uname := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	path := ""
	for _, p := range found {
		if p.Machine == uname {
			path = p.Path
		}
	}
	switch {
	case path == "" && refused != nil:
		return nil, 0, "", &noProbeError{report.Unstartable, refused.Error()}
	case path == "":
		return nil, 0, "", &noProbeError{report.Missing, fmt.Sprintf("there is no %s in %s; see --libexec", gpuProbe,
			strings.Join(dirs, ", "))}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, gpuProbeTime, errors.New("the probe did not end in time"))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	full := func() { stop(errors.New("the probe writes more than a sample has")) }
	cmd := exec.CommandContext(ctx, path, "--call-deadline", gpuCallDeadline.String())
	cmd.Env = []string{"LC_ALL=C", "GOMEMLIMIT=48MiB"}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "GPUAAS_NVML_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	stdout, stderr := &bounded.Head{Most: gpuProbeOutput, Full: full}, &bounded.Head{Most: 1 << 10}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, probeGrace
	if err := cmd.Start(); err != nil {
		return nil, 0, "", &noProbeError{report.Unstartable, err.Error()}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // not waited for where the process hangs in the kernel
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(probeGrace):
			return nil, 0, "", fmt.Errorf("the probe (pid %d) hangs in the kernel", cmd.Process.Pid)
		}
	}
	if ctx.Err() != nil {
		return nil, 0, "", context.Cause(ctx)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return nil, 0, "", fmt.Errorf("run the probe: %w", err)
	}
	code, words = cmd.ProcessState.ExitCode(), stderr.String()
	if code < 0 {
		words = cmd.ProcessState.String() + " " + words
	}
	return stdout.Bytes(), code, words, nil
}
