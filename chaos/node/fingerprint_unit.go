//go:build linux

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// unitItems returns the units that are not simply inactive: their state, enablement and drop-ins. It leaves out
// units of logins, which come and go.
func unitItems(ctx context.Context, _ step.Scope) (map[string]string, error) {
	if !host.Booted() {
		return nil, errors.New("this machine was not booted by systemd")
	}
	units, err := show(ctx, "Id,LoadState,ActiveState,SubState,UnitFileState,DropInPaths,FreezerState,NeedDaemonReload",
		"*.service", "*.socket", "*.timer", "*.path", "*.target")
	if err != nil {
		return nil, err
	}
	items := map[string]string{}
	for _, v := range units {
		id := v["Id"]
		if id == "" || ofLogin(id) {
			continue
		}
		off := (v["ActiveState"] == "inactive" && v["LoadState"] == "loaded" && v["DropInPaths"] == "") ||
			v["LoadState"] == "not-found"
		if off && v["NeedDaemonReload"] != "yes" {
			continue
		}
		text := v["LoadState"] + " " + v["ActiveState"] + " " + v["SubState"]
		for _, p := range [...]struct{ name, usual string }{{"UnitFileState", ""}, {"DropInPaths", ""},
			{"FreezerState", "running"}, {"NeedDaemonReload", "no"}} {
			if x := v[p.name]; x != p.usual {
				text += " " + p.name + "=" + x
			}
		}
		items[id] = text
	}
	return items, nil
}

// ofLogin reports whether a unit belongs to a login or to a tenant's terminal.
func ofLogin(id string) bool {
	return slices.ContainsFunc([]string{"ssh@", "sshd@", "user@", "user-runtime-dir@", "gpuaas-session-"},
		func(prefix string) bool {
			return strings.HasPrefix(id, prefix)
		})
}

// processItems returns stopped and traced processes, since a drill stops processes of units. It leaves out those
// of a tenant's login or terminal.
func processItems(context.Context, step.Scope) (map[string]string, error) {
	items := map[string]string{}
	return items, eachProcess(func(pid int) {
		if uid, ok := host.This.RealUser(pid); ok && uid >= host.FirstTenant && inLogin(pid) {
			return
		}
		if s, err := host.This.Stat(pid); err == nil && s.Stopped() {
			items[strconv.Itoa(pid)+" "+s.Name] = s.State
		}
	})
}

// inLogin reports whether a process is in a login's slice, or in the slice of the tenants' terminals.
func inLogin(pid int) bool {
	groups, err := host.This.Cgroups(pid)
	return err == nil && slices.ContainsFunc(groups, func(g host.Cgroup) bool {
		return strings.HasPrefix(g.Path, "/user.slice/") || strings.HasPrefix(g.Path, "/gpuaas.slice/gpuaas-sessions.slice/")
	})
}

func eachProcess(f func(pid int)) error {
	pids, err := host.This.PIDs(-1)
	for _, pid := range pids {
		f(pid)
	}
	return err
}

// ownItems returns everything that bears this tool's name: folders, units and drop-ins, tables, mounts, processes.
// Without a drill there is nothing. Artifacts of this process itself are left out.
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
	for dir, named := range map[string]string{step.RunDir: step.Program + "-", "/run": "gpuaasctl-",
		"/dev/shm": "gpuaasctl-"} {
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
		its, err := os.Readlink(host.This.Path(pid, "exe"))
		if uid, ok := host.This.RealUser(pid); !ok || uid >= host.FirstTenant {
			return
		}
		if err == nil && its != exe && strings.HasPrefix(filepath.Base(its), step.Program) {
			items["process "+strconv.Itoa(pid)] = its
		}
	})
}

// ownMounts adds this tool's mounts, on the machine or in a process's namespace: most are made in the namespace of
// one unit, and a leftover is visible only there.
func ownMounts(items map[string]string) error {
	seen := map[string]bool{}
	look := func(pid int, where string) error {
		ns, err := os.Readlink(host.This.Path(pid, "ns/mnt"))
		if err != nil || seen[ns] {
			return err
		}
		seen[ns] = true
		all, err := host.This.Mounts(pid)
		for _, m := range all {
			if ours(m) {
				put(items, "mount "+m.Point+where, m.Source+" "+m.Root)
			}
		}
		return err
	}
	if err := look(1, ""); err != nil {
		return err
	}
	users, err := os.Readlink("/proc/1/ns/user")
	if err != nil {
		return err
	}
	return eachProcess(func(pid int) {
		s, err := host.This.Stat(pid)
		its, nsErr := os.Readlink(host.This.Path(pid, "ns/user"))
		if nsErr == nil && its != users { // a container's, or a tenant's, who may mount anything in it
			return
		}
		if err == nil {
			_ = look(pid, fmt.Sprintf(", as process %d (%s) sees it", pid, s.Name)) // a process that has ended is skipped
		}
	})
}

// ours reports whether a drill made the mount: the file system has our name, or its source is in a drill's folder
// or has our name.
func ours(m host.Mount) bool {
	root := strings.TrimSuffix(m.Root, "//deleted")
	// if /var is a separate file system, paths in mountinfo begin there
	folder := strings.TrimPrefix(HostPaths().State, "/var/lib")
	return strings.HasPrefix(m.Source, "gpuaasctl-") || strings.Contains(root, folder+"/") ||
		strings.Contains(root, "/gpuaasctl-")
}

// ownBeside adds files in a folder whose names begin with a prefix, and temporary files of such names: forgotten
// copies of this program, and sources of overlays.
func ownBeside(items map[string]string, dir, named, exe string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if p := filepath.Join(dir, e.Name()); p != exe && strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), named) &&
			!ofTenant(e) {
			items[p] = kindOf(e)
		}
	}
	return err
}

// ofTenant reports whether a file belongs to a tenant: every user may write to /dev/shm.
func ofTenant(e fs.DirEntry) bool {
	fi, err := e.Info()
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid >= host.FirstTenant
}

// ownFiles adds files below root: all of them, or those that bear our name.
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
	known := map[fs.FileMode]string{0: "file", fs.ModeDir: "folder", fs.ModeSymlink: "link"}
	return cmp.Or(known[d.Type()], d.Type().String())
}
