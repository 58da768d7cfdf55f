package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

const (
	goalUndo     = 50 * time.Millisecond
	goalOverhead = 2 * time.Second

	undone       = "api-egress-blocked" // the drill whose undo is measured, and the drill of a quick run
	fewUndos     = 20
	manyUndos    = 40
	drillTimeout = 3 * time.Minute
	leaveWithin  = 10 * time.Second
)

// drills measures the overhead of a drill: how long the undo of a network fault takes on the node, how much time a
// run needs in addition to its walks and probes, and how soon the chain names a network fault.
func drills(ctx context.Context, b *bench, t *table) error {
	if err := b.undos(ctx, t); err != nil {
		t.skip("undo of a network fault", err)
	}
	return b.runs(ctx, t)
}

// undos repeatedly injects and undoes the same fault, and reads from the node how long each undo took.
func (b *bench) undos(ctx context.Context, t *table) error {
	count := manyUndos
	if b.quick {
		count = fewUndos
	}
	t.report("undoing a network fault %d times", count)
	took, err := b.cycles(ctx, count)
	if err != nil {
		return err
	}
	s := spreadOf(took)
	t.aim(fmt.Sprintf("undo of a network fault, on the node (%d times)", count),
		fmt.Sprintf("median %s, p95 %s, max %s", short(s.median), short(percentile(took, 95)), short(s.max)), "p95 < 50 ms",
		percentile(took, 95) < goalUndo)
	t.remark("Undo: what gpuaas-fault revert takes on the node, from its start to its answer, with two synced entries " +
		"in the journal; each is followed by a comparison of the machine with before.")
	return nil
}

// cycles injects and undoes a network fault on the node count times, and returns the duration of each undo there.
func (b *bench) cycles(ctx context.Context, count int) ([]time.Duration, error) {
	out, err := b.chaos(ctx, "plan", undone)
	if err != nil {
		return nil, err
	}
	var plan chaos.Plan
	if err := json.Unmarshal(out, &plan); err != nil {
		return nil, fmt.Errorf("read the plan of %s: %w", undone, err)
	}
	p := b.profile.WithDefaults()
	m := remote.New(remote.Config{
		Node:     vantage.NodeConfig{ID: labNode, Host: p.Nodes[labNode].Host, SSH: p.SSH, Agent: p.Agent},
		Programs: []string{b.bin},
	})
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
		defer cancel()
		_, _ = m.RemoveHelper(ctx), m.Close()
	}()
	began := time.Now().UnixMilli()
	var took []time.Duration
	for i := range count {
		d := plan.Targets[0].Drill
		d.Run, d.At = fmt.Sprintf("bench-%d-%d", began, i), time.Now().UTC()
		us, err := undo(ctx, m, d)
		if err != nil {
			return nil, fmt.Errorf("undo %d: %w", i+1, err)
		}
		took = append(took, time.Duration(us)*time.Microsecond)
	}
	return took, nil
}

// undo runs one drill on a machine, undoes it, and returns the duration of the undo on the machine in
// microseconds.
func undo(ctx context.Context, m *remote.Machine, d step.Drill) (int64, error) {
	var us int64
	for _, command := range []string{"arm", "do", "revert", "verify", "close"} {
		var in []byte
		args := []string{command, "--run", d.Run}
		if command == "arm" {
			in, args = d.Encode(), args[:1]
		}
		r, err := m.Fault(ctx, in, args...)
		switch {
		case err != nil:
		case r.Refused != nil:
			err = r.Refused
		case r.Error != "":
			err = errors.New(r.Error)
		case command == "revert" && (r.Status == nil || r.Status.State != step.Reverted):
			err = errors.New("it is not reverted")
		case command == "verify" && (r.Clean == nil || !*r.Clean):
			err = fmt.Errorf("the machine differs from before: %v", r.Residue)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", command, err)
		}
		if command == "revert" {
			us = r.TookUS
		}
	}
	return us, nil
}

// runs runs complete drills of network faults. A drill that does not pass gives no figures.
func (b *bench) runs(ctx context.Context, t *table) error {
	all, err := networkDrills()
	if err != nil {
		return err
	}
	if b.quick {
		all = []string{undone}
	}
	var over []time.Duration
	costliest := ""
	for _, id := range all {
		t.report("drill %s", id)
		took, d, err := b.run(ctx, id)
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			t.skip(id, err)
			continue
		}
		if len(over) == 0 || took > slices.Max(over) {
			costliest = id
		}
		over = append(over, took)
		detected(t, d)
	}
	if len(over) == 0 {
		return errors.New("no drill of a network fault passed")
	}
	s := spreadOf(over)
	t.aim(fmt.Sprintf("a drill, beyond its walks and looks (%d drills)", len(over)),
		fmt.Sprintf("%s, the most for %s", s, costliest), "< 2 s", s.median < goalOverhead)
	t.remark("A drill's overhead: wall time of the whole command, less the time of its walks (with the pauses between " +
		"walks of one stage) and of its independent probes, by the run's own events. What is left is planning, arming, " +
		"making the fault, undoing it, comparing and clearing up. To making it belongs that the machine itself sees its " +
		"effect, which for packets that vanish is a second of silence, for a DNS three.")
	t.remark("Detection: from when the fault is in place to the end of the first walk that says what it should, beside " +
		"that walk's own duration, which is mostly waiting for what does not answer; and beside a walk over the sound " +
		"chain in the same run.")
	return nil
}

// detected adds a line for one drill: after how many walks the chain detected the fault.
func detected(t *table, d drill.Drill) {
	during := slices.DeleteFunc(slices.Clone(d.Walks), func(w drill.WalkView) bool { return w.Stage != drill.During })
	first := slices.IndexFunc(during, func(w drill.WalkView) bool { return w.N == d.Observed.N })
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	walk := ms(max(1, d.Observed.EndedMS-d.Observed.BeganMS))
	seen := ms(d.Detect.WithinMS)
	t.aim(d.Scenario+": named after",
		fmt.Sprintf("%s = %.2fx the walk that says it (%s; a sound one %s)", short(seen), float64(seen)/float64(walk),
			short(walk), short(ms(d.Walks[0].EndedMS-d.Walks[0].BeganMS))), "the first walk", first == 0)
}

// networkDrills returns the built-in drills whose only faults are network faults without a delay.
func networkDrills() ([]string, error) {
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range all {
		if !slices.ContainsFunc(s.Faults, func(f chaos.Fault) bool {
			return (f.Kind != "net-block" && f.Kind != "dns-break") || f.At != 0
		}) {
			ids = append(ids, s.Metadata.ID)
		}
	}
	return ids, nil
}

// run runs one drill and returns the time that it took in addition to its walks and probes.
func (b *bench) run(ctx context.Context, id string) (time.Duration, drill.Drill, error) {
	began := time.Now()
	out, err := b.chaos(ctx, "run", id, "--quiet")
	took := time.Since(began)
	if err != nil {
		return 0, drill.Drill{}, err
	}
	var r drill.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, drill.Drill{}, fmt.Errorf("read the report of %s: %w", id, err)
	}
	if len(r.Drills) != 1 || r.Drills[0].Observed == nil {
		return 0, drill.Drill{}, fmt.Errorf("the report of %s has no walk that found the fault", id)
	}
	f, err := os.Open(filepath.Join(r.Drills[0].Log, drill.EventsFile))
	if err != nil {
		return 0, drill.Drill{}, err
	}
	defer f.Close()
	events, _, err := drill.ReadEvents(f)
	if err != nil {
		return 0, drill.Drill{}, err
	}
	return took - polls(drill.Fold(events)), r.Drills[0], nil
}

// chaos runs one of the tool's chaos commands, and returns its JSON. An exit code other than 0 is an error.
func (b *bench) chaos(ctx context.Context, command, id string, more ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	args := append([]string{"chaos", command, id, "--profile", b.lab.ProfilePath(), "--node-id", labNode,
		"--allocation-id", allocation, "-o", "json"}, more...)
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "gpuaasctl"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // an interrupt makes it revert everything
	cmd.WaitDelay = drillTimeout
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("gpuaasctl chaos %s %s: %w: %s%s", command, id, err, why(out.Bytes()),
			strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// why returns the verdict's text in a report of drills, or "".
func why(report []byte) string {
	var r drill.Report
	if json.Unmarshal(report, &r) != nil || r.Verdict.Word == "" {
		return ""
	}
	return fmt.Sprintf("%s: %s ", r.Verdict.Word, r.Verdict.Text)
}
