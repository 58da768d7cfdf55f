package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/page"
)

// lines is Markdown that is written by hand, for its anchors and links.
type lines struct{ b strings.Builder }

func (m *lines) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

// runbookPage is docs/runbook.md, the page that reports point at: every signal and every reason as an anchor of its
// own, from the catalogue.
func runbookPage() string {
	m := &lines{}
	m.line("# Runbook")
	m.line("")
	m.line("Made from `diag/catalogue/`; change it there. Words in <angle brackets> stand for values that a report " +
		"fills in.")
	m.line("")
	m.line("A report gives only the steps that fit it: none that needs what it found broken, and none about what its " +
		"facts rule out.")
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
	return m.b.String()
}

func (m *lines) signal(s *diag.SignalRow) {
	m.line("")
	m.line("### %s", string(s.Signal))
	m.line("")
	m.line("%s. Owner: %s.", page.Escaped(s.Title), page.Escaped(s.Owners.String()))
	if s.Dashboard != "" {
		m.line("Dashboard: node agent %s.", page.CodeSpan(s.Dashboard))
	}
	if s.Terminal != "" {
		m.line("Dashboard: terminal %s.", page.CodeSpan(s.Terminal))
	}
	m.line("Reason: [%s](#reason-%s).", page.CodeSpan(string(s.Reason)), string(s.Reason))
	m.line("")
	for i, step := range s.Recovery {
		m.line("%d. %s%s", i+1, page.Escaped(onlyIf(&step)), page.StepMarkdown(diag.Fill(step.Template(), nil)))
	}
	m.line("")
	m.line("Repaired when this passes: %s", page.CodeSpan(diag.Fill(s.Proof.Command(), nil)))
}

// onlyIf says in which reports a step is given, "" in all that leave open what it is about.
func onlyIf(step *diag.Step) string {
	switch {
	case step.Side == diag.SidePlatform:
		return "if the control plane answers with errors, or not at all: "
	case step.Side == diag.SideOperator:
		return "if there is no sign of a control plane fault: "
	case step.Side == diag.SideEdge:
		return "if it is cut between browser and gateway: "
	case step.Side == diag.SideNodeWay:
		return "if it is cut between gateway and node: "
	case step.Side == diag.SideAgent:
		return "if the agent ended: "
	case step.On != "":
		return "for " + string(step.On) + ": "
	case step.When == diag.RelyTasks:
		return "if the agent takes no tasks: "
	case len(step.Only) > 0:
		return "for " + strings.Join(step.Only, ", ") + ": "
	case len(step.Except) > 0:
		return "except for " + strings.Join(step.Except, ", ") + ": "
	case step.Guess:
		return "if no error was recorded: "
	}
	return ""
}

func (m *lines) reason(r *diag.Reason) {
	m.line("")
	m.line("### reason %s", string(r.Code))
	m.line("")
	m.line("%s. Owner: %s. Layer: %s.", page.Escaped(r.Title.Whole()), page.Escaped(r.Owners.String()), string(r.Layer))
	m.line("")
	m.line("- User state: %s", page.CodeSpan(string(r.State)))
	if text := r.UserText.Whole(); text != "" {
		m.line("- Users see: %s", page.Escaped(text))
	}
	if len(r.UserActions) > 0 {
		m.line("- User interfaces: %s", codes(r.UserActions))
	}
	m.line("- Next: %s", page.Escaped(r.NextAction.Whole()))
	if r.Severity != "" {
		m.line("- Severity %s: detect within %s, repair %s", string(r.Severity), diag.Span(r.Detect), repair(r.Repair))
	}
	if len(r.Hides) > 0 {
		m.line("- Hides: %s", codes(r.Hides))
	}
}

// scenarios writes the failure matrix: what follows where the evidence tells a row apart.
func (m *lines) scenarios() {
	m.line("")
	m.line("## Failure matrix")
	m.line("")
	m.line("A classification names its row here as `scenario`; budgets, deciding component and next action are then " +
		"the row's.")
	m.line("")
	m.line("| scenario | reason | severity | detect within | repair within | decides | next |")
	m.line("|---|---|---|---|---|---|---|")
	for _, s := range diag.Scenarios() {
		m.line("| %s (%s) | %s | %s | %s | %s | %s | %s |", page.Escaped(s.Title), page.CodeSpan(s.ID), codes(s.Reasons),
			string(s.Severity),
			diag.Span(s.Detect), repair(s.Repair), page.Escaped(s.Deciders.String()), page.Escaped(s.Recovery.Whole()))
	}
}

func repair(d time.Duration) string {
	if d == 0 {
		return "by itself or on the next business day"
	}
	return "within " + diag.Span(d)
}
