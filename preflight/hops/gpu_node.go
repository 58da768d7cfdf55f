package hops

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// gpuGrace is how long a node may know more than the platform: events take time to arrive, and are judged every
	// minute.
	gpuGrace = 4 * time.Minute
)

// ReadGPUs returns the request for a node's GPU facts as its agent stores them, with raw events if this tool judges.
func ReadGPUs(e *hop.Env) diag.Request {
	return diag.Request{ID: hop.FactID(diag.HopGPUHealth, hop.StepGPUNode), Op: diag.OpGPU,
		Target:   e.Profile.Agent.GPUState,
		Evidence: e.Profile.GPU.Policy != ""}
}

// JudgeGPUs returns the request to judge a node's answer; the zero Request if the profile names no policy, or if the
// node gave nothing to judge.
func JudgeGPUs(e *hop.Env, node *diag.Fact) diag.Request {
	if e.Profile.GPU.Policy == "" || node == nil || node.GPU == nil || len(node.GPU.Evidence) == 0 {
		return diag.Request{}
	}
	return diag.Request{ID: hop.FactID(diag.HopGPUHealth, hop.StepGPUJudged), Op: diag.OpGPUJudge,
		Target: e.Profile.GPU.Policy,
		Since:  node.At, Events: node.GPU.Evidence}
}

// gpuNodeSteps read the node's own facts, and judge them if the profile names a policy.
func gpuNodeSteps() []hop.Step {
	id := diag.HopGPUHealth
	return []hop.Step{
		{
			Name: hop.StepGPUNode, From: hop.Node, Timeout: 2 * time.Second,
			Needs: hop.Needs{Hops: []diag.HopID{diag.HopNodeOpsAccess}}, Policy: hop.Policy{Optional: true},
			When: hop.SkipIf(func(c *hop.Case) string {
				switch login := c.Fact(diag.HopNodeOpsAccess, hop.StepSSH); {
				case login == nil || login.Passed():
				case c.Fact(id, hop.StepAdmission).Passed():
					return "no login on the node, and the platform judges its GPUs"
				case gpusUnjudged(c):
					return "no login on the node, and its GPUs are not judged"
				}
				return ""
			}),
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request { return ReadGPUs(e) },
		},
		{
			Name: hop.StepGPUJudged, From: hop.Operator, Timeout: 4 * time.Second,
			Needs: hop.Needs{
				Facts: []string{hop.FactID(id, hop.StepGPUNode)}, NoAPI: true,
				Profile: hop.SkipIf(func(p *profile.Profile) string {
					switch {
					case p.GPU.Policy != "":
						return ""
					case p.Mapping.Lacks(profile.PathNodeGPU):
						return "the profile has no gpu.policy"
					}
					return "the profile has no gpu.policy, so the platform judges GPUs"
				}),
			},
			When: hop.WaitIf(func(c *hop.Case) string {
				if f := c.Fact(id, hop.StepGPUNode); f == nil || f.GPU == nil || len(f.GPU.Evidence) == 0 {
					return "the node gave no evidence about GPUs"
				}
				return ""
			}),
			Ask: func(e *hop.Env, c *hop.Case) diag.Request { return JudgeGPUs(e, c.Fact(id, hop.StepGPUNode)) },
		},
	}
}

// whyPlatformNotAsked returns why the platform is not asked about GPUs; "" if it is.
func whyPlatformNotAsked(p *profile.Profile) string {
	if p.GPU.Policy != "" {
		return "the profile has gpuaasctl judge GPUs, by " + p.GPU.Policy + " (gpu.policy)"
	}
	return ""
}

// WhyGPUsUnjudged returns the text for GPUs that are not judged: the platform takes no events about them, and the
// profile names no policy.
func WhyGPUsUnjudged() string {
	return fmt.Sprintf("GPUs are not judged here: the platform takes no events about them (mapping.paths.%s: %q in the "+
		"profile), and the profile names no policy for gpuaasctl (gpu.policy)", profile.PathNodeGPU, profile.Absent)
}

// judgeNodeAlone returns the finding if no admission was read: this tool's own judgement is judged like a platform's
// document, and facts without a judgement are only shown.
func judgeNodeAlone(c *hop.Case) *diag.Finding {
	var out diag.Finding
	judged, node := c.Fact(diag.HopGPUHealth, hop.StepGPUJudged), c.Fact(diag.HopGPUHealth, hop.StepGPUNode)
	switch {
	case reading.JudgedHere("", judged, node) != nil:
		return judgeAdmission(c, judged)
	case judged != nil:
		out = reading.Undecided(judged, "the GPUs could not be judged: %s",
			cmp.Or(reading.OneLine(judged.Detail), "the judgement cannot be read"))
		out.Signal = diag.SigGPUUnknown
	case node != nil && gpusUnjudged(c) && c.Expected("agent_unit") == "" && noDriver(node):
		out = world.Unjudged(node, "no driver of NVIDIA is loaded on the node, and no error of one is known there")
	case node != nil && gpusUnjudged(c):
		out = world.Unjudged(node, "%s; the node itself: %s", WhyGPUsUnjudged(), gpuFacts(node))
	default:
		return nil
	}
	return &out
}

// noDriver reports whether a node has neither the kernel's module nor anything that one left.
func noDriver(f *diag.Fact) bool {
	g := f.GPU
	return f.Passed() && g != nil && g.Module == "" && g.Probe == "" && g.ErrorCount == 0 && len(g.GPUs) == 0 &&
		len(g.Evidence) == 0
}

// gpusUnjudged reports whether the plan has neither the platform nor this tool judge the GPUs.
func gpusUnjudged(c *hop.Case) bool {
	left := c.Planned(diag.HopGPUHealth).Left
	return left[hop.StepAdmission] != "" && left[hop.StepGPUJudged] != ""
}

// gpuFacts describes what a node knows about its GPUs, on one line.
func gpuFacts(f *diag.Fact) string {
	if !f.Passed() || f.GPU == nil {
		return "nothing is known (" + reading.Saw(f) + ")"
	}
	g := f.GPU
	words := []string{}
	add := func(label, text string) {
		if text != "" {
			words = append(words, label+reading.OneLine(text))
		}
	}
	add("GPUs ", g.Count.Words())
	add("driver ", g.Driver.Words())
	add("probe ", g.Probe)
	add("", g.ProbeWhy)
	if g.AgeMS != nil {
		add("sampled ", diag.Age(sampledAgo(g))+" before")
	}
	if g.ErrorCount > 0 {
		add("", fmt.Sprintf("%d kinds of errors in this boot, the last %s", g.ErrorCount, g.Errors[len(g.Errors)-1].What))
	}
	if g.EarlierBoot {
		add("", "all of an earlier boot")
	}
	return strings.Join(words, ", ")
}

// nodeDisagrees describes the node's own evidence against a platform that calls its GPUs usable; "" if both agree, or
// if the platform may not have received the node's facts yet.
func nodeDisagrees(a *reading.GPUAdmission, f *diag.Fact) string {
	if !f.Passed() || f.GPU == nil || f.GPU.EarlierBoot || (a.Health != reading.GPUHealthy &&
		a.Health != reading.GPUDegraded) {
		return ""
	}
	g := f.GPU
	if age := f.At.Sub(g.ProbeAt.Time); g.Probe != "" && g.Probe != "sampling" {
		if age > gpuGrace {
			return reading.OneLine(fmt.Sprintf("its GPU probe is %s (%s) for %s", g.Probe, g.ProbeWhy, diag.Age(age)))
		}
		return ""
	}
	if n, counted := g.Count.Number(); counted && n < int64(a.Listed) {
		return fmt.Sprintf("its driver counts %d", n)
	}
	for i := range g.GPUs {
		if g.GPUs[i].Lost {
			return fmt.Sprintf("GPU %d (%s) is lost", g.GPUs[i].Index, reading.OneLine(g.GPUs[i].PCI))
		}
	}
	if g.AgeMS != nil && sampledAgo(g) > gpuGrace {
		return "its GPUs were last sampled " + diag.Age(sampledAgo(g)) + " before"
	}
	return ""
}

// sampledAgo returns the age of the last sample, by the node's own clock.
func sampledAgo(g *diag.GPUFacts) time.Duration { return time.Duration(*g.AgeMS) * time.Millisecond }
