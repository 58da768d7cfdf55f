//go:build linux

package node

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// unitctl replaces systemctl: a unit is a file with its properties, and actions on units are logged.
const unitctl = `#!/bin/sh
verb=$1
for unit; do :; done
case $verb in
show) [ ! -e /run/fails/show ] || exit 1
  shift 3; n=; names=; for u; do
    case $names$u in --) names=yes; continue ;; -*) echo "invalid option" >&2; exit 1 ;; esac
    [ -z "$n" ] || echo; n=1; cat "/run/units/$u" || exit 1
  done; exit ;;
daemon-reload) exit ;;
is-system-running) cat /run/system 2>/dev/null || echo degraded; exit 1 ;;
esac
echo "$verb $unit" >>/run/deeds
[ ! -e "/run/fails/$verb" ] || exit 1
case $verb in
start|restart) echo x >>/run/starts
  sed -i "s/^ActiveState=.*/ActiveState=active/; s/^Result=.*/Result=success/; s/^InvocationID=.*/InvocationID=$(wc -l </run/starts)/" "/run/units/$unit" ;;
stop) sed -i "s/^ActiveState=.*/ActiveState=inactive/; s/^ActiveExit.*=.*/ActiveExitTimestampMonotonic=100/; s/^ExecMainExit.*=.*/ExecMainExitTimestampMonotonic=200/" "/run/units/$unit" ;;
freeze) sed -i "s/^FreezerState=.*/FreezerState=frozen/" "/run/units/$unit" ;;
thaw) sed -i "s/^FreezerState=.*/FreezerState=running/" "/run/units/$unit" ;;
reset-failed) sed -i "s/^ActiveState=.*/ActiveState=inactive/" "/run/units/$unit" ;;
esac
`

// aUnit is a running unit that needs others, one of which ended long ago.
const aUnit = `LoadState=loaded
ActiveState=active
SubState=running
FreezerState=running
InvocationID=before
MainPID=7
Result=success
Restart=no
RemainAfterExit=no
ConditionResult=yes
ActiveExitTimestampMonotonic=0
ExecMainExitTimestampMonotonic=0
Requires=b.service over.service -.mount
`

const aDropIn = "/run/systemd/system/a.service.d/zz-gpuaasctl-r-s.conf"

// TestUnit: the undo does not start a unit that an operator stopped or masked during a drill, and starts one that
// is down because of the drill.
func TestUnit(t *testing.T) {
	if !inside(t) {
		return
	}
	hand := func(argv ...string) func() error {
		return func() error { _, err := must(t.Context(), "", append([]string{"systemctl"}, argv...)...); return err }
	}
	is := func(properties ...string) func() error {
		return func() error {
			b, err := os.ReadFile("/run/units/a.service")
			text := string(b)
			for _, p := range properties {
				key, _, _ := strings.Cut(p, "=")
				before, after, _ := strings.Cut(text, key+"=")
				_, after, _ = strings.Cut(after, "\n")
				text = before + p + "\n" + after
			}
			if err != nil {
				return err
			}
			return os.WriteFile("/run/units/a.service", []byte(text), 0o600)
		}
	}
	all := func(deeds ...func() error) func() error {
		return func() error {
			for _, do := range deeds {
				if err := do(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	const yields = step.Restarted + " and yields"
	noDropIn := func() error { return os.RemoveAll("/run/systemd/system/a.service.d") }
	const exits, ended = "ActiveExitTimestampMonotonic=200", "ExecMainExitTimestampMonotonic=100"
	for name, tc := range map[string]struct {
		wants     string // state of the unit while the drill runs
		meanwhile func() error
		state     step.State
		text      string
		deeds     string // of the undo
	}{
		"nothing happens": {step.Restarted, nil, step.Reverted, "", "restart"},
		"stopped by hand": {step.Restarted, hand("stop", "a.service"), step.Conflict, "somebody has stopped a.service",
			""},
		"masked by hand": {step.Restarted, is("LoadState=masked"), step.Conflict, "somebody has masked a.service", ""},
		"and started again": {step.Restarted, all(hand("stop", "a.service"), hand("start", "a.service")), step.Reverted,
			"", "restart"},
		"about to be started": {step.Restarted, all(hand("stop", "a.service"), is("LoadState=loaded\nJob=12")),
			step.Reverted, "", "restart"},
		"it fails": {step.Restarted, is("ActiveState=failed", "Result=exit-code", exits, ended), step.Reverted,
			"", "reset-failed restart"},
		"it crashes in a loop": {step.Restarted,
			is("ActiveState=activating", "SubState=auto-restart", "Restart=always", "Result=exit-code", exits, ended),
			step.Reverted, "", "restart"},
		"and is stopped in it": {step.Restarted,
			is("ActiveState=inactive", "Restart=always", "Result=exit-code", exits, ended), step.Conflict,
			"somebody has stopped a.service", ""},
		// a oneshot
		"it is over at once": {step.Restarted, is("ActiveState=inactive", "ActiveExitTimestampMonotonic=0", ended),
			step.Reverted, "", "restart"},
		"a condition fails": {step.Restarted, all(hand("stop", "a.service"), is("ConditionResult=no")), step.Reverted, "",
			"restart"},
		"it ends by itself": {step.Restarted, is("ActiveState=inactive", exits, ended), step.Reverted, "", "restart"},
		"with what it needs": {step.Restarted, all(hand("stop", "b.service"), hand("stop", "a.service")), step.Reverted, "",
			"restart"},
		"the machine goes down": {step.Restarted,
			all(hand("stop", "a.service"), func() error { return os.WriteFile("/run/system", []byte("stopping\n"), 0o600) }),
			step.Reverted, "", "restart"}, // which fails on a real one: the reaper handles it
		"drop-in removed": {step.Restarted, noDropIn, step.Reverted, "", "restart"},
		"and stopped": {step.Restarted, all(noDropIn, hand("stop", "a.service")), step.Lost,
			"somebody has stopped a.service", ""},
		"stopped, as it is about": {yields, hand("stop", "a.service"), step.Reverted, "", "restart"},
		"masked, which it is not": {yields, is("LoadState=masked"), step.Conflict, "somebody has masked a.service", ""},
		"kept stopped":            {step.Stopped, nil, step.Reverted, "", "start"},
		"and masked":              {step.Stopped, is("LoadState=masked"), step.Conflict, "somebody has masked a.service", ""},
		"drop-in and it starts":   {step.Stopped, all(noDropIn, hand("start", "a.service")), step.Reverted, "", ""},
		"frozen":                  {step.Frozen, nil, step.Reverted, "", "thaw"},
	} {
		t.Run(name, func(t *testing.T) {
			k := unitDrill(t, tc.wants)
			if tc.meanwhile != nil {
				fine(t, tc.meanwhile())
			}
			fine(t, os.WriteFile("/run/deeds", nil, 0o600))
			fine(t, k.Revert(t.Context(), step.WhyAsked))
			b, err := os.ReadFile("/run/deeds")
			fine(t, err)
			if deeds := strings.Join(strings.Fields(strings.ReplaceAll(string(b), " a.service", "")), " "); deeds != tc.deeds {
				t.Errorf("it did %q, want %q", deeds, tc.deeds)
			}
			got := k.Journal.Ledger.Steps[0].Changes[0]
			if got.State != tc.state || got.Text != tc.text {
				t.Errorf("it is %s (%s), want %s (%s)", got.State, got.Text, tc.state, tc.text)
			}
			if _, err := os.Stat(aDropIn); (err == nil) != (tc.state == step.Conflict) {
				t.Errorf("%s, and the drop-in: %v", tc.state, err)
			}
		})
	}
}

// TestUnitAgain: an interrupted undo is completed, although it is the reason that the unit is down.
func TestUnitAgain(t *testing.T) {
	if !inside(t) {
		return
	}
	k := unitDrill(t, step.Restarted)
	fine(t, os.MkdirAll("/run/fails", 0o755), os.WriteFile("/run/fails/restart", nil, 0o600))
	// the reason that it cannot be started
	if _, err := must(t.Context(), "", "systemctl", "stop", "b.service"); err != nil {
		t.Fatal(err)
	}
	fine(t, os.WriteFile("/run/units/a.service",
		[]byte(strings.NewReplacer("=active", "=inactive", "Timestamp", "Timestamp", "=before", "=1").Replace(aUnit)), 0o600))
	if err := k.Revert(t.Context(), step.WhyAsked); err == nil {
		t.Fatal("it was restarted")
	}
	_, err := must(t.Context(), "", "systemctl", "start", "b.service")
	fine(t, err, os.Remove("/run/fails/restart"), k.Revert(t.Context(), step.WhyAsked))
	u, err := showUnit(t.Context(), "a.service")
	fine(t, err)
	if got := k.Journal.Ledger.State(); got != step.Reverted || !u.runs() {
		t.Errorf("it is %s, and the unit %s", got, u.Active)
	}
}

// TestUnitUnseen: an undo that could not compare has begun nothing, so another process has stopped a unit that is
// down by then.
func TestUnitUnseen(t *testing.T) {
	if !inside(t) {
		return
	}
	k := unitDrill(t, step.Restarted)
	fine(t, os.MkdirAll("/run/fails", 0o755), os.WriteFile("/run/fails/show", nil, 0o600))
	if err := k.Revert(t.Context(), step.WhyAsked); err == nil || k.Journal.Ledger.Final() {
		t.Fatalf("it is over, and nobody could look: %v", err)
	}
	_, err := must(t.Context(), "", "systemctl", "stop", "a.service")
	fine(t, err, os.Remove("/run/fails/show"), k.Revert(t.Context(), step.WhyAsked))
	if got := k.Journal.Ledger.Steps[0].Changes[0]; got.State != step.Conflict {
		t.Errorf("it is %s (%s)", got.State, got.Text)
	}
}

// unitDrill gives a.service a drop-in and that state, and returns who keeps it from running.
func unitDrill(t *testing.T, state string) *Keeper {
	t.Helper()
	fine(t, stage(), unix.Mount("tools", "/usr/local/sbin", "tmpfs", 0, ""), os.MkdirAll("/run/units", 0o755),
		os.MkdirAll("/run/drill", 0o755), os.MkdirAll("/run/systemd/system", 0o755))
	t.Cleanup(func() {
		for _, dir := range [...]string{"/usr/local/sbin", "/mnt", "/dev/shm", "/run", "/etc", "/proc"} {
			fine(t, unix.Unmount(dir, unix.MNT_DETACH))
		}
	})
	fine(t, os.WriteFile("/usr/local/sbin/systemctl", []byte(unitctl), 0o755),
		os.WriteFile("/run/units/a.service", []byte(aUnit), 0o600),
		os.WriteFile("/run/units/b.service", []byte(aUnit), 0o600), os.WriteFile("/run/units/-.mount", []byte(aUnit), 0o600),
		os.WriteFile("/run/units/over.service", []byte(strings.Replace(aUnit, "=active", "=inactive", 1)), 0o600))
	d := step.Drill{Schema: step.Schema, Run: "r", Scenario: "s", Node: "n", By: "me", TTL: 30_000}
	c := step.Change{Unit: &step.Unit{Unit: "a.service", DropIn: "[Service]\nX=y\n", State: state}}
	c.Unit.State, c.Unit.Yields = strings.CutSuffix(state, " and yields")
	if state == step.Frozen {
		c.Unit.DropIn = ""
	}
	d.Steps = []step.Step{{ID: "s", Fault: "f", Tier: step.TierBoot, Changes: []step.Change{c}}}
	fine(t, makeZeros("/run/drill/journal", step.JournalSize))
	f, err := os.OpenFile("/run/drill/journal", os.O_RDWR, 0)
	fine(t, err)
	t.Cleanup(func() { fine(t, f.Close()) })
	j, err := OpenJournal(f, step.JournalSize)
	fine(t, err)
	clock, err := HostClock()
	fine(t, err)
	k := &Keeper{Journal: j, Machine: &System{Dir: "/run/drill"}, Clock: clock, Lease: lease{}, By: step.ByWatchdog}
	fine(t, k.Plan(context.Background(), d), k.write(step.Entry{Event: step.EventArmed}),
		k.write(step.Entry{Event: step.EventWanted, Step: "s"}))
	_, err = k.Tick(context.Background())
	fine(t, err)
	if got := j.Ledger.State(); got != step.Done {
		t.Fatalf("it is %s", got)
	}
	return k
}
