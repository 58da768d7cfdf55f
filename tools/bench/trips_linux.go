package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

const (
	goalCold, goalWarm = 11.0, 2.0
	goalR2             = 0.999

	// rounding: the slope is printed with one decimal.
	rounding = 0.05
)

// counted is an operation whose round trips are counted: once returns the durations of several runs.
type counted struct {
	name string
	keep string  // name of the figure that is kept; "": none
	goal float64 // round trips; 0: none
	once func(context.Context) ([]time.Duration, error)
}

// trips computes round trips as the slope of time over RTT. At each point the fastest run counts: a busy machine
// only adds time that is not a round trip.
func trips(ctx context.Context, b *bench, t *table) error {
	runs, walksEach := 7, 6
	if b.quick {
		runs, walksEach = 3, 3
	}
	all := []counted{
		{"cold walk (the binary)", "a cold walk", goalCold, func(ctx context.Context) ([]time.Duration, error) {
			return b.timed(ctx, runs, b.toolArgv(), checkTool)
		}},
		{"warm walk (vantages held open, in process)", "a warm walk", goalWarm,
			func(ctx context.Context) ([]time.Duration, error) { return b.warm(ctx, walksEach, true) }},
		{"warm walk without a terminal session", "a warm walk without a terminal session", goalWarm,
			func(ctx context.Context) ([]time.Duration, error) { return b.warm(ctx, walksEach, false) }},
		{"for comparison: a cold `ssh NODE true`", "", 0, func(ctx context.Context) ([]time.Duration, error) {
			return b.timed(ctx, max(2, runs/2), b.sshTrue(), checkExit)
		}},
	}
	if b.quick {
		all = all[:len(all)-1] // the comparison
	}
	for _, c := range all {
		if err := b.count(ctx, t, c); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t.skip(c.name, err)
		}
	}
	return nil
}

func (b *bench) count(ctx context.Context, t *table, c counted) error {
	var xs, ys []float64
	points := ""
	for _, rtt := range []time.Duration{0, 20, 40, 60, 100} {
		b.link.setRTT(rtt * time.Millisecond)
		real, err := b.link.connectTime(ctx, b.profile.APIResolveAddress+":443", 5)
		if err != nil {
			return err
		}
		t.report("%s at RTT %s", c.name, short(real.min))
		took, err := c.once(ctx)
		if err != nil {
			return err
		}
		fastest := slices.Min(took)
		xs, ys = append(xs, real.min.Seconds()*1e3), append(ys, fastest.Seconds()*1e3)
		points += " " + short(fastest)
	}
	slope, base, r2 := fit(xs, ys)
	value := fmt.Sprintf("%.1f round trips + %.0f ms, R2 %.4f", slope, base, r2)
	if r2 < goalR2 {
		value += " (a poor fit: do not believe the slope's last digit)"
	}
	if c.keep != "" {
		t.keep("lab: "+c.keep, slope, unitTrips)
	}
	if c.goal == 0 {
		t.addLine(c.name, "%s", value)
	} else {
		t.aim(c.name, value, fmt.Sprintf("<= %.0f", c.goal), slope < c.goal+rounding)
	}
	t.addLine("  at RTT 0, 20, 40, 60, 100 ms", "%s", points[1:])
	if c.goal == goalCold {
		return timeline(t, ownReport(), 100*time.Millisecond)
	}
	return nil
}

// timed runs argv n times; each run must succeed.
func (b *bench) timed(ctx context.Context, n int, argv []string, check func(ran) error) ([]time.Duration, error) {
	var all []time.Duration
	for range n {
		r, err := b.link.run(ctx, argv...)
		if err == nil {
			err = check(r)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r.wall)
	}
	return all, nil
}

// warm starts a process in the slow namespace that walks repeatedly over open vantages.
func (b *bench) warm(ctx context.Context, n int, session bool) ([]time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, err := b.link.run(ctx, self, "-child", "warm", "-profile", b.lab.ProfilePath(), "-walks", strconv.Itoa(n+1),
		"-session="+strconv.FormatBool(session))
	if err != nil {
		return nil, err
	}
	if err := checkExit(r); err != nil {
		return nil, err
	}
	var all []time.Duration
	if err := json.Unmarshal(r.out, &all); err != nil {
		return nil, fmt.Errorf("read the warm walks: %w", err)
	}
	return all[1:], nil
}

// sshTrue returns the command line of OpenSSH with our key exchange and keys.
func (b *bench) sshTrue() []string {
	p := b.profile
	return []string{"ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i", p.SSH.Identity, "-o",
		"UserKnownHostsFile=" + p.SSH.KnownHosts, "-o", "KexAlgorithms=curve25519-sha256", "-o",
		"HostKeyAlgorithms=ssh-ed25519", "-l", p.SSH.User, p.Nodes[labNode].Host, "true"}
}

func checkExit(r ran) error {
	if r.code != 0 {
		return fmt.Errorf("exit %d: %s", r.code, r.errs)
	}
	return nil
}
