package drill_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// longest bounds every run of these tests: the sum of the longest durations of its parts, with calls that hang as
// long as a call may.
const longest = 10 * time.Minute

// TestAnything runs drills in worlds in which anything may fail.
func TestAnything(t *testing.T) {
	seen := map[drill.Word]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w, p := anyWorld(rt), anyPlan(rt)
		o := w.run(t, p)
		wrong := append(o.always(), o.prefixes(rt)...)
		if o.took > longest {
			wrong = append(wrong, fmt.Sprintf("it took %s", o.took))
		}
		v := o.story.Verdict()
		seen[v.Word]++
		wrong = append(wrong, o.honest(v)...)
		if len(wrong) > 0 {
			rt.Fatalf("%q\n%s", wrong, o.tell())
		}
	})
	t.Logf("verdicts: %v", seen)
}

// honest returns problems of the verdict, judged by what the world knows and the run does not.
func (o outcome) honest(v drill.Verdict) (wrong []string) {
	if v.Word != drill.Pass {
		return nil
	}
	bad := func(format string, args ...any) {
		wrong = append(wrong, "a pass, although "+fmt.Sprintf(format, args...))
	}
	for id, b := range o.boxes {
		if b.armed && b.disk != nil {
			bad("the drill is still on %s", id)
		}
		for place, text := range b.text {
			if text != b.before[place] {
				bad("%s has %q at %s", id, text, place)
			}
		}
	}
	if len(o.makes) == 0 || o.idle() {
		bad("nothing was broken")
	}
	if o.sick || (o.never && !o.story.Plan.Scenario.Expect.Blame.None) || o.unproof || o.looks.always || o.lame ||
		o.looks.control || (o.muted && o.story.Plan.Scenario.Expect.SameCorrelationID) {
		bad("the world is as no pass can be")
	}
	return wrong
}

// idle reports whether no injector had an effect.
func (o outcome) idle() bool {
	for _, b := range o.boxes {
		if b.armed && !b.noop {
			return false
		}
	}
	return true
}

// prefixes returns problems of the report of a run that was killed after any of its events, or in the middle of
// one.
func (o outcome) prefixes(rt *rapid.T) (wrong []string) {
	bad := func(n int, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("of %d events: ", n)+fmt.Sprintf(format, args...))
	}
	every := max(1, len(o.events)/8)
	from := rapid.IntRange(0, every-1).Draw(rt, "first prefix")
	for n := from; n <= len(o.events); n += every {
		s, again := drill.Fold(o.events[:n]), drill.Fold(o.events[:n])
		if encoded(&s) != encoded(&again) {
			bad(n, "what is read is not the same every time")
		}
		v := s.Verdict()
		if v.Text == "" && v.Word != drill.Pass {
			bad(n, "%s, without a reason", v.Word)
		}
		if v.Word == drill.Pass {
			for _, p := range s.Machines {
				if p.Touched && !p.Closed {
					bad(n, "a pass, and the drill is still on %s", p.ID)
				}
			}
		}
	}
	text := o.log.Bytes()
	cut := rapid.IntRange(0, len(text)).Draw(rt, "killed at")
	events, _, err := drill.ReadEvents(bytes.NewReader(text[:cut]))
	if err != nil {
		bad(len(events), "it does not read: %v", err)
	}
	s := drill.Fold(events)
	var d drill.Drill
	if b, err := json.Marshal(s.Drill()); err != nil || json.Unmarshal(b, &d) != nil {
		bad(len(events), "its report is none: %v", err)
	}
	return wrong
}

// anyPlan returns a plan for one or two machines, with or without an expected blame.
func anyPlan(rt *rapid.T) chaos.Plan {
	ids := []string{"n1", "n2"}[:rapid.IntRange(1, 2).Draw(rt, "machines")]
	p := planOf(ids...)
	if rapid.IntRange(0, 3).Draw(rt, "nothing is to be blamed") == 3 {
		p = quiet(ids...)
	}
	if odd(rt, "decision") {
		p.Decision = &chaos.Decision{Path: "/x", Reason: "y"}
	}
	if odd(rt, "stop if") {
		p.Scenario.Guards.StopIf = []diag.HopID{diag.HopAppRuntimeLiveness}
	}
	p.Budgets.TTL = seconds(rapid.IntRange(12, 90).Draw(rt, "ttl"))
	for i := range p.Targets {
		d := &p.Targets[i].Drill
		d.TTL = step.MillisOf(p.Budgets.TTL.Std())
		d.Lease = min(d.Lease, d.TTL)
		if odd(rt, "allowed") {
			d.Allowed = []step.Allow{{Class: step.ClassFile, Key: "/etc/*", Why: "renewed"}}
		}
	}
	p.Budgets.Lease = min(p.Budgets.Lease, p.Budgets.TTL)
	return p
}

// odd is rarely true, so that most of a world works and runs get far.
func odd(rt *rapid.T, what string) bool { return rapid.IntRange(0, 29).Draw(rt, what) == 29 }

func upTo(rt *rapid.T, what string, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(1, most.Milliseconds()).Draw(rt, what)) * time.Millisecond
}

// anyWorld returns a world with some defects.
func anyWorld(rt *rapid.T) *world {
	w := newWorld("n1", "n2")
	w.chain.takes = 200*time.Millisecond + upTo(rt, "a walk takes", 4*time.Second)
	for i, is := range []*bool{&w.never, &w.sick, &w.muted, &w.nobody, &w.looks.always, &w.looks.control, &w.lame,
		&w.unproof, &w.hangs} {
		*is = odd(rt, []string{"never", "sick", "muted", "nobody", "always", "control", "lame", "unproof", "hangs"}[i])
	}
	for i, d := range []*time.Duration{&w.blind, &w.sore, &w.interrupt} {
		if what := []string{"blind", "sore", "interrupt"}[i]; odd(rt, what) {
			*d = upTo(rt, what, 30*time.Second)
		}
	}
	if w.interrupt > 0 && odd(rt, "abandon") {
		w.abandon = w.interrupt + upTo(rt, "abandon", 5*time.Second)
	}
	if odd(rt, "symptom") {
		w.symptom = rapid.SampledFrom(diag.HopIDs()).Draw(rt, "symptom")
	}
	if odd(rt, "another blame") {
		w.blames["block"] = diag.Blame{Hop: diag.HopNodeHeartbeat, Signal: diag.SigHeartbeatStale}
	}
	if odd(rt, "log") {
		w.fullAt = rapid.IntRange(1, 30).Draw(rt, "log")
	}
	for _, id := range []string{"n1", "n2"} {
		anyMachine(rt, w.boxes[id])
	}
	return w
}

// anyMachine gives a machine, and the line to it, random defects.
func anyMachine(rt *rapid.T, b *box) {
	commands := []string{"arm", "status", "renew", "do", "revert", "verify", "close", "leave"}
	is := func(what string) bool { return odd(rt, b.id+" "+what) }
	for _, command := range commands {
		if is(command + " has hitches") {
			kinds := []hitch{fine, fine, cutBefore, cutAfter, slow, frozen, frozenOut}
			b.line.hitches[command] = rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 4).Draw(rt, b.id+" "+command)
		}
		if is(command + " takes longer") {
			b.takes[command] = upTo(rt, b.id+" "+command+" takes", 12*time.Second)
		}
		if is(command + " is refused") {
			b.refuses[command] = step.Refuse(step.RefusedBusy, "no")
		}
	}
	if is("is cut off") {
		from := upTo(rt, "from", 20*time.Second)
		b.line.down = [2]time.Duration{from, from + upTo(rt, "for", 60*time.Second)}
	}
	b.noop, b.leaky, b.lying, b.hidden = is("no-op"), is("leaky"), is("lying"), is("hidden")
	if is("unseen") {
		b.unseen = "no"
	}
	if is("strange") {
		b.strange = "/etc/x"
	}
	if is("blocked") {
		b.blocked = 1
	}
	if is("stuck") {
		b.stuck = rapid.IntRange(1, 5).Draw(rt, "stuck")
	}
	for i, d := range []*time.Duration{&b.mends, &b.edits, &b.flaws.expires} {
		if what := []string{"mends", "edits", "expires"}[i]; is(what) {
			*d = upTo(rt, what, 10*time.Second)
		}
	}
}
