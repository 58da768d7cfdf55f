package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// An agent that is no unit is found by a locator: "container:NAME@SOCKET", or "process:NAME". What is known of it has
// the names of systemd's properties, so that one reading serves all.
const (
	containerPrefix = "container:"
	processPrefix   = "process:"
)

// Sub-states of what does not exist, and what a reader is shown.
const (
	subNoContainer = "no container"
	subNoProcess   = "no process"
)

var missingWords = map[string]string{
	subNoContainer: "the runtime has no such container", subNoProcess: "no process has this name",
}

func isLocator(name string) bool {
	return strings.HasPrefix(name, containerPrefix) || strings.HasPrefix(name, processPrefix)
}

// locate finds what a locator names; found is false for a unit's name.
func locate(ctx context.Context, name string) (u host.Unit, found bool, err error) {
	if rest, ok := strings.CutPrefix(name, containerPrefix); ok {
		container, socket, _ := strings.Cut(rest, "@")
		u, err = showContainer(ctx, container, socket)
		return u, true, err
	}
	if rest, ok := strings.CutPrefix(name, processPrefix); ok {
		u, err = showProcess(rest)
		return u, true, err
	}
	return nil, false, nil
}

// errNoRuntime means that no container runtime answers.
var errNoRuntime = errors.New("no container runtime answers")

// showContainer asks a runtime with Docker's API for a container.
func showContainer(ctx context.Context, name, socket string) (host.Unit, error) {
	if !plainName(name, `_.-`, 128) || !filepath.IsAbs(socket) {
		return nil, fmt.Errorf("%q at %q is no container", name, socket)
	}
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	status, text, err := askRuntime(ctx, socket, name)
	switch {
	case err != nil:
		return nil, errors.Join(errNoRuntime, err)
	case status == http.StatusNotFound:
		return missing(subNoContainer), nil
	case status != http.StatusOK:
		return nil, fmt.Errorf("%w: HTTP %d at %s", errNoRuntime, status, socket)
	}
	var c container
	if err := bounded.Unmarshal(text, &c, bounded.Answer()); err != nil {
		return nil, errors.Join(errNoRuntime, err)
	}
	return c.unit(), nil
}

func missing(sub string) host.Unit {
	return host.Unit{"LoadState": "not-found", "ActiveState": "inactive", "SubState": sub, "Result": "success"}
}

// container is what a runtime says of a container.
type container struct {
	State struct {
		Status     string
		Running    bool
		Paused     bool
		Restarting bool
		OOMKilled  bool
		Pid        int
		ExitCode   int
	}
	RestartCount int
}

// unit says of a container what systemd says of a unit.
func (c *container) unit() host.Unit {
	s := &c.State
	u := host.Unit{"LoadState": "loaded", "ActiveState": "inactive", "SubState": s.Status, "Result": "success",
		"NRestarts": strconv.Itoa(c.RestartCount), "MainPID": "0", "ExecMainCode": "0"}
	switch {
	case s.Running && !s.Restarting:
		u["ActiveState"], u["MainPID"] = "active", strconv.Itoa(s.Pid)
		return u
	case s.Restarting:
		u["ActiveState"] = "activating"
	}
	u["ExecMainCode"], u["ExecMainStatus"] = "1", strconv.Itoa(s.ExitCode)
	switch {
	case s.OOMKilled:
		u["ActiveState"], u["Result"] = "failed", "oom-kill"
	case s.ExitCode != 0:
		u["ActiveState"], u["Result"] = "failed", "exit-code"
	}
	return u
}

// showProcess finds a process by its name, or by that of its program; of several it is the oldest that none of the
// others started.
func showProcess(name string) (host.Unit, error) {
	if _, err := os.ReadFile("/proc/1/comm"); err != nil { // hidepid
		return nil, fmt.Errorf("other users' processes are hidden from this login: %w", os.ErrPermission)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	best, started := 0, uint64(0)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !named(pid, name) {
			continue
		}
		if at := StartTime(pid); at != 0 && (best == 0 || at < started) {
			best, started = pid, at
		}
	}
	if best == 0 {
		return missing(subNoProcess), nil
	}
	return host.Unit{"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Result": "success",
		"MainPID": strconv.Itoa(best)}, nil
}

// named reports whether a process has this name: the kernel's, which has 15 bytes at most, that of its program, or the
// first word of its command line.
func named(pid int, name string) bool {
	dir := fmt.Sprintf("/proc/%d/", pid)
	exe, _ := os.Readlink(dir + "exe") // not readable for other users' processes
	comm, err := host.Read(dir+"comm", host.Small)
	if err != nil {
		return false
	}
	line, _ := host.Read(dir+"cmdline", host.Small)
	first, _, _ := strings.Cut(line, "\x00")
	names := []string{strings.TrimSpace(comm), strings.TrimSuffix(filepath.Base(exe), " (deleted)"), filepath.Base(first)}
	if slices.Contains(names[1:], name) {
		return true
	}
	return names[0] == name || (len(name) > 15 && names[0] == name[:15] && exe == "")
}
