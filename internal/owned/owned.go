// Package owned has the one rule by which a file may be used with this user's rights: run, pushed to a node and run
// there as root, or obeyed when it names secrets, logins, programs and judgements.
//
// A file is ours if nobody but root and the caller (the effective user id) could have written it, or could have put it
// where it is:
//
//   - its owner is root or the caller, and it is not writable by others;
//   - the same holds for every folder on its path. Symbolic links are resolved, and the folders on the way to each
//     target are checked as well. In a folder with the sticky bit, as /tmp, others cannot replace what is ours: there
//     every entry on the path, also a link, must belong to root or the caller.
//
// Writable by its group is writable by others, unless the group has no member but root, the caller and the owner, as a
// user's private group has where the umask is 002. Members are looked up in /etc/group and /etc/passwd; a group that
// they do not list may have anybody in it. SUDO_UID is not used: any caller can set it.
//
// The open file is checked (fstat), and that the path leads to that file; so a file cannot be swapped between check
// and use. A pipe has no path that others could change, so only its owner and mode are checked. Access lists are not
// read: one that lets another user write shows in the mode as a right of the group, which is accepted if the group is
// private.
//
// Callers: profile, chaos, history, gpu/policy, preflight/vantage.
package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	groupWrite fs.FileMode = 0o020
	otherWrite fs.FileMode = 0o002

	// maxLinks is how many links a path may have, as in the kernel.
	maxLinks = 40
)

// Users are the ids of the users whose files may be used.
type Users []int

// Caller returns root and the caller.
func Caller() Users { return Users{0, os.Geteuid()} }

// WithProgram adds to u the users who could have replaced the program that runs: the owners of its file, and of the
// folders on its path. A file of theirs beside the program gives them no right that they do not have, as in a user's
// build that sudo runs.
func (u Users) WithProgram() Users {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return u
	}
	return u.withOwners(self)
}

// withOwners adds to u the owners of a file and of the folders on its path.
func (u Users) withOwners(path string) Users {
	for {
		info, err := os.Lstat(path)
		if err != nil {
			return u
		}
		if uid, ok := ownerOf(info); ok && !slices.Contains(u, uid) {
			u = append(slices.Clip(u), uid)
		}
		if path == filepath.Dir(path) {
			return u
		}
		path = filepath.Dir(path)
	}
}

// Error is a file that another user could have written.
type Error struct {
	Path   string // of the file or of the folder that is at fault
	Reason string // "belongs to user 1000"
	Remedy string // a command to paste; "" if there is none
}

func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Path + " " + e.Reason + "; copy the file to a folder that only you can write"
	}
	return e.Path + " " + e.Reason + "; run: " + e.Remedy
}

// Open opens a file for reading and checks it. It does not wait for the writer of a pipe.
func Open(path string, by Users) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := Check(f, by); err != nil {
		_ = f.Close() // it was read only
		return nil, err
	}
	return f, nil
}

// Check reports why an open file may not be used; nil if it may. The error is an *Error, or says what could not be
// read.
func Check(f *os.File, by Users) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	path, err := absolute(f.Name())
	if err != nil {
		return err
	}
	if err := by.check(path, info); err != nil || !info.Mode().IsRegular() {
		return err
	}
	end, err := by.follow(path)
	switch {
	case err != nil:
		return err
	case end != nil && !os.SameFile(end, info):
		return fmt.Errorf("%s was replaced while it was read", path)
	}
	return nil
}

// Folder reports why a folder may not be used; nil if it may.
func Folder(path string, by Users) error {
	path, err := absolute(path)
	if err != nil {
		return err
	}
	end, err := by.follow(path)
	if err == nil && end != nil && !end.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	return err
}

// MkdirAll makes a folder for this user alone, with its parents. It makes nothing where others could change it, and
// refuses a folder that exists and is not ours.
func MkdirAll(path string, by Users) error {
	path, err := absolute(path)
	if err != nil {
		return err
	}
	made := path
	for {
		if _, err := os.Lstat(made); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = filepath.Dir(made)
	}
	if err := Folder(made, by); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Folder(path, by)
}

// absolute is filepath.Abs for a path that may lead through links, so it is not cleaned: the parent of a link's target
// is not the link's.
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	dir, err := os.Getwd()
	return dir + "/" + path, err
}

// follow checks the folders and links on an absolute path, and returns what it leads to; nil for a file that only a
// process has open.
func (u Users) follow(path string) (fs.FileInfo, error) {
	at, links := "/", 0
	info, err := os.Lstat(at)
	if err == nil {
		err = u.check(at, info)
	}
	for left := parts(path); err == nil && len(left) > 0; {
		next := filepath.Join(at, left[0])
		left = left[1:]
		shared := info.Mode().Perm()&(groupWrite|otherWrite) != 0
		if info, err = os.Lstat(next); err != nil {
			break
		}
		switch {
		case info.Mode()&fs.ModeSymlink == 0:
			err, at = u.check(next, info), next
		case processFile(next): // its target is no path
			return nil, nil
		case shared && !u.own(info):
			return nil, u.foreign(next, info)
		default:
			var to string
			if to, err = os.Readlink(next); err != nil {
				break
			}
			if links++; links > maxLinks {
				return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
			}
			if filepath.IsAbs(to) {
				at = "/"
			}
			left = append(parts(to), left...)
			info, err = os.Lstat(at)
		}
	}
	return info, err
}

// parts returns the elements of a path.
func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

// processFile reports whether a link names a file that a process has open, as /dev/stdin does in the end.
func processFile(link string) bool {
	dir, _ := filepath.Split(link)
	return strings.HasPrefix(link, "/proc/") && strings.HasSuffix(dir, "/fd/")
}

// own reports whether one of u is the owner.
func (u Users) own(info fs.FileInfo) bool {
	uid, ok := ownerOf(info)
	return ok && slices.Contains(u, uid)
}

// foreign returns the error for a file whose owner is not one of u.
func (u Users) foreign(path string, info fs.FileInfo) error {
	uid, ok := ownerOf(info)
	if !ok {
		return errors.New(path + " has no owner that is known")
	}
	return &Error{Path: path, Reason: fmt.Sprintf("belongs to user %d", uid)}
}

// check checks the owner and the mode of one file or folder.
func (u Users) check(path string, info fs.FileInfo) error {
	mode := info.Mode()
	switch {
	case !u.own(info):
		return u.foreign(path, info)
	case mode.IsDir() && mode&fs.ModeSticky != 0:
		return nil
	case mode.Perm()&otherWrite != 0:
	case mode.Perm()&groupWrite != 0 && !u.private(info):
	default:
		return nil
	}
	e := &Error{Path: path, Reason: fmt.Sprintf("can be written by others (mode %04o)", mode.Perm())}
	if e.Remedy = "chmod go-w " + quoted(path); mode.IsDir() && mode.Perm()&otherWrite == 0 {
		e.Reason = fmt.Sprintf("can be written by its group (mode %04o)", mode.Perm())
	}
	return e
}

// quoted returns a path as a shell reads it.
func quoted(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+,:@%=", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(sys.Uid), true
}
