//go:build linux

package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// filePlace is a path. While the change lasts, the original file is parked next to it; it is always moved and
// never copied.
type filePlace struct {
	Location
	secrets string // the folder
	before  fileNote
}

// fileNote identifies the original file, and the parent folders that were missing.
type fileNote struct {
	Was     *fileID  `json:"was,omitempty"`
	Folders []string `json:"folders,omitempty"` // the outermost first
}

func (p *filePlace) parked() string { return step.Parked(p.Change.File.Path, p.Run, p.Step, p.N) }

func (p *filePlace) inspect(context.Context) (any, error) {
	f := p.Change.File
	was, err := identify(f.Path)
	if err != nil {
		return nil, err
	}
	if other, err := identify(p.parked()); err != nil || other != nil {
		return nil, orText(err, "%s already exists", p.parked())
	}
	switch {
	case f.Absent && was == nil:
		return nil, fmt.Errorf("%s does not exist, so it cannot be removed", f.Path)
	case !f.Absent && was != nil && p.ours(was):
		return nil, fmt.Errorf("%s has that content already", f.Path)
	case was != nil && was.Mode&unix.S_IFMT != unix.S_IFREG && was.Mode&unix.S_IFMT != unix.S_IFLNK && !f.Absent:
		return nil, fmt.Errorf("%s is neither a file nor a link", f.Path)
	}
	note := fileNote{Was: was}
	for dir := path.Dir(f.Path); ; dir = path.Dir(dir) {
		if id, err := identify(dir); err != nil || id != nil {
			return note, err
		}
		note.Folders = slices.Insert(note.Folders, 0, dir)
	}
}

func (p *filePlace) make(context.Context) error {
	f := p.Change.File
	for _, dir := range p.before.Folders {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	how := uint(unix.RENAME_NOREPLACE)
	from, to := p.parked(), f.Path
	if f.Absent {
		from, to = to, from
	} else if err := p.stage(); errors.Is(err, fs.ErrExist) {
		return err // another process changed it in the meantime: it is theirs
	} else if err != nil {
		return errors.Join(err, os.RemoveAll(p.parked()))
	} else if p.before.Was != nil {
		how = unix.RENAME_EXCHANGE
	}
	err := rename(from, to, how)
	// another process changed it in the meantime: what we staged is not theirs
	if link := new(os.LinkError); errors.As(err, &link) && !f.Absent {
		err = errors.Join(err, os.Remove(p.parked()))
	}
	return err
}

// stage creates the new content next to the path.
func (p *filePlace) stage() error {
	f, was := p.Change.File, p.before.Was
	if f.Link != "" {
		return os.Symlink(f.Link, p.parked())
	}
	mode, uid, gid := p.wanted()
	text, err := reveal(p.secrets, f.Text, f.SHA256)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(p.parked(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Chown(uid, gid), file.Chmod(goMode(mode)), file.Sync(), file.Close())
	if err == nil && was != nil && was.Mode&unix.S_IFMT == unix.S_IFREG {
		err = copyAttributes(f.Path, p.parked())
	}
	return err
}

// wanted returns the mode and the owner of the new file: those of the file that it replaces, unless the change
// sets them.
func (p *filePlace) wanted() (mode uint32, uid, gid int) {
	f, was := p.Change.File, p.before.Was
	mode = 0o644
	if was != nil && was.Mode&unix.S_IFMT == unix.S_IFREG {
		mode, uid, gid = was.Mode&0o7777, int(was.UID), int(was.GID)
	}
	mode = cmp.Or(f.Mode, mode)
	if f.UID != nil {
		uid = *f.UID
	}
	if f.GID != nil {
		gid = *f.GID
	}
	return mode, uid, gid
}

// ours reports whether id is what the change puts there. Owner and mode do not count, unless the change sets them.
func (p *filePlace) ours(id *fileID) bool {
	f := p.Change.File
	if id == nil || f.Absent {
		return id == nil && f.Absent
	}
	kind, text := uint32(unix.S_IFREG), f.Text
	if f.Link != "" {
		kind, text = unix.S_IFLNK, f.Link
	}
	digest := f.SHA256
	if digest == "" {
		digest = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	}
	return id.Mode&unix.S_IFMT == kind && id.Digest == digest
}

func (p *filePlace) compare(context.Context) (Observed, error) {
	f, was := p.Change.File, p.before.Was
	if p.Rebooted && p.Change.Tier() != step.TierPersistent {
		return Observed{}, nil // it lay in memory
	}
	now, err := identify(f.Path)
	if err != nil {
		return Observed{}, err
	}
	aside, err := identify(p.parked())
	if err != nil {
		return Observed{}, err
	}
	original := was != nil && was.same(now)
	switch {
	case original && aside == nil, was == nil && now == nil && aside == nil:
		return p.folders()
	case original, was == nil && now == nil:
		return Observed{State: Injected}, nil // only staged: the parked name holds our own file
	case p.ours(now) && (was == nil || aside != nil):
		return Observed{State: Injected}, nil
	case p.ours(now):
		return Observed{Foreign, "what was at " + f.Path + " is no longer at " + p.parked()}, nil
	case f.Yields && now != nil && aside != nil:
		return Observed{State: Injected, Text: f.Path + " was replaced, as it should be"}, nil
	case f.Yields && now != nil:
		return Observed{Text: f.Path + " was replaced, as it should be"}, nil
	case aside != nil:
		return Observed{Foreign, "somebody has changed " + f.Path + "; what was there is at " + p.parked()}, nil
	}
	return Observed{Foreign, "somebody has changed " + f.Path}, nil
}

// folders reports whether the folders that we made are gone, or are in use by others.
func (p *filePlace) folders() (Observed, error) {
	for _, dir := range p.before.Folders {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Observed{}, err
		}
		if len(entries) == 0 || (slices.Contains(p.before.Folders, path.Join(dir, entries[0].Name())) && len(entries) == 1) {
			return Observed{State: Injected}, nil
		}
		return Observed{Text: "folder " + dir + " stays: somebody has put " + entries[0].Name() + " there"}, nil
	}
	return Observed{}, nil
}

func (p *filePlace) undo(context.Context) error {
	if err := p.moveBack(); err != nil {
		return err
	}
	if err := os.Remove(p.parked()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range slices.Backward(p.before.Folders) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			break // another process uses it
		}
	}
	return syncFolder(p.Change.File.Path)
}

// moveBack moves the parked file back. It exchanges the two atomically, and checks what it moved out: if that is
// another process's newer file, it is restored.
func (p *filePlace) moveBack() error {
	f, was := p.Change.File, p.before.Was
	now, err := identify(f.Path)
	switch {
	case err != nil:
		return err
	case was.same(now): // the parked file was only staged, or is back already
		return nil
	case f.Absent && now == nil:
		return rename(p.parked(), f.Path, unix.RENAME_NOREPLACE)
	case p.ours(now):
		how := uint(unix.RENAME_EXCHANGE)
		from, to := p.parked(), f.Path
		if was == nil {
			how, from, to = unix.RENAME_NOREPLACE, to, from
		}
		if err := rename(from, to, how); err != nil {
			return err
		}
		return p.brought(how)
	case f.Yields && now != nil:
		return nil
	}
	return fmt.Errorf("somebody changed %s just now", f.Path)
}

// brought cancels an undo that removed a file which another process had put there in the meantime.
func (p *filePlace) brought(how uint) error {
	aside, err := identify(p.parked())
	if err != nil || p.ours(aside) {
		return err
	}
	return errors.Join(fmt.Errorf("somebody changed %s just now", p.Change.File.Path),
		rename(p.parked(), p.Change.File.Path, how))
}

func rename(from, to string, how uint) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, how); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return syncFolder(to)
}
