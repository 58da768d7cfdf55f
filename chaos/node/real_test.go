//go:build linux

package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// realCases is how many lives a real machine is put through by default: one takes a quarter of a second.
const realCases = "30"

// TestKeeperReal is TestKeeper on the kernel's own files, mounts, processes and packet filter, in namespaces of their own.
// What cannot be had there is a reboot, and systemd: a program stands in for systemctl, and processes for its units.
func TestKeeperReal(t *testing.T) {
	needNft(t)
	seed := fmt.Sprint(1 + rand.Uint64N(1<<62))
	args := []string{"-rapid.seed=" + seed, "-rapid.checks=" + realCases}
	flag.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "rapid.") { // what the command line says wins
			if f.Name == "rapid.seed" {
				seed = f.Value.String()
			}
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	if !inside(t, args...) {
		t.Logf("go test ./chaos/node -run TestKeeperReal -rapid.seed=%s gives the same again", seed)
		return
	}
	lives := 0
	rapid.Check(t, func(t *rapid.T) {
		lives++
		r := newReal(t)
		w := life(t, r)
		all := w.everything()
		delete(all, "reboot")
		t.Repeat(all)
		w.settle()
		if l := w.ledger(); l.State() == step.Conflict || w.small || !l.Known || w.conflict {
			return // what is parked stays for whoever looks at it
		}
		left := map[string]string{}
		if err := errors.Join(ownFiles(left, "/etc", "", false), ownFiles(left, "/run/made", "", false)); err != nil || len(left) > 0 {
			t.Fatalf("left behind: %v %v", left, err)
		}
	})
	t.Logf("%d lives", lives)
}

// TestMountIsLost: an overlay in a unit's namespace ends with the unit. That is neither an undo nor a conflict, and what
// lies over the place in the next namespace is somebody else's.
func TestMountIsLost(t *testing.T) {
	needNft(t)
	if !inside(t) {
		return
	}
	ctx := context.Background()
	for name, tc := range map[string]struct {
		meanwhile func(*real)
		state     step.State
		text      string
	}{
		"nothing": {func(*real) {}, step.Reverted, ""},
		"started anew": {func(r *real) {
			r.stop(mountedUnit)
			r.fine(r.start(mountedUnit))
			r.edit("mount:"+mountedUnit+":/etc/passwd", 1)
		}, step.Lost, mountedUnit + " was started anew, in a namespace of its own"},
		"source removed":  {func(r *real) { r.fine(os.Remove("/run/drill/source-m-0")) }, step.Reverted, ""},
		"taken off":       {func(r *real) { r.in(mountedUnit, func() error { return unix.Unmount("/etc/passwd", 0) }) }, step.Lost, ""},
		"mounted over it": {func(r *real) { r.edit("mount:"+mountedUnit+":/etc/passwd", 1) }, step.Conflict, "somebody has mounted something over /etc/passwd"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t)
			c := step.Change{Mount: &step.Mount{Target: "/etc/passwd", Unit: mountedUnit, Text: "drill\n"}}
			d := r.drill("r")
			d.Steps = []step.Step{{ID: "m", Fault: "f", Tier: step.TierBoot, Changes: []step.Change{c}}}
			r.fine(makeZeros("/run/drill/journal", step.JournalSize))
			f, err := os.OpenFile("/run/drill/journal", os.O_RDWR, 0)
			r.fine(err)
			defer f.Close()
			j, err := OpenJournal(f, step.JournalSize)
			r.fine(err)
			clock, err := HostClock()
			r.fine(err)
			k := &Keeper{Journal: j, Machine: r.process(true), Clock: clock, Lease: lease{}, By: step.ByWatchdog}
			r.fine(k.Plan(ctx, d), k.write(step.Entry{Event: step.EventArmed}), k.write(step.Entry{Event: step.EventWanted, Step: "m"}))
			_, err = k.Tick(ctx)
			r.fine(err)
			if got := j.Ledger.State(); got != step.Done {
				t.Fatalf("it is %s", got)
			}
			tc.meanwhile(r)
			was := r.sight(c.Place())
			r.fine(k.Revert(ctx, step.WhyAsked))
			if got := j.Ledger.Steps[0].Changes[0]; got.State != tc.state || got.Text != tc.text {
				t.Errorf("it is %s (%s), want %s (%s)", got.State, got.Text, tc.state, tc.text)
			}
			if now := r.sight(c.Place()); (now == was) != (tc.state != step.Reverted) {
				t.Errorf("%s: %q, then %q", tc.state, was, now)
			}
		})
	}
}

// tester is a test, or one case of a property.
type tester interface {
	rapid.TB
	Cleanup(func())
}

// real is a machine of the kernel's.
type real struct {
	t     tester
	guard *System // of the watchdog that lives
	units map[string]*exec.Cmd
}

// Units that run there: one is paused, the other one has mounts of its own.
const (
	pausedUnit  = "paused.service"
	mountedUnit = "mounted.service"
)

// fakeSystemctl knows the main process of a unit, and nothing else.
const fakeSystemctl = `#!/bin/sh
[ "$1" = show ] || exit 0
for unit; do :; done
printf 'LoadState=loaded\nActiveState=active\nSubState=running\nFreezerState=running\nInvocationID=%s\nMainPID=%s\n' x "$(cat /run/units/$unit)"
`

func newReal(t tester) *real {
	r := &real{t: t, units: map[string]*exec.Cmd{}}
	ctx := context.Background()
	_, err := must(ctx, "flush ruleset\n", "nft", "-f", "-")
	r.fine(err, stage(), os.MkdirAll("/run/units", 0o755), os.MkdirAll("/run/drill", 0o755), os.WriteFile("/etc/gone", []byte("x"), 0o600),
		unix.Mount("tools", "/usr/local/sbin", "tmpfs", 0, ""), os.WriteFile("/usr/local/sbin/systemctl", []byte(fakeSystemctl), 0o755),
		unix.Mount("small", "/mnt", "tmpfs", 0, "size=1m"), r.start(pausedUnit), r.start(mountedUnit))
	t.Cleanup(func() {
		r.died()
		for u := range r.units {
			r.stop(u)
		}
		for _, dir := range [...]string{"/usr/local/sbin", "/mnt", "/mnt", "/run", "/etc", "/proc"} {
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
				{Block: &step.Block{Direction: "out", Proto: "tcp", Remote: []string{"192.0.2.1", "2001:db8::/64"}, Ports: []uint16{443}, Verdict: step.Drop}},
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

// died closes the files that only the process had.
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

// spot parts a place's name: "file", "/etc/hosts".
func (r *real) spot(place string) (kind, at string) {
	kind, at, _ = strings.Cut(place, ":")
	return kind, at[strings.LastIndexByte(at, ':')+1:]
}

func (r *real) pid(unit string) int { return r.units[unit].Process.Pid }

// in runs f where the mount at that place is.
func (r *real) in(place string, f func() error) {
	if !strings.Contains(place, mountedUnit) {
		r.fine(f())
		return
	}
	r.fine(inNamespace(r.pid(mountedUnit), f))
}

func (r *real) sight(place string) (text string) {
	switch kind, at := r.spot(place); kind {
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
			all, err := mounts(thisThread)
			for _, m := range all {
				if m.point == at {
					text += m.kind + " " + m.source + " " + m.root + "\n"
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
	state, _, _, err := stat(r.pid(pausedUnit))
	r.fine(err)
	if stopped(state) {
		return "stopped"
	}
	return "runs"
}

func (r *real) edit(place string, n int) bool {
	switch kind, at := r.spot(place); kind {
	case "file":
		if n%2 == 0 { // in place, or as a new file
			r.fine(os.RemoveAll(at))
		}
		r.fine(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, fmt.Appendf(nil, "edit %d\n", n), 0o600))
		return true
	case "net":
		_, err := must(context.Background(), "", "nft", "add", "rule", "inet", r.table(), "tcp", "dport", strconv.Itoa(n), "accept")
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

// table is the chain that somebody writes into: the drill's, while there is one, or a neighbour's.
func (r *real) table() string {
	out, err := must(context.Background(), "", "nft", "list", "tables")
	r.fine(err)
	if _, after, ours := strings.Cut(out, "inet gpuaasctl_"); ours {
		name, _, _ := strings.Cut(after, "\n")
		return "gpuaasctl_" + name + " block"
	}
	return "here c"
}

func (r *real) mend(spot Spot) bool {
	place := spot.Change.Place()
	switch kind, at := r.spot(place); kind {
	case "file":
		parked := step.Parked(at, spot.Run, spot.Step, spot.N)
		if _, err := os.Lstat(parked); err != nil { // nothing was there
			r.fine(os.RemoveAll("/run/made"))
			return true
		}
		r.fine(os.Rename(parked, at))
	case "net":
		_, err := must(context.Background(), "", "nft", "delete", "table", "inet", step.Table(spot.Run, spot.Step, spot.N))
		r.fine(err)
	case "mount":
		if strings.Contains(place, mountedUnit) && strings.Count(r.sight(place), "\n") == 1 {
			r.stop(mountedUnit) // it is started anew, in another namespace
			r.fine(r.start(mountedUnit))
			return true
		}
		r.in(place, func() error { return unix.Unmount(at, 0) })
	case "unit":
		r.fine(r.units[pausedUnit].Process.Signal(syscall.SIGCONT))
		for r.sight(place) == "stopped" {
			time.Sleep(time.Millisecond)
		}
	default:
		return false
	}
	return true
}
