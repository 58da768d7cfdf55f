//go:build linux

package host

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// nobodyKnown is a user id that no process has.
const nobodyKnown = 1<<32 - 1

// writer identifies the process whose lines are a unit's: its program and its user. A line in a unit's control group
// may also be a tenant's (logger, systemd-cat), or come from a set-user-id program that logs a tenant's text as root
// (sudo logs the command that it refuses). The comparison uses fields that journald sets and no sender can. _COMM is
// not among them: the name of a link decides what a set-user-id program is called.
type writer struct {
	unit    string
	program string // path of its program, links resolved; "" if unknown
	running string // program of the running process, if it differs
	uid     uint32
}

// writerOf asks systemd which process writes a unit's lines. Fields that systemd lacks are unknown; then only lines of
// a system user's program in a folder of root count.
func (p *Prober) writerOf(ctx context.Context, unit string) writer {
	w := writer{unit: unit, uid: nobodyKnown}
	if !strings.Contains(unit, ".") {
		w.unit += ".service" // as journalctl and systemctl interpret the name
	}
	props, err := p.units.show(ctx, unit)
	if err != nil {
		return w
	}
	if w.program = execOf(props); w.program != "" {
		if real, err := filepath.EvalSymlinks(w.program); err == nil {
			w.program = real
		}
	}
	pid := props.PID()
	if pid == 0 {
		return w
	}
	proc := "/proc/" + strconv.Itoa(pid)
	if exe, err := os.Readlink(proc + "/exe"); err == nil {
		w.running = strings.TrimSuffix(exe, " (deleted)")
	}
	if uid, ok := host.This.RealUser(pid); ok {
		w.uid = uid
	}
	return w
}

// wrote reports whether an entry was written by the unit's own process, by systemd about the unit, or by a daemon of
// root about it.
func (w writer) wrote(entry map[string]json.RawMessage) bool {
	get := func(name string) string { s, _ := measure.JSONText(entry[name]); return s }
	id, err := strconv.ParseUint(get("_UID"), 10, 32)
	uid := uint32(id)
	switch {
	case err != nil:
		return false
	case get("_SYSTEMD_UNIT") != w.unit: // matched by another condition of journalctl --unit; all of those require root
		return uid == 0
	case uid != w.uid && uid >= host.FirstTenant:
		return false
	}
	exe := get("_EXE")
	switch {
	case exe == "": // it ended before journald could read its program
		return get("_TRANSPORT") == "stdout"
	case exe == w.program, exe == w.running:
		return true
	}
	// Another build of the program: before an update, or installed by a drill.
	return (w.program == "" || strings.HasPrefix(filepath.Base(exe), filepath.Base(w.program))) && rootsOnly(exe)
}

// rootsOnly reports whether only root can have installed the program at path, and it is neither setuid nor setgid.
func rootsOnly(path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	for at, rest := "/", strings.Split(strings.Trim(filepath.Clean(path), "/"), "/"); ; {
		fi, err := os.Lstat(at)
		if err != nil {
			return true // deleted, or not visible to us; its folder belongs to root
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		writable := fi.Mode()&os.ModeSymlink == 0 && fi.Mode().Perm()&0o022 != 0
		grants := fi.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 && !fi.IsDir()
		if !ok || st.Uid != 0 || writable || grants {
			return false
		}
		if len(rest) == 0 {
			return true
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}
