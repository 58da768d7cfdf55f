//go:build linux

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// leftMachine is a machine in the middle of a drill, as recorded in testdata/before: its files, and the numbers
// that every kernel assigns differently. Journal, baseline and packet filter are stored next to it.
type leftMachine struct {
	Files  []leftFile         `json:"files"`
	Device string             `json:"device"` // of the drill's folder
	Etc    string             `json:"etc"`    // the device of /etc, whose file is a mount's source
	Units  map[string]process `json:"units"`
}

// leftFile is one file, link or folder.
type leftFile struct {
	Path  string `json:"path"`
	Mode  uint32 `json:"mode"` // with the type
	MTime int64  `json:"mtime_ns,omitempty"`
	Text  string `json:"text,omitempty"` // or where a link leads
	Size  int64  `json:"size,omitempty"` // including trailing zeros, which Text lacks
}

const (
	beforeFolder = step.StateDir + "/before"
	laidSource   = beforeFolder + "/source-mount-0"
)

// laidOver lists the paths that the drill's mounts cover.
var laidOver = []string{"/etc/shadow", "/etc/ssh"}

// breakByBefore runs the drill with a program of the previous version; if golden files are written, the result is
// recorded.
func breakByBefore(t *testing.T, program string, units map[string]*exec.Cmd) {
	t.Helper()
	tier.NeedsHost(t)
	for _, call := range []struct {
		in   []byte
		args []string
	}{{beforeDrill().Encode(), []string{"arm"}}, {nil, []string{"do"}}} {
		cmd := exec.Command(program, call.args...)
		cmd.Stdin = bytes.NewReader(call.in)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", call.args[0], err, out)
		}
	}
	if !goldentest.Writing() {
		return
	}
	left := leftMachine{Device: deviceOf(t, beforeFolder), Etc: deviceOf(t, "/etc"), Units: processes(t, units)}
	for _, root := range []string{"/etc", "/run", "/var/lib"} {
		fine(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || p == root:
				return err
			case slices.Contains(laidOver, p) && d.IsDir():
				return filepath.SkipDir
			case slices.Contains(laidOver, p), d.Name() == "pid":
				return nil
			}
			left.Files = append(left.Files, leftFileAt(t, p))
			return nil
		}))
	}
	rules, err := must(context.Background(), "", "nft", "-s", "list", "ruleset")
	fine(t, err)
	text, err := json.MarshalIndent(left, "", " ")
	fine(t, err)
	journal, err := os.ReadFile(beforeFolder + "/journal")
	fine(t, err)
	baseline, err := os.ReadFile(beforeFolder + "/baseline")
	fine(t, err)
	var f Fingerprint
	fine(t, json.Unmarshal(baseline, &f))
	for _, class := range ofThisHost {
		maps.DeleteFunc(f.Items[class], func(key, _ string) bool { return !strings.Contains(key, "/etc") })
	}
	baseline, err = json.MarshalIndent(f, "", " ")
	fine(t, err)
	for name, text := range map[string][]byte{
		"left.json": text, "journal": bytes.TrimRight(journal, "\x00"), "baseline.json": baseline,
		"ruleset.nft": []byte(rules),
	} {
		goldentest.Check(t, filepath.Join(beforeDir, name), string(text))
	}
}

// ofThisHost lists the classes of a fingerprint that show more of the host than of the machine in these
// namespaces.
var ofThisHost = []step.Class{step.ClassMount, step.ClassDisk}

func leftFileAt(t *testing.T, p string) leftFile {
	t.Helper()
	var st unix.Stat_t
	fine(t, unix.Lstat(p, &st))
	f := leftFile{Path: p, Mode: st.Mode}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return f
	case unix.S_IFLNK:
		to, err := os.Readlink(p)
		fine(t, err)
		f.Text = to
	default:
		if base := filepath.Base(p); base == "journal" || base == "baseline" || base == step.Program {
			return f // too long for here
		}
		b, err := os.ReadFile(p)
		fine(t, err)
		if text := bytes.TrimRight(b, "\x00"); len(text) < len(b) {
			f.Size, b = int64(len(b)), text
		}
		f.Text = string(b)
	}
	f.MTime = st.Mtim.Nano()
	return f
}

// layBefore puts a machine into the state in which the previous version left it during the drill, or in which a
// reboot left that.
func layBefore(t *testing.T, units map[string]*exec.Cmd, rebooted bool) {
	t.Helper()
	now, err := ReadFingerprint(context.Background(), beforeDrill().Scope)
	fine(t, err)
	var left leftMachine
	readBefore(t, "left.json", &left)
	if rebooted {
		left.Files = slices.DeleteFunc(left.Files, func(f leftFile) bool { return strings.HasPrefix(f.Path, "/run/") })
	}
	for _, f := range left.Files {
		if f.Mode&unix.S_IFMT != unix.S_IFDIR {
			if err := os.Remove(f.Path); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	fine(t, os.Remove("/etc/gpuaas/gone")) // which the drill moved aside
	for _, f := range left.Files {
		f.lay(t)
	}
	fine(t, os.WriteFile(beforeFolder+"/journal", leftJournal(t, &left, units, rebooted), 0o600))
	fine(t, os.WriteFile(beforeFolder+"/baseline", leftBaseline(t, &left, now), 0o600))
	if !rebooted {
		layMemory(t, units)
	}
}

// layMemory creates the files in the tmpfs.
func layMemory(t *testing.T, units map[string]*exec.Cmd) {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join(beforeDir, "ruleset.nft"))
	fine(t, err)
	_, err = must(context.Background(), "flush ruleset\n"+string(rules), "nft", "-f", "-")
	fine(t, err)
	tree, err := unix.OpenTree(unix.AT_FDCWD, laidSource, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	fine(t, err)
	defer unix.Close(tree)
	fine(t, unix.Mount("/etc/group", "/etc/shadow", "", unix.MS_BIND, ""),
		unix.Mount("gpuaasctl-before-mount-2", "/etc/ssh", "tmpfs", unix.MS_RDONLY, ""),
		inNamespace(units[mountedUnit].Process.Pid, func() error {
			return unix.MoveMount(tree, "", unix.AT_FDCWD, "/etc/passwd", unix.MOVE_MOUNT_F_EMPTY_PATH)
		}),
		units[pausedUnit].Process.Signal(syscall.SIGSTOP))
	wait.For(t, "the unit is stopped", func() bool {
		s, err := host.This.Stat(units[pausedUnit].Process.Pid)
		fine(t, err)
		return s.Stopped()
	})
}

func (f leftFile) lay(t *testing.T) {
	t.Helper()
	switch f.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		fine(t, os.MkdirAll(f.Path, 0o755), os.Chmod(f.Path, goMode(f.Mode&0o7777)))
		return
	case unix.S_IFLNK:
		fine(t, os.Symlink(f.Text, f.Path))
	default:
		text := make([]byte, max(f.Size, int64(len(f.Text))))
		copy(text, f.Text)
		fine(t, os.WriteFile(f.Path, text, 0o600), os.Chmod(f.Path, goMode(f.Mode&0o7777)))
	}
	if f.MTime > 0 {
		fine(t, touch(f.Path, f.MTime))
	}
}

// leftJournal returns the journal with the numbers that this machine's kernel assigned.
func leftJournal(t *testing.T, left *leftMachine, units map[string]*exec.Cmd, rebooted bool) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(beforeDir, "journal"))
	fine(t, err)
	procs, dev := processes(t, units), func(d string) string { return `"dev":"` + d + `"` }
	devices := strings.NewReplacer(dev(left.Device), dev(deviceOf(t, beforeFolder)), dev(left.Etc),
		dev(deviceOf(t, "/etc")))
	b := make([]byte, 0, step.JournalSize)
	for _, e := range wholeJournal(t, raw) {
		if e.Boot = bootOf(t); rebooted {
			e.Boot = "another boot"
		}
		if e.Event == step.EventPlanned || e.Event == step.EventChange {
			note := devices.Replace(string(e.Note))
			for name, was := range left.Units {
				note = strings.ReplaceAll(note, processText(was), processText(procs[name]))
			}
			e.Note = []byte(note)
			if note == "" {
				e.Note = nil
			}
		}
		b = append(b, step.EncodeEntry(e)...)
	}
	return b[:step.JournalSize]
}

func processText(p process) string { return fmt.Sprintf(`"pid":%d,"start":"%s"`, p.PID, p.Start) }

// wholeJournal checks that this version reads the recorded journal completely, and writes it with the same bytes.
func wholeJournal(t *testing.T, raw []byte) []step.Entry {
	t.Helper()
	entries, end, torn := step.DecodeJournal(raw)
	var again []byte
	for _, e := range entries {
		again = append(again, step.EncodeEntry(e)...)
	}
	if torn != 0 || end != len(raw) || !bytes.Equal(raw, again) {
		t.Fatalf("%d entries of %d bytes, %d blocks torn; written again they are equal: %t", len(entries), end, torn,
			bytes.Equal(raw, again))
	}
	return entries
}

var inode = regexp.MustCompile(` inode \d+`)

// leftBaseline returns the fingerprint from before the drill with this machine's inodes, and with this host's
// items in the classes that show the host.
func leftBaseline(t *testing.T, left *leftMachine, now Fingerprint) []byte {
	t.Helper()
	var f Fingerprint
	readBefore(t, "baseline.json", &f)
	if f.Schema != fingerprintSchema || !maps.Equal(f.Unmeasured, now.Unmeasured) {
		t.Fatalf("a fingerprint %s without %v, and this version makes %s without %v", f.Schema, f.Unmeasured, now.Schema,
			now.Unmeasured)
	}
	for _, class := range ofThisHost {
		for key := range f.Items[class] {
			if _, known := now.Items[class][key]; !known {
				t.Errorf("%s %s is not measured any more", class, key)
			}
		}
		f.Items[class] = now.Items[class]
	}
	aside := map[string]string{} // inodes of the files that the drill parked, by all their other properties
	for _, l := range left.Files {
		if text, err := fileText(l.Path); err == nil && strings.HasPrefix(filepath.Base(l.Path), ".gpuaasctl-") {
			aside[inode.ReplaceAllString(text, "")] = inode.FindString(text)
		}
	}
	files := f.Items[step.ClassFile]
	for p, text := range files {
		here, err := fileText(p)
		fine(t, err)
		bare := inode.ReplaceAllString(text, "")
		if number, moved := aside[bare]; moved {
			files[p] = bare + number
		} else if bare != text {
			files[p] = bare + inode.FindString(here)
		}
	}
	b, err := json.Marshal(f)
	fine(t, err)
	return b
}

func readBefore(t *testing.T, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(beforeDir, name))
	fine(t, err)
	fine(t, json.Unmarshal(b, to))
}

func bootOf(t *testing.T) string {
	t.Helper()
	clock, err := HostClock()
	fine(t, err)
	return clock.Boot
}

func deviceOf(t *testing.T, p string) string {
	t.Helper()
	var st unix.Stat_t
	fine(t, unix.Stat(p, &st))
	return strconv.Itoa(int(unix.Major(st.Dev))) + ":" + strconv.Itoa(int(unix.Minor(st.Dev)))
}

func processes(t *testing.T, units map[string]*exec.Cmd) map[string]process {
	t.Helper()
	all := map[string]process{}
	for name, cmd := range units {
		s, err := host.This.Stat(cmd.Process.Pid)
		fine(t, err)
		all[name] = processOf(cmd.Process.Pid, s)
	}
	return all
}
