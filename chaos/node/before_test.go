//go:build linux

package node

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// beforeDir contains a machine as the previous version left it in the middle of a drill with every kind of change.
// To record it again: GPUAASCTL_BEFORE=PROGRAM GPUAASCTL_UPDATE_GOLDEN=1 go test ./chaos/node -run
// TestDrillOfVersionBefore, where PROGRAM is that version's gpuaas-fault. With the first variable alone, this
// version reverts what that program has just done.
const beforeDir = "testdata/before"

// beforeEnv names the program of the previous version.
const beforeEnv = "GPUAASCTL_BEFORE"

const beforeUnits = "/run/units"

// beforeSystemctl keeps a unit as a folder with a file for each property.
const beforeSystemctl = `#!/bin/sh
verb=$1 && shift
for unit; do :; done
at=` + beforeUnits + `/$unit
case $verb in
is-system-running) echo running ;;
stop) echo inactive >$at/active ;;
start | restart) echo active >$at/active && printf x >>$at/invocation ;;
freeze) echo frozen >$at/freezer ;;
thaw) echo running >$at/freezer ;;
show)
  while :; do
    case $1 in
    -p) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
  done
  for unit; do
    for at in ` + beforeUnits + `/$unit; do
      unit=${at##*/}
      if [ ! -d "$at" ]; then
        printf 'Id=%s\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n\n' "$unit"
        continue
      fi
      pid=$(cat $at/pid) && [ "$(cat $at/active)" = active ] || pid=0
      printf 'Id=%s\nLoadState=loaded\nActiveState=%s\nSubState=running\nFreezerState=%s\n' \
        "$unit" "$(cat $at/active)" "$(cat $at/freezer)"
      printf 'InvocationID=%s\nMainPID=%s\nJob=0\nNeedDaemonReload=no\nDropInPaths=%s\n\n' \
        "$(cat $at/invocation)" "$pid" "$(ls /run/systemd/system/$unit.d/*.conf 2>/dev/null)"
    done
  done ;;
esac
exit 0
`

// beforeSystemdRun starts the watchdog of the previous version, and returns once it is running.
const beforeSystemdRun = `#!/bin/sh
while :; do
  case $1 in
  -p) shift 2 ;;
  -*) shift ;;
  *) break ;;
  esac
done
setsid "$@" </dev/null >/dev/null 2>&1 &
until grep -q '"event":"guard"' ${1%/*}/journal; do sleep 0.02; done
`

// beforeMachine creates the machine's state before the drill.
func beforeMachine(t *testing.T) (units map[string]*exec.Cmd) {
	t.Helper()
	tier.NeedsHost(t)
	fine(t, stage())
	for _, at := range []string{"/var/lib", "/usr/local/sbin"} {
		fine(t, unix.Mount("stage", at, "tmpfs", 0, ""))
	}
	fine(t, unix.Mount("small", "/mnt", "tmpfs", 0, "size=1m"), os.MkdirAll("/etc/ssh", 0o755),
		os.MkdirAll("/run/systemd/system", 0o755), os.MkdirAll("/run/parts", 0o755),
		os.MkdirAll("/etc/systemd/system/sysinit.target.wants", 0o755),
		os.WriteFile("/usr/local/sbin/systemctl", []byte(beforeSystemctl), 0o755),
		os.WriteFile("/usr/local/sbin/systemd-run", []byte(beforeSystemdRun), 0o755))
	for i, f := range []leftFile{
		{Path: step.ConsentFile, Text: "node = n\nuntil = 2099-01-01T00:00:00Z\ndisposable = yes\n"},
		{Path: "/etc/hosts", Text: "127.0.0.1 localhost\n"}, {Path: "/etc/nsswitch.conf", Text: "hosts: files dns\n"},
		{Path: "/etc/gpuaas/gone", Text: "it was here\n"}, {Path: "/etc/gpuaas/key", Text: "the real key\n"},
		{Path: "/run/parts/well", Text: "well\n"}, {Path: "/run/parts/ill", Text: "ill\n"},
	} {
		fine(t, os.WriteFile(f.Path, []byte(f.Text), 0o640), touch(f.Path, 1_700_000_000_000_000_000+int64(i)*1_000_000_000))
	}
	fine(t, exec.Command("cp", "-p", "/run/parts/well", "/run/parts/state").Run())
	units = map[string]*exec.Cmd{}
	for _, name := range []string{pausedUnit, mountedUnit, "frozen.service", "restarted.service", "stopped.service"} {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		at := filepath.Join(beforeUnits, name)
		fine(t, cmd.Start(), os.MkdirAll(at, 0o755))
		units[name] = cmd
		t.Cleanup(func() {
			fine(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
		})
		for file, text := range map[string]string{
			"active": "active", "freezer": "running", "invocation": "x", "pid": strconv.Itoa(cmd.Process.Pid),
		} {
			fine(t, os.WriteFile(filepath.Join(at, file), []byte(text), 0o644))
		}
	}
	return units
}

func touch(p string, mtime int64) error {
	ts := []unix.Timespec{unix.NsecToTimespec(mtime), unix.NsecToTimespec(mtime)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, p, ts, unix.AT_SYMLINK_NOFOLLOW)
}

// beforeDrill has every kind of change.
func beforeDrill() step.Drill {
	leave := int64(8192)
	one := func(id string, changes ...step.Change) step.Step {
		return step.Step{ID: id, Fault: "f", Tier: step.TierPersistent, Changes: changes}
	}
	show := func(argv ...string) step.Exec { return step.Exec{Argv: append([]string{"/bin/cp", "-p"}, argv...)} }
	return step.Drill{
		Schema: step.Schema, Run: "before", Scenario: "s", Node: "n", By: "me", At: time.Now(), Disposable: true,
		TTL: 3_600_000, Lease: 3_600_000,
		Scope: step.Scope{Files: []string{"/run/parts", "/run/made"}, Units: []string{mountedUnit},
			Bytes: 1 << 50, Inodes: 1 << 50}, // other programs use the same disks
		Steps: []step.Step{
			one("file",
				step.Change{File: &step.File{Path: "/etc/hosts", Text: "127.0.0.1 elsewhere\n"},
					Notify: []step.Notify{{Unit: mountedUnit, Verb: "reload"}}},
				step.Change{File: &step.File{Path: "/run/made/deep/x", Text: "drill\n", Mode: 0o600}},
				step.Change{File: &step.File{Path: "/etc/nsswitch.conf", Link: "/dev/null"}},
				step.Change{File: &step.File{Path: "/etc/gpuaas/gone", Absent: true}},
				step.Change{File: &step.File{Path: "/etc/gpuaas/key", Text: "another key\n", Secret: true, Yields: true}}),
			one("block",
				step.Change{Block: &step.Block{Direction: "out", Proto: "tcp", Remote: []string{"192.0.2.1", "2001:db8::/64"},
					Ports: []uint16{443}, Verdict: step.Drop}},
				step.Change{Block: &step.Block{Direction: "in", Proto: "udp", Remote: []string{"0.0.0.0/0"}, Ports: []uint16{53},
					Verdict: step.NameError}}),
			one("mount",
				step.Change{Mount: &step.Mount{Target: "/etc/passwd", Unit: mountedUnit, Text: "drill\n"}},
				step.Change{Mount: &step.Mount{Target: "/etc/shadow", Source: "/etc/group"}},
				step.Change{Mount: &step.Mount{Target: "/etc/ssh", Tmpfs: &step.Tmpfs{Bytes: 65536, Inodes: 8}}}),
			one("unit",
				step.Change{Unit: &step.Unit{Unit: "restarted.service", DropIn: "[Service]\nNice=1\n", State: step.Restarted}},
				step.Change{Unit: &step.Unit{Unit: "stopped.service", State: step.Stopped}},
				step.Change{Unit: &step.Unit{Unit: "frozen.service", State: step.Frozen}}),
			one("held",
				step.Change{Pause: &step.Pause{Unit: pausedUnit}},
				step.Change{Hold: &step.Hold{Dir: "/mnt", Leave: &leave}}),
			one("run", step.Change{Run: &step.Run{Place: "test:state", Tier: step.TierBoot,
				State: step.Exec{Argv: []string{"/bin/cat", "/run/parts/state"}}, Injected: "ill",
				Do: show("/run/parts/ill", "/run/parts/state"), Undo: show("/run/parts/well", "/run/parts/state")}}),
		},
	}
}

// TestDrillOfVersionBefore: this version recognizes, reverts, compares and closes a drill that the previous
// version has in place.
func TestDrillOfVersionBefore(t *testing.T) {
	if os.Getenv(insideMark) == "" {
		inside(t)
		return
	}
	units := beforeMachine(t)
	before := beforeSight(t, units)
	if program := os.Getenv(beforeEnv); program != "" {
		breakByBefore(t, program, units)
	} else {
		layBefore(t, units, false)
	}
	broken := beforeSight(t, units)
	for at, text := range before {
		if at != "disk:/mnt" && broken[at] == text { // the files that filled it disappeared with its watchdog
			t.Errorf("%s is not changed: %q", at, text)
		}
	}
	ctx := context.Background()
	r := openBefore(t)
	st, err := r.Status(true)
	fine(t, err)
	if st.Run != "before" || st.Phase != step.PhaseArmed || st.Torn != 0 || len(st.Journal) != len(r.Journal.Entries) {
		t.Fatalf("it is read as %+v", st)
	}
	fine(t, r.Revert(ctx, step.ByCLI, step.WhyAsked))
	allReverted(t, r, before, units)
	residue, err := r.Verify(ctx)
	fine(t, err)
	for _, x := range step.Unexplained(residue) {
		t.Errorf("it differs: %+v", x)
	}
	_, err = r.Close(ctx, false)
	fine(t, err, r.CloseFiles())
	if _, err := os.Lstat("/var/lib/gpuaasctl"); err == nil {
		t.Error("its folder is left")
	}
}

// TestRebootedDrillOfVersionBefore: the reaper of this version reverts what a reboot leaves of such a drill.
func TestRebootedDrillOfVersionBefore(t *testing.T) {
	if os.Getenv(insideMark) == "" {
		inside(t)
		return
	}
	units := beforeMachine(t)
	before := beforeSight(t, units)
	layBefore(t, units, true)
	if maps.Equal(before, beforeSight(t, units)) {
		t.Fatal("nothing of the drill is left")
	}
	r := openBefore(t)
	fine(t, r.Reap(context.Background()))
	allReverted(t, r, before, units)
	fine(t, r.CloseFiles())
}

// openBefore opens the only drill of this machine.
func openBefore(t *testing.T) *Run {
	t.Helper()
	clock, err := HostClock()
	fine(t, err)
	r, err := Host{Paths: HostPaths(), Clock: clock, Exe: "/proc/self/exe"}.Open("")
	fine(t, err)
	return r
}

// allReverted checks that every change is reverted, and every place is in its earlier state.
func allReverted(t *testing.T, r *Run, before map[string]string, units map[string]*exec.Cmd) {
	t.Helper()
	for _, s := range r.Journal.Ledger.Steps {
		for n, c := range s.Changes {
			if c.State != step.Reverted {
				t.Errorf("step %s, change %d (%s) is %s: %s", s.Step.ID, n, c.Change.Place(), c.State, c.Text)
			}
		}
	}
	if after := beforeSight(t, units); !maps.Equal(before, after) {
		for at, text := range before {
			if after[at] != text {
				t.Errorf("%s: %q, and was %q", at, after[at], text)
			}
		}
	}
}

// beforeSight returns the visible state of every place that the drill changes.
func beforeSight(t *testing.T, units map[string]*exec.Cmd) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range []string{"/etc/hosts", "/run/made", "/etc/nsswitch.conf", "/etc/gpuaas/gone", "/etc/gpuaas/key",
		"/run/parts/state", "/etc/shadow", "/etc/ssh"} {
		var st unix.Stat_t
		text, _ := os.ReadFile(p) // a folder has none
		if unix.Lstat(p, &st) == nil {
			all["file:"+p] = fmt.Sprintf("%o %d %s", st.Mode, st.Size, text)
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				all["file:"+p] = fmt.Sprintf("%o of device %d", st.Mode, st.Dev)
			}
		} else {
			all["file:"+p] = "absent"
		}
	}
	for name, cmd := range units {
		active, _ := os.ReadFile(filepath.Join(beforeUnits, name, "active"))
		freezer, _ := os.ReadFile(filepath.Join(beforeUnits, name, "freezer"))
		s, err := host.This.Stat(cmd.Process.Pid)
		fine(t, err)
		drops, err := filepath.Glob(step.DropInFolder(name) + "/*")
		fine(t, err)
		all["unit:"+name] = fmt.Sprintf("%s %s stopped=%t %v", bytes.TrimSpace(active), bytes.TrimSpace(freezer),
			s.Stopped(), drops)
	}
	fine(t, inNamespace(units[mountedUnit].Process.Pid, func() error {
		text, err := os.ReadFile("/etc/passwd")
		all["unit:"+mountedUnit] += " sees " + string(text)
		return err
	}))
	rules, err := must(context.Background(), "", "nft", "-s", "list", "ruleset")
	fine(t, err)
	all["net"] = rules
	var st unix.Statfs_t
	fine(t, unix.Statfs("/mnt", &st))
	all["disk:/mnt"] = fmt.Sprint(st.Bfree)
	return all
}
