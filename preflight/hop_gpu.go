package preflight

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// maxJudgementAge is the age at which a judgement is stale: platforms judge every few minutes.
	maxJudgementAge = 15 * time.Minute

	gpuNotJudged = "gpu_not_judged" // the platform's error code if it judges no GPUs
)

// gpuHealth: how does the platform's policy judge the GPUs, by what the node reports? It explains no failure of another
// hop: no GPU breaks a terminal. A GPU that is not judged is neither healthy nor failed.
func gpuHealth() Hop {
	id := diag.HopGPUHealth
	return Hop{
		ID: id, Budget: 5 * time.Second, Fields: []string{"gpu.health"},
		OfNode: func(c *Case) bool { return sameNode(c, c.Field(id, stepAdmission, "gpu.node")) },
		NotAbout: func(c *Case) []diag.Aspect {
			if decidingXID(c) == "" {
				return []diag.Aspect{diag.AboutXID}
			}
			return nil
		},
		Steps: append([]Step{{
			Name: stepAdmission, From: Operator, Token: true, Timeout: 4 * time.Second, NotGiven: whyPlatformNotAsked,
			Needs: []diag.HopID{diag.HopControlPlaneAccess}, Paths: []string{profile.PathNodeGPU},
			Ask: func(e *Env, _ *Case) diag.Request {
				return e.api("GET", profile.PathNodeGPU, nil, "gpu.health", "gpu.node", "gpu.node_status", "gpu.node_before",
					"gpu.policy", "gpu.policy_sha256", "gpu.policy_refused", "gpu.mode", "gpu.xid_tables", "gpu.decided_about",
					"gpu.decided_what", "gpu.decided_index", "gpu.decided_uuid", "gpu.decided_pci", "gpu.decided_rule",
					"gpu.decided_why", "gpu.gpus", "gpu.count", "gpu.expected", "gpu.sampled_at", "gpu.judged_at", "gpu.now")
			},
		}}, gpuNodeSteps()...),
		Judge: func(c *Case) []diag.Finding {
			var out *diag.Finding
			if f := c.Fact(id, stepAdmission); f != nil {
				out = judgeAdmission(c, f)
			} else {
				out = judgeNodeAlone(c)
			}
			if out != nil {
				return []diag.Finding{*out}
			}
			return nil
		},
		Pass: func(c *Case) string {
			a := admissionIn(c)
			if a == nil {
				return ""
			}
			return fmt.Sprintf("%s healthy by the policy %s%s%s", gpuCount(a), oneLine(a.Policy.Name), sampleAge(a),
				refusedPolicy(a))
		},
	}
}

// GPUsOf returns what a walk read about the node's GPUs; nil if it read nothing.
func GPUsOf(r *diag.Report) *GPUAdmission {
	c := BuiltIn().caseOf(r)
	if a := AdmissionOf(c.Subject.NodeID, c.Fact(diag.HopGPUHealth, stepAdmission)); a != nil {
		return a
	}
	return admissionIn(c)
}

// judgeAdmission judges the platform's answer; nil if the GPUs are healthy.
func judgeAdmission(c *Case, f *diag.Fact) *diag.Finding {
	a := admissionIn(c)
	node, disagrees := c.Fact(diag.HopGPUHealth, stepGPUNode), ""
	if a != nil && a.JudgedBy == judgedByPlatform {
		disagrees = nodeDisagrees(a, node)
	}
	var out diag.Finding
	switch {
	case HasNoAdmission(f):
		out = unjudged(f, "%s", whyUnjudged(c, f))
	case !f.Passed():
		out = undecided(f, "what is known about the node's GPUs could not be read: %s", saw(f))
	case a == nil && unasked(f, "gpu.health"):
		return nil
	case a == nil:
		out = unmapped(f, "the answer has no health of the node's GPUs (gpu.health)")
	case !a.known():
		out = unknownWord(f, "the health of the node's GPUs", oneLine(a.Health), gpuHealths())
	case a.absent():
		out = unjudged(f, "the platform has no judgement of this node: %s", a.Decided.Words())
	case a.none():
		out = unjudged(f, "the node should have no GPU, and none was seen")
	case a.Policy.Shadow():
		out = unjudged(f, "the policy %s is in shadow mode, on which nothing acts; it calls the GPUs %s%s",
			oneLine(a.Policy.Name), a.Health, gpuCause(a))
	case staleJudgement(a):
		out = undecided(f, "the platform's judgement of the GPUs (%s) is %s old", a.Health,
			diag.Age(a.Now.Sub(a.Judged.Time)))
		out.Signal = diag.SigGPUUnknown
	case disagrees != "":
		out = undecided(f, "the platform reports %s with %s, but the node contradicts it: %s", a.Health, gpuCount(a),
			disagrees)
		out.Signal, out.Evidence = diag.SigGPUUnknown, append(out.Evidence, node.ID)
	case a.Health == GPUUnknown:
		out = undecided(f, "the state of the GPUs is not known%s%s", gpuCause(a), refusedPolicy(a))
		out.Signal = diag.SigGPUUnknown
	case a.Health == GPUDegraded:
		out = warn(diag.SigGPUDegraded, f, "the GPUs are degraded by the policy %s%s%s", oneLine(a.Policy.Name), gpuCause(a),
			sampleAge(a))
	case a.Health == GPUUnhealthy:
		out = fail(diag.SigGPUUnhealthy, f, "the GPUs are unhealthy by the policy %s%s%s%s",
			oneLine(a.Policy.Name), gpuCause(a), sampleAge(a), nodeStatus(a))
		out.Direct = true
	default:
		return nil
	}
	return &out
}

// HasNoAdmission reports whether a platform answered that it has nothing about a node's GPUs, or no such path.
func HasNoAdmission(f *diag.Fact) bool { return noTrustPage(f) }

// whyUnjudged returns why the platform has no admission document.
func whyUnjudged(c *Case, f *diag.Fact) string {
	switch {
	case code(f) == gpuNotJudged:
		return "this platform judges no GPUs (" + gpuNotJudged + ")"
	case nodeUnknown(c):
		return "the platform knows no node " + c.Subject.NodeID
	}
	return "this platform has nothing about GPUs at its node_gpu path: " + saw(f)
}

// gpuCause describes the finding that decided the health.
func gpuCause(a *GPUAdmission) string {
	if a.Decided == nil {
		return ""
	}
	return ": " + a.Decided.Words()
}

// gpuCount describes how many GPUs the document has, and how many there should be.
func gpuCount(a *GPUAdmission) string {
	n := fmt.Sprintf("%d GPUs", a.listed)
	if a.listed == 1 {
		n = "1 GPU"
	}
	if a.expects() && *a.Expected != a.listed {
		n += fmt.Sprintf(" of %d", *a.Expected)
	}
	return n
}

// sampleAge describes how old the newest sample is, by the platform's clock.
func sampleAge(a *GPUAdmission) string {
	if a.Sampled.IsZero() || a.Now.IsZero() {
		return "; when a GPU was last sampled is not known"
	}
	return fmt.Sprintf("; last sample %s ago", diag.Age(a.Now.Sub(a.Sampled.Time)))
}

// nodeStatus describes the status that the platform gives the node, if the platform judges.
func nodeStatus(a *GPUAdmission) string {
	if a.JudgedBy != judgedByPlatform {
		return ""
	}
	return "; the node is " + orUnknown(oneLine(a.Status))
}

// refusedPolicy is the text for a policy file that was changed and rejected.
func refusedPolicy(a *GPUAdmission) string {
	if len(a.Policy.Refused) == 0 {
		return ""
	}
	return "; the current policy file is rejected, so the previous one is in use: " +
		oneLine(strings.Join(a.Policy.Refused, "; "))
}

func staleJudgement(a *GPUAdmission) bool {
	return !a.Judged.IsZero() && !a.Now.IsZero() && a.Now.Sub(a.Judged.Time) > maxJudgementAge
}
