package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/wire"
)

// lookupTimeout bounds one question to NSS, which may ask a directory server.
const lookupTimeout = 5 * time.Second

// user is a login as the host's name service has it.
type user struct {
	name, home, shell string
	uid, gid          uint32
	groups            []uint32
}

// UserID is the id that the host's name service gives to a login. Its error is an *Error.
func UserID(ctx context.Context, name string) (uint32, error) {
	u, err := passwd(ctx, name)
	return u.uid, err
}

// lookup asks getent and id: a static binary sees neither NSS nor SSSD by itself. Its error is an *Error.
func lookup(ctx context.Context, name string) (user, error) {
	u, err := passwd(ctx, name)
	if err != nil {
		return user{}, err
	}
	if u.groups, err = groups(ctx, name); err != nil {
		return user{}, &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("look up the groups of %q: %w", name, err)}
	}
	if err := usableShell(u.shell); err != nil {
		return user{}, &Error{Code: wire.CodeShellMissing, Err: fmt.Errorf("shell of user %q: %w", name, err)}
	}
	return u, nil
}

// passwd is lookup without groups and shell.
func passwd(ctx context.Context, name string) (user, error) {
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, ":\n\x00") {
		return user{}, &Error{Code: wire.CodeUserMissing, Err: fmt.Errorf("%q is not a login name", name)}
	}
	out, err := ask(ctx, "getent", "passwd", name)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 2: // getent: the key was not found
		return user{}, &Error{Code: wire.CodeUserMissing, Err: fmt.Errorf("no user %q on this node", name)}
	case err != nil:
		return user{}, &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("look up user %q: %w", name, err)}
	}
	u, err := parsePasswd(out)
	if err != nil {
		return user{}, &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("look up user %q: %w", name, err)}
	}
	if u.name != name { // getent takes a number for a user id
		return user{}, &Error{Code: wire.CodeUserMissing, Err: fmt.Errorf("no user %q on this node", name)}
	}
	return u, nil
}

// parsePasswd reads a passwd(5) line. An empty shell means /bin/sh.
func parsePasswd(line string) (user, error) {
	f := strings.Split(strings.TrimRight(line, "\n"), ":")
	if len(f) != 7 {
		return user{}, fmt.Errorf("a passwd line of %d fields", len(f))
	}
	uid, err := strconv.ParseUint(f[2], 10, 32)
	if err != nil {
		return user{}, fmt.Errorf("user id: %w", err)
	}
	gid, err := strconv.ParseUint(f[3], 10, 32)
	if err != nil {
		return user{}, fmt.Errorf("group id: %w", err)
	}
	u := user{name: f[0], uid: uint32(uid), gid: uint32(gid), home: f[5], shell: f[6]}
	if u.shell == "" {
		u.shell = "/bin/sh"
	}
	return u, nil
}

func groups(ctx context.Context, name string) ([]uint32, error) {
	out, err := ask(ctx, "id", "-G", name)
	if err != nil {
		return nil, err
	}
	var ids []uint32
	for _, f := range strings.Fields(out) {
		id, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("group id: %w", err)
		}
		ids = append(ids, uint32(id))
	}
	return ids, nil
}

func usableShell(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !fi.Mode().IsRegular(), fi.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s cannot be executed", path)
	}
	return nil
}

// ask runs a host tool and gives its output; the error carries its last words.
func ask(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = 200 * time.Millisecond
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%s: %w %s", argv[0], err, strings.TrimSpace(words.String()))
	}
	return out.String(), nil
}
