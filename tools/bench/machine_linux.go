package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/lab"
)

const (
	goalRSS    = 10.0 // in MiB; ARCHITECTURE.md lists what uses it
	goalCPU    = 2.0  // thousandths of a core
	goalWake   = 1.0  // a second
	goalBoot   = time.Second
	goalMemory = 80.0 // MB
	agentUnit  = "gpuaas-node-agent.service"
)

// machines measures the idle agent, and the cost of a lab machine.
func machines(ctx context.Context, b *bench, t *table) error {
	errAgent := b.agent(ctx, t)
	if errAgent != nil {
		t.skip("agent", errAgent)
	}
	for _, s := range b.lab.Status(ctx) {
		if s.Name == otherNode {
			mem := float64(s.PSSBytes) / mb
			t.aim("lab machine: memory (PSS of all its processes)", fmt.Sprintf("%.0f MB", mem), "< 80 MB",
				mem > 0 && mem < goalMemory)
		}
	}
	return b.boot(ctx, t)
}

// usage holds the kernel's counters of a process.
type usage struct {
	cpu      time.Duration
	switches int64
	threads  int
}

// tick is the sampling interval of the agent's usage.
const tick = 100 * time.Millisecond

// agent measures the node's agent while it only does its periodic work.
func (b *bench) agent(ctx context.Context, t *table) error {
	window := 20 * time.Second
	if b.quick {
		window = 5 * time.Second
	}
	pid, err := b.agentPID(ctx)
	if err != nil {
		return err
	}
	t.report("watching the agent for %s", window)
	first, err := usageOf(pid)
	if err != nil {
		return err
	}
	began, last, bursts, busy := time.Now(), first, 0, false
	for time.Since(began) < window && ctx.Err() == nil {
		time.Sleep(tick)
		now, err := usageOf(pid)
		if err != nil {
			return err
		}
		moved := now.switches != last.switches
		if moved && !busy {
			bursts++
		}
		last, busy = now, moved
	}
	took := time.Since(began)
	status, err := host.This.Status(pid)
	if err != nil {
		return err
	}
	rss := float64(status.Number("VmRSS")) / 1024
	milli := float64(last.cpu-first.cpu) / float64(took) * 1000
	wake := float64(bursts) / took.Seconds()
	t.aim("agent at rest: RSS", fmt.Sprintf("%.1f MiB, %d threads", rss, last.threads), "<= 10 MiB", rss <= goalRSS)
	t.aim("agent at rest: CPU", fmt.Sprintf("%.2fm of a core over %s", milli, short(took)), "<= 2m", milli <= goalCPU)
	t.aim("agent at rest: wake-ups",
		fmt.Sprintf("%.2f/s (%.1f voluntary context switches/s)", wake, float64(last.switches-first.switches)/took.Seconds()),
		"<= 1/s", wake <= goalWake)
	t.remark("The lab's agent beats every 2 s and waits 5 s for a task, both several times as often as in production: " +
		"CPU and wake-ups are for that. A wake-up is a burst of activity after at least 100 ms without any.")
	return nil
}

// agentPID returns the agent's pid on the host, which differs from the pid inside the machine.
func (b *bench) agentPID(ctx context.Context) (int, error) {
	out, err1 := b.lab.Exec(ctx, labNode, "systemctl", "show", "-P", "MainPID", agentUnit)
	first, err2 := b.lab.Leader(labNode)
	all, err3 := host.This.PIDs(-1)
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, err
	}
	space, err := os.Readlink(host.This.Path(first, "ns", "pid"))
	if err != nil {
		return 0, err
	}
	for _, pid := range all {
		if s, err := os.Readlink(host.This.Path(pid, "ns", "pid")); err != nil || s != space {
			continue
		}
		status, _ := host.This.Status(pid)
		if n := status.InnerPID(); n > 0 && strconv.Itoa(n) == strings.TrimSpace(out) {
			return pid, nil
		}
	}
	return 0, errors.New("the agent's process was not found")
}

// usageOf sums up the process's threads.
func usageOf(pid int) (usage, error) {
	tasks, err := filepath.Glob(host.This.Path(pid, "task", "*"))
	if err != nil || len(tasks) == 0 {
		return usage{}, errors.New("the agent's process is gone")
	}
	var u usage
	for _, dir := range tasks {
		stat, err := os.ReadFile(dir + "/schedstat") // nanoseconds on a CPU, waiting for one, slices
		if err != nil {
			continue // a thread that ended
		}
		ran, _, _ := strings.Cut(string(stat), " ")
		n, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the agent's CPU time: %w", err)
		}
		u.cpu += time.Duration(n)
		u.threads++
		status, _ := host.Read(dir+"/status", host.Small)
		u.switches += host.Status(status).Number("voluntary_ctxt_switches")
	}
	return u, nil
}

// boot reboots a node that is not walked, and measures the time from its first process to the SSH banner.
func (b *bench) boot(ctx context.Context, t *table) error {
	times := 3
	if b.quick {
		times = 1
	}
	m, err := b.lab.Machine(otherNode)
	if err != nil {
		return err
	}
	var all []time.Duration
	for range times {
		t.report("rebooting %s", otherNode)
		old, _ := b.lab.Leader(otherNode)
		watching, stop := context.WithCancel(ctx)
		done := make(chan time.Duration, 1)
		go func() { done <- b.watchBoot(watching, old, net.JoinHostPort(m.Address(), "22")) }()
		err := b.lab.Reboot(ctx, otherNode)
		if err != nil {
			stop()
			<-done
			return err
		}
		took := <-done
		stop()
		if took <= 0 {
			return errors.New("the new boot was not seen")
		}
		all = append(all, took)
	}
	s := spreadOf(all)
	t.aim("lab machine: from its first process to SSH's greeting", s.String(), "< 1 s", s.median < goalBoot)
	return nil
}

// watchBoot waits for a first process other than old, and then for SSH; it returns 0 if ctx ends first. It checks
// the machine's sockets first, since after an early connection attempt the host waits a second.
func (b *bench) watchBoot(ctx context.Context, old int, address string) time.Duration {
	pid := 0
	var began time.Time
	for ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
		if pid == 0 {
			if now, err := b.lab.Leader(otherNode); err == nil && now != old {
				pid, began = now, time.Now()
			}
			continue
		}
		if !lab.Listens(pid, 22) {
			continue
		}
		c, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		greeting := make([]byte, 4)
		n, err := c.Read(greeting)
		_ = c.Close()
		if err == nil && n == 4 {
			return time.Since(began)
		}
	}
	return 0
}
