package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// maxBinary bounds the binary's size, on a node's disk and in every download.
const maxBinary = 8_500_000

// build makes the binary with the Makefile's own flags.
func build(t *testing.T) string {
	t.Helper()
	tier.NeedsHost(t)
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`(?m)^GOFLAGS_AGENT = (.*) -ldflags "\$\(LDFLAGS\)(.*)"$`).FindSubmatch(text)
	linked := regexp.MustCompile(`(?m)^LDFLAGS += (.*)$`).FindSubmatch(text)
	if flags == nil || linked == nil {
		t.Fatal("the Makefile does not say how the agent is built")
	}
	path := filepath.Join(t.TempDir(), "gpuaas-agent")
	args := append([]string{"build"}, strings.Fields(string(flags[1]))...)
	args = append(args, "-ldflags",
		strings.ReplaceAll(string(linked[1])+string(flags[2]), "$(VERSION)", "v0-test"), "-o", path, ".")
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// TestProgram runs the real binary against a real platform: it enrolls, takes tasks, and ends on SIGTERM. Its
// resource usage is printed and not judged, except for its size, which does not depend on the machine; `make
// bench` has the targets.
func TestProgram(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("skipped: builds a binary")
	}
	bin := build(t)
	p := platformtest.StartPlatform(t, platformtest.Options{})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca-bundle.crt"), []byte(p.CAPEM), 0o644); err != nil {
		t.Fatal(err)
	}
	log := &heard{}
	cmd := exec.Command(bin, "run", "--dir", dir, "--record-dir", filepath.Join(dir, "diag"), "--record-mirror",
		filepath.Join(dir, "mirror"))
	token := p.EnrollmentToken(platformtest.NodeID).Reveal()
	cmd.Env = append(os.Environ(), "GPUAAS_API_URL="+p.NodeAPIURL, "GPUAAS_TERMINAL_API_URL="+p.NodeTerminalURL,
		"GPUAAS_NODE_ID="+platformtest.NodeID, "GPUAAS_ENROLLMENT_TOKEN="+token, "GPUAAS_TASK_SIGNING_PUBKEYS="+p.TaskPubkeys,
		"GPUAAS_HEARTBEAT_INTERVAL=15s", "GPUAAS_TASK_WAIT=25s")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log.await(t, "taking tasks")
	time.Sleep(3 * time.Second) // it is at rest by then
	rss, switches := status(t, cmd.Process.Pid, "VmRSS")<<10, wakeups(t, cmd.Process.Pid)
	parts := fmt.Sprintf("%d KiB of files, %d KiB anonymous", status(t, cmd.Process.Pid, "RssFile"),
		status(t, cmd.Process.Pid, "RssAnon"))
	time.Sleep(2 * time.Second)
	perSecond := float64(wakeups(t, cmd.Process.Pid)-switches) / 2
	began := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	stopped := time.Since(began)
	fi, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("binary %d bytes, RSS %d KiB (%s), %.1f voluntary context switches a second, stopped in %v",
		fi.Size(), rss>>10, parts, perSecond, stopped)
	switch {
	case fi.Size() > maxBinary:
		t.Errorf("the binary has %d bytes, more than %d", fi.Size(), maxBinary)
	case stopped > 15*time.Second: // a long poll of 25 s is in progress
		t.Errorf("stopping took %v", stopped)
	}
	for _, want := range []string{"agent starts", "recovery_enrolled", "taking tasks", "shutdown", "stopped"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log.String(), token) {
		t.Error("the log holds the token")
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("errors in the log:\n%s", log)
	}
}

// heard is the output of a running program.
type heard struct{ logtest.Log }

// await returns when the output contains want.
func (h *heard) await(t *testing.T, want string) {
	t.Helper()
	if !wait.Until(t, func() bool { return strings.Contains(h.String(), want) }) {
		t.Fatalf("it does not say %q:\n%s", want, h)
	}
}

// status reads a number of /proc/PID/status.
func status(t *testing.T, pid int, key string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return number(t, string(text), key)
}

func number(t *testing.T, text, key string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + key + `:\s+(\d+)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s in %s", key, text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wakeups sums the voluntary context switches of all threads.
func wakeups(t *testing.T, pid int) int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil {
			sum += number(t, string(text), "voluntary_ctxt_switches")
		}
	}
	return sum
}

func invoke(t *testing.T, in string, env map[string]string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = command(t.Context(), args,
		system{in: strings.NewReader(in), out: &o, err: &e, env: func(k string) string { return env[k] }})
	return code, o.String(), e.String()
}

func TestCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string
		code int
		out  string
		errs string
	}{
		"nothing":         {code: exitUsage, errs: "usage:"},
		"help":            {args: []string{"help"}, out: "usage:"},
		"unknown":         {args: []string{"fly"}, code: exitUsage, errs: `unknown command "fly"`},
		"version":         {args: []string{"version"}, out: "gpuaas-agent dev\n"},
		"version as JSON": {args: []string{"version", "--json"}, out: `"version":"dev"`},
		"unknown flag":    {args: []string{"version", "--loud"}, code: exitUsage, errs: "-loud"},
		"bundle alone":    {args: []string{"bundle"}, code: exitUsage, errs: "bundle apply"},
		"an empty bundle": {args: []string{"bundle", "apply", "--dir", "/no/such/folder"}, code: exitUsage,
			errs: "not one JSON document"},
		"a bundle's help":    {args: []string{"bundle", "--help"}, out: "bundle apply"},
		"too many arguments": {args: []string{"run", "now"}, code: exitUsage, errs: `"now"`},
		"no configuration":   {args: []string{"run"}, code: exitUsage, errs: "GPUAAS_API_URL"},
		"bad configuration": {args: []string{"run"},
			env: map[string]string{"GPUAAS_API_URL": "ftp://x", "GPUAAS_NODE_ID": "n"}, code: exitUsage,
			errs: "GPUAAS_API_URL: want an https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := invoke(t, "", tc.env, tc.args...)
			if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(errs, tc.errs) {
				t.Errorf("code %d\nstdout %s\nstderr %s", code, out, errs)
			}
			if tc.code != exitOK && out != "" {
				t.Errorf("stdout %s", out)
			}
		})
	}
}

func TestProbeAnswersOnStdout(t *testing.T) {
	code, out, errs := invoke(t, `{"id":"1","op":"clock"}`+"\n", nil, "probe", "--unit", "no-such.service", "--env-file",
		"/no/such/file")
	if code != exitOK || !strings.Contains(out, `"hello"`) {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}
