//go:build linux

package e2e

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// clear removes what the drill left, in one of the possible ways: cells take turns.
func (c *crashTrial) clear() {
	c.t.Helper()
	r, err := c.ask("residue")
	if err != nil {
		c.t.Fatal(err)
	}
	if r.Clean != nil && *r.Clean {
		c.row.cleared = "the run"
		return
	}
	h := fnv.New32a()
	fmt.Fprint(h, c.name())
	ways := []func(){c.nextRun, c.byHand, c.byRevert, c.byPanic}
	ways[h.Sum32()%uint32(len(ways))]()
}

// byRevert uses the revert command, and the one that finds what revert cannot know of: the program of a killed
// tool.
func (c *crashTrial) byRevert() {
	c.t.Helper()
	c.row.cleared = "revert"
	c.command(exitClean, "revert")
	c.command(exitClean, "residue")
}

// byPanic uses the command that needs no knowledge of the drill.
func (c *crashTrial) byPanic() {
	c.t.Helper()
	c.row.cleared = "panic"
	c.command(exitClean, "panic")
}

// exitClean is the exit code of commands that found nothing left.
const exitClean = 0

func (c *crashTrial) command(want int, name string) {
	c.t.Helper()
	if out, stderr, code := try(c.t, 2*time.Minute, "chaos", name, "--profile", "lab", "--node-id",
		c.machine); code != want {
		c.t.Errorf("chaos %s: exit %d, want %d\n%s%s\n%s", name, code, want, out, stderr, c.account())
	}
}

// nextRun lets the next drill take over the machine.
func (c *crashTrial) nextRun() {
	c.t.Helper()
	c.row.cleared = "next run"
	c.well()
	name := "testdata/crash-t0.yaml"
	if c.platform() {
		name = "testdata/crash-t3.yaml"
	}
	out, stderr, code := try(c.t, 2*time.Minute, "chaos", "run", name, "--profile", "lab", "--node-id", c.walked, "-o",
		"full")
	if code != 0 {
		c.t.Errorf("the next run: exit %d\n%s%s\n%s", code, out, stderr, c.account())
	}
}

// byHand reverts with the program beside the journal, as an operator on the machine would.
func (c *crashTrial) byHand() {
	c.t.Helper()
	c.row.cleared = "hand"
	say := func(what string, r step.Reply, err error) {
		c.t.Helper()
		switch {
		case err != nil:
			c.t.Errorf("%s: %v", what, err)
		case r.Error != "":
			c.t.Errorf("%s: %s", what, r.Error)
		case r.Refused != nil && r.Refused.Code != step.RefusedNone:
			c.t.Errorf("%s: %v", what, r.Refused)
		case r.Clean != nil && !*r.Clean:
			c.t.Errorf("%s: %v", what, r.Residue)
		}
	}
	if st, err := c.ask("status", "--run", c.run); err == nil && st.Status != nil && st.Status.Phase == step.PhaseOver {
		r, err := c.ask("revert", "--run", c.run)
		say("revert", r, err)
		r, err = c.ask("verify", "--run", c.run)
		say("verify", r, err)
		r, err = c.ask("close", "--run", c.run)
		say("close", r, err)
	} else {
		r, err := c.ask("close", "--force", "--run", c.run)
		say("close by force", r, err)
	}
	// A killed tool leaves its program in a tmpfs until the next run, or the next boot.
	c.on(
		`rm -f /run/gpuaasctl/gpuaas-fault-* /run/gpuaasctl/.gpuaas-fault-*; if mountpoint -q /run/gpuaasctl; then umount /run/gpuaasctl; fi; rmdir /run/gpuaasctl 2>/dev/null || true`)
}

// clean checks that nothing is left: with our own fingerprint, and with independent tools, byte by byte.
func (c *crashTrial) clean() {
	c.t.Helper()
	if r, err := c.ask("residue"); err != nil || r.Clean == nil || !*r.Clean {
		c.t.Errorf("something of ours is left: %v %v %s", r.Residue, err, r.Error)
	}
	var differs []string
	var err error
	now := ""
	// a unit that was just restarted
	for began := time.Now(); time.Since(began) < settle; time.Sleep(300 * time.Millisecond) {
		differs, err = c.differs(nil)
		now = c.on(snapshot)
		if err == nil && len(differs) == 0 && now == c.looked {
			return
		}
	}
	c.t.Errorf("the machine is not as before: %v\n%s\nby independent tools:\n%s%s", err, strings.Join(differs, "\n"),
		lost(c.looked, now), c.account())
}

// account describes the run, for the log of a failed cell.
func (c *crashTrial) account() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cell %s on %s (walks of %s), run %s, %s\n", c.name(), c.machine, c.walked, c.run, c.row.struck)
	for _, e := range c.events {
		fmt.Fprintf(&b, "%6d ms %-10s %s %s %s", e.MS, e.Kind, e.Machine, e.Step, e.Text)
		if e.WalkView != nil {
			fmt.Fprintf(&b, "%s: %s", e.WalkView.Stage, e.WalkView.VerdictLine())
		}
		for _, r := range e.Refused {
			b.WriteString(r.String())
		}
		for _, r := range step.Unexplained(e.Residue) {
			b.WriteString("\n          left: " + r.String())
		}
		b.WriteString("\n")
	}
	select {
	case <-c.ended:
		fmt.Fprintf(&b, "the tool: %s\n%s\n", c.tool.ProcessState, tailOf(c.errs.String()))
	default:
		b.WriteString("the tool runs\n")
	}
	if r, err := c.ask("status", "--run", c.run, "--journal"); err != nil || r.Status == nil {
		fmt.Fprintf(&b, "journal: %v %v\n", err, r.Refused)
	} else {
		for _, e := range r.Status.Journal {
			n := "-"
			if e.Change != nil {
				n = fmt.Sprint(*e.Change)
			}
			fmt.Fprintf(&b, "%s %3d %-9s %-8s %-8s %s %-10s %s\n", e.At.Format("15:04:05.000"), e.Seq, e.By, e.Event, e.Step, n,
				e.State, e.Text)
		}
	}
	fmt.Fprintf(&b, "again: -run 'TestCrashMatrix/%s$'\n", c.name())
	return b.String()
}

func tailOf(s string) string { return s[max(0, len(s)-2000):] }

// rescue restores the lab as far as possible for the other cells.
func (c *crashTrial) rescue() {
	if c.tool == nil || c.tool.Process == nil {
		return
	}
	c.tool.Process.Kill() // long dead, unless the cell gave up
	<-c.ended
	if !c.t.Failed() {
		return
	}
	c.relieve()
	_, _ = c.ask("close", "--force", "--run", c.run)
	try(c.t, 2*time.Minute, "chaos", "panic", "--profile", "lab", "--node-id", c.machine)
}
