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
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// mountPlace is a mount point, in the machine's mount namespace or in that of a unit's main process.
type mountPlace struct {
	Location
	dir     string // of the drill
	secrets string // its folder of secrets
	before  mountNote
}

// mountNote identifies the mount. It does not use the source's path, which another process may remove.
type mountNote struct {
	Dev  string  `json:"dev,omitempty"` // of the source, unless it is our tmpfs
	Root string  `json:"root,omitempty"`
	Main process `json:"main"` // whose namespace it is, for a unit
}

// source returns the path that is mounted on the target: for a text, a file in the drill's folder, which allows
// programs.
func (m *mountPlace) source() string {
	if m.Change.Mount.Source != "" {
		return m.Change.Mount.Source
	}
	dir := m.dir
	if m.Change.Mount.SHA256 != "" {
		dir = m.secrets
	}
	return filepath.Join(dir, fmt.Sprintf("source-%s-%d", m.Step, m.N))
}

// device is the name of our tmpfs in mountinfo.
func (m *mountPlace) device() string { return fmt.Sprintf("gpuaasctl-%s-%s-%d", m.Run, m.Step, m.N) }

// main returns the process whose namespace is used: this one, or a unit's; pid 0 if the unit has none, and
// therefore no namespace.
func (m *mountPlace) main(ctx context.Context) (process, error) {
	if m.Change.Mount.Unit == "" {
		return process{PID: os.Getpid()}, nil
	}
	u, err := showUnit(ctx, m.Change.Mount.Unit)
	if err != nil || u.MainPID == 0 {
		return process{}, err
	}
	s, err := host.This.Stat(u.MainPID)
	return processOf(u.MainPID, s), err
}

// inspect also prepares the source: a disk that is full later cannot prevent it, and an undo removes it.
func (m *mountPlace) inspect(ctx context.Context) (any, error) {
	c := m.Change.Mount
	main, err := m.main(ctx)
	if err != nil || main.PID == 0 {
		return nil, orText(err, "%s does not run", c.Unit)
	}
	if own, err := ownNamespace(main.PID); err != nil || (c.Unit != "" && !own) {
		return nil, orText(err, "%s has no mount namespace of its own (PrivateMounts=yes gives it one)", c.Unit)
	}
	if c.Text != "" || c.SHA256 != "" {
		if err := m.writeSource(); err != nil {
			return nil, err
		}
	}
	m.before.Main = main
	if c.Tmpfs == nil {
		if m.before.Dev, m.before.Root, err = mountSource(m.source()); err != nil {
			return nil, err
		}
	}
	err = m.within(main.PID, func() error {
		if _, err := os.Lstat(c.Target); err != nil {
			return err
		}
		if at, err := m.position(); err != nil || at != absent {
			return orText(err, "it is laid over %s already", c.Target)
		}
		return nil
	})
	return m.before, err
}

func (m *mountPlace) writeSource() error {
	mode := cmp.Or(m.Change.Mount.Mode, 0o644)
	text, err := reveal(m.secrets, m.Change.Mount.Text, m.Change.Mount.SHA256)
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.source(), []byte(text), 0o600); err != nil {
		return err
	}
	return os.Chmod(m.source(), goMode(mode))
}

// ownNamespace reports whether a process has another mount namespace than this one.
func ownNamespace(pid int) (bool, error) {
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false, err
	}
	its, err := os.Readlink(host.This.Path(pid, "ns/mnt"))
	return mine != its, err
}

func (m *mountPlace) make(ctx context.Context) error {
	c := m.Change.Mount
	main, err := m.main(ctx)
	if err != nil || main.PID == 0 {
		return orText(err, "%s does not run", c.Unit)
	}
	if c.Tmpfs != nil {
		data := fmt.Sprintf("size=%d,mode=0755", c.Tmpfs.Bytes)
		if c.Tmpfs.Inodes > 0 {
			data += fmt.Sprintf(",nr_inodes=%d", c.Tmpfs.Inodes)
		}
		flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
		if !c.Writable {
			flags |= unix.MS_RDONLY
		}
		return m.within(main.PID, func() error {
			return wrap("mount", c.Target, unix.Mount(m.device(), c.Target, "tmpfs", flags, data))
		})
	}
	// The tree is opened here and attached there: the unit need not see the source.
	tree, err := unix.OpenTree(unix.AT_FDCWD, m.source(), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return wrap("open_tree", m.source(), err)
	}
	defer unix.Close(tree)
	// later mounts on it must not propagate to where it was taken from
	attr := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if !c.Writable {
		attr.Attr_set = unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return wrap("mount_setattr", m.source(), err)
	}
	return m.within(main.PID, func() error {
		return wrap("move_mount", c.Target, unix.MoveMount(tree, "", unix.AT_FDCWD, c.Target, unix.MOVE_MOUNT_F_EMPTY_PATH))
	})
}

func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func (m *mountPlace) compare(ctx context.Context) (Observed, error) {
	if m.Rebooted {
		return Observed{}, nil
	}
	main, err := m.main(ctx)
	if err != nil {
		return Observed{}, err
	}
	if main.PID == 0 {
		return Observed{Text: m.Change.Mount.Unit + " has ended, and its namespace with it"}, nil
	}
	at := absent
	err = m.within(main.PID, func() (err error) { at, err = m.position(); return err })
	switch {
	case err != nil:
		return Observed{}, err
	case at == covered:
		return Observed{Foreign, "somebody has mounted something over " + m.Change.Mount.Target}, nil
	case at == topmost:
		return Observed{State: Injected}, nil
	case m.Change.Mount.Unit != "" && main != m.before.Main:
		return Observed{Text: m.Change.Mount.Unit + " was started again, in a namespace of its own"}, nil
	}
	return Observed{}, nil
}

// undo compares again, in the namespace in which it then works: the unit may have been restarted in the meantime,
// so that the mount on the target is not ours.
func (m *mountPlace) undo(ctx context.Context) error {
	main, err := m.main(ctx)
	if err != nil || main.PID == 0 {
		return err
	}
	target := m.Change.Mount.Target
	return m.within(main.PID, func() error {
		at, err := m.position()
		if err != nil || at != topmost {
			return err
		}
		err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) { // a process has it open: it keeps its view, and no other process gets it
			err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		return wrap("umount", target, err)
	})
}

// mountLook is the position of our mount among those on one mount point.
type mountLook int

const (
	absent mountLook = iota
	topmost
	covered
)

// position returns where our mount is among those at the target, in the namespace of the thread that asks.
func (m *mountPlace) position() (mountLook, error) {
	target, err := filepath.EvalSymlinks(m.Change.Mount.Target)
	if err != nil {
		target = m.Change.Mount.Target
	}
	all, err := host.This.Mounts(host.Thread)
	at := absent
	for _, x := range all {
		switch {
		case x.Point != target:
		case m.mine(x):
			at = topmost
		case at == topmost:
			at = covered
		}
	}
	return at, err
}

// mine knows a mount by its device, or by the file system and the path in it that it shows.
func (m *mountPlace) mine(x host.Mount) bool {
	if m.Change.Mount.Tmpfs != nil {
		return x.Source == m.device()
	}
	return x.Dev == m.before.Dev && strings.TrimSuffix(x.Root, "//deleted") == m.before.Root
}

// mountSource is the file system that holds p and the path of p within it, as mountinfo would show a mount of it.
func mountSource(p string) (dev, root string, err error) {
	p, err = filepath.EvalSymlinks(p)
	if err != nil {
		return "", "", err
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, p, 0, unix.STATX_MNT_ID, &st); err != nil {
		return "", "", wrap("statx", p, err)
	}
	all, err := host.This.Mounts(host.Thread)
	if err != nil {
		return "", "", err
	}
	for _, x := range all {
		if x.ID == strconv.FormatUint(st.Mnt_id, 10) {
			below := strings.TrimPrefix(strings.TrimPrefix(p, x.Point), "/")
			return x.Dev, filepath.Join(x.Root, below), nil
		}
	}
	return "", "", fmt.Errorf("no mount holds %s", p)
}

// within runs f in the mount namespace that the change is about.
func (m *mountPlace) within(pid int, f func() error) error {
	if m.Change.Mount.Unit == "" {
		return f()
	}
	return inNamespace(pid, f)
}
