//go:build linux

package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// watch observes what one lab may leave on a host. Other labs, in containers on the same host, may come and go at
// the same time.
type watch struct {
	opts Options
	ids  []string // of every lab that was in the state folder so far
}

// note remembers the lab in the state folder; call it before the lab is removed.
func (w *watch) note() {
	if st, err := readState(w.opts.StateDir); err == nil && !slices.Contains(w.ids, st.ID) {
		w.ids = append(w.ids, st.ID)
	}
}

// look lists mounts, namespaces, links, addresses, routes, cgroups, processes, and the contents of folders that
// systemd-nspawn and ip share with other programs.
func (w *watch) look(t *testing.T) []string {
	t.Helper()
	var seen []string
	add := func(what string, lines ...string) {
		for _, l := range lines {
			if l = strings.TrimSpace(l); l != "" {
				seen = append(seen, what+" "+l)
			}
		}
	}
	for _, m := range mounts() {
		add("mount", m.Point+" "+m.Kind)
	}
	for _, argv := range [][]string{{"ip", "netns"}, {"ip", "-br", "link"}, {"ip", "-br", "address"}, {"ip", "route"},
		{"ip", "rule"}} {
		out, err := command(t.Context(), argv...)
		if err != nil {
			t.Fatal(err)
		}
		add(strings.Join(argv, " "), strings.Split(out, "\n")...)
	}
	h, err := findHierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range w.ids {
		for _, root := range (group{h: h}).roots() {
			if exists(filepath.Join(root, "gpuaas-lab-"+id)) {
				add("cgroup", filepath.Join(root, "gpuaas-lab-"+id))
			}
		}
	}
	for _, dir := range [...]string{nspawnDir, netnsDir, nspawnDir + "/locks", nspawnDir + "/propagate"} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			add("in "+dir, e.Name())
		}
	}
	add("process", w.processes()...)
	slices.Sort(seen)
	return seen
}

// processes lists processes in the lab's cgroups or with its state folder in their command line.
func (w *watch) processes() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(cmdline) == 0 { // a kernel thread, or a zombie
			continue
		}
		text := strings.ReplaceAll(string(cmdline), "\x00", " ")
		groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		ours := strings.Contains(text, w.opts.StateDir)
		for _, id := range w.ids {
			ours = ours || strings.Contains(string(groups), "gpuaas-lab-"+id)
		}
		if ours && filepath.Base(dir) != strconv.Itoa(os.Getpid()) {
			found = append(found, filepath.Base(dir)+" "+text)
		}
	}
	return found
}

// supervisors counts m's supervisors. The child that becomes the machine has another command line.
func supervisors(l *Lab, m Machine) int {
	n := 0
	for _, p := range (&watch{opts: l.opts}).processes() {
		if strings.Contains(p, "lab supervise "+m.Name+" --state "+l.opts.StateDir) && !strings.Contains(p, "--spawn") {
			n++
		}
	}
	return n
}

func diff(t *testing.T, before, after []string) {
	t.Helper()
	for _, l := range after {
		if !slices.Contains(before, l) {
			t.Errorf("left behind: %s", l)
		}
	}
	for _, l := range before {
		if !slices.Contains(after, l) {
			t.Errorf("removed: %s", l)
		}
	}
}
