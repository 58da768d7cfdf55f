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
		ID: id, Budget: 5 * time.Second, Fields: []string{"gpu.health"},
		OfNode: func(c *hop.Case) bool { return world.SameNode(c, c.Field(id, hop.StepAdmission, "gpu.node")) },
		NotAbout: func(c *hop.Case) []diag.Aspect {
			if world.DecidingXID(c) == "" {
				return []diag.Aspect{diag.AboutXID}
			}
			return nil
		},
		Steps: append([]hop.Step{{
			Name: hop.StepAdmission, From: hop.Operator, Token: true, Timeout: 4 * time.Second, NotGiven: whyPlatformNotAsked,
			Needs: []diag.HopID{diag.HopControlPlaneAccess}, Paths: []string{profile.PathNodeGPU},
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
	a := world.AdmissionIn(c)
	node, disagrees := c.Fact(diag.HopGPUHealth, hop.StepGPUNode), ""
	if a != nil && a.JudgedBy == reading.JudgedByPlatform {
		disagrees = nodeDisagrees(a, node)
	}
	var out diag.Finding
	switch {
	case HasNoAdmission(f):
		out = world.Unjudged(f, "%s", whyUnjudged(c, f))
	case !f.Passed():
		out = reading.Undecided(f, "what is known about the node's GPUs could not be read: %s", reading.Saw(f))
	case a == nil && reading.Unasked(f, "gpu.health"):
		return nil
	case a == nil:
		out = reading.Unmapped(f, "the answer has no health of the node's GPUs (gpu.health)")
	case !a.Known():
		out = reading.UnknownWord(f, "the health of the node's GPUs", reading.OneLine(a.Health), reading.GPUHealths())
	case a.Absent():
		out = world.Unjudged(f, "the platform has no judgement of this node: %s", a.Decided.Words())
	case a.None():
		out = world.Unjudged(f, "the node should have no GPU, and none was seen")
	case a.Policy.Shadow():
		out = world.Unjudged(f, "the policy %s is in shadow mode, on which nothing acts; it calls the GPUs %s%s",
			reading.OneLine(a.Policy.Name), a.Health, gpuCause(a))
	case staleJudgement(a):
		out = reading.Undecided(f, "the platform's judgement of the GPUs (%s) is %s old", a.Health,
			diag.Age(a.Now.Sub(a.Judged.Time)))
		out.Signal = diag.SigGPUUnknown
	case disagrees != "":
		out = reading.Undecided(f, "the platform reports %s with %s, but the node contradicts it: %s", a.Health, gpuCount(a),
			disagrees)
		out.Signal, out.Evidence = diag.SigGPUUnknown, append(out.Evidence, node.ID)
	case a.Health == reading.GPUUnknown:
		out = reading.Undecided(f, "the state of the GPUs is not known%s%s", gpuCause(a), refusedPolicy(a))
		out.Signal = diag.SigGPUUnknown
	case a.Health == reading.GPUDegraded:
		out = reading.Warn(diag.SigGPUDegraded, f, "the GPUs are degraded by the policy %s%s%s",
			reading.OneLine(a.Policy.Name), gpuCause(a), sampleAge(a))
	case a.Health == reading.GPUUnhealthy:
		out = reading.Fail(diag.SigGPUUnhealthy, f, "the GPUs are unhealthy by the policy %s%s%s%s",
			reading.OneLine(a.Policy.Name), gpuCause(a), sampleAge(a), nodeStatus(a))
		out.Direct = true
	default:
		return nil
	}
	return &out
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
