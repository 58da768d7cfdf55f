package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	together10  = 10
	goalAtOnce  = 3.0
	goalBusy    = 0.85 // share of CPU time: above it, the walks are CPU-bound and no lock limits them
	goalAged    = 1.1
	agedWalks   = 1000
	agedDrills  = 200
	quickWalks  = 60
	quickDrills = 10
)

// cost is the cost of some walks: wall time from the first start to the last end, and CPU time at both ends. idle
// is the CPU time that no program on this host used; same is the CPU time of sameWork next to each walk.
type cost struct{ wall, client, servers, relay, idle, same time.Duration }

// busy returns the share of the walks, the lab and the link's relay in the CPU time that other programs left.
func (c cost) busy() float64 {
	own := c.client + c.servers + c.relay
	return float64(own) / float64(max(1, own+c.idle))
}

// load measures concurrent walks, and how much the traces of earlier walks and drills slow down the next walk.
func load(ctx context.Context, b *bench, t *table) error {
	state, err := os.MkdirTemp("", "gpuaasctl-bench-history-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	// A separate, empty history, as on a node's first day.
	argv := append([]string{"env", "XDG_STATE_HOME=" + state, "GPUAASCTL_HISTORY=on"}, b.toolArgv()...)
	if err := b.aged(ctx, t, argv); err != nil {
		return err
	}
	for _, rtt := range []time.Duration{0, 50 * time.Millisecond} {
		if err := b.atOnce(ctx, t, argv, rtt); err != nil {
			return err
		}
	}
	t.remark("At once: client CPU by getrusage, the lab's by its cgroups. A walk at RTT 0 keeps nearly two processors " +
		"busy, so " +
		"ten of them cannot take less than ten times its CPU on all processors.")
	return nil
}

// sameWork returns the CPU time of constant work, the decoding of one report: other programs on the host slow down
// a processor as well.
func sameWork() (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join("golden", "reports", "healthy.json"))
	if err != nil {
		return 0, err
	}
	before, err := ownCPU()
	if err != nil {
		return 0, err
	}
	for range 40 {
		var r diag.Report
		if err := json.Unmarshal(data, &r); err != nil {
			return 0, err
		}
	}
	after, err := ownCPU()
	return after - before, err
}

// atOnce compares one walk with ten concurrent walks of the same node, in turn.
func (b *bench) atOnce(ctx context.Context, t *table, argv []string, rtt time.Duration) error {
	b.link.setRTT(rtt)
	rounds := 7
	if b.quick {
		rounds = 2
	}
	var alone, ten []time.Duration
	var one, all cost
	for i := range rounds {
		t.report("RTT %s, round %d of %d: one walk, and ten at once", short(rtt), i+1, rounds)
		a, err := b.walkTogether(ctx, argv, 1)
		if err != nil {
			return err
		}
		m, err := b.walkTogether(ctx, argv, together10)
		if err != nil {
			return err
		}
		alone, ten = append(alone, a.wall), append(ten, m.wall)
		one.add(a)
		all.add(m)
	}
	ratio := float64(spreadOf(ten).median) / float64(spreadOf(alone).median)
	each := func(c cost, walks int) string {
		n := time.Duration(rounds * walks)
		return fmt.Sprintf("%s + %s", short(c.client/n), short(c.servers/n))
	}
	t.aim(fmt.Sprintf("RTT %s: ten walks of one node at once", short(rtt)),
		fmt.Sprintf("%s = %.1fx one (%s), %.0f %% of %d CPUs that were free (one: %.0f %%)", spreadOf(ten), ratio,
			short(spreadOf(alone).median), 100*all.busy(), runtime.NumCPU(), 100*one.busy()),
		"<= 3x, or CPU-bound", ratio <= goalAtOnce || all.busy() >= goalBusy)
	t.addLine("  CPU of one walk, client + lab: alone, among ten", "%s, %s", each(one, 1), each(all, together10))
	return nil
}

// aged compares walks of the node in its current state with walks after many walks and drills. CPU time, next to
// that of constant work, shows what has grown; wall time also shows the host's load.
func (b *bench) aged(ctx context.Context, t *table, argv []string) error {
	b.link.setRTT(0)
	walks, drills, sample := agedWalks, agedDrills, 25
	if b.quick {
		walks, drills, sample = quickWalks, quickDrills, 8
	}
	measure := func() (c cost, wall spread, err error) {
		var all []time.Duration
		began := time.Now()
		defer func() { t.report("%d walks in %s", sample, short(time.Since(began))) }()
		for range sample {
			one, err := b.walkTogether(ctx, argv, 1)
			if err != nil {
				return c, wall, err
			}
			if one.same, err = sameWork(); err != nil {
				return c, wall, err
			}
			c.add(one)
			all = append(all, one.wall)
		}
		return c, spreadOf(all), nil
	}
	before, was, err := measure()
	if err != nil {
		return err
	}
	for done := 0; done < walks; done += together10 {
		if done%100 == 0 {
			t.report("walk %d of %d", done, walks)
		}
		if _, err := b.walkTogether(ctx, argv, together10); err != nil {
			return err
		}
	}
	t.report("%d faults and their undo", drills)
	if _, err := b.cycles(ctx, drills); err != nil {
		return err
	}
	after, is, err := measure()
	if err != nil {
		return err
	}
	per := func(c cost) time.Duration { return (c.client + c.servers) / time.Duration(sample) }
	slower := float64(after.same) / float64(max(1, before.same))
	grown := float64(per(after)) / float64(per(before)) / slower
	t.aim(fmt.Sprintf("a walk after %d walks and %d faults: CPU of both ends", walks, drills),
		fmt.Sprintf("%.2fx a new node (%s to %s; the reference work beside it takes %.2fx)", grown, short(per(before)),
			short(per(after)), slower),
		fmt.Sprintf("<= %.1fx", goalAged), grown <= goalAged)
	t.addLine("  its time: before, after", "%s, %s", was, is)
	n := time.Duration(sample)
	t.addLine("  CPU of client and lab: before, after", "%s + %s, %s + %s", short(before.client/n),
		short(before.servers/n),
		short(after.client/n), short(after.servers/n))
	return nil
}

func (c *cost) add(o cost) {
	c.wall, c.client, c.servers = c.wall+o.wall, c.client+o.client, c.servers+o.servers
	c.relay, c.idle, c.same = c.relay+o.relay, c.idle+o.idle, c.same+o.same
}

// walkTogether runs n walks concurrently. It fails if one of them does not pass, since the figure would be wrong.
func (b *bench) walkTogether(ctx context.Context, argv []string, n int) (cost, error) {
	var c cost
	before, err := b.spent()
	if err != nil {
		return c, err
	}
	began := time.Now()
	all, errs := make([]ran, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { all[i], errs[i] = b.link.run(ctx, argv...) })
	}
	wg.Wait()
	c.wall = time.Since(began)
	after, err := b.spent()
	c.servers, c.relay, c.idle = after.servers-before.servers, after.relay-before.relay, after.idle-before.idle
	errs = append(errs, err)
	for i, r := range all {
		c.client += r.cpu
		if errs[i] == nil {
			errs[i] = checkTool(r)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("of %d walks at once: %w", n, err)
	}
	return c, nil
}

// spent returns the CPU time that the lab's machines and this process (which relays the link's packets) have used
// so far, and the idle time.
func (b *bench) spent() (c cost, err error) {
	machines, err := b.lab.CPU()
	if err != nil {
		return c, err
	}
	for _, used := range machines {
		c.servers += used
	}
	if c.relay, err = ownCPU(); err != nil {
		return c, err
	}
	c.idle, err = idle()
	return c, err
}

// idle returns the idle time of the host's processors from /proc/stat, which counts hundredths of a second.
func idle() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait ...
	if len(f) < 6 {
		return 0, errors.New("/proc/stat has no line of all processors")
	}
	var sum int64
	for _, field := range f[4:6] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond, nil
}
