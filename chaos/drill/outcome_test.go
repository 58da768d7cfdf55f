package drill_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// tell formats a run in lines: its events, the machines' commands, its claims and its verdict.
func (o outcome) tell() string {
	var b strings.Builder
	for _, e := range inOrder(o.events) {
		fmt.Fprintf(&b, "%6d %s\n", e.MS, brief(e))
	}
	for _, p := range o.story.Machines {
		fmt.Fprintf(&b, "%s: %s\n", p.ID, counted(o.boxes[p.ID].asked))
	}
	for _, c := range o.story.Claims() {
		if c.State == drill.Held {
			c.Text = ""
		}
		fmt.Fprintf(&b, "%-8s %s %s\n", c.State, c.ID, joined(string(c.Word), c.Text))
	}
	v := o.story.Verdict()
	fmt.Fprintf(&b, "%s: %s\n", v.Word, v.Text)
	for _, t := range o.story.Trouble {
		fmt.Fprintf(&b, "trouble: %s\n", t)
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

// inOrder sorts events that happen in the same millisecond into a canonical order.
func inOrder(events []drill.Event) []drill.Event {
	all := slices.Clone(events)
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].MS == all[from].MS {
			to++
		}
		slices.SortStableFunc(all[from:to], func(a, b drill.Event) int { return cmp.Compare(rank(a), rank(b)) })
		from = to
	}
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].MS == all[from].MS && all[to].Kind == all[from].Kind {
			to++
		}
		slices.SortStableFunc(all[from:to], func(a, b drill.Event) int { return cmp.Compare(a.Machine, b.Machine) })
		from = to
	}
	return all
}

// rank puts external events first.
func rank(e drill.Event) int {
	if e.Kind == drill.Interrupt {
		return 0
	}
	return 1
}

// counted formats words, with a count for repeated ones.
func counted(words []string) string {
	var all []string
	for i := 0; i < len(words); {
		n := 1
		for i+n < len(words) && words[i+n] == words[i] {
			n++
		}
		if n < 4 {
			all = append(all, words[i:i+n]...)
		} else {
			all = append(all, fmt.Sprintf("%d*%s", n, words[i]))
		}
		i += n
	}
	return strings.Join(all, " ")
}

func joined(words ...string) string {
	var all []string
	for _, w := range words {
		if w != "" {
			all = append(all, w)
		}
	}
	return strings.Join(all, ": ")
}

// brief formats an event in a line.
func brief(e drill.Event) string {
	words := []string{string(e.Kind), e.Machine, e.Step, e.Text}
	if s := e.WalkView; s != nil {
		words = append(words, string(s.Stage), s.VerdictLine())
	}
	if s := e.Seen; s != nil {
		words = append(words, string(s.Stage), s.Name, map[bool]string{true: "held", false: "not held"}[s.Held], s.Why)
	}
	if st := e.Status; st != nil {
		words = append(words, st.Phase, string(st.State), st.Why, st.Reverter)
	}
	for _, r := range e.Refused {
		words = append(words, r.String())
	}
	for _, r := range e.Residue {
		words = append(words, r.String(), r.Allowed)
	}
	if e.Clean != nil {
		words = append(words, fmt.Sprintf("clean %v", *e.Clean))
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// always returns problems that no run may have, whatever happened in it.
func (o outcome) always() []string {
	wrong := slices.Clone(o.wrong)
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	verdict := o.story.Verdict()
	if verdict.Word == drill.Pass {
		for _, c := range o.story.Claims() {
			if c.State != drill.Held {
				bad("a pass, although %s is %s", c.ID, c.State)
			}
		}
		if o.story.Interrupted != "" {
			bad("a pass, although it was interrupted")
		}
	}
	abandoned := o.world.abandon > 0
	for id, b := range o.boxes {
		asked := slices.Contains(b.asked, "revert")
		if n := slices.IndexFunc(o.events, func(e drill.Event) bool {
			return e.Kind == drill.Reverting && e.Machine == id
		}); b.armed && !abandoned && n < 0 && o.fullAt == 0 {
			bad("%s was armed, and is not asked to revert itself", id)
		}
		if b.armed && !abandoned && b.line.down[1] == 0 && len(b.line.hitches) == 0 && !asked {
			bad("%s was armed, and was not asked", id)
		}
		for place := range b.text {
			if o.broken[place] && !b.lying && b.stuck == 0 {
				bad("%s is still broken", place)
			}
		}
	}
	for id, n := range o.makes {
		if n > 1 {
			bad("step %s was made %d times", id, n)
		}
	}
	return append(wrong, o.logged()...)
}

// logged returns the problems of the log.
func (o outcome) logged() (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for i, e := range o.events {
		if e.Seq != i+1 || (i > 0 && e.MS < o.events[i-1].MS) {
			bad("event %d is number %d at %d ms", i+1, e.Seq, e.MS)
		}
	}
	if o.fullAt > 0 {
		return wrong
	}
	events, torn, err := drill.ReadEvents(bytes.NewReader(o.log.Bytes()))
	if err != nil || torn {
		bad("the log does not read: %v, torn %v", err, torn)
	}
	told, read := drill.Fold(o.events), drill.Fold(events)
	want := encoded(o.story)
	if got := encoded(&told); got != want {
		bad("what is read from the events is not what the run gave:\n%s\n%s", got, want)
	}
	if got := encoded(&read); got != want {
		bad("what is read from the log is not what the run gave:\n%s\n%s", got, want)
	}
	return wrong
}

func encoded(s *drill.Story) string {
	b, err := json.Marshal(s.Drill())
	if err != nil {
		return err.Error()
	}
	return string(b)
}
