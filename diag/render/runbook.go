package render

import (
	"io"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Runbook writes the page that reports point at: every signal and every reason as an anchor of its own, from the
// tables. docs/runbook.md is this text.
func Runbook(w io.Writer) error {
	m := &markdown{left: MarkdownCap}
	m.line("# Runbook")
	m.line("")
	m.line("Made from the tables in `diag/`; change it there. Words in <angle brackets> stand for values that a report fills in.")
	m.line("")
	m.line("A report gives only the steps that fit it: none that needs what it found broken, and none about what its facts rule out.")
	m.line("")
	m.line("## Signals")
	for _, s := range diag.Signals() {
		m.signal(&s)
	}
	m.line("")
	m.line("## Reasons")
	m.line("")
	m.line("Most pressing first: of several reasons that the evidence allows, the first one is the verdict.")
	for _, r := range diag.Reasons() {
		m.reason(&r)
	}
	m.scenarios()
	_, err := io.WriteString(w, m.b.String())
	return err
}

func (m *markdown) signal(s *diag.SignalRow) {
	m.line("")
	m.line("### %s", string(s.Signal))
	m.line("")
	m.line("%s. Owner: %s.", md(s.Title), md(s.Owner))
	if s.Dashboard != "" {
		m.line("Dashboard: node agent %s.", code(s.Dashboard))
	}
	if s.Terminal != "" {
		m.line("Dashboard: terminal %s.", code(s.Terminal))
	}
	m.line("Reason: [%s](#reason-%s).", code(string(s.Reason)), string(s.Reason))
	m.line("")
	for i, step := range s.Recovery {
		m.line("%d. %s%s", i+1, md(onlyIf(&step)), mdStep(diag.Fill(step.Text, nil)))
	}
	m.line("")
	m.line("Repaired when this passes: %s", code(diag.Fill(s.Proof, nil)))
}

// onlyIf says in which reports a step is given, "" in all that leave open what it is about.
func onlyIf(step *diag.Step) string {
	switch {
	case step.Side == diag.SidePlatform:
		return "if the control plane answers with errors, or not at all: "
	case step.Side == diag.SideOperator:
		return "if there is no sign of a control plane fault: "
	case step.On != "":
		return "for " + string(step.On) + ": "
	case step.When == diag.RelyTasks:
		return "if the agent takes no tasks: "
	case step.Guess:
		return "if no error was recorded: "
	}
	return ""
}

func (m *markdown) reason(r *diag.Reason) {
	m.line("")
	m.line("### reason %s", string(r.Code))
	m.line("")
	m.line("%s. Owner: %s. Layer: %s.", md(r.Title.Whole()), md(r.Owner), string(r.Layer))
	m.line("")
	m.line("- User state: %s", code(string(r.State)))
	if text := r.UserText.Whole(); text != "" {
		m.line("- Users see: %s", md(text))
	}
	m.line("- Next: %s", md(r.NextAction.Whole()))
	if r.Severity != "" {
		m.line("- Severity %s: detect within %s, repair %s", string(r.Severity), span(r.Detect), repair(r.Repair))
	}
	if len(r.Hides) > 0 {
		names := make([]string, len(r.Hides))
		for i, h := range r.Hides {
			names[i] = code(string(h))
		}
		m.line("- Hides: %s", strings.Join(names, ", "))
	}
}

// scenarios writes the failure matrix: what follows where the evidence tells a row apart.
func (m *markdown) scenarios() {
	m.line("")
	m.line("## Failure matrix")
	m.line("")
	m.line("A classification names its row here as `scenario`; budgets, deciding component and next action are then the row's.")
	m.line("")
	m.line("| scenario | reason | severity | detect within | repair within | decides | next |")
	m.line("|---|---|---|---|---|---|---|")
	for _, s := range diag.Scenarios() {
		var reasons []string
		for _, r := range s.Reasons {
			reasons = append(reasons, code(string(r)))
		}
		m.line("| %s (%s) | %s | %s | %s | %s | %s | %s |", md(s.Title), code(s.ID), strings.Join(reasons, ", "), string(s.Severity),
			span(s.Detect), repair(s.Repair), md(s.Component), md(s.Recovery.Whole()))
	}
}

func repair(d time.Duration) string {
	if d == 0 {
		return "by itself or on the next business day"
	}
	return "within " + span(d)
}

// span is a budget in one unit: "30 s", "5 min", "1 h".
func span(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return number64(int64(d/time.Hour)) + " h"
	case d%time.Minute == 0:
		return number64(int64(d/time.Minute)) + " min"
	}
	return number64(int64(d/time.Second)) + " s"
}
