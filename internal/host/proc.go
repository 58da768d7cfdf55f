package host

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Proc is the folder where proc is mounted; "" is /proc.
type Proc string

// This is the proc of this machine.
const This Proc = ""

// Thread as a pid stands for the reading thread.
const Thread = 0

// Path returns the path of a file or folder of a process.
func (p Proc) Path(pid int, elem ...string) string {
	whose := "thread-self"
	if pid != Thread {
		whose = strconv.Itoa(pid)
	}
	return filepath.Join(append([]string{cmp.Or(string(p), "/proc"), whose}, elem...)...)
}

// PIDs lists the processes by number; if there are more than most, only some of them. most is -1 for all.
func (p Proc) PIDs(most int) ([]int, error) {
	dir, err := os.Open(cmp.Or(string(p), "/proc"))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(most)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, err
}

// Stat is a process's /proc/PID/stat.
type Stat struct {
	State          string // one letter, see proc(5)
	Name           string // as the process calls itself: any bytes
	Group, Session int
	Started        uint64 // ticks after boot; with the pid it identifies the process
}

// Stat reads a process. Its error is os.ErrNotExist or ESRCH if the process has ended.
func (p Proc) Stat(pid int) (Stat, error) {
	text, err := Read(p.Path(pid, "stat"), Small)
	if err != nil {
		return Stat{}, err
	}
	return parseStat(text)
}

// parseStat skips the name, which is in parentheses and may contain anything, including blanks and parentheses.
func parseStat(text string) (Stat, error) {
	from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[to+1:])
	if from < 0 || to < from || len(fields) < 20 {
		return Stat{}, errors.New("the process status is too short")
	}
	s := Stat{State: fields[0], Name: text[from+1 : to]}
	var errs [3]error
	s.Group, errs[0] = strconv.Atoi(fields[2])
	s.Session, errs[1] = strconv.Atoi(fields[3])
	s.Started, errs[2] = strconv.ParseUint(fields[19], 10, 64)
	return s, errors.Join(errs[:]...)
}

// Stopped reports whether the process is stopped by a signal or by a debugger.
func (s Stat) Stopped() bool { return s.State == "T" || s.State == "t" }

// Ended reports whether the process has ended, even if its parent has not reaped it.
func (s Stat) Ended() bool { return s.State == "Z" || s.State == "X" }

// Status is the text of /proc/PID/status.
type Status string

// Status reads a process.
func (p Proc) Status(pid int) (Status, error) {
	text, err := Read(p.Path(pid, "status"), Small)
	return Status(text), err
}

// Value returns the text after a name; "" if it is missing.
func (s Status) Value(name string) string {
	for line := range strings.Lines(string(s)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Number returns a value's number, without its unit; 0 if it is missing.
func (s Status) Number(name string) int64 {
	first, _, _ := strings.Cut(s.Value(name), " ")
	n, _ := strconv.ParseInt(first, 10, 64)
	return n
}

// InnerPID returns the process's number in its own PID namespace; 0 if that is ours, or the process is gone.
func (s Status) InnerPID() int {
	f := strings.Fields(s.Value("NSpid"))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[len(f)-1])
	return n
}

// UIDs returns the real, effective, saved and file system user id.
func (s Status) UIDs() (ids [4]uint32, ok bool) {
	fields := strings.Fields(s.Value("Uid"))
	if len(fields) != len(ids) {
		return ids, false
	}
	for i := range fields {
		id, err := strconv.ParseUint(fields[i], 10, 32)
		if err != nil {
			return ids, false
		}
		ids[i] = uint32(id)
	}
	return ids, true
}

// RealUser returns a process's real user id, which a set-user-id program keeps.
func (p Proc) RealUser(pid int) (uid uint32, ok bool) {
	s, err := p.Status(pid)
	if err != nil {
		return 0, false
	}
	ids, ok := s.UIDs()
	return ids[0], ok
}

// Cgroup is a process's control group in one hierarchy.
type Cgroup struct {
	Unified     bool
	Controllers []string // of a cgroup v1 hierarchy
	Path        string
}

// Cgroups reads the control groups of a process.
func (p Proc) Cgroups(pid int) ([]Cgroup, error) {
	text, err := Read(p.Path(pid, "cgroup"), Small)
	var all []Cgroup
	for line := range strings.Lines(text) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			all = append(all, Cgroup{f[0] == "0" && f[1] == "", strings.Split(f[1], ","), f[2]})
		}
	}
	return all, err
}

// ticks is USER_HZ, the unit of times from the kernel to user space on every architecture that we run on.
const ticks = 100

// Uptime returns the time since boot.
func (p Proc) Uptime() (time.Duration, error) {
	text, err := Read(filepath.Join(cmp.Or(string(p), "/proc"), "uptime"), Small)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(text, " ")
	seconds, err := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second)), err
}

// Age returns how long a process has run.
func (p Proc) Age(s Stat) (time.Duration, error) {
	up, err := p.Uptime()
	return up - time.Duration(s.Started)*(time.Second/ticks), err
}

// BootID returns the id of the machine's current boot; "" if it cannot be read.
func (p Proc) BootID() string {
	text, _ := Read(filepath.Join(cmp.Or(string(p), "/proc"), "sys/kernel/random/boot_id"), Small)
	return strings.TrimSpace(text)
}
