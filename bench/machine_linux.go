package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	goalRSS    = 10.0 // MiB
	goalCPU    = 2.0  // thousandths of a core
	goalWake   = 1.0  // a second
	goalBoot   = time.Second
	goalMemory = 80.0 // MB
	agentUnit  = "gpuaas-node-agent.service"
)

// machines measures the agent at rest, and what a machine of the lab costs.
func machines(ctx context.Context, b *bench, t *table) error {
	errAgent := b.agent(ctx, t)
	if errAgent != nil {
		t.skip("agent", errAgent)
	}
	for _, s := range b.lab.Status(ctx) {
		if s.Name == otherNode {
			mem := float64(s.PSSBytes) / mb
			t.aim("lab machine: memory (PSS of all its processes)", fmt.Sprintf("%.0f MB", mem), "< 80 MB", mem > 0 && mem < goalMemory)
		}
	}
	return b.boot(ctx, t)
}

// usage is what the kernel has counted of a process so far.
type usage struct {
	cpu      time.Duration
	switches int64
	rss      float64 // MiB
	threads  int
}

// agent watches the node's agent do nothing but its duty.
func (b *bench) agent(ctx context.Context, t *table) error {
	window := 20 * time.Second
	if b.quick {
		window = 5 * time.Second
	}
	out, err := b.lab.Exec(ctx, labNode, "systemctl", "show", "-P", "MainPID", agentUnit)
	if err != nil {
		return err
	}
	pid := strings.TrimSpace(out)
	before, err := b.usage(ctx, pid)
	if err != nil {
		return err
	}
	began := time.Now()
	t.note("watching the agent for %s", window)
	select {
	case <-time.After(window):
	case <-ctx.Done():
		return ctx.Err()
	}
	took := time.Since(began)
	after, err := b.usage(ctx, pid)
	if err != nil {
		return err
	}
	milli := float64(after.cpu-before.cpu) / float64(took) * 1000
	wake := float64(after.switches-before.switches) / took.Seconds()
	t.aim("agent at rest: RSS", fmt.Sprintf("%.1f MiB, %d threads", after.rss, after.threads), "<= 10 MiB", after.rss <= goalRSS)
	t.aim("agent at rest: CPU", fmt.Sprintf("%.2fm of a core over %s", milli, short(took)), "<= 2m", milli <= goalCPU)
	t.aim("agent at rest: wake-ups", fmt.Sprintf("%.2f/s", wake), "<= 1/s", wake <= goalWake)
	t.remark("The lab's agent beats every 2 s and waits 5 s for a task, both several times as often as in production: CPU and wake-ups are for that. A wake-up is a voluntary context switch of any of its threads.")
	return nil
}

// usage adds up the process's threads.
func (b *bench) usage(ctx context.Context, pid string) (usage, error) {
	out, err := b.lab.Exec(ctx, labNode, "sh", "-c", `cd /proc/"$1" && grep -H . task/*/schedstat && grep -H ^voluntary_ctxt_switches task/*/status && grep VmRSS status`, "sh", pid)
	if err != nil {
		return usage{}, err
	}
	var u usage
	for _, l := range strings.Split(out, "\n") {
		f := strings.Fields(l[strings.LastIndexByte(l, ':')+1:])
		if len(f) == 0 {
			continue
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the agent's counters: %w", err)
		}
		switch {
		case strings.Contains(l, "/schedstat:"):
			u.cpu += time.Duration(n)
			u.threads++
		case strings.Contains(l, "voluntary_ctxt_switches:"):
			u.switches += n
		case strings.HasPrefix(l, "VmRSS:"):
			u.rss = float64(n) / 1024
		}
	}
	if u.threads == 0 || u.rss == 0 {
		return u, errors.New("the agent's process is gone")
	}
	return u, nil
}

// boot reboots the node that nobody walks, and takes the time from its first process until SSH greets.
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
		t.note("rebooting %s", otherNode)
		old := b.leader(ctx)
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

// leader is the host's pid of the machine's first process; "" when it is off.
func (b *bench) leader(ctx context.Context) string {
	cmd, err := b.lab.Command(ctx, otherNode, "true")
	if err != nil {
		return ""
	}
	if i := slices.Index(cmd.Args, "--target"); i >= 0 {
		return cmd.Args[i+1]
	}
	return ""
}

// watchBoot waits for another first process than old, then for SSH; 0 when ctx ends first. It looks at the machine's
// sockets first, since a connection that comes too early makes the host wait a second.
func (b *bench) watchBoot(ctx context.Context, old, address string) time.Duration {
	pid := ""
	var began time.Time
	for ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
		if pid == "" {
			if now := b.leader(ctx); now != "" && now != old {
				pid, began = now, time.Now()
			}
			continue
		}
		if !listening(pid, 22) {
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

func listening(pid string, port int) bool {
	data, err := os.ReadFile("/proc/" + pid + "/net/tcp")
	if err != nil {
		return false
	}
	for _, l := range strings.Split(string(data), "\n") {
		f := strings.Fields(l) // slot, local address:port in hex, remote, state (0A = listening)
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			return true
		}
	}
	return false
}
