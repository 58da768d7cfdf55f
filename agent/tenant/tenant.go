// Package tenant kills every process of one login on this node, and reports the survivors. It finds them in the
// login's slice, if systemd keeps one, and by real user id everywhere else, so that a process that left its
// session, its parent or its control group is found as well. Ids that the host assigns to the login for its
// containers (/etc/subuid) count as the login's.
//
// It never touches a process of root or of a system user, or of any other login. It has no notion of tasks and
// allocations; package agent calls it.
package tenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

const (
	// nobody and its 16-bit twin are system users above the tenants' ids; allUsers is not a user.
	nobody, nobody16, allUsers = 65534, 65535, 1<<32 - 1

	// Patience is how long End tries by default: a process that survives SIGKILL for that long waits for a disk or
	// a driver.
	Patience = 10 * time.Second
	// between is the pause between two scans, and quiet the number of consecutive scans that must find nothing:
	// when process ids wrap around, a single scan may miss a process.
	between, quiet = 20 * time.Millisecond, 3
	// maxShown bounds the list of survivors.
	maxShown = 8
)

// ErrProtected is returned for a login whose processes may not be killed: root, a system user, or the agent's own.
var ErrProtected = errors.New("not a tenant's login")

// Host is the machine on which End works; the zero value is this one.
type Host struct {
	Proc    host.Proc     // default /proc
	Subuid  string        // default /etc/subuid
	First   uint32        // lowest id of a tenant; default host.FirstTenant, and never below it
	Timeout time.Duration // default Patience
}

func (h Host) withDefaults() Host {
	h.Subuid = cmp.Or(h.Subuid, "/etc/subuid")
	h.First, h.Timeout = max(h.First, host.FirstTenant), cmp.Or(h.Timeout, Patience)
	return h
}

// Process is a survivor.
type Process struct {
	PID   int
	Name  string // set by the process itself: any bytes
	State string // one letter of proc(5)
	uids  [4]uint32
}

// SurvivorsError is the error of End if processes survive.
type SurvivorsError struct{ Processes []Process }

// Error names at most eight survivors.
func (l *SurvivorsError) Error() string {
	shown := make([]string, 0, maxShown)
	for _, p := range l.Processes[:min(len(l.Processes), maxShown)] {
		shown = append(shown, fmt.Sprintf("%d %s (state %s)", p.PID, strconv.QuoteToASCII(p.Name), p.State))
	}
	more := ""
	if n := len(l.Processes) - len(shown); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "processes of the login are left: " + strings.Join(shown, ", ") + more
}

// Protected returns why a user id's processes may not be killed, nil if they may. first is the lowest id that may
// be, at least host.FirstTenant.
func Protected(uid, first uint32) error {
	switch {
	case uid < max(first, host.FirstTenant), uid == nobody, uid == nobody16, uid == allUsers:
		return fmt.Errorf("%w: user id %d is root's or a system user's", ErrProtected, uid)
	case uid == uint32(os.Getuid()), uid == uint32(os.Geteuid()):
		return fmt.Errorf("%w: user id %d is the agent's own", ErrProtected, uid)
	}
	return nil
}

// End kills every process of the login, and returns how many there were once none is left. Its error is
// ErrProtected, a *SurvivorsError, or why the result is unknown. It kills at once: a workload that needs a graceful
// stop is a unit, and is stopped before.
func (h Host) End(ctx context.Context, name string, uid uint32) (ended int, err error) {
	h = h.withDefaults()
	if err := Protected(uid, h.First); err != nil {
		return 0, err
	}
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("end the processes of user id %d: the agent does not run as root, so it may not see them all",
			uid)
	}
	l := login{uid: uid, subordinate: h.subordinate(name, uid)}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	seen := map[int]bool{}
	for empty := 0; empty < quiet; {
		found, sure, err := h.listProcesses(ctx, l, h.kill)
		for _, p := range found {
			seen[p.PID] = true
		}
		switch {
		case err != nil:
			return len(seen), err
		case ctx.Err() != nil && len(found) > 0:
			return len(seen) - len(found), &SurvivorsError{found}
		case ctx.Err() != nil:
			return len(seen), fmt.Errorf(
				"search for processes of user id %d: they start and exit too fast to be sure within %s that none is left",
				uid, h.Timeout)
		case !sure:
			empty = 0
			continue // at once: the processes found may have forked since
		}
		empty++
		sleep.For(ctx, between)
	}
	return len(seen), nil
}

// kill stops a process, so that it cannot fork while it dies, and kills it.
func (h Host) kill(l login, pid int) {
	h.signal(l, pid, unix.SIGSTOP)
	h.signal(l, pid, unix.SIGKILL)
}

// signal sends sig to a process if it is still the login's: its number may have been reused.
func (h Host) signal(l login, pid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone, or found again by the next scan
	}
	defer unix.Close(fd)
	if p, is := h.process(pid); is == running && l.has(p, h) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // a process that is not reached is found again and reported
	}
}
