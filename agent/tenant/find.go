package tenant

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// login is whose processes are looked for.
type login struct {
	uid         uint32
	subordinate []span
}

// span is a range of user ids, the last one excluded.
type span struct{ from, to uint64 }

func (s span) has(id uint32) bool { return s.from <= uint64(id) && uint64(id) < s.to }
func (s span) meets(o span) bool  { return s.from < o.to && o.from < s.to }
func (l login) owns(id uint32) bool {
	return id == l.uid || slices.ContainsFunc(l.subordinate, func(s span) bool { return s.has(id) })
}

// has reports whether a process is the login's: by its real id, which a set-user-id program of root keeps, or because
// it is in the login's slice and nothing of it is root's or a system user's.
func (l login) has(p Process, h Host) bool {
	if l.owns(p.uids[0]) {
		return true
	}
	for _, id := range p.uids {
		if Protected(id, h.First) != nil {
			return false
		}
	}
	return h.inSlice(p.PID, l.uid)
}

// look goes through all processes and calls act, where it is given, for each of the login's as soon as it sees it. It
// returns those; sure reports that the login has no process left. A process that was listed and gone before it was
// read may have been the login's, and have left a child that is not on the list: the list is made again, and only
// what is new on it is read, until nothing went away in between or ctx is done. A zombie does not count.
func (h Host) look(ctx context.Context, l login, act func(login, int)) (found []Process, sure bool, err error) {
	others := map[int]bool{os.Getpid(): true}
	for {
		pids, err := h.Proc.PIDs(-1)
		if err != nil {
			return nil, false, fmt.Errorf("list processes: %w", err)
		}
		sure = true
		for _, pid := range pids {
			if others[pid] {
				continue
			}
			p, is := h.process(pid)
			switch {
			case is == gone:
				sure = false
			case is == running && l.has(p, h):
				if act != nil {
					act(l, pid)
				}
				found = append(found, p)
			default:
				others[pid] = true
			}
		}
		if sure || len(found) > 0 {
			return found, sure && len(found) == 0, nil
		}
		if ctx.Err() != nil {
			return nil, false, nil
		}
	}
}

// standing is how a process fares.
type standing int

const (
	running standing = iota
	ended
	gone
)

// process reads one process. One whose state cannot be read is taken for ended.
func (h Host) process(pid int) (Process, standing) {
	s, err := h.Proc.Status(pid)
	if err != nil {
		return Process{}, gone
	}
	p := Process{PID: pid, Name: s.Value("Name")}
	p.State, _, _ = strings.Cut(s.Value("State"), " ")
	uids, known := s.UIDs()
	p.uids = uids
	over := p.State == "Z" || p.State == "X"
	if !known || (over && s.Number("Threads") <= 1) { // a first thread that ended hides the others' state
		return p, ended
	}
	return p, running
}

// inSlice reports whether a process is in the slice that systemd keeps for a user, or in the unit of one of its
// terminals.
func (h Host) inSlice(pid int, uid uint32) bool {
	groups, err := h.Proc.Cgroups(pid)
	if err != nil {
		return false
	}
	slice := fmt.Sprintf("/user.slice/user-%d.slice", uid)
	terminal := "/gpuaas.slice/" + SessionSlice + "/" + SessionPrefix(uid)
	return slices.ContainsFunc(groups, func(g host.Cgroup) bool {
		return g.Path == slice || strings.HasPrefix(g.Path, slice+"/") || strings.HasPrefix(g.Path, terminal)
	})
}

// subordinate reads which ids the host gives to a login for its containers. A range that begins below the tenants' ids,
// or that another login has as well, belongs to no login.
func (h Host) subordinate(name string, uid uint32) []span {
	file, err := os.Open(h.Subuid)
	if err != nil {
		return nil
	}
	defer file.Close()
	var own, others []span
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		f := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(f) != 3 {
			continue
		}
		from, bad := strconv.ParseUint(f[1], 10, 32)
		count, worse := strconv.ParseUint(f[2], 10, 32)
		if bad != nil || worse != nil {
			continue
		}
		s := span{from, from + count}
		if f[0] == name || f[0] == strconv.FormatUint(uint64(uid), 10) {
			own = append(own, s)
		} else {
			others = append(others, s)
		}
	}
	return slices.DeleteFunc(own, func(s span) bool {
		return s.from <= nobody16 || slices.ContainsFunc(others, s.meets)
	})
}
