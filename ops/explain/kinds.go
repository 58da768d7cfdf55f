package explain

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
)

// plain is Markdown without its marks.
func plain(markdown string) string { return strings.ReplaceAll(markdown, "`", "") }

func hops() (all []Entry) {
	for i, h := range diag.Hops() {
		e := Entry{
			Kind: "hop", Word: string(h.ID), Number: i + 1, Title: h.Title, Means: []string{plain(h.About)},
			Do:  []string{"walk it alone: `" + command("{preflight} --only "+string(h.ID)) + "`"},
			See: []string{string(h.Layer)},
		}
		if h.Tenants != "" {
			e.Means = append(e.Means, "Tenants notice its failure at the "+h.Tenants+".")
		}
		for _, s := range h.Signals {
			row, _ := diag.LookupSignal(s)
			e.Causes = append(e.Causes, string(s)+": "+row.Title)
			e.See = append(e.See, string(s))
		}
		all = append(all, e)
	}
	return all
}

func signals() (all []Entry) {
	for _, s := range diag.Signals() {
		e := Entry{
			Kind: "signal", Word: string(s.Signal), Title: s.Title, Means: []string{"Owner: " + s.Owners.String() + "."},
			Verify: command(s.Proof.Command()),
		}
		for _, o := range s.BySide {
			e.Means = append(e.Means, "Owner if "+o.Side.Words()+": "+o.Owners.String()+".")
		}
		if s.Dashboard != "" {
			e.Means = append(e.Means, "Dashboard: node agent "+s.Dashboard+".")
		}
		e.Means = append(e.Means, "Reason: "+string(s.Reason)+".")
		for _, step := range s.Recovery {
			e.add(step.Condition(), step)
		}
		var by []string
		for _, h := range diag.Hops() {
			if slices.Contains(h.Signals, s.Signal) {
				by = append(by, string(h.ID))
			}
		}
		if len(by) > 0 {
			e.Measured = "by " + strings.Join(by, ", ")
		}
		if s.Reason != diag.ReasonNone {
			e.See = append(e.See, string(s.Reason))
		}
		all = append(all, e)
	}
	return all
}

// command returns a command with the names of values in place of a node's.
func command(template string) string {
	line, _ := diag.FillCommand(template, diag.General)
	return line
}

// add appends a step, whose condition is when.
func (e *Entry) add(when string, step diag.Step) {
	s := Step{When: when, step: step}
	s.NextStep, _ = step.Filled(diag.General) // which lacks no value
	e.Steps, e.Do = append(e.Steps, s), append(e.Do, s.Line())
}

func failures() (all []Entry) {
	for i, f := range diag.Failures {
		e := Entry{Kind: "failure", Word: string(f), Title: f.Words(), Causes: []string{failureCauses[i]}}
		family, _, _ := strings.Cut(string(f), "_")
		for _, m := range wordsOf("phase") {
			if m.word == family {
				e.Measured, e.See = m.means, []string{family}
			}
		}
		switch {
		case f.Operator():
			e.Means = []string{"The operator's own set-up ended the login: nothing follows from it about the node."}
		case f.Local():
			e.Means = []string{"The measuring machine itself ended the attempt: that shows nothing about the target."}
		case f.Silent():
			e.Means = []string{"Nothing answered: without a second probe the cause is a guess."}
		}
		all = append(all, e)
	}
	return all
}

func wordsOf(kind string) []meaning {
	for _, v := range vocabRows {
		if v.kind == kind {
			return v.words
		}
	}
	return nil
}

func reasons() (all []Entry) {
	for _, r := range diag.Reasons() {
		e := Entry{
			Kind: "reason", Word: string(r.Code), Title: r.Title.AllWordings(), Means: reasonMeans(&r),
			See: []string{string(r.State), string(r.Layer)},
		}
		if r.Severity != "" {
			e.See = append(e.See, string(r.Severity))
		}
		if next := r.NextAction.AllWordings(); next != "" {
			e.Do = append(e.Do, next)
		}
		if r.NeverReenroll {
			e.Do = append(e.Do, "do not re-enroll the node for it")
		}
		for _, h := range r.With {
			e.See = append(e.See, string(h))
		}
		for _, s := range diag.Signals() {
			if s.Reason == r.Code && r.Code != diag.ReasonNone {
				e.Causes = append(e.Causes, string(s.Signal)+": "+s.Title)
			}
		}
		all = append(all, e)
	}
	return all
}

func reasonMeans(r *diag.Reason) []string {
	means := []string{"Owner: " + r.Owners.String() + ". Layer: " + string(r.Layer) + ".",
		"User state: " + string(r.State) + "."}
	add := func(lead, text string) {
		if text != "" {
			means = append(means, lead+text+".")
		}
	}
	add("Users see: ", r.UserText.AllWordings())
	add("Users see, if the node does not recover by itself: ", r.Unrecovered.AllWordings())
	add("User interfaces: ", joined(r.UserActions))
	if r.Severity != "" {
		means = append(means, budget(r.Severity, r.Detect, r.Repair))
	}
	add("Hides: ", joined(r.Hides))
	return means
}

func joined[T ~string](words []T) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, ", ")
}

func budget(severity diag.Severity, detect, repair time.Duration) string {
	text := string(severity) + ": to be noticed within " + diag.Span(detect)
	if repair == 0 {
		return text + "; repaired by itself or on the next business day."
	}
	return text + ", repaired within " + diag.Span(repair) + "."
}

func scenarios() (all []Entry) {
	for _, s := range diag.Scenarios() {
		e := Entry{
			Kind: "scenario", Word: s.ID, Title: s.Title, Do: []string{s.Recovery.AllWordings()},
			Means: []string{"Decided by " + s.Deciders.String() + ". " + budget(s.Severity, s.Detect, s.Repair)},
		}
		for _, r := range s.Reasons {
			e.See = append(e.See, string(r))
		}
		all = append(all, e)
	}
	return all
}

func trustCauses() (all []Entry) {
	for _, c := range causeRows {
		e := Entry{
			Kind: "trust cause", Word: c.id, Title: c.moved, See: []string{string(c.signal)},
			Measured: "by gpuaasctl diag trust, which compares what both sides show with what they trust",
		}
		for _, t := range c.steps {
			e.add(t.when(), t.step)
		}
		all = append(all, e)
	}
	return all
}

// when is where a step of a repair is done.
func (t *trustStep) when() string { return "at the " + strings.ReplaceAll(t.where, "_", " ") + ": " }

func claims() (all []Entry) {
	for _, c := range drill.ClaimRows() {
		e := Entry{Kind: "claim", Word: c.ID, Title: c.Title, Means: []string{"Held when: " + plain(c.Held) + "."}}
		for _, w := range c.Else {
			e.See = append(e.See, string(w))
		}
		all = append(all, e)
	}
	return all
}

func exits() (all []Entry) {
	for _, x := range diag.Exits() {
		all = append(all, Entry{Kind: "exit code", Word: strconv.Itoa(x.Code), Title: plain(x.Means)})
	}
	return all
}

// fields returns all fields, one entry per name with all its places.
func fields() (all []Entry) {
	for _, f := range fieldRows {
		if n := len(all) - 1; n < 0 || all[n].Word != f.name {
			all = append(all, Entry{Kind: "field", Word: f.name, Title: "a JSON field of a report"})
		}
		e := &all[len(all)-1]
		e.Means = append(e.Means, f.in+": "+f.means)
	}
	return all
}
