//go:build linux

package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is USER_HZ, in which the kernel reports times to user space on every architecture that we run on.
const ticks = 100

// procStat is what we need of /proc/PID/stat.
type procStat struct {
	state   string
	group   int
	session int
	started uint64 // ticks after boot
}

func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(b)
}

// parseStat reads past the command name, which may hold anything, blanks and brackets too.
func parseStat(b []byte) (procStat, error) {
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return procStat{}, errors.New("the process status is too short")
	}
	s := procStat{state: fields[0]}
	var errs [3]error
	s.group, errs[0] = strconv.Atoi(fields[2])
	s.session, errs[1] = strconv.Atoi(fields[3])
	s.started, errs[2] = strconv.ParseUint(fields[19], 10, 64)
	return s, errors.Join(errs[:]...)
}

// startTime identifies a process together with its PID; 0 when there is none, or none any more.
func startTime(pid int) uint64 {
	if pid <= 0 {
		return 0
	}
	s, err := readStat(pid)
	if err != nil || s.state == "Z" || s.state == "X" {
		return 0
	}
	return s.started
}

// hostUptime is the seconds since boot.
func hostUptime() (float64, error) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), " ")
	return strconv.ParseFloat(first, 64)
}

// uptimeOf is how long a process has run, in whole seconds; nil when it cannot be told.
func uptimeOf(s procStat) *int64 {
	up, err := hostUptime()
	if err != nil {
		return nil
	}
	secs := max(0, int64(up-float64(s.started)/ticks))
	return &secs
}

// rssOf is a process's resident memory in bytes; nil when it cannot be told.
func rssOf(pid int) *int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return nil
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return nil
	}
	size := pages * int64(os.Getpagesize())
	return &size
}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// cgroupOf is a process's folder of the unified hierarchy, and of the freezer of the old one; "" where there is none.
func cgroupOf(pid int) (unified, freezer string) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", ""
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			unified = cgroupFolder(mounts, "cgroup2", "", parts[2])
		case parts[1] == "freezer":
			freezer = cgroupFolder(mounts, "cgroup", "freezer", parts[2])
		}
	}
	return unified, freezer
}

// cgroupFolder is where path of the hierarchy is mounted; "" when it is not.
func cgroupFolder(mounts []byte, kind, controller, path string) string {
	for line := range strings.Lines(string(mounts)) {
		mount, k, ok := mountLine(line)
		if !ok || k != kind || (controller != "" && !hasOption(line, controller)) {
			continue
		}
		dir := filepath.Join(mount, path)
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return ""
}

// hasOption looks at a mountinfo line's super block options, its last field.
func hasOption(line, option string) bool {
	fields := strings.Fields(line)
	for o := range strings.SplitSeq(fields[len(fields)-1], ",") {
		if o == option {
			return true
		}
	}
	return false
}

// frozen reports whether the process's control group, or one above it, is frozen: its state then reads S or R still.
func frozen(pid int) bool {
	unified, freezer := cgroupOf(pid)
	if unified != "" {
		b, err := os.ReadFile(filepath.Join(unified, "cgroup.events"))
		if err == nil && strings.Contains("\n"+string(b), "\nfrozen 1") {
			return true
		}
		// Until the last task has stopped, events says 0 while freeze says 1.
		b, err = os.ReadFile(filepath.Join(unified, "cgroup.freeze"))
		if err == nil && strings.TrimSpace(string(b)) == "1" {
			return true
		}
	}
	if freezer != "" {
		b, err := os.ReadFile(filepath.Join(freezer, "freezer.state"))
		return err == nil && strings.TrimSpace(string(b)) != "THAWED"
	}
	return false
}

// cgroupPIDs lists the processes of a unit by its main one: everything in and under its unified control group, or the
// main process alone where there is no such group of its own. At most 512.
func cgroupPIDs(main int, controlGroup string) []int {
	unified, _ := cgroupOf(main)
	// The root group, or that of a session, holds processes of others.
	if unified == "" || controlGroup == "" || !strings.HasSuffix(unified, controlGroup) {
		return []int{main}
	}
	var pids []int
	_ = filepath.WalkDir(unified, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || len(pids) >= 512 {
			return nil
		}
		b, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		for field := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if len(pids) == 0 {
		return []int{main}
	}
	return pids
}
