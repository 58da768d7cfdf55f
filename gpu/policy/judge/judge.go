package judge

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/common/types"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
)

// Judge judges evidence. With every, findings have the result of each rule.
func (p *Program) Judge(e policy.Evidence, mode policy.Mode, every bool) policy.Judgement {
	facts := policy.FactsOf(e)
	j := policy.Judgement{
		Policy: p.policy.Name, Digest: p.policy.Digest, Catalogue: xid.Digest, Mode: mode, Health: policy.Healthy,
		GPUs: []policy.GPUHealth{}, Past: facts.Past, Notes: facts.Notes,
	}
	node := &object{policy.AboutNode, facts.Node}
	for _, o := range facts.Observations {
		f, note := p.judge(o, node, every)
		if note != "" {
			j.Notes = append(j.Notes, note)
		}
		if !every {
			f.Rules = nil
		}
		j.Findings = append(j.Findings, f)
	}
	j.Findings = append(j.Findings, facts.Floors...)
	slices.SortStableFunc(j.Findings, func(a, b policy.Finding) int {
		switch {
		case policy.Worse(a.Health, b.Health):
			return -1
		case policy.Worse(b.Health, a.Health):
			return 1
		}
		return 0
	})
	if worst := j.Findings[0]; worst.Health != policy.Healthy {
		j.Health, j.Decided = worst.Health, &worst
	}
	for _, s := range facts.GPUs {
		j.GPUs = append(j.GPUs, healthOf(s, j.Findings))
	}
	return j
}

// healthOf returns a GPU's health: the first finding about it, since the worst come first.
func healthOf(s policy.Subject, findings []policy.Finding) policy.GPUHealth {
	g := policy.GPUHealth{Subject: s, Health: policy.Healthy}
	for _, f := range findings {
		about := f.Subject.About != policy.AboutNode &&
			((s.UUID != "" && f.Subject.UUID == s.UUID) || (s.PCI != "" && f.Subject.PCI == s.PCI) ||
				(f.Subject.Index != nil && *f.Subject.Index == *s.Index))
		if about {
			g.Health, g.Rule, g.Why = f.Health, f.Rule, f.Why
			if f.Subject.About == policy.AboutEvent {
				g.Why = f.Subject.What + ": " + f.Why
			}
			return g
		}
	}
	return g
}

// judge applies the rules to one observation. The first rule that holds decides; after a rule that cannot be evaluated,
// no milder rule can decide. note reports that a rule for HEALTHY preceded a worse one that also holds, unless that is
// for what no other rule decides.
func (p *Program) judge(o policy.Observation, node *object, every bool) (f policy.Finding, note string) {
	f = policy.Finding{Subject: o.Subject}
	vars := map[string]any{string(policy.AboutNode): node}
	if o.Subject.About != policy.AboutNode {
		vars[string(o.Subject.About)] = &object{o.Subject.About, o.Values}
	}
	open, decided := policy.Healthy, false // open: the worst result of the rules that could not be evaluated
	for _, r := range p.rules {
		if len(r.about) > 0 && r.about[0] != o.Subject.About {
			continue
		}
		if len(r.about) == 0 && o.Subject.About == policy.AboutNode {
			continue // "true" applies to each event and GPU
		}
		if decided && !every && f.Health != policy.Healthy {
			break
		}
		result := policy.RuleResult{Rule: r.Name, Result: r.Result}
		out, _, err := r.eval.Eval(vars)
		switch {
		case err != nil:
			result.Error = err.Error()
		case out == types.True:
			result.Holds = true
		case out != types.False:
			result.Error = fmt.Sprintf("is %v, neither true nor false", out)
		}
		f.Rules = append(f.Rules, result)
		switch {
		case result.Error != "" && !decided:
			f.Errors = append(f.Errors, result)
			open = policy.Worst(open, r.Result)
		case result.Holds && !decided:
			decided = true
			f.Health, f.Rule, f.Why = r.Result, r.Name, r.Description
		case result.Holds && f.Health == policy.Healthy && policy.Worse(r.Result, policy.Healthy) && !r.Otherwise &&
			note == "":
			note = fmt.Sprintf("%s: the rule %s for HEALTHY precedes %s for %s, which also holds", o.Subject.What, f.Rule,
				r.Name, r.Result)
		}
	}
	switch {
	case len(f.Errors) > 0 && (!decided || policy.Worse(open, f.Health) || f.Health == policy.Healthy):
		f.Health, f.Rule = policy.Unknown, ""
		f.Why = fmt.Sprintf("the rule %s could not be evaluated: %s", f.Errors[0].Rule, f.Errors[0].Error)
	case !decided && o.Subject.About == policy.AboutEvent:
		f.Health, f.Why = policy.Unknown, "no rule of the policy is about this event"
	case !decided:
		f.Health, f.Why = policy.Healthy, "no rule holds"
	}
	return f, note
}
