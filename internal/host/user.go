package host

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
	"syscall"
)

// User is an entry of the user database.
type User struct {
	Name, Home, Shell string
	UID, GID          uint32
}

var (
	// ErrNoUser means that the name is not in the user database.
	ErrNoUser = errors.New("no such user")
	// ErrUserName means that a text is not a valid login name, so nothing was looked up.
	ErrUserName = errors.New("not a login name")
)

// longestName is longer than any directory allows.
const longestName = 256

// FindUser looks up name in the user database (files, LDAP, SSSD) with getent, since a static program sees only the
// files. A number is not taken for a user id. run is how the caller runs a program.
func FindUser(ctx context.Context, run Runner, name string) (User, error) {
	if name == "" || len(name) > longestName || name[0] == '-' || strings.ContainsFunc(name, notOfName) {
		return User{}, fmt.Errorf("%q is %w", name, ErrUserName)
	}
	a, err := run(ctx, "getent", "passwd", "--", name)
	switch {
	case err != nil:
		return User{}, fmt.Errorf("asking getent: %w", err)
	case a.Code == NoEntry:
		return User{}, fmt.Errorf("%w: %s", ErrNoUser, name)
	case a.Code != 0:
		return User{}, fmt.Errorf("getent ended with status %d: %s", a.Code, a.Complaint())
	}
	u, err := ParseUser(string(a.Out))
	if err == nil && u.Name != name {
		return User{}, fmt.Errorf("%w: %s", ErrNoUser, name)
	}
	return u, err
}

func notOfName(r rune) bool { return r == ':' || r < ' ' || r == 0x7f }

// NoEntry is getent's exit code for a key that its database does not have.
const NoEntry = 2

// ParseUser parses the first line of a text, name:password:uid:gid:gecos:home:shell. An empty shell is /bin/sh, see
// passwd(5).
func ParseUser(text string) (User, error) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Split(line, ":")
	if len(f) != 7 {
		return User{}, fmt.Errorf("a passwd line of %d fields", len(f))
	}
	uid, err1 := strconv.ParseUint(f[2], 10, 32)
	gid, err2 := strconv.ParseUint(f[3], 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return User{}, fmt.Errorf("reading a passwd line: %w", err)
	}
	u := User{Name: f[0], UID: uint32(uid), GID: uint32(gid), Home: f[5], Shell: f[6]}
	u.Shell = cmp.Or(u.Shell, "/bin/sh")
	return u, nil
}

// UsableShell returns why a shell could not start a session, or nil. A program that only refuses logins is not usable.
// Whether it can be executed is asked of the kernel, so that noexec file systems and access lists count; for root, any
// execute bit is enough.
func UsableShell(shell string) error {
	fi, err := os.Stat(shell)
	switch {
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s is not a program", shell)
	}
	switch filepath.Base(shell) {
	case "nologin", "false", "true", "sync", "shutdown", "halt":
		return fmt.Errorf("%s refuses logins", shell)
	}
	const execute = 1
	if err := syscall.Access(shell, execute); err != nil {
		return &fs.PathError{Op: "access", Path: shell, Err: err}
	}
	return nil
}
