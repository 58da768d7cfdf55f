package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// leftBudget is how long the host may take to be as before: the kernel removes the network of a killed machine late.
const leftBudget = 5 * time.Second

// nothingLeft compares the host with what it was, by tools that the lab does not use to remove its machines.
func nothingLeft(ctx context.Context, before map[string]bool) error {
	if command(ctx, nil, ".", nil, tool, "lab", "status") == nil {
		return fmt.Errorf("%s lab status finds a lab", tool)
	}
	var left []string
	for began := time.Now(); time.Since(began) < leftBudget; time.Sleep(200 * time.Millisecond) {
		after, err := listHost(ctx)
		if err != nil {
			return err
		}
		if left = added(before, after); len(left) == 0 {
			return nil
		}
	}
	return fmt.Errorf("left behind:\n%s", strings.Join(left, "\n"))
}

// added returns what is only in after.
func added(before, after map[string]bool) (lines []string) {
	for line := range after {
		if !before[line] {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// listHost lists what a lab has on a host: mounts, links, addresses, routes, namespaces, packet filters, processes.
func listHost(ctx context.Context) (map[string]bool, error) {
	seen := map[string]bool{}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 {
			seen["mount "+f[4]] = true
		}
	}
	for _, argv := range [][]string{{"ip", "netns"}, {"ip", "-br", "link"}, {"ip", "-br", "address"}, {"ip", "route"},
		{"ip", "rule"}, {"nft", "list", "tables"}} {
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
		for line := range strings.Lines(string(out)) {
			seen[strings.Join(argv, " ")+": "+strings.TrimSpace(line)] = true
		}
	}
	for _, dir := range []string{"/run/systemd/nspawn", "/run/systemd/nspawn/locks", "/run/netns"} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			seen[filepath.Join(dir, e.Name())] = true
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, path := range processes {
		group, _ := os.ReadFile(path)
		argv, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		text := strings.TrimSpace(strings.ReplaceAll(string(argv), "\x00", " "))
		if strings.Contains(string(group), "gpuaas-lab-") || strings.Contains(text, " lab supervise ") {
			seen["process "+filepath.Base(filepath.Dir(path))+" "+text] = true
		}
	}
	return seen, nil
}
