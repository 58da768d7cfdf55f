package terminal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/agent/tenant"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// Limits bound one session, in the syntax of systemd.resource-control(5). An empty field means its default.
type Limits struct {
	TasksMax  string // default 4096
	MemoryMax string // default 80%, of the host's memory
	CPUWeight string // default 50: half of what a service has
}

// DefaultLimits keep the node usable for its tenant and the agent alive.
func DefaultLimits() Limits { return Limits{TasksMax: "4096", MemoryMax: "80%", CPUWeight: "50"} }

// Confinement lists the limits of a session. It is evidence, and part of the response to terminal.open.
type Confinement struct {
	Unit        string   // name of its own unit; "" if it has none
	Unconfined  string   // why it has none
	NotEnforced []string // limits that this host's kernel or delegation cannot enforce
}

const (
	// stopTimeout is the time between SIGHUP and SIGKILL for a session's processes. It is less than hangup, so that
	// the exit of a shell is noticed.
	stopTimeout = "200ms"
	// killTimeout bounds the end of a session's unit. A cleanup finds survivors by their user id.
	killTimeout = 10 * time.Second
	// maxWords bounds, in bytes, what is kept of systemd-run's output.
	maxWords = 4 << 10
)

// unconfined returns why a session gets no unit; "" if it gets one. On a host with systemd, a session without a
// unit is refused, and never started in the agent's unit.
func unconfined() string {
	switch {
	case !host.Booted():
		return "systemd does not run this host"
	case os.Geteuid() != 0:
		return "the agent does not run as root"
	}
	return ""
}

// notEnforced lists the limits for which systemd has no controller on this host.
func notEnforced(root string) []string {
	all, _ := os.ReadFile(filepath.Join(root, "cgroup.controllers")) // exists only in the unified hierarchy
	have := strings.Fields(string(all))
	var lacks []string
	for _, l := range [...]struct{ controller, limit string }{{"pids", "TasksMax"}, {"memory", "MemoryMax"},
		{"cpu", "CPUWeight"}} {
		_, err := os.Stat(filepath.Join(root, l.controller)) // a hierarchy of its own
		if err != nil && !slices.Contains(have, l.controller) {
			lacks = append(lacks, l.limit)
		}
	}
	return lacks
}

// unitName returns a name that no session had before: the unit of a past session may still be loaded.
func unitName(uid uint32) string {
	return tenant.SessionPrefix(uid) + strings.ToLower(rand.Text()[:8]) + ".service"
}

// unitArgv returns the command that runs a session as its own unit and exits with it. Since systemd starts the
// session, it inherits nothing from the agent except the mounts that it enters: no sandbox, control group, journal
// or descriptor. It is a service rather than a scope: OOMPolicy= of a scope needs systemd 253, and a scope's
// processes are the agent's children, with its system call filter and bounding set.
func unitArgv(name, tty, program string, limits Limits, lacks []string, spec string) []string {
	argv := []string{
		"systemd-run", "--collect", "--wait", "--service-type=exec",
		"--unit=" + name, "--slice=" + tenant.SessionSlice, "--description=Terminal session of a tenant",
	}
	properties := []string{
		"TTYPath=" + tty, "StandardInput=tty", "StandardOutput=tty", "StandardError=tty",
		"TasksMax=" + limits.TasksMax, "MemoryMax=" + limits.MemoryMax, "CPUWeight=" + limits.CPUWeight,
		"OOMPolicy=continue", "OOMScoreAdjust=500",
		"KillMode=control-group", "SendSIGHUP=yes", "TimeoutStopSec=" + stopTimeout,
	}
	if _, err := strconv.ParseUint(limits.TasksMax, 10, 64); err == nil && slices.Contains(lacks, "TasksMax") {
		properties = append(properties, "LimitNPROC="+limits.TasksMax) // counts all processes of the login on this kernel
	}
	for _, p := range properties {
		argv = append(argv, "--property="+p)
	}
	return append(argv, "--", program, Command, spec)
}

// startUnit starts u's shell on tty in its own unit. The returned command exits once the unit has ended, with
// every process in it.
func startUnit(tty *os.File, u user, limits Limits) (*exec.Cmd, Confinement, error) {
	c := Confinement{Unit: unitName(u.UID), NotEnforced: notEnforced("/sys/fs/cgroup")}
	spec, err := json.Marshal(become{User: u.Name, Home: u.Home, Shell: u.Shell, UID: u.UID, GID: u.GID,
		Groups: u.groups, Agent: os.Getpid()})
	if err != nil {
		return nil, c, fmt.Errorf("set the user of the shell: %w", err)
	}
	// A link to the running build, since an update may have replaced its file. The text is encoded since systemd
	// expands $ in it.
	program := fmt.Sprintf("/proc/%d/exe", os.Getpid())
	argv := unitArgv(c.Unit, tty.Name(), program, limits, c.NotEnforced, base64.RawURLEncoding.EncodeToString(spec))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.Stderr = &words{}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, c, fmt.Errorf("start a unit for the session: %w", err)
	}
	return cmd, c, nil
}

// killUnit kills every process of a session's unit.
func killUnit(name string) {
	c := host.Command{Limit: killTimeout}
	// The wait for the unit's end notices a failure.
	_, _ = c.Run(context.Background(), "systemctl", "kill", "--signal=SIGKILL", "--", name)
}

// unitLines are the prefixes of the lines that systemd-run prints about a unit that ran. Other lines are errors.
var unitLines = [...]string{"Running as unit: ", "Finished with result: ", terminatedWith, "Service runtime: ",
	"CPU time ", "Memory ", "IP traffic ", "IO bytes "}

const terminatedWith = "Main processes terminated with: "

// unitEnd returns the errors in systemd-run's output, and the signal that ended the unit's main process, 0 for none.
// systemd-run's exit status does not show the signal: it is 255 for most, and 0 for those that systemd counts as a
// clean exit, such as SIGHUP.
func unitEnd(output string) (errors string, signal int) {
	var rest []string
	for line := range strings.Lines(output) {
		known := func(prefix string) bool { return strings.HasPrefix(line, prefix) }
		if !slices.ContainsFunc(unitLines[:], known) {
			rest = append(rest, line)
			continue
		}
		how, isEnd := strings.CutPrefix(line, terminatedWith)
		if code, status, _ := strings.Cut(how, "/status="); isEnd && (code == "code=killed" || code == "code=dumped") {
			signal = int(unix.SignalNum("SIG" + strings.TrimSpace(status)))
		}
	}
	return strings.TrimSpace(strings.Join(rest, "")), signal
}

// words keeps the beginning of a program's output. Read it only after waiting for the program.
type words struct{ bytes.Buffer }

func (w *words) Write(p []byte) (int, error) {
	w.Buffer.Write(p[:min(len(p), maxWords-w.Len())])
	return len(p), nil
}
