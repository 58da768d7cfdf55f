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

// login identifies the user whose processes are searched for.
type login struct {
	uid         uint32
	subordinate []span
}

// span is a half-open range of user ids.
type span struct{ from, to uint64 }

func (s span) has(id uint32) bool { return s.from <= uint64(id) && uint64(id) < s.to }
func (s span) meets(o span) bool  { return s.from < o.to && o.from < s.to }
func (l login) owns(id uint32) bool {
	return id == l.uid || slices.ContainsFunc(l.subordinate, func(s span) bool { return s.has(id) })
}

// has reports whether a process belongs to the login: by its real id, which a set-user-id root program keeps, or
// because it is in the login's slice and none of its ids is root's or a system user's.
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

// listProcesses scans all processes, and calls act, if it is not nil, for each of the login's as soon as it is found.
// It returns those; sure reports that the login has no process left. A listed process that exits before it is read may
// have been the login's and may have left an unlisted child: look lists processes again, and reads only new ones,
// until none exits in between or ctx is done. A zombie does not count.
func (h Host) listProcesses(ctx context.Context, l login, act func(login, int)) (found []Process, sure bool,
	err error) {
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

// standing is the state of a process.
type standing int

const (
	running standing = iota
	ended
	gone
)

// process reads one process. If its state cannot be read, it counts as ended.
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
	if !known || (over && s.Number("Threads") <= 1) { // an ended first thread hides the state of the others
		return p, ended
	}
	return p, running
}

// inSlice reports whether a process is in systemd's slice of a user, or in the unit of one of its terminals.
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

// subordinate reads the ids that the host assigns to a login for its containers. It skips a range that begins
// below the tenants' ids or that another login has as well.
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
