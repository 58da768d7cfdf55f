package drill_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// TestInterrupted interrupts a run at every moment: the interrupt is recorded within a second, the fault is
// reverted within restTime, and no observation counts as a pass.
func TestInterrupted(t *testing.T) {
	const rest = 15 * time.Second
	whole := newWorld("n1", "n2").run(t, planOf("n1", "n2"))
	if v := whole.story.Verdict(); v.Word != drill.Pass {
		t.Fatal(v)
	}
	cases := map[string]*world{}
	for at := 50 * time.Millisecond; at < whole.took; at += 370 * time.Millisecond {
		w := newWorld("n1", "n2")
		w.interrupt = at
		cases[at.String()] = w
	}
	for _, e := range whole.events[:len(whole.events)-1] {
		w := newWorld("n1", "n2")
		w.seq, w.interrupt = e.Seq, time.Duration(e.MS)*time.Millisecond
		cases[fmt.Sprint("event ", e.Seq, " ", e.Kind)] = w
	}
	for name, w := range cases {
		t.Run(name, func(t *testing.T) {
			o, at := w.run(t, planOf("n1", "n2")), w.interrupt
			told := int64(-1)
			for _, e := range o.events {
				if e.Kind == drill.Interrupt {
					told = e.MS
				}
			}
			if late := told - at.Milliseconds(); told < 0 || late > 1000 {
				t.Errorf("it is reported %d ms later", late)
			}
			if o.took > at+rest {
				t.Errorf("it goes on for %s", o.took-at)
			}
			if v := o.story.Verdict(); v.Word == drill.Pass || v.Word.Worse(drill.Infra) {
				t.Errorf("%s: %s", v.Word, v.Text)
			}
			check(t, o)
		})
	}
}

// TestInterruptedOutOfReach: an unreachable machine is given up restTime after the interrupt, and reverts itself
// by its lease.
func TestInterruptedOutOfReach(t *testing.T) {
	for _, h := range []hitch{cutBefore, frozen} {
		t.Run(string(h), func(t *testing.T) {
			w := newWorld("n1", "n2")
			w.kind = drill.Broken
			w.boxes["n1"].line.hitches["revert"] = repeated(h, 1000)
			w.boxes["n1"].line.hitches["leave"] = repeated(h, 1000)
			o := w.run(t, planOf("n1", "n2"))
			if at := time.Duration(o.events[len(o.events)-1].MS) * time.Millisecond; at > 30*time.Second {
				t.Errorf("it ends after %s", at)
			}
			if v := o.story.Verdict(); v.Word != drill.Infra ||
				!strings.Contains(v.Text, "n1 is reverted is not known; it does so by itself after 20s") {
				t.Errorf("%s: %s", v.Word, v.Text)
			}
			if left := fmt.Sprint(left(o.story)); left != "[n1]" {
				t.Errorf("left: %s", left)
			}
			check(t, o)
		})
	}
}

// TestAbandoned: a second interrupt ends everything at once, whatever is frozen; the machines revert themselves.
func TestAbandoned(t *testing.T) {
	for at := 50 * time.Millisecond; at < 6*time.Second; at += 170 * time.Millisecond {
		for _, cold := range []bool{false, true} {
			t.Run(fmt.Sprint(at, cold), func(t *testing.T) {
				w := newWorld("n1", "n2")
				w.interrupt, w.abandon = at, at+200*time.Millisecond
				if cold {
					for _, command := range []string{"revert", "verify", "close", "leave", "status", "do"} {
						w.boxes["n1"].line.hitches[command] = repeated(frozen, 100)
					}
				}
				o := w.run(t, planOf("n1", "n2"))
				if late := o.took - w.abandon; late > 0 {
					t.Errorf("it ends %s after it was abandoned", late)
				}
				if o.until > w.abandon+40*time.Second {
					t.Errorf("the machines are at rest after %s", o.until)
				}
				check(t, o)
			})
		}
	}
}

// TestAbandonedAlone: an abandoned run ends at once, although it was not interrupted.
func TestAbandonedAlone(t *testing.T) {
	for at := 50 * time.Millisecond; at < 6*time.Second; at += 230 * time.Millisecond {
		w := newWorld("n1", "n2")
		w.abandon = at
		o := w.run(t, planOf("n1", "n2"))
		if o.took > at {
			t.Errorf("abandoned at %s, it ends %s later", at, o.took-at)
		}
		if v := o.story.Verdict(); o.took == at && v.Word == drill.Pass {
			t.Errorf("abandoned at %s: %s", at, v.Text)
		}
		check(t, o)
	}
}

// check reports problems that no run may have, whatever happened in it.
func check(t *testing.T, o outcome) {
	t.Helper()
	for _, wrong := range o.always() {
		t.Error(wrong)
	}
}
