//go:build linux

package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// fileID identifies a file: by its inode or, on a file system that changes the inode on a rename, by everything
// else.
type fileID struct {
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	Mode   uint32 `json:"mode"` // with the type
	UID    uint32 `json:"uid"`
	GID    uint32 `json:"gid"`
	Size   int64  `json:"size"`
	MTime  int64  `json:"mtime_ns"`
	Digest string `json:"digest,omitempty"` // of a file's content, or of a link's target
}

// identify returns the identity of the file at p without following a link; nil if there is none.
func identify(p string) (*fileID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return nil, nil
		}
		return nil, &fs.PathError{Op: "lstat", Path: p, Err: err}
	}
	id := &fileID{st.Dev, st.Ino, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Nano(), ""}
	var content io.Reader
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to, err := os.Readlink(p)
		if err != nil {
			return nil, err
		}
		content = bytes.NewBufferString(to)
	case unix.S_IFREG:
		f, err := os.OpenFile(p, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		content = f
	default:
		return id, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return nil, err
	}
	id.Digest = hex.EncodeToString(sum.Sum(nil))
	return id, nil
}

// same reports whether other is the same file as f.
func (f *fileID) same(other *fileID) bool {
	if f == nil || other == nil {
		return f == other
	}
	moved := *other
	moved.Dev, moved.Ino = f.Dev, f.Ino
	return (f.Dev == other.Dev && f.Ino == other.Ino) || *f == moved
}

// syncFolder makes a rename durable. A folder that no longer exists is not an error.
func syncFolder(p string) error {
	err := durable.SyncDir(path.Dir(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// goMode converts a kernel's file mode to one of package os.
func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, of := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid,
		unix.S_ISVTX: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= of
		}
	}
	return m
}

// copyAttributes copies the extended attributes of from, as far as the file system supports them: a missing
// security label would be a second fault.
func copyAttributes(from, to string) error {
	attrs, err := attributes(from)
	for _, a := range attrs {
		if e := unix.Lsetxattr(to, a.name, a.value, 0); e != nil && !errors.Is(e, unix.ENOTSUP) {
			err = errors.Join(err, fmt.Errorf("attribute %s of %s: %w", a.name, to, e))
		}
	}
	return err
}

type attribute struct {
	name  string
	value []byte
}

// attributes returns the extended attributes of p, without following a link, sorted by name.
func attributes(p string) ([]attribute, error) {
	names := make([]byte, 64<<10)
	n, err := unix.Llistxattr(p, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "listxattr", Path: p, Err: err}
	}
	var all []attribute
	for _, name := range bytes.Split(bytes.TrimSuffix(names[:n], []byte{0}), []byte{0}) {
		if len(name) == 0 {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(p, string(name), value)
		if err != nil {
			continue // removed in the meantime, or not readable for us
		}
		all = append(all, attribute{string(name), value[:n]})
	}
	slices.SortFunc(all, func(a, b attribute) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return all, nil
}
