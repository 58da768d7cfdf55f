package hop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Why a hop is skipped on request, or a step for lack of a token or a session.
const (
	SkipOnly    = "not in --only"
	SkipSkip    = "in --skip"
	SkipNoToken = "no operator token given (--token-file)"

	skipNoSession = "--run-ws-smoke=false"
	SkipWatch     = "not asked: a watch changes nothing (--full asks it)"
)

// reasons has, while a plan is made, why hops and steps are left out, by hop id and by fact id.
type reasons map[string]reason

// reason is why a step or hop is left out. root is the original reason if it depends on another one that is left out;
// absent means that this platform does not support it.
type reason struct {
	text, root string
	absent     bool
}

func given(text string) reason { return reason{text: text, root: text} }

// planned returns the plan's row of h; the rows before it must be known.
func (why reasons) planned(h *Hop, p profile.Profile, s diag.Subject, o Options) diag.PlannedHop {
	row := diag.PlannedHop{ID: h.ID, Vantages: h.From(), BudgetMS: Budget(p, h).Milliseconds(), Steps: []string{}}
	whole := given(Skipped(h, p, s, o))
	first, measuring, absent := reason{}, 0, true
	for _, step := range h.Steps {
		row.Steps = append(row.Steps, step.Name)
		if step.Pure || whole.text != "" {
			continue
		}
		measuring++
		left := why.leftOut(step, p, o)
		if left.text == "" {
			continue
		}
		if row.Left == nil {
			row.Left, first = map[string]string{}, left
		}
		row.Left[step.Name], why[FactID(h.ID, step.Name)] = left.text, left
		absent = absent && left.absent
	}
	row.Vantages = h.places(row)
	if whole.text == "" && measuring > 0 && len(row.Left) == measuring {
		whole, whole.absent = first, absent
	}
	if row.Skip = whole.text; row.Skip != "" {
		why[string(h.ID)] = whole
	}
	switch {
	case row.Skip != "" && whole.absent:
		row.Absent = row.Skip
	case row.Skip == "":
		row.Absent = lacks(p.Mapping, nil, h.Fields)
	}
	return row
}

// Skipped reports why a whole hop is not run, "" to run it.
func Skipped(h *Hop, p profile.Profile, s diag.Subject, o Options) string {
	switch {
	case len(o.Only) > 0 && !slices.Contains(o.Only, h.ID):
		return SkipOnly
	case slices.Contains(o.Skip, h.ID):
		return SkipSkip
	case s.AllocationID == "" && h.Allocation:
		return "no --allocation-id given"
	case o.Watch && h.session():
		return SkipWatch
	case !o.Session && h.session():
		return skipNoSession
	case h.NotGiven != nil:
		return h.NotGiven(&p)
	}
	return ""
}

// NoTerminalBase returns what the profile lacks for a hop that uses the browser's terminal gateway.
func NoTerminalBase(p *profile.Profile) string {
	if p.TerminalBase == "" {
		return "no terminal base given"
	}
	return ""
}

// leftOut returns why one step does not run: an input that the operator did not give, something that this platform does
// not support, or a needed step that is left out. Its text is "" if the step runs.
func (why reasons) leftOut(s Step, p profile.Profile, o Options) reason {
	if text := NotGiven(s, p, o); text != "" {
		return given(text)
	}
	if text := notThere(s, p.Mapping); text != "" {
		return reason{text: text, root: text, absent: true}
	}
	for _, need := range s.Needs {
		if r, out := why[string(need)]; out && !r.absent {
			return reason{text: fmt.Sprintf("needs %s, which is skipped (%s)", need, r.root), root: r.root}
		}
	}
	for _, fact := range s.After {
		hop, _, _ := strings.Cut(fact, "/")
		for _, id := range []string{fact, hop} {
			if r, out := why[id]; out {
				text := fmt.Sprintf("needs the answer of %s, which is skipped (%s)", fact, r.root)
				return reason{text: text, root: r.root, absent: r.absent}
			}
		}
	}
	return reason{}
}

// NotGiven returns what the operator did not give for a step, "" if nothing.
func NotGiven(s Step, p profile.Profile, o Options) string {
	if s.NotGiven != nil {
		if text := s.NotGiven(&p); text != "" {
			return text
		}
	}
	switch {
	case s.From == Platform && p.PlatformSSH.Host == "":
		return "the profile has no platform_ssh.host"
	case s.From == Node && !o.SSH:
		return "no node host given (--node-host, or nodes in the profile)"
	case s.Token && !o.Token:
		return SkipNoToken
	case s.From == Operator && p.APIBase == "" && !s.NoAPI:
		return "no API base given"
	case o.Watch && (s.Session || s.Changes):
		return SkipWatch
	case s.Session && !o.Session:
		return skipNoSession
	}
	return ""
}

// notThere returns what this platform does not have for a step, "" if nothing.
func notThere(s Step, m profile.Mapping) string {
	if s.NotThere != nil {
		if text := s.NotThere(m); text != "" {
			return text
		}
	}
	return lacks(m, s.Paths, s.Fields)
}

// lacks names the first of the paths and fields that a mapping does not have; for "a|b" one of the two is enough.
func lacks(m profile.Mapping, paths, fields []string) string {
	for _, path := range paths {
		if m.Path(path, nil) == "" {
			return fmt.Sprintf("this platform has no %s path (mapping.paths.%s: %q)", path, path, profile.Absent)
		}
	}
	for _, field := range fields {
		if !slices.ContainsFunc(strings.Split(field, "|"), func(name string) bool { return m.Field(name) != "" }) {
			name := strings.ReplaceAll(field, "|", " and no ")
			return fmt.Sprintf("this platform reports no %s (mapping.fields: %q)", name, profile.Absent)
		}
	}
	return ""
}

// OptedOut reports whether --only or --skip left the hop out, or one that it needs.
func OptedOut(h *diag.PlannedHop) bool {
	return h.Skip == SkipOnly || h.Skip == SkipSkip || strings.HasSuffix(h.Skip, "("+SkipSkip+")")
}
