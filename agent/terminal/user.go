package terminal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// lookupTimeout bounds one NSS query, which may go to a directory server.
const lookupTimeout = 5 * time.Second

// user is an account as the host's name service reports it.
type user struct {
	host.User
	groups []uint32
}

// UserID returns a login's id from the host's name service. Its error is an *Error.
func UserID(ctx context.Context, name string) (uint32, error) {
	u, err := find(ctx, name)
	if err != nil {
		return u.UID, overruled(ctx, err)
	}
	return u.UID, nil
}

// lookup is find plus the login's groups; it refuses a login without a usable shell. Its error is an *Error.
func lookup(ctx context.Context, name string) (user, error) {
	entry, err := find(ctx, name)
	if err != nil {
		return user{}, err
	}
	ids, err := groups(ctx, name)
	if err != nil {
		return user{}, &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("look up the groups of %q: %w", name, err)}
	}
	if err := host.UsableShell(entry.Shell); err != nil {
		return user{}, &Error{Code: wire.CodeShellMissing, Err: fmt.Errorf("shell of user %q: %w", name, err)}
	}
	return user{entry, ids}, nil
}

func find(ctx context.Context, name string) (host.User, error) {
	u, err := host.FindUser(ctx, host.Command{Limit: lookupTimeout}.Run, name)
	if err == nil {
		return u, nil
	}
	code := wire.CodePTYFailed
	if errors.Is(err, host.ErrNoUser) || errors.Is(err, host.ErrUserName) {
		code = wire.CodeUserMissing
	}
	return u, &Error{Code: code, Err: fmt.Errorf("look up user %q: %w", name, err)}
}

func groups(ctx context.Context, name string) ([]uint32, error) {
	out, err := host.Command{Limit: lookupTimeout}.Output(ctx, "id", "-G", "--", name)
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
