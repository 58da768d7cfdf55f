package command

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// account is whom a program runs as.
type account struct {
	name   string
	uid    uint32
	gid    uint32
	groups []uint32
	change bool // this process is another user, and must become this one
}

// accountFor returns the account for a user's name, "" for the login's. A helper that sudo started is root, and its
// login is the user who called sudo.
func accountFor(ctx context.Context, as string, own bool) (account, error) {
	self := account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	caller := os.Getenv("SUDO_UID")
	if as == "" && !own && self.uid == 0 && caller != "" {
		as = caller
	}
	if as == "" {
		as = strconv.Itoa(int(self.uid))
	}
	u, err := lookUp(ctx, as)
	switch {
	case err != nil && as == strconv.Itoa(int(self.uid)): // a login without an entry has its rights all the same
		self.name = as
		return self, nil
	case err != nil:
		return self, err
	case u.UID == self.uid:
		self.name = u.Name
		return self, nil
	case self.uid != 0:
		return self, fmt.Errorf("this login (user id %d) may not become %s: that takes sudo", self.uid, u.Name)
	}
	groups, err := groupsOf(ctx, u)
	return account{name: u.Name, uid: u.UID, gid: u.GID, groups: groups, change: true}, err
}

// lookUp finds a user by name or number.
func lookUp(ctx context.Context, key string) (host.User, error) {
	if key == "" || key[0] == '-' || len(key) > 256 || strings.ContainsAny(key, ":\n\x00") {
		return host.User{}, fmt.Errorf("%q is %w", key, host.ErrUserName)
	}
	a, err := host.Command{}.Run(ctx, "getent", "passwd", "--", key)
	switch {
	case err != nil:
		return host.User{}, fmt.Errorf("asking getent: %w", err)
	case a.Code != 0:
		return host.User{}, fmt.Errorf("%w: %s", host.ErrNoUser, key)
	}
	return host.ParseUser(string(a.Out))
}

// groupsOf lists all groups of a user.
func groupsOf(ctx context.Context, u host.User) ([]uint32, error) {
	a, err := host.Command{}.Run(ctx, "id", "-G", "--", u.Name)
	if err != nil || a.Code != 0 {
		return nil, fmt.Errorf("the groups of %s are not known: %s", u.Name, a.Complaint())
	}
	var groups []uint32
	for word := range strings.FieldsSeq(string(a.Out)) {
		id, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("reading the groups of %s: %w", u.Name, err)
		}
		groups = append(groups, uint32(id))
	}
	return groups, nil
}
