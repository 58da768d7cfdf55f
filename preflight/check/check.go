// Package check makes a hop of each check that a profile declares, and judges it: by the rule that the plan has, from
// the fact alone. A check is a leaf: it may be explained by hops, and explains none.
package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Step is the name of a check's only step.
const Step = "check"

// reserve is what a hop keeps of its budget for counter-probes, which a check does not have.
const reserve = time.Second

// Hop returns the hop of a declared check. total is the time that all checks of a walk share; 0 if it is not known, as
// in a replay.
func Hop(id diag.HopID, c *diag.Check, total time.Duration) hop.Hop {
	h := hop.Hop{
		ID: id, Check: c, Budget: max(total, time.Duration(c.LimitMS)*time.Millisecond) + reserve,
		Meaning: hop.Meaning{Title: c.Title, Layer: diag.LayerManagement},
		Judge:   func(k *hop.Case) []diag.Finding { return judge(k.Fact(id, Step), c) },
		Pass:    func(k *hop.Case) string { return passed(k.Fact(id, Step), c) },
	}
	for _, by := range c.ExplainedBy {
		if _, builtIn := diag.LookupHop(by); builtIn {
			h.ExplainedBy = append(h.ExplainedBy, by)
		}
	}
	s := hop.Step{
		Name: Step, From: hop.Operator, Needs: hop.Needs{NoAPI: true},
		Ask:     func(*hop.Env, *hop.Case) diag.Request { return c.Request },
		Policy:  hop.Policy{Once: func(diag.Request) bool { return true }},
		Excused: func(_ *hop.Case, f *diag.Fact) bool { return judge(f, c) == nil },
	}
	if c.Request.Op != diag.OpCommand { // a command waits for others: its own limit is in the request
		s.Timeout = time.Duration(c.LimitMS) * time.Millisecond
	}
	if c.From == hop.Node {
		s.From, s.Needs.NoAPI = hop.Node, false
		s.Needs.Hops = append(s.Needs.Hops, diag.HopNodeOpsAccess)
	}
	h.Steps = []hop.Step{s}
	return h
}

// result is what a check came to.
type result struct {
	status diag.Status
	text   string
	fields map[string]string // metrics, and what else a rule may ask, by name
}

// judge returns the finding of a check; none if it passed, or was not measured.
func judge(f *diag.Fact, c *diag.Check) []diag.Finding {
	if f == nil {
		return nil
	}
	r := resultOf(f, c)
	out := diag.Finding{Status: r.status, Signal: diag.SigCheckFailed, Failure: f.Failure, Evidence: []string{f.ID}}
	switch r.status {
	case diag.StatusPass:
		return nil
	case diag.StatusFail, diag.StatusWarn:
		out.Text = c.Title + ": " + r.text
	default:
		out.Status, out.Signal, out.Because = diag.StatusInconclusive, "", r.text
	}
	return []diag.Finding{out}
}

// passed is the text of a pass.
func passed(f *diag.Fact, c *diag.Check) string {
	if text := resultOf(f, c).text; text != "" {
		return text
	}
	return c.Title
}

// resultOf judges one fact.
func resultOf(f *diag.Fact, c *diag.Check) result {
	if f == nil {
		return undecided("not measured")
	}
	r := result{status: diag.StatusPass}
	if c.Request.Op == diag.OpCommand {
		if r = ofCommand(f, c); r.status != diag.StatusPass && r.status != diag.StatusWarn {
			return r
		}
	} else if why, decided := ofFailure(f, c); why != "" {
		if !decided {
			return undecided("%s", why)
		}
		return result{status: diag.StatusFail, text: why}
	}
	if why := against(c.Pass, f, r.fields); why != "" {
		return result{status: diag.StatusFail, text: why}
	}
	if why := against(c.Warn, f, r.fields); why != "" && r.status == diag.StatusPass {
		return result{status: diag.StatusWarn, text: why}
	}
	return r
}

func undecided(format string, args ...any) result {
	return result{status: diag.StatusInconclusive, text: fmt.Sprintf(format, args...)}
}

// notEvidence are failures that say nothing of what a check is about.
var notEvidence = []diag.Failure{diag.Cancelled, diag.Unsupported, diag.NotPermitted, diag.FileUnreadable}

// ofFailure returns why a failing measurement decides, or why it does not; "" if the rule is asked: nothing failed, or
// the rule is about what failed.
func ofFailure(f *diag.Fact, c *diag.Check) (why string, decided bool) {
	switch {
	case f.Failure == diag.OK:
	case f.Failure == diag.Unsupported:
		return "the helper here does not know this measurement: it is older than the check, or the system lacks it (" +
			f.Detail + ")", false
	case slices.Contains(notEvidence, f.Failure), f.Failure.Local(), hop.Lost(f):
		return reading.Saw(f), false
	case decidesFailure(f, c):
	default:
		return reading.Saw(f), true
	}
	return "", true
}

// decidesFailure reports whether a check's rule is about what failed, so that the rule is asked.
func decidesFailure(f *diag.Fact, c *diag.Check) bool {
	asks := func(of func(*diag.CheckRule) bool) bool { return c.Pass != nil && of(c.Pass) }
	switch {
	case asks(func(r *diag.CheckRule) bool { return len(r.Failure) > 0 }):
	case f.HTTP != nil && f.HTTP.Status != 0 && asks(func(r *diag.CheckRule) bool { return len(r.Status) > 0 }):
	case (f.Unit != nil || f.Container != nil) && asks(func(r *diag.CheckRule) bool { return len(r.State) > 0 }):
	case f.Process != nil && c.Pass != nil && (c.Pass.Exists != nil || c.Pass.CountAtMost != nil):
	case f.Failure == diag.FileMissing && asks(func(r *diag.CheckRule) bool { return r.Exists != nil }):
	default:
		return false
	}
	return true
}

// ofCommand reads a command's output by its protocol.
func ofCommand(f *diag.Fact, c *diag.Check) result {
	run := f.Command
	program := "the program"
	if c.Request.Command != nil && len(c.Request.Command.Argv) > 0 {
		program = c.Request.Command.Argv[0]
	}
	switch {
	case f.Failure == diag.Unsupported:
		return undecided("this node's helper is older than this check, and does not run commands: %s", f.Detail)
	case run == nil && f.Failure == diag.Timeout:
		return undecided("%s was not run in time: %s", program, f.Detail)
	case run == nil:
		return undecided("%s was not run: %s", program, strings.TrimSpace(string(f.Failure)+": "+f.Detail))
	case run.Ended == diag.EndedByLimit:
		return undecided("%s did not end within %s, and was ended", program, diag.Millis(c.LimitMS).Words())
	case run.Ended == diag.EndedByFlood:
		return undecided("%s wrote more than %d MiB, and was ended", program, (run.OutBytes+run.ErrBytes)>>20)
	case run.Ended != "":
		return undecided("%s was ended with the walk", program)
	case run.Exit == nil:
		return undecided("%s was ended by %s", program, run.Signal)
	}
	parse, known := parsers[c.Protocol]
	if !known {
		return undecided("this tool does not know the protocol %q", c.Protocol)
	}
	r := parse(run, c)
	if r.status == diag.StatusPass && run.Cut && c.Protocol != diag.ProtocolExit && c.Protocol != diag.ProtocolNagios {
		return undecided("%s wrote more than is kept", program)
	}
	return r
}
