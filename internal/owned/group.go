package owned

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// private reports whether the group of a file has no member but u.
func (u Users) private(info fs.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	groups, err := os.ReadFile("/etc/group")
	if err != nil {
		return false
	}
	users, err := os.ReadFile("/etc/passwd")
	return err == nil && u.alone(strconv.Itoa(int(sys.Gid)), string(groups), string(users))
}

// alone is private for the group gid, by the texts of /etc/group and /etc/passwd.
func (u Users) alone(gid, groups, users string) bool {
	var members []string
	listed := false
	for line := range strings.Lines(groups) { // name:password:gid:member,member
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 4 && f[2] == gid {
			listed = true
			members = append(members, strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' })...)
		}
	}
	for line := range strings.Lines(users) { // name:password:uid:gid:...
		f := strings.Split(line, ":")
		if len(f) < 4 {
			continue
		}
		uid, err := strconv.Atoi(f[2])
		ours := err == nil && slices.Contains(u, uid)
		if f[3] == gid && !ours {
			return false
		}
		if ours {
			members = slices.DeleteFunc(members, func(m string) bool { return m == f[0] })
		}
	}
	return listed && len(members) == 0
}
