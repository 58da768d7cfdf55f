//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// unitItems are units that are not simply off: their state, enablement and drop-ins. Those of a login come and go.
func unitItems(ctx context.Context, _ step.Scope) (map[string]string, error) {
	if !booted() {
		return nil, errors.New("this machine was not booted by systemd")
	}
	out, err := must(ctx, "", "systemctl", "show", "-p", "Id,LoadState,ActiveState,SubState,UnitFileState,DropInPaths,FreezerState,NeedDaemonReload",
		"*.service", "*.socket", "*.timer", "*.path", "*.target")
	if err != nil {
		return nil, err
	}
	items := map[string]string{}
	for block := range strings.SplitSeq(strings.TrimSpace(out), "\n\n") {
		v := properties(block)
		id := v["Id"]
		if id == "" || strings.HasPrefix(id, "ssh@") || strings.HasPrefix(id, "sshd@") || strings.HasPrefix(id, "user@") || strings.HasPrefix(id, "user-runtime-dir@") {
			continue
		}
		off := v["ActiveState"] == "inactive" && v["LoadState"] == "loaded" && v["DropInPaths"] == "" || v["LoadState"] == "not-found"
		if off && v["NeedDaemonReload"] != "yes" {
			continue
		}
		text := v["LoadState"] + " " + v["ActiveState"] + " " + v["SubState"]
		for _, p := range [...]struct{ name, usual string }{{"UnitFileState", ""}, {"DropInPaths", ""}, {"FreezerState", "running"}, {"NeedDaemonReload", "no"}} {
			if x := v[p.name]; x != p.usual {
				text += " " + p.name + "=" + x
			}
		}
		items[id] = text
	}
	return items, nil
}

// booted says whether systemd runs this machine, as sd_booted(3) does.
func booted() bool {
	fi, err := os.Lstat("/run/systemd/system")
	return err == nil && fi.IsDir()
}

// processItems are processes that are stopped or traced.
func processItems(context.Context, step.Scope) (map[string]string, error) {
	items := map[string]string{}
	return items, eachProcess(func(pid int) {
		if state, _, name, err := stat(pid); err == nil && stopped(state) {
			items[strconv.Itoa(pid)+" "+name] = string(state)
		}
	})
}

func eachProcess(f func(pid int)) error {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			f(pid)
		}
	}
	return err
}

// ownItems is everything that bears this tool's name: folders, units and drop-ins, tables, mounts, processes. Nothing of
// the kind is there when no drill is. What this very process needs is none of it.
func ownItems(ctx context.Context, scope step.Scope) (map[string]string, error) {
	items := map[string]string{}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	state := HostPaths().State
	for _, root := range [...]string{state, filepath.Dir(state) + "/.drill.lock"} {
		if err := ownFiles(items, root, exe, true); err != nil {
			return nil, err
		}
	}
	roots := append(files(), scope.Files...)
	for _, root := range append(roots, "/run/systemd/transient", "/etc") {
		if err := ownFiles(items, root, exe, false); err != nil {
			return nil, err
		}
	}
	for dir, named := range map[string]string{step.RunDir: step.Program + "-", "/run": "gpuaasctl-", "/dev/shm": "gpuaasctl-"} {
		if err := ownBeside(items, dir, named, exe); err != nil {
			return nil, err
		}
	}
	if out, err := must(ctx, "", "nft", "list", "tables"); err == nil {
		for line := range strings.SplitSeq(out, "\n") {
			if strings.Contains(line, " gpuaasctl_") {
				items[strings.TrimSpace(line)] = "packet filter"
			}
		}
	}
	if err := ownMounts(items); err != nil {
		return nil, err
	}
	return items, eachProcess(func(pid int) {
		its, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		if err == nil && its != exe && strings.HasPrefix(filepath.Base(its), step.Program) {
			items["process "+strconv.Itoa(pid)] = its
		}
	})
}

// ownMounts adds what is laid over something, on the machine or as some process sees it: most is laid in the namespace of
// one unit, and what stays of it is seen nowhere else.
func ownMounts(items map[string]string) error {
	seen := map[string]bool{}
	look := func(pid int, where string) error {
		ns, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
		if err != nil || seen[ns] {
			return err
		}
		seen[ns] = true
		all, err := mounts(pid)
		for _, m := range all {
			if m.ours() {
				put(items, "mount "+m.point+where, m.source+" "+m.root)
			}
		}
		return err
	}
	if err := look(1, ""); err != nil {
		return err
	}
	return eachProcess(func(pid int) {
		_, _, name, err := stat(pid)
		if err == nil {
			_ = look(pid, fmt.Sprintf(", as process %d (%s) sees it", pid, name)) // one that has ended sees nothing
		}
	})
}

// ours says whether a drill made the mount: a file system by our name, or what lies in a drill's folder, or bears our name.
func (m mount) ours() bool {
	root := strings.TrimSuffix(m.root, "//deleted")
	folder := strings.TrimPrefix(HostPaths().State, "/var/lib") // where /var is a file system of its own, its paths begin there
	return strings.HasPrefix(m.source, "gpuaasctl-") || strings.Contains(root, folder+"/") || strings.Contains(root, "/gpuaasctl-")
}

// ownBeside adds what lies in a folder under a name that begins so, and half-made files of that name: copies of this
// program that were put on the machine and forgotten, and what is laid over other files.
func ownBeside(items map[string]string, dir, named, exe string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if p := filepath.Join(dir, e.Name()); p != exe && strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), named) {
			items[p] = kindOf(e)
		}
	}
	return err
}

// ownFiles adds what lies below root: everything, or what bears our name.
func ownFiles(items map[string]string, root, exe string, everything bool) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if p != exe && (everything || strings.Contains(d.Name(), "gpuaasctl-")) {
			items[p] = kindOf(d)
		}
		return nil
	})
}

func kindOf(d fs.DirEntry) string {
	switch d.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "folder"
	case fs.ModeSymlink:
		return "link"
	}
	return d.Type().String()
}
