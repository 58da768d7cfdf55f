//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	onnode "github.com/gpuaas/gpuaasctl/chaos/node"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Times of these drills, as their files have them.
const (
	crashTTL   = 30 * time.Second
	crashReach = 3 * time.Minute // until the step at which something dies
	crashTool  = 3 * time.Minute // until a living tool gives up
)

// crashTrial is a running cell.
type crashTrial struct {
	crashCell
	t       *testing.T
	matrix  *crashMatrix
	machine string // which is broken
	walked  string // the node of the walks
	address string // of the machine
	row     crashRow

	before onnode.Fingerprint
	looked string // output of independent tools, before

	tool      *exec.Cmd
	ended     chan struct{} // the tool has
	killed    bool          // by the test
	out, errs bytes.Buffer
	state     string // the folder of the tool's log
	again     int    // how often the run failed to begin
	run       string // id of the drill, once it is known
	events    []drill.Event
	size      int64 // of the log, when it was read
	pathBack  time.Time
	relieved  bool
	status    *step.Status // the last one that the machine gave
}

// try tries one cell.
func (m *crashMatrix) try(t *testing.T, cell crashCell, walked string) {
	c := &crashTrial{crashCell: cell, t: t, matrix: m, walked: walked, machine: walked, row: crashRow{crashCell: cell}}
	if cell.platform() {
		c.machine = platform
	}
	machine, err := m.lab.Machine(c.machine)
	if err != nil {
		t.Fatal(err)
	}
	c.address = machine.Address()
	began := time.Now()
	defer func() {
		c.row.took, c.row.failed = time.Since(began), t.Failed()
		m.add(t, c.row)
	}()
	if m.unsure(c) {
		c.well()
	}
	if c.before, err = c.fingerprint(); err != nil {
		t.Fatal(err)
	}
	c.looked = c.on(snapshot)
	defer c.rescue()
	for c.startTool(t); !c.reach(); c.startTool(t) {
		c.well()
	}
	c.hit()
	c.heals()
	c.end()
	c.clear()
	c.clean()
	c.well()
}

func (c *crashTrial) on(script string) string {
	c.t.Helper()
	return on(c.t, c.matrix.lab, c.machine, script)
}

// well waits until a walk passes.
func (c *crashTrial) well() {
	c.t.Helper()
	var stderr, out []byte
	for began := time.Now(); time.Since(began) < settle; time.Sleep(300 * time.Millisecond) {
		code := 0
		if out, stderr, code = try(c.t, 90*time.Second, "preflight", "--profile", "lab", "--node-id", c.walked, "-o",
			"short"); code == 0 {
			return
		}
	}
	c.t.Fatalf("%s is not well after %s:\n%s%s", c.walked, settle, out, stderr)
}

// read reads what the run has reported since the last call.
func (c *crashTrial) read() {
	c.t.Helper()
	if c.run == "" {
		runs, _ := filepath.Glob(filepath.Join(c.state, "gpuaasctl", "drills", "*", drill.EventsFile))
		if len(runs) == 0 {
			return
		}
		c.run = filepath.Base(filepath.Dir(runs[0]))
	}
	path := filepath.Join(c.state, "gpuaasctl", "drills", c.run, drill.EventsFile)
	if fi, err := os.Stat(path); err != nil || fi.Size() == c.size { // called a thousand times per second
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	c.size = int64(len(b))
	events, _, err := drill.ReadEvents(bytes.NewReader(b[:bytes.LastIndexByte(b, '\n')+1]))
	if err != nil {
		c.t.Fatal(err)
	}
	c.events = events
}

// first returns the first event of a kind about the machine; for walks, the first one during the fault.
func (c *crashTrial) first(kind drill.Kind) *drill.Event {
	i := slices.IndexFunc(c.events, func(e drill.Event) bool {
		if kind == drill.Walked {
			return e.Kind == kind && e.WalkView != nil && e.WalkView.Stage == drill.During
		}
		return e.Kind == kind && e.Machine == c.machine
	})
	if i < 0 {
		return nil
	}
	return &c.events[i]
}

// reach waits until the run reports the step; it returns false if the step did not begin. An untaken task of an
// earlier cell's walk may be reported as stale after that cell ended well.
func (c *crashTrial) reach() bool {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < crashReach; time.Sleep(time.Millisecond) {
		if c.read(); c.first(c.at) != nil {
			return true
		}
		select {
		case <-c.ended:
		default:
			continue
		}
		if c.read(); c.first(c.at) != nil {
			return true
		}
		if c.again++; c.again < 3 && c.first(drill.Arming) == nil &&
			slices.ContainsFunc(c.events, func(e drill.Event) bool { return e.WalkView != nil && !e.WalkView.Green() }) {
			return false
		}
		c.t.Fatalf("the run ended before %s:\n%s", c.at, c.account())
	}
	c.t.Fatalf("the run did not come to %s within %s:\n%s", c.at, crashReach, c.account())
	return false
}

// hit strikes.
func (c *crashTrial) hit() {
	c.t.Helper()
	s := strikeOf(c.strike)
	after := time.Since(c.first(c.at).At.Time)
	what, struck := s.hit(c)
	c.row.struck, c.row.missed = fmt.Sprintf("%s, %d ms after", what, after.Milliseconds()), !struck
}

// heals waits until the machine is permanently in its earlier state. That must happen within the TTL and the grace
// period since the arming.
func (c *crashTrial) heals() {
	c.t.Helper()
	arming := c.first(drill.Arming).At.Time
	deadline := arming.Add(crashTTL + step.Grace)
	why := "nobody looked"
	for time.Now().Before(deadline) {
		if !c.pathBack.IsZero() && time.Now().After(c.pathBack) {
			c.relieve()
		}
		c.read()
		if why = c.open(); why == "" {
			c.row.within = time.Since(arming)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	c.row.within = time.Since(arming)
	c.t.Errorf("the machine is not as before within %s of the arming: %s\n%s", deadline.Sub(arming), why, c.account())
}

// open returns why the machine is not permanently in its earlier state; "" if it is.
func (c *crashTrial) open() string {
	r, err := c.ask("status", "--run", c.run, "--journal")
	switch {
	case err != nil:
		return err.Error()
	case r.Error != "":
		return r.Error
	case r.Refused != nil && r.Refused.Code != step.RefusedNone:
		return r.Refused.Error()
	case r.Refused != nil && c.first(drill.Closed) == nil && (!c.killed || c.sessions() > 0):
		return "it may still be armed"
	case r.Status != nil && r.Status.Phase != step.PhaseOver && r.Status.Phase != step.PhaseClosed:
		return "the drill is " + r.Status.Phase + ", " + string(r.Status.State)
	}
	if r.Status != nil {
		c.status = r.Status
	}
	allowed := c.traces()
	if c.strike == "fill-disk" {
		allowed = append(allowed, step.Allow{Class: step.ClassDisk, Key: "*/* bytes", Why: "the test's own"},
			step.Allow{Class: step.ClassDisk, Key: "/ bytes", Why: "the test's own"})
	}
	differs, err := c.differs(allowed)
	if err != nil {
		return err.Error()
	}
	return strings.Join(differs, "\n")
}

// sessions is how many processes of SSH sessions the machine has.
func (c *crashTrial) sessions() int {
	out := c.on(`main=$(systemctl show -P MainPID ssh); for p in $(pgrep -x sshd); do [ "$p" = "$main" ] || echo $p; done`)
	return len(strings.Fields(out))
}

// end removes the cause, lets a living tool finish, and records who reverted the machine.
func (c *crashTrial) end() {
	c.t.Helper()
	c.relieve()
	select {
	case <-c.ended:
	case <-time.After(crashTool):
		c.tool.Process.Kill()
		<-c.ended
		c.t.Errorf("the tool did not end within %s:\n%s", crashTool, c.account())
	}
	c.read()
	c.reverter()
	if c.killed {
		return
	}
	var report drill.Report
	if err := json.Unmarshal(c.out.Bytes(), &report); err != nil || len(report.Drills) != 1 {
		c.t.Errorf("no report of the run: %v\n%s", err, c.account())
		return
	}
	switch v := report.Drills[0].Verdict; {
	case v.Word == drill.Residue && c.strike == "fill-disk": // the space that the test uses
	// it may have been down during the first comparison
	case v.Word == drill.Residue && c.strike == "kill-agent" && c.at == drill.Arming:
	case v.Word == drill.Residue || v.Word == drill.Conflict:
		c.t.Errorf("the tool says %s: %s\n%s", v.Word, v.Text, c.account())
	}
}

// relieve removes the cause, once.
func (c *crashTrial) relieve() {
	if s := strikeOf(c.strike); s.lift != nil && !c.relieved && c.row.struck != "" {
		c.relieved = true
		s.lift(c)
	}
}

// reverter reads who reverted the machine from its journal or the run's events.
func (c *crashTrial) reverter() {
	c.t.Helper()
	st := c.status
	if r, err := c.ask("status", "--run", c.run, "--journal"); err == nil && r.Status != nil {
		st = r.Status
	}
	for _, e := range c.events {
		if e.Machine == c.machine && e.Status != nil && (st == nil || len(e.Status.Journal) > 0) {
			st = e.Status
		}
	}
	switch {
	case st != nil && st.Reverter != "":
		c.row.reverts = st.Reverter + ": " + st.Why
	case st != nil && st.Why != "":
		c.row.reverts = "nobody: nothing was made, and " + st.Why
	case c.first(drill.Breaking) == nil:
		c.row.reverts = "nobody: it never was armed"
	}
	if by, _, _ := strings.Cut(c.row.reverts, ":"); !slices.Contains(
		[]string{"nobody", step.ByCLI, step.ByWatchdog, step.ByReaper, step.ByNextRun}, by) {
		c.t.Errorf("nobody says who put the machine back (%q):\n%s", c.row.reverts, c.account())
	}
	if st != nil && strings.HasPrefix(c.row.reverts, "nobody") &&
		slices.ContainsFunc(st.Steps, func(s step.StepStatus) bool { return s.State != step.Planned }) {
		c.t.Errorf("something was made, and nobody undid it:\n%s", c.account())
	}
}
