//go:build linux

package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// files are always included, with everything below them. A missing one is an item as well, since it may appear.
func files() []string {
	return []string{
		"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/ld.so.preload", "/etc/gpuaas", "/etc/gpuaas-platform",
		"/etc/nginx", "/etc/dnsmasq.conf", "/etc/dnsmasq.d", "/etc/redis", "/etc/ssh", "/etc/sudoers.d",
		"/usr/local/bin/gpuaas-agent", "/etc/systemd", "/run/systemd/system", "/run/systemd/system.control",
		"/run/systemd/system.attached",
	}
}

// fileItems describes files by every property that a restored copy would get wrong: content, mode, owner, time,
// inode, attributes.
func fileItems(ctx context.Context, scope step.Scope) (map[string]string, error) {
	items := map[string]string{}
	for _, root := range append(files(), scope.Files...) {
		err := filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
				return nil
			}
			if err != nil {
				return err
			}
			text, err := fileText(p)
			if err != nil || text == "" || agentsLock(p, text) {
				return err // gone just now
			}
			items[p] = text
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// agentsLock reports whether a file is the empty one that an agent's first start creates, to lock its credentials.
func agentsLock(path, text string) bool {
	return path == "/etc/gpuaas/generations/.lock" && strings.HasPrefix(text, "file 0600 0:0 0 bytes ")
}

// fileText describes one file. It leaves out a folder's time and inode: files come and go in it by design.
func fileText(p string) (string, error) {
	id, err := identify(p)
	if err != nil || id == nil {
		return "", err
	}
	kind := map[uint32]string{unix.S_IFREG: "file", unix.S_IFDIR: "folder", unix.S_IFLNK: "link", unix.S_IFIFO: "fifo",
		unix.S_IFSOCK: "socket", unix.S_IFBLK: "device", unix.S_IFCHR: "device"}[id.Mode&unix.S_IFMT]
	text := fmt.Sprintf("%s %04o %d:%d", kind, id.Mode&0o7777, id.UID, id.GID)
	if id.Digest != "" {
		text += fmt.Sprintf(" %d bytes %s at %s inode %d", id.Size, id.Digest[:16],
			time.Unix(0, id.MTime).UTC().Format(time.RFC3339Nano), id.Ino)
	}
	attrs, err := attributes(p)
	if errors.Is(err, fs.ErrNotExist) {
		return text, nil
	}
	for _, a := range attrs {
		text += fmt.Sprintf(" %s=%s", a.name, digest(a.value))
	}
	return text, err
}

func digest(b []byte) string {
	return fmt.Sprintf("%.8x", sha256.Sum256(b))
}

// accountItems returns the lines of the account files, hashed, since a password's hash must not be shown.
func accountItems(context.Context, step.Scope) (map[string]string, error) {
	items := map[string]string{}
	for _, name := range [...]string{"passwd", "group", "shadow", "gshadow", "subuid", "subgid"} {
		b, err := os.ReadFile("/etc/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n") {
			who, _, _ := strings.Cut(line, ":")
			put(items, name+" "+who, digest([]byte(line)))
		}
	}
	return items, nil
}

// mountItems returns the mounts of the machine and of the units in scope.
func mountItems(ctx context.Context, scope step.Scope) (map[string]string, error) {
	items := map[string]string{}
	add := func(whose string, pid int) error {
		all, err := host.This.Mounts(pid)
		for _, m := range all {
			if passing(m.Point) {
				continue
			}
			root := m.Root
			if strings.HasSuffix(root, "//deleted") {
				root = "(deleted)" // its name differs after each boot
			}
			put(items, whose+" "+m.Point, fmt.Sprintf("%s %s %s %s", m.Kind, m.Source, root, m.Options))
		}
		return err
	}
	if err := add("host", 1); err != nil {
		return nil, err
	}
	if !host.Booted() {
		return items, nil
	}
	for _, unit := range append([]string{agentUnit}, scope.Units...) {
		u, err := showUnit(ctx, unit)
		if err != nil {
			return nil, err
		}
		if own, err := ownNamespace(u.MainPID); u.MainPID == 0 || err != nil || !own {
			continue // not running, or in the machine's own namespace; its state is another class
		}
		if err := add(unit, u.MainPID); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// passing reports whether a mount comes and goes by itself: with a unit's start, a user's session, or this tool,
// whose own mounts are in another class.
func passing(point string) bool {
	return strings.HasPrefix(point, "/run/credentials/") || strings.HasPrefix(point, "/run/user/") ||
		strings.HasPrefix(point, step.RunDir)
}

// diskItems returns the free bytes and inodes of file systems.
func diskItems(context.Context, step.Scope) (map[string]string, error) {
	items := map[string]string{}
	all, err := host.This.Mounts(1)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		switch m.Kind {
		case "overlay", "tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs":
		default:
			continue
		}
		if m.Root != "/" && m.Kind != "btrfs" { // part of a file system that is measured at its root
			continue
		}
		if passing(m.Point) {
			continue
		}
		var s unix.Statfs_t
		if err := unix.Statfs(m.Point, &s); err != nil {
			continue // unmounted in the meantime: another class shows that
		}
		items[m.Point+" bytes"] = fmt.Sprint(int64(s.Bfree) * int64(s.Bsize))
		items[m.Point+" inodes"] = fmt.Sprint(s.Ffree)
	}
	return items, nil
}
