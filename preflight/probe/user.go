//go:build linux

package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/diag"
)

// isLoginName says what may be asked of getent; it cannot be taken for an option.
func isLoginName(s string) bool {
	return plainName(strings.TrimSuffix(s, "$"), `_.@\-`, 256) && s[0] != '@' && s[0] != '\\'
}

// plainName reports whether s is 1 to most letters, digits and marks, and does not begin with a dash.
func plainName(s, marks string, most int) bool {
	for i := range len(s) {
		if !alphanum(s[i]) && strings.IndexByte(marks, s[i]) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= most && s[0] != '-'
}

// noLogin are shells that exist to end a login.
var noLogin = map[string]bool{"nologin": true, "false": true, "true": true, "sync": true, "shutdown": true, "halt": true}

// passwd is one entry of the user database.
type passwd struct {
	name        string
	uid         uint32
	home, shell string
}

// user looks Target up by name, as the agent does. Words: user_missing, shell_missing, unsupported, timeout.
func (p *Prober) user(ctx context.Context, req diag.Request, f *diag.Fact) {
	pw, err := getent(ctx, req.Target)
	if err != nil {
		fail(f, "user", userWord(err), err)
		return
	}
	f.User = &diag.UserFacts{Name: pw.name, UID: int(pw.uid), Home: pw.home, Shell: pw.shell}
	home, err := os.Stat(pw.home)
	homeOK := err == nil && home.IsDir()
	shellErr := shellUsable(pw.shell)
	shellOK := shellErr == nil
	f.User.HomeOK, f.User.ShellOK = &homeOK, &shellOK
	if !shellOK {
		fail(f, "shell", diag.ShellMissing, shellErr)
	}
}

// errNoUser says that the user database has no such name.
var errNoUser = errors.New("no such user")

// getent asks the host's user database (files, LDAP, SSSD) by name. A number is not taken for a uid.
func getent(ctx context.Context, name string) (passwd, error) {
	if !isLoginName(name) {
		return passwd{}, fmt.Errorf("%q is no login name", name)
	}
	s, err := command(ctx, "getent", "passwd", "--", name)
	switch {
	case err != nil:
		return passwd{}, fmt.Errorf("asking getent: %w", err)
	case s.code == 2:
		return passwd{}, fmt.Errorf("%w: %s", errNoUser, name)
	case s.code != 0:
		return passwd{}, fmt.Errorf("getent ended with status %d: %s", s.code, s.errs)
	}
	pw, err := parsePasswd(s.out)
	if err == nil && pw.name != name {
		return passwd{}, fmt.Errorf("%w: %s", errNoUser, name)
	}
	return pw, err
}

// parsePasswd reads name:password:uid:gid:gecos:home:shell.
func parsePasswd(line []byte) (passwd, error) {
	first, _, _ := bytes.Cut(line, []byte("\n"))
	fields := strings.Split(string(first), ":")
	if len(fields) < 7 {
		return passwd{}, errors.New("getent gave no passwd entry")
	}
	uid, err := strconv.ParseUint(fields[2], 10, 32)
	if err != nil {
		return passwd{}, fmt.Errorf("reading a passwd entry: %w", err)
	}
	pw := passwd{name: fields[0], uid: uint32(uid), home: fields[5], shell: fields[6]}
	if pw.shell == "" {
		pw.shell = "/bin/sh" // passwd(5)
	}
	return pw, nil
}

// shellUsable says why a shell would not start a session.
func shellUsable(shell string) error {
	st, err := os.Stat(shell)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is no program", shell)
	case noLogin[filepath.Base(shell)]:
		return fmt.Errorf("%s refuses logins", shell)
	}
	const execute = 1
	if err := syscall.Access(shell, execute); err != nil {
		return &os.PathError{Op: "access", Path: shell, Err: err}
	}
	return nil
}

func userWord(err error) diag.Failure {
	switch {
	case errors.Is(err, errNoUser):
		return diag.UserMissing
	case errors.Is(err, context.DeadlineExceeded):
		return diag.Timeout
	case errors.Is(err, context.Canceled):
		return diag.Cancelled
	case errors.Is(err, exec.ErrNotFound):
		return diag.Unsupported
	}
	return diag.Unknown
}
