package hops

import (
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
	// maxJudgementAge is the age at which a judgement is stale: platforms judge every few minutes.
	maxJudgementAge = 15 * time.Minute

	GPUNotJudged = "gpu_not_judged" // the platform's error code if it judges no GPUs
)

// gpuHealth: how does the platform's policy judge the GPUs, by what the node reports? It explains no failure of another
// hop: no GPU breaks a terminal. A GPU that is not judged is neither healthy nor failed.
func gpuHealth() hop.Hop {
	id := diag.HopGPUHealth
	return hop.Hop{
		ID: id, Budget: 5 * time.Second,
		About: hop.About{
			OfNode: func(c *hop.Case) bool { return world.SameNode(c, c.Field(id, hop.StepAdmission, "gpu.node")) },
			NotAbout: func(c *hop.Case) []diag.Aspect {
				if world.DecidingXID(c) == "" {
					return []diag.Aspect{diag.AboutXID}
				}
				return nil
			},
		},
		Fields: []string{"gpu.health"},
		Steps: append([]hop.Step{{
			Name: hop.StepAdmission, From: hop.Operator, Timeout: 4 * time.Second,
			Needs: hop.Needs{
				Hops: []diag.HopID{diag.HopControlPlaneAccess}, Token: true, Paths: []string{profile.PathNodeGPU},
				Profile: hop.SkipIf(whyPlatformNotAsked),
			},
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				return e.Request("GET", profile.PathNodeGPU, nil, "gpu.health", "gpu.node", "gpu.node_status", "gpu.node_before",
					"gpu.policy", "gpu.policy_sha256", "gpu.policy_refused", "gpu.mode", "gpu.xid_tables", "gpu.decided_about",
					"gpu.decided_what", "gpu.decided_index", "gpu.decided_uuid", "gpu.decided_pci", "gpu.decided_rule",
					"gpu.decided_why", "gpu.gpus", "gpu.count", "gpu.expected", "gpu.sampled_at", "gpu.judged_at", "gpu.now")
			},
		}}, gpuNodeSteps()...),
		Judge: func(c *hop.Case) []diag.Finding {
			var out *diag.Finding
			if f := c.Fact(id, hop.StepAdmission); f != nil {
				out = judgeAdmission(c, f)
			} else {
				out = judgeNodeAlone(c)
			}
			if out != nil {
				return []diag.Finding{*out}
			}
			return nil
		},
		Pass: func(c *hop.Case) string {
			a := world.AdmissionIn(c)
			if a == nil {
				return ""
			}
			return fmt.Sprintf("%s healthy by the policy %s%s%s", gpuCount(a), reading.OneLine(a.Policy.Name), sampleAge(a),
				refusedPolicy(a))
		},
	}
}

// judgeAdmission judges the platform's answer; nil if the GPUs are healthy.
func judgeAdmission(c *hop.Case, f *diag.Fact) *diag.Finding {
	return admissionRows.judge(judged{c: c, f: f})
}

var admissionRows = rows{
	{when: func(j judged) bool { return HasNoAdmission(j.f) },
		then: unjudged("%s", func(j judged) string { return whyUnjudged(j.c, j.f) })},
	{when: func(j judged) bool { return !j.f.Passed() },
		then: undecided("what is known about the node's GPUs could not be read: %s", saw)},
	{when: func(j judged) bool { return admission(j) == nil && reading.Unasked(j.f, "gpu.health") }},
	{when: func(j judged) bool { return admission(j) == nil },
		then: unmapped("the answer has no health of the node's GPUs (gpu.health)")},
	{when: func(j judged) bool { return !admission(j).Known() },
		then: func(j judged) diag.Finding {
			return reading.UnknownWord(j.f, "the health of the node's GPUs", gpuHealthWord(admission(j)), reading.GPUHealths())
		}},
	{when: func(j judged) bool { return admission(j).Absent() },
		then: unjudged("the platform has no judgement of this node: %s",
			func(j judged) string { return admission(j).Decided.Words() })},
	{when: func(j judged) bool { return admission(j).None() },
		then: unjudged("the node should have no GPU, and none was seen")},
	{when: func(j judged) bool { return admission(j).Policy.Shadow() },
		then: unjudged("the policy %s is in shadow mode, on which nothing acts; it calls the GPUs %s%s", gpus(gpuPolicy),
			gpus(gpuHealthWord), gpus(gpuCause))},
	{when: func(j judged) bool { return staleJudgement(admission(j)) }, signal: diag.SigGPUUnknown,
		then: undecided("the platform's judgement of the GPUs (%s) is %s old", gpus(gpuHealthWord), gpus(judgedAgo))},
	{when: func(j judged) bool { return nodesGPUs(j) != "" },
		then: undecided("the platform reports %s with %s, but the node contradicts it: %s", gpus(gpuHealthWord),
			gpus(gpuCount), nodesGPUs),
		signal: diag.SigGPUUnknown,
		also: func(j judged, out *diag.Finding) {
			out.Evidence = append(out.Evidence, hop.FactID(diag.HopGPUHealth, hop.StepGPUNode))
		}},
	{when: func(j judged) bool { return admission(j).Health == reading.GPUUnknown }, signal: diag.SigGPUUnknown,
		then: undecided("the state of the GPUs is not known%s%s", gpus(gpuCause), gpus(refusedPolicy))},
	{when: func(j judged) bool { return admission(j).Health == reading.GPUDegraded },
		then: warns(diag.SigGPUDegraded, "the GPUs are degraded by the policy %s%s%s%s", gpus(gpuPolicy), gpus(gpuCause),
			gpus(otherGPUs), gpus(sampleAge))},
	{when: func(j judged) bool { return admission(j).Health == reading.GPUUnhealthy }, direct: true,
		then: fails(diag.SigGPUUnhealthy, "the GPUs are unhealthy by the policy %s%s%s%s%s", gpus(gpuPolicy), gpus(gpuCause),
			gpus(otherGPUs), gpus(sampleAge), gpus(nodeStatus))},
}

func admission(j judged) *reading.GPUAdmission { return world.AdmissionIn(j.c) }

// gpus returns a word about the admission.
func gpus(w func(*reading.GPUAdmission) string) word {
	return func(j judged) string { return w(admission(j)) }
}

func unjudged(format string, words ...word) func(judged) diag.Finding {
	return func(j judged) diag.Finding { return world.Unjudged(j.f, format, args(j, words)...) }
}

func gpuPolicy(a *reading.GPUAdmission) string     { return reading.OneLine(a.Policy.Name) }
func gpuHealthWord(a *reading.GPUAdmission) string { return reading.OneLine(a.Health) }
func judgedAgo(a *reading.GPUAdmission) string     { return diag.Age(a.Now.Sub(a.Judged.Time)) }

// nodesGPUs describes how the node contradicts the platform's judgement; "" if it does not.
func nodesGPUs(j judged) string {
	if admission(j).JudgedBy != reading.JudgedByPlatform {
		return ""
	}
	return nodeDisagrees(admission(j), j.c.Fact(diag.HopGPUHealth, hop.StepGPUNode))
}

// HasNoAdmission reports whether a platform answered that it has nothing about a node's GPUs, or no such path.
func HasNoAdmission(f *diag.Fact) bool { return reading.NoTrustPage(f) }

// whyUnjudged returns why the platform has no admission document.
func whyUnjudged(c *hop.Case, f *diag.Fact) string {
	switch {
	case reading.Code(f) == GPUNotJudged:
		return "this platform judges no GPUs (" + GPUNotJudged + ")"
	case world.NodeUnknown(c):
		return "the platform knows no node " + c.Subject.NodeID
	}
	return "this platform has nothing about GPUs at its node_gpu path: " + reading.Saw(f)
}

// gpuCause describes the finding that decided the health.
func gpuCause(a *reading.GPUAdmission) string {
	if a.Decided == nil {
		return ""
	}
	return ": " + a.Decided.Words()
}

// otherGPUs names the GPUs that are not healthy besides that of the deciding finding, and those that are there if
// others are not reported at all: a GPU that was never seen has no name.
func otherGPUs(a *reading.GPUAdmission) string {
	var others, there []string
	for i := range a.GPUs {
		g := &a.GPUs[i]
		there = append(there, g.Name())
		if g.Health != reading.GPUHealthy && (a.Decided == nil || !g.Same(&a.Decided.Subject)) {
			others = append(others, g.Name())
		}
	}
	text := ""
	if len(others) > 0 {
		text = "; not healthy: " + hop.Clip(others)
	}
	if n := a.Unreported(); n > 0 && len(there) > 0 {
		text += fmt.Sprintf("; %d not reported, unlike %s", n, hop.Clip(there))
	}
	return text
}

// gpuCount describes how many GPUs the document has, and how many there should be.
func gpuCount(a *reading.GPUAdmission) string {
	n := fmt.Sprintf("%d GPUs", a.Listed)
	if a.Listed == 1 {
		n = "1 GPU"
	}
	if a.Expects() && *a.Expected != a.Listed {
		n += fmt.Sprintf(" of %d", *a.Expected)
	}
	return n
}

// sampleAge describes how old the newest sample is, by the platform's clock.
func sampleAge(a *reading.GPUAdmission) string {
	if a.Sampled.IsZero() || a.Now.IsZero() {
		return "; when a GPU was last sampled is not known"
	}
	return fmt.Sprintf("; last sample %s ago", diag.Age(a.Now.Sub(a.Sampled.Time)))
}

// nodeStatus describes the status that the platform gives the node, if the platform judges.
func nodeStatus(a *reading.GPUAdmission) string {
	if a.JudgedBy != reading.JudgedByPlatform {
		return ""
	}
	return "; the node is " + reading.OrUnknown(reading.OneLine(a.Status))
}

// refusedPolicy is the text for a policy file that was changed and rejected.
func refusedPolicy(a *reading.GPUAdmission) string {
	if len(a.Policy.Refused) == 0 {
		return ""
	}
	return "; the current policy file is rejected, so the previous one is in use: " +
		reading.OneLine(strings.Join(a.Policy.Refused, "; "))
}

func staleJudgement(a *reading.GPUAdmission) bool {
	return !a.Judged.IsZero() && !a.Now.IsZero() && a.Now.Sub(a.Judged.Time) > maxJudgementAge
}
