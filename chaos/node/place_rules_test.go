//go:build linux

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestSameFile: a file is the same by its inode or, on a file system that changes it, by everything else.
func TestSameFile(t *testing.T) {
	f := fileID{Dev: 1, Ino: 2, Mode: 3, UID: 4, GID: 5, Size: 6, MTime: 7, Digest: "8"}
	for name, tc := range map[string]struct {
		change func(*fileID)
		want   bool
	}{
		"as it was": {func(*fileID) {}, true}, "its content": {func(f *fileID) { f.Digest, f.MTime = "9", 9 }, true},
		"moved":                    {func(f *fileID) { f.Dev, f.Ino = 9, 9 }, true},
		"moved in its file system": {func(f *fileID) { f.Ino = 9 }, true},
		"moved, and edited":        {func(f *fileID) { f.Ino, f.Digest = 9, "9" }, false},
		"moved, and touched":       {func(f *fileID) { f.Dev, f.MTime = 9, 9 }, false},
		"moved, and another mode":  {func(f *fileID) { f.Ino, f.Mode = 9, 9 }, false},
	} {
		other := f
		tc.change(&other)
		if f.same(&other) != tc.want || other.same(&f) != tc.want {
			t.Errorf("%s: %v", name, f.same(&other))
		}
	}
	if f.same(nil) || (*fileID)(nil).same(&f) || !(*fileID)(nil).same(nil) {
		t.Error("a file that is not there")
	}
}

// TestWanted: mode and owner of a new file are those of the file that it replaces, unless the change sets them.
func TestWanted(t *testing.T) {
	was := &fileID{Mode: unix.S_IFREG | 0o4750, UID: 7, GID: 8}
	link := &fileID{Mode: unix.S_IFLNK | 0o777, UID: 7, GID: 8}
	for name, tc := range map[string]struct {
		f        step.File
		was      *fileID
		mode     uint32
		uid, gid int
	}{
		"a new file":     {step.File{}, nil, 0o644, 0, 0},
		"replaces":       {step.File{}, was, 0o4750, 7, 8},
		"for a link":     {step.File{}, link, 0o644, 0, 0},
		"with a mode":    {step.File{Mode: 0o600}, was, 0o600, 7, 8},
		"with an owner":  {step.File{UID: new(0)}, was, 0o4750, 0, 8},
		"with a group":   {step.File{GID: new(0)}, was, 0o4750, 7, 0},
		"new, and owned": {step.File{UID: new(3), GID: new(4)}, nil, 0o644, 3, 4},
	} {
		p := filePlace{Location: Location{Change: step.Change{File: &tc.f}}, before: fileNote{Was: tc.was}}
		if mode, uid, gid := p.wanted(); mode != tc.mode || uid != tc.uid || gid != tc.gid {
			t.Errorf("%s: %o %d:%d", name, mode, uid, gid)
		}
	}
}

// TestUnitStates: which states of a unit are another process's doing, and which are the drill's.
func TestUnitStates(t *testing.T) {
	byHand := unitState{Active: "inactive", Result: "success", Restart: "no", Exit: 100, MainExit: 200}
	for name, tc := range map[string]struct {
		change func(*unitState)
		want   bool // it was stopped
	}{
		"stopped":                        {func(*unitState) {}, true},
		"active":                         {func(u *unitState) { u.Active = "active" }, false},
		"failed":                         {func(u *unitState) { u.Active = "failed" }, false},
		"with a job":                     {func(u *unitState) { u.Job = true }, false},
		"with a condition":               {func(u *unitState) { u.Unmet = true }, false},
		"ended by itself":                {func(u *unitState) { u.MainExit = 50 }, false},
		"ended at that moment":           {func(u *unitState) { u.MainExit = 100 }, false},
		"was never active":               {func(u *unitState) { u.Exit = 0 }, false},
		"has no process":                 {func(u *unitState) { u.MainExit = 0 }, true},
		"ended, but would start again":   {func(u *unitState) { u.MainExit, u.Restart = 50, "always" }, true},
		"ended well, but would start":    {func(u *unitState) { u.MainExit, u.Restart = 50, "on-success" }, true},
		"ended, but would stay active":   {func(u *unitState) { u.MainExit, u.Remain = 50, true }, true},
		"ended badly, and was not tried": {func(u *unitState) { u.MainExit, u.Result = 50, "exit-code" }, true},
	} {
		u := byHand
		tc.change(&u)
		if got := u.stopped(); got != tc.want {
			t.Errorf("%s: stopped %v", name, got)
		}
	}
	for active, want := range map[string]bool{"active": true, "reloading": true, "activating": true, "inactive": false,
		"failed": false, "deactivating": false} {
		if got := (unitState{Active: active}).runs(); got != want {
			t.Errorf("%s runs: %v", active, got)
		}
	}
	unit := func(state, dropIn string, undone bool) *unitPlace {
		return &unitPlace{Location: Location{Change: step.Change{Unit: &step.Unit{State: state, DropIn: dropIn}},
			Undone: undone}, before: unitNote{Invocation: "1"}}
	}
	for name, tc := range map[string]struct {
		u    *unitPlace
		now  unitState
		want bool
	}{
		"runs with the drop-in":     {unit(step.Restarted, "x", false), unitState{Invocation: "2"}, true},
		"undone, and restarted":     {unit(step.Restarted, "x", true), unitState{Invocation: "3"}, false},
		"not restarted":             {unit(step.Restarted, "x", false), unitState{Invocation: "1"}, false},
		"has no drop-in":            {unit(step.Stopped, "", false), unitState{Active: "active", Invocation: "2"}, false},
		"kept stopped":              {unit(step.Stopped, "", false), unitState{Active: "inactive", Invocation: "1"}, true},
		"another state is not":      {unit(step.Frozen, "", false), unitState{Active: "inactive"}, false},
		"frozen":                    {unit(step.Frozen, "", false), unitState{Freezer: "frozen", Active: "active"}, true},
		"thawed":                    {unit(step.Frozen, "", false), unitState{Freezer: "running", Active: "active"}, false},
		"frozen, and was not to be": {unit(step.Stopped, "", false), unitState{Freezer: "frozen", Active: "active"}, false},
	} {
		if got := tc.u.keeps(tc.now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, tc := range map[string]struct {
		u    *unitPlace
		now  unitState
		want string
	}{
		"masked":                 {unit(step.Restarted, "x", false), unitState{Load: "masked"}, "masked"},
		"masked while stopped":   {unit(step.Stopped, "", false), unitState{Load: "masked"}, "masked"},
		"masked while frozen":    {unit(step.Frozen, "", false), unitState{Load: "masked"}, ""},
		"stopped, as it must be": {unit(step.Stopped, "", false), byHand, ""},
		"runs":                   {unit(step.Restarted, "x", false), unitState{Active: "active"}, ""},
	} {
		if by, err := tc.u.halted(t.Context(), tc.now); by != tc.want || err != nil {
			t.Errorf("%s: %q, %v", name, by, err)
		}
	}
}

// TestPaused: a process is paused, and goes on; one that has ended, or whose number another one has, is left alone.
func TestPaused(t *testing.T) {
	tier.NeedsHost(t)
	cmd := exec.Command("sleep", "1000")
	fine(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	now, err := host.This.Stat(cmd.Process.Pid)
	fine(t, err)
	at := Location{Change: step.Change{Pause: &step.Pause{Unit: "a.service"}}}
	p := &pausePlace{at, processOf(cmd.Process.Pid, now)}
	compare := func(when string, want PlaceState, text string) {
		t.Helper()
		if got, err := p.compare(t.Context()); err != nil || got.State != want || got.Text != text {
			t.Errorf("%s: %+v, %v; want %v %q", when, got, err, want, text)
		}
	}
	compare("at first", Before, "")
	fine(t, p.make(t.Context()))
	compare("paused", Injected, "")
	p.Rebooted = true
	compare("after a boot", Before, "")
	p.Rebooted = false
	fine(t, p.undo(t.Context()))
	compare("undone", Before, "")
	other := &pausePlace{at, process{p.before.PID, p.before.Start + "0"}}
	if err := other.make(t.Context()); err == nil {
		t.Error("another process with the same number was paused")
	}
	compare("after an attempt", Before, "")
	fine(t, cmd.Process.Kill(), unix.Waitid(unix.P_PID, p.before.PID, nil, unix.WEXITED|unix.WNOWAIT, nil))
	compare("as a zombie", Before, "the process has ended")
	if err := p.make(t.Context()); err == nil {
		t.Error("a process that has ended was paused")
	}
	_ = cmd.Wait()
	compare("gone", Before, "the process has ended")
}

// TestFileBeside: a change is refused if something is where the original would be parked, and a folder that a drill
// made stays while another process uses it.
func TestFileBeside(t *testing.T) {
	p := filepath.Join(t.TempDir(), "f")
	fine(t, os.WriteFile(p, []byte("original"), 0o600), os.WriteFile(step.Parked(p, "r", "s", 0), nil, 0o600))
	place := &filePlace{Location: Location{Run: "r", Step: "s",
		Change: step.Change{File: &step.File{Path: p, Text: "x"}}}}
	if _, err := place.inspect(t.Context()); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("%v", err)
	}
	a := filepath.Join(t.TempDir(), "a")
	place.before.Folders = []string{a, a + "/b"}
	looks := func(when string, want PlaceState) {
		t.Helper()
		if got, err := place.folders(); err != nil || got.State != want {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
	looks("none is there", Before)
	fine(t, os.MkdirAll(a+"/b", 0o700))
	looks("both are empty", Injected)
	fine(t, os.WriteFile(a+"/c", nil, 0o600))
	looks("another process uses the outer one", Before)
	fine(t, os.Remove(a+"/c"), os.Remove(a+"/b"))
	looks("the outer one is empty", Injected)
	fine(t, os.WriteFile(a+"/0", nil, 0o600))
	looks("another process uses the last one", Before)
}
