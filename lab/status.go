//go:build linux

package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// MachineStatus is the output of `lab status` for one machine. Memory is the proportional set size (PSS) of its
// processes, including systemd-nspawn, in bytes; disk is the content of its writable layer, which is in RAM as
// well.
type MachineStatus struct {
	diag.Head

	Name          string   `json:"name"`
	State         string   `json:"state"` // off | booting | running
	Addresses     []string `json:"addresses"`
	UptimeSeconds *int64   `json:"uptime_s,omitempty"`
	BootID        string   `json:"boot_id,omitempty"`
	Processes     int      `json:"processes"`
	PSSBytes      int64    `json:"pss_bytes"`
	RSSBytes      int64    `json:"rss_bytes"`
	DiskUsed      int64    `json:"disk_used_bytes"`
	DiskSize      int64    `json:"disk_size_bytes"`
}

// Status returns the status of every machine.
func (l *Lab) Status(ctx context.Context) diag.Documents[MachineStatus] {
	var all diag.Documents[MachineStatus]
	for _, m := range l.Machines() {
		all = append(all, l.machineStatus(ctx, m))
	}
	return all
}

func (l *Lab) machineStatus(ctx context.Context, m Machine) MachineStatus {
	s := MachineStatus{Head: diag.NewHead("LabMachine"), Name: m.Name, State: "off", Addresses: m.Addresses}
	s.DiskUsed, s.DiskSize = diskUse(l.place(m).disk())
	g, err := l.groupOf(m)
	if err != nil {
		return s
	}
	for _, pid := range g.pids(machineGroup) {
		s.Processes++
		pss, rss := memory(pid)
		s.PSSBytes += pss
		s.RSSBytes += rss
	}
	if !l.running(m) {
		return s
	}
	s.State = "booting"
	ctx, cancel := context.WithTimeout(ctx, tryBudget)
	defer cancel()
	if l.answersSSH(ctx, m) != nil {
		return s
	}
	s.State = "running"
	out, err := l.Exec(ctx, m.Name, "cat", "/proc/uptime", "/proc/sys/kernel/random/boot_id")
	if f := strings.Fields(out); err == nil && len(f) == 3 {
		if up, err := strconv.ParseFloat(f[0], 64); err == nil {
			s.UptimeSeconds = new(int64(time.Duration(up * float64(time.Second)).Seconds()))
		}
		s.BootID = f[2]
	}
	return s
}

// CPU returns the CPU time of each machine's processes since the machine was started, by machine name.
func (l *Lab) CPU() (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	for _, m := range l.Machines() {
		g, err := l.groupOf(m)
		if err != nil {
			return nil, err
		}
		if used[m.Name], err = g.cpu(); err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", m.Name, err)
		}
	}
	return used, nil
}

// memory returns a process's proportional and resident memory in bytes; 0 if it has exited.
func memory(pid int) (pss, rss int64) {
	text, _ := host.Read(host.This.Path(pid, "smaps_rollup"), host.Small)
	s := host.Status(text)
	return s.Number("Pss") << 10, s.Number("Rss") << 10
}
