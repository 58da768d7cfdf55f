package terminal

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// mayLogIn refuses a login with a user id below minUID, which no tenant has, and an account that is locked or
// expired at now. The platform's signed task permits the login; this is the node's own check. Its error is an
// *Error.
//
// An account without a shadow entry, such as one from a directory, passes: only its directory knows its state.
func mayLogIn(ctx context.Context, u user, minUID uint32, now time.Time) error {
	if u.UID < minUID {
		return refused("user %q has the user id %d: terminals are for user ids from %d on", u.Name, u.UID, minUID)
	}
	a, err := host.Command{Limit: lookupTimeout}.Run(ctx, "getent", "shadow", "--", u.Name)
	if err == nil && a.Code == host.NoEntry {
		return nil
	}
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("getent ended with status %d: %s", a.Code, a.Complaint())
	}
	if err != nil {
		return &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("look up the account of user %q: %w", u.Name, err)}
	}
	if why := accountState(string(a.Out), now); why != "" {
		return refused("the account of user %q %s", u.Name, why)
	}
	return nil
}

func refused(format string, args ...any) error {
	return &Error{Code: wire.CodeUserRefused, Err: fmt.Errorf(format, args...)}
}

// accountState returns why the account in a shadow(5) line may not log in; "" if it may. A password field of only
// exclamation marks is an account that never had a password, as useradd creates it, and is not locked.
func accountState(line string, now time.Time) string {
	f := strings.Split(strings.TrimRight(line, "\n"), ":")
	if len(f) != 9 {
		return fmt.Sprintf("has a shadow line of %d fields", len(f))
	}
	if password, locked := strings.CutPrefix(f[1], "!"); locked && strings.Trim(password, "!") != "" {
		return "is locked"
	}
	if f[7] == "" {
		return ""
	}
	days, err := strconv.ParseInt(f[7], 10, 32)
	switch {
	case err != nil:
		return "has an expiry date that cannot be read"
	case days >= 0 && now.Unix()/(24*60*60) >= days:
		return "expired on " + time.Unix(days*24*60*60, 0).UTC().Format(time.DateOnly)
	}
	return ""
}
