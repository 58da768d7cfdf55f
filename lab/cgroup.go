//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// killBudget bounds the end of a machine's processes after cgroup.kill; measured: 79 ms.
const killBudget = 5 * time.Second

// hierarchies holds the mount points of the cgroup trees that systemd in a machine uses.
type hierarchies struct {
	v2    string // always there
	named string // cgroup v1's name=systemd on a hybrid host, else ""
}

func findHierarchies() (hierarchies, error) {
	var h hierarchies
	for _, m := range mounts() {
		switch {
		case m.Kind == "cgroup2" && h.v2 == "":
			h.v2 = m.Point
		case m.Kind == "cgroup" && m.HasSuper("name=systemd") && h.named == "":
			h.named = m.Point
		}
	}
	if h.v2 == "" {
		return h, errors.New("no cgroup v2 hierarchy is mounted on this host")
	}
	return h, nil
}

// group is one machine's cgroup: the supervisor is in the sub-group loop, the machine in machine. They are
// separate because systemd-nspawn must not share its cgroup with one of our processes once it delegates
// controllers.
type group struct {
	h    hierarchies
	path string // below each hierarchy's root
}

const (
	loopGroup    = "loop"
	machineGroup = "machine"
)

// labGroup is the parent of all groups of this lab. The id separates labs that share only cgroups, such as in
// containers on one host. A lab of version 1 has no id.
func (l *Lab) labGroup() string {
	if l.state.ID == "" {
		return "gpuaas-lab"
	}
	return "gpuaas-lab-" + l.state.ID
}

// groupOf returns the cgroup of a machine: on a systemd host that of the unit, otherwise our own.
func (l *Lab) groupOf(m Machine) (group, error) {
	h, err := findHierarchies()
	if err != nil {
		return group{}, err
	}
	if host.Booted() {
		return group{h, filepath.Join("system.slice", unitOf(m))}, nil
	}
	return group{h, filepath.Join(l.labGroup(), m.Name)}, nil
}

func (g group) roots() []string {
	if g.h.named == "" {
		return []string{g.h.v2}
	}
	return []string{g.h.v2, g.h.named}
}

// join moves this process into the sub-group, which it creates.
func (g group) join(sub string) error {
	for _, root := range g.roots() {
		dir := filepath.Join(root, g.path, sub)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return nil
}

// enter moves this process into a sub-group of the machine's.
func (l *Lab) enter(m Machine, sub string) (group, error) {
	g, err := l.groupOf(m)
	if err != nil {
		return g, err
	}
	return g, g.join(sub)
}

// pids lists the processes in the sub-group ("" for all) and below it.
func (g group) pids(sub string) []int {
	var pids []int
	top := filepath.Join(g.h.v2, g.path, sub)
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil // a group that has disappeared has no processes
		}
		data, _ := os.ReadFile(path)
		for _, f := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// cpu returns the CPU time of the group's processes, including those that have exited.
func (g group) cpu() (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join(g.h.v2, g.path, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if us, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(us), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, errors.New("cpu.stat has no usage_usec")
}

// kill kills every process of the sub-group ("" for all), waits until none is left, and removes the groups.
func (g group) kill(ctx context.Context, sub string) error {
	top := filepath.Join(g.h.v2, g.path, sub)
	if _, err := os.Stat(top); err != nil {
		return g.remove(sub)
	}
	deadline := time.Now().Add(killBudget)
	for {
		err := os.WriteFile(filepath.Join(top, "cgroup.kill"), []byte("1"), 0)
		if err != nil && !gone(err) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("kill cgroup: %w", err)
		}
		left := g.pids(sub)
		if len(left) == 0 {
			return g.remove(sub)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("processes %v of cgroup %s did not end within %s", left, g.path, killBudget)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// remove deletes the sub-group and the groups below it in both hierarchies.
func (g group) remove(sub string) error {
	return forAll(g.roots(), func(root string) error { return removeGroups(filepath.Join(root, g.path, sub)) })
}

// removeGroups deletes a folder of cgroups, the deepest first. A group is busy until its last process is reaped.
func removeGroups(top string) error {
	var dirs []string
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, d := range dirs {
		var err error
		for range 200 {
			if err = unix.Rmdir(d); err == nil || errors.Is(err, unix.ENOENT) {
				err = nil
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("remove cgroup %s: %w", d, err)
		}
	}
	return nil
}
