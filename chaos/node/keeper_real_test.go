//go:build linux

package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// realCases is the default number of lives of a real machine: one takes a quarter of a second.
const realCases = "30"

// TestKeeperReal is TestKeeper with the kernel's own files, mounts, processes and packet filter, in separate
// namespaces. They have neither a reboot nor systemd: a program replaces systemctl, and processes replace its
// units.
func TestKeeperReal(t *testing.T) {
	tier.NeedsHost(t)
	needNft(t)
	seed := fmt.Sprint(1 + rand.Uint64N(1<<62))
	args := []string{"-rapid.seed=" + seed, "-rapid.checks=" + realCases}
	flag.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "rapid.") { // the command line wins
			if f.Name == "rapid.seed" {
				seed = f.Value.String()
			}
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	if !inside(t, args...) {
		t.Logf("go test ./chaos/node -run TestKeeperReal -rapid.seed=%s gives the same again", seed)
		return
	}
	lives := 0
	rapid.Check(t, func(t *rapid.T) {
		lives++
		r := newReal(t)
		w := life(t, r)
		all := w.everything()
		delete(all, "reboot")
		t.Repeat(all)
		w.settle()
		if l := w.ledger(); l.State() == step.Conflict || w.small || !l.Known || w.conflict {
			return // what is parked stays for an operator to inspect
		}
		left := map[string]string{}
		if err := errors.Join(ownFiles(left, "/etc", "", false), ownFiles(left, "/run/made", "", false)); err != nil ||
			len(left) > 0 {
			t.Fatalf("left behind: %v %v", left, err)
		}
	})
	t.Logf("%d lives", lives)
}

// TestMountIsLost: an overlay in a unit's namespace ends with the unit. That is neither an undo nor a conflict,
// and a mount over the place in the next namespace belongs to another process.
func TestMountIsLost(t *testing.T) {
	tier.NeedsHost(t)
	needNft(t)
	if !inside(t) {
		return
	}
	ctx := context.Background()
	for name, tc := range map[string]struct {
		meanwhile func(*real)
		state     step.State
		text      string
	}{
		"nothing": {func(*real) {}, step.Reverted, ""},
		"started again": {func(r *real) {
			r.stop(mountedUnit)
			r.fine(r.start(mountedUnit))
			r.edit("mount:"+mountedUnit+":/etc/passwd", 1)
		}, step.Lost, mountedUnit + " was started again, in a namespace of its own"},
		"source removed": {func(r *real) { r.fine(os.Remove("/run/drill/source-m-0")) }, step.Reverted, ""},
		"taken off": {func(r *real) { r.in(mountedUnit, func() error { return unix.Unmount("/etc/passwd", 0) }) },
			step.Lost, ""},
		"mounted over it": {func(r *real) { r.edit("mount:"+mountedUnit+":/etc/passwd", 1) }, step.Conflict,
			"somebody has mounted something over /etc/passwd"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t)
			c := step.Change{Mount: &step.Mount{Target: "/etc/passwd", Unit: mountedUnit, Text: "drill\n"}}
			d := r.drill("r")
			d.Steps = []step.Step{{ID: "m", Fault: "f", Tier: step.TierBoot, Changes: []step.Change{c}}}
			r.fine(makeZeros("/run/drill/journal", step.JournalSize))
			f, err := os.OpenFile("/run/drill/journal", os.O_RDWR, 0)
			r.fine(err)
			defer f.Close()
			j, err := OpenJournal(f, step.JournalSize)
			r.fine(err)
			clock, err := HostClock()
			r.fine(err)
			k := &Keeper{Journal: j, Machine: r.process(true), Clock: clock, Lease: lease{}, By: step.ByWatchdog}
			r.fine(k.Plan(ctx, d), k.write(step.Entry{Event: step.EventArmed}),
				k.write(step.Entry{Event: step.EventWanted, Step: "m"}))
			_, err = k.Tick(ctx)
			r.fine(err)
			if got := j.Ledger.State(); got != step.Done {
				t.Fatalf("it is %s", got)
			}
			tc.meanwhile(r)
			was := r.sight(c.Place())
			r.fine(k.Revert(ctx, step.WhyAsked))
			if got := j.Ledger.Steps[0].Changes[0]; got.State != tc.state || got.Text != tc.text {
				t.Errorf("it is %s (%s), want %s (%s)", got.State, got.Text, tc.state, tc.text)
			}
			if now := r.sight(c.Place()); (now == was) != (tc.state != step.Reverted) {
				t.Errorf("%s: %q, then %q", tc.state, was, now)
			}
		})
	}
}
