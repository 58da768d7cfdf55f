//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// tester is a test, or one case of a property.
type tester interface {
	rapid.TB
	Cleanup(func())
}

// real is a machine with the kernel's own places.
type real struct {
	t     tester
	guard *System // of the watchdog that lives
	units map[string]*exec.Cmd
}

// Units that run there: one is paused, the other one has its own mounts.
const (
	pausedUnit  = "paused.service"
	mountedUnit = "mounted.service"
)

// fakeSystemctl returns only the main process of a unit.
const fakeSystemctl = `#!/bin/sh
[ "$1" = show ] || exit 0
for unit; do :; done
printf 'LoadState=loaded\nActiveState=active\nSubState=running\nFreezerState=running\nInvocationID=%s\nMainPID=%s\n' x "$(cat /run/units/$unit)"
`

func newReal(t tester) *real {
	r := &real{t: t, units: map[string]*exec.Cmd{}}
	ctx := context.Background()
	_, err := must(ctx, "flush ruleset\n", "nft", "-f", "-")
	r.fine(err, stage(), os.MkdirAll("/run/units", 0o755), os.MkdirAll("/run/drill", 0o755),
		os.WriteFile("/etc/gone", []byte("x"), 0o600), unix.Mount("tools", "/usr/local/sbin", "tmpfs", 0, ""),
		os.WriteFile("/usr/local/sbin/systemctl", []byte(fakeSystemctl), 0o755),
		unix.Mount("small", "/mnt", "tmpfs", 0, "size=1m"), r.start(pausedUnit), r.start(mountedUnit))
	t.Cleanup(func() {
		r.died()
		for u := range r.units {
			r.stop(u)
		}
		for _, dir := range [...]string{"/usr/local/sbin", "/mnt", "/mnt", "/dev/shm", "/run", "/etc", "/proc"} {
			r.fine(unix.Unmount(dir, unix.MNT_DETACH))
		}
	})
	return r
}

func (r *real) fine(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) start(unit string) error {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.units[unit] = cmd
	return os.WriteFile("/run/units/"+unit, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

func (r *real) stop(unit string) {
	r.fine(r.units[unit].Process.Kill())
	_ = r.units[unit].Wait() // it was killed
}

func (r *real) drill(run string) step.Drill {
	leave := int64(8192)
	return step.Drill{
		Schema: step.Schema, Run: run, Scenario: "s", Node: "n", By: "me", At: time.Unix(1, 0), TTL: 30_000, Disposable: true,
		Steps: []step.Step{
			{ID: "a", Fault: "f", Tier: step.TierPersistent, Changes: []step.Change{
				{File: &step.File{Path: "/etc/hosts", Text: "drill\n"}, Notify: []step.Notify{{Unit: mountedUnit, Verb: "reload"}}},
				{File: &step.File{Path: "/run/made/deep/x", Text: "drill\n"}},
				{Block: &step.Block{Direction: "out", Proto: "tcp", Remote: []string{"192.0.2.1", "2001:db8::/64"},
					Ports: []uint16{443}, Verdict: step.Drop}},
			}},
			{ID: "b", Fault: "f", Tier: step.TierPersistent, Changes: []step.Change{
				{Mount: &step.Mount{Target: "/etc/passwd", Unit: mountedUnit, Text: "drill\n"}},
				{Mount: &step.Mount{Target: "/etc/gpuaas", Tmpfs: &step.Tmpfs{Bytes: 65536}}},
				{Hold: &step.Hold{Dir: "/mnt", Leave: &leave}}, {Pause: &step.Pause{Unit: pausedUnit}},
				{File: &step.File{Path: "/etc/gone", Absent: true}},
			}},
		},
	}
}

func (r *real) process(watchdog bool) Machine {
	if !watchdog {
		return &System{Dir: "/run/drill"}
	}
	if r.guard == nil {
		r.guard = &System{Dir: "/run/drill"}
	}
	return r.guard
}

// died closes the files that only the process had open.
func (r *real) died() {
	if r.guard != nil {
		for _, h := range r.guard.holds {
			for _, f := range h.files {
				r.fine(f.Close())
			}
		}
	}
	r.guard = nil
}

func (r *real) reboot() { r.t.Fatal("a namespace does not reboot") }

// location splits a place's name: "file", "/etc/hosts".
func (r *real) location(place string) (kind, at string) {
	kind, at, _ = strings.Cut(place, ":")
	return kind, at[strings.LastIndexByte(at, ':')+1:]
}

func (r *real) pid(unit string) int { return r.units[unit].Process.Pid }

// in runs f in the mount namespace of that place.
func (r *real) in(place string, f func() error) {
	if !strings.Contains(place, mountedUnit) {
		r.fine(f())
		return
	}
	r.fine(inNamespace(r.pid(mountedUnit), f))
}

func (r *real) sight(place string) (text string) {
	switch kind, at := r.location(place); kind {
	case "file":
		s, err := fileText(at)
		r.fine(err)
		return s
	case "net":
		s, err := must(context.Background(), "", "nft", "-s", "list", "ruleset")
		r.fine(err)
		return s
	case "mount":
		r.in(place, func() error {
			all, err := host.This.Mounts(host.Thread)
			for _, m := range all {
				if m.Point == at {
					text += m.Kind + " " + m.Source + " " + m.Root + "\n"
				}
			}
			return err
		})
		return text
	case "disk":
		var s unix.Statfs_t
		r.fine(unix.Statfs(at, &s))
		return fmt.Sprint(s.Bfree, " blocks")
	}
	s, err := host.This.Stat(r.pid(pausedUnit))
	r.fine(err)
	if s.Stopped() {
		return "stopped"
	}
	return "runs"
}

func (r *real) edit(place string, n int) bool {
	switch kind, at := r.location(place); kind {
	case "file":
		if n%2 == 0 { // in place, or as a new file
			r.fine(os.RemoveAll(at))
		}
		r.fine(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, fmt.Appendf(nil, "edit %d\n", n), 0o600))
		return true
	case "net":
		_, err := must(context.Background(), "", "nft", "add", "rule", "inet", r.table(), "tcp", "dport", strconv.Itoa(n),
			"accept")
		r.fine(err)
		return true
	case "mount":
		over := "/etc/group"
		if at == "/etc/gpuaas" {
			over = "/etc/systemd"
		}
		r.in(place, func() error { return unix.Mount(over, at, "", unix.MS_BIND, "") })
		return true
	}
	return false
}

// table returns the chain that another process writes to: the drill's, if it exists, or a neighbouring one.
func (r *real) table() string {
	out, err := must(context.Background(), "", "nft", "list", "tables")
	r.fine(err)
	if _, after, ours := strings.Cut(out, "inet gpuaasctl_"); ours {
		name, _, _ := strings.Cut(after, "\n")
		return "gpuaasctl_" + name + " block"
	}
	return "here c"
}

func (r *real) mend(location Location) bool {
	place := location.Change.Place()
	switch kind, at := r.location(place); kind {
	case "file":
		parked := step.Parked(at, location.Run, location.Step, location.N)
		if _, err := os.Lstat(parked); err != nil { // nothing was there
			r.fine(os.RemoveAll("/run/made"))
			return true
		}
		r.fine(os.Rename(parked, at))
	case "net":
		_, err := must(context.Background(), "", "nft", "delete", "table", "inet",
			step.Table(location.Run, location.Step, location.N))
		r.fine(err)
	case "mount":
		if strings.Contains(place, mountedUnit) && strings.Count(r.sight(place), "\n") == 1 {
			r.stop(mountedUnit) // restart it, in another namespace
			r.fine(r.start(mountedUnit))
			return true
		}
		r.in(place, func() error { return unix.Unmount(at, 0) })
	case "unit":
		r.fine(r.units[pausedUnit].Process.Signal(syscall.SIGCONT))
		wait.Within(func() bool { return r.sight(place) != "stopped" })
	default:
		return false
	}
	return true
}
