//go:build linux

package probe

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// nobodyKnown is a user id that no process has.
const nobodyKnown = 1<<32 - 1

// writer is the process whose lines are a unit's: its program, by its user. A line in a unit's control group may also
// be a tenant's (logger, systemd-cat), or a set-user-id program's that logs a tenant's text as root (sudo logs the
// command that it refuses). The comparison uses journald's own fields, which no sender can set. _COMM is not among
// them: a link's name decides what a set-user-id program is called.
type writer struct {
	unit    string
	program string // its path, links resolved; "" when not known
	running string // of the process that runs now, where it is another one
	uid     uint32
}

// writerOf asks systemd who writes a unit's lines. Fields that it lacks are not known, and then only lines of a
// system user's program in a folder of root count.
func (p *Prober) writerOf(ctx context.Context, unit string) writer {
	w := writer{unit: unit, uid: nobodyKnown}
	if !strings.Contains(unit, ".") {
		w.unit += ".service" // as journalctl and systemctl take it
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

// wrote reports whether an entry is by the unit's own process, by systemd about the unit, or by a daemon of root's
// about it.
func (w writer) wrote(entry map[string]json.RawMessage) bool {
	get := func(name string) string { s, _ := jsonText(entry[name]); return s }
	id, err := strconv.ParseUint(get("_UID"), 10, 32)
	uid := uint32(id)
	switch {
	case err != nil:
		return false
	case get("_SYSTEMD_UNIT") != w.unit: // one of the other matches of journalctl --unit, all of which want root
		return uid == 0
	case uid != w.uid && uid >= host.FirstTenant:
		return false
	}
	exe := get("_EXE")
	switch {
	case exe == "": // it ended before journald could look
		return get("_TRANSPORT") == "stdout"
	case exe == w.program, exe == w.running:
		return true
	}
	// Another build of the program, from before an update or in its place for a drill.
	return (w.program == "" || strings.HasPrefix(filepath.Base(exe), filepath.Base(w.program))) && rootsOnly(exe)
}

// rootsOnly reports whether only root can have put a program at a path, and it is neither setuid nor setgid.
func rootsOnly(path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	for at, rest := "/", strings.Split(strings.Trim(filepath.Clean(path), "/"), "/"); ; {
		fi, err := os.Lstat(at)
		if err != nil {
			return true // gone, or not for us to see; the folder that it was in is root's
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
