package hops

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// nodeOpsAccess: can the operator log in? A broken login is not evidence about the agent.
func nodeOpsAccess() hop.Hop {
	id := diag.HopNodeOpsAccess
	return hop.Hop{
		ID: id, Budget: 12 * time.Second, Opens: hop.Node,
		Silence: &hop.Silence{Signal: diag.SigOpsSSHFailed, Side: "", Request: "the login on the node"},
		NotAbout: func(c *hop.Case) []diag.Aspect {
			if sshAnswered(c.Fact(id, hop.StepSSH)) {
				return []diag.Aspect{diag.AboutPath}
			}
			return nil
		},
		Steps: []hop.Step{{
			Name: hop.StepSSH, From: hop.Node, Timeout: 10 * time.Second,
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				return diag.Request{Op: diag.OpSSH, Target: e.Subject.NodeHost}
			},
		}},
		Judge: judgeOpsAccess,
		Pass: func(c *hop.Case) string {
			s := c.Fact(id, hop.StepSSH).SSH
			if s == nil {
				return "logged in"
			}
			return fmt.Sprintf("%s@%s, probes run by the %s agent", s.User, c.Subject.NodeHost, s.Helper)
		},
	}
}

func judgeOpsAccess(c *hop.Case) []diag.Finding {
	f := c.Fact(diag.HopNodeOpsAccess, hop.StepSSH)
	if f == nil {
		return nil
	}
	if broken := c.LostOnTheWay(); f.Passed() && broken != nil {
		return []diag.Finding{reading.Fail(diag.SigOpsSSHFailed, broken,
			"the login on %s worked, and broke in the middle of the walk: %s", c.Subject.NodeHost, reading.Saw(broken))}
	}
	if f.Passed() && !SudoRefused(c, f) {
		return nil
	}
	if f.Passed() {
		out := reading.Fail(diag.SigOpsSSHFailed, f,
			"%s logs in, but sudo -n is refused, so checks that need root cannot run (if that is intended, set "+
				"ssh.sudo: false in the profile)", f.SSH.User)
		out.Failure = diag.NotPermitted
		return []diag.Finding{out}
	}
	if own := operatorsOwn(c, f); own != nil {
		return []diag.Finding{*own}
	}
	sig, text := diag.SigOpsSSHFailed, fmt.Sprintf("no login on %s: %s", c.Subject.NodeHost, reading.Saw(f))
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	guest := c.Field(diag.HopNodeHeartbeat, hop.StepReadModel, "node.guest_agent_status")
	if classify.GuestAgentGone(guest) {
		sig, text = diag.SigOpsAccessUnhealthy, text+"; the provider says that the guest agent is "+guest
	}
	out := reading.Fail(sig, f, "%s", text)
	world.Claim(c, &out, world.ClaimAgentAlive)
	if world.SSHSilent(c) {
		out.Culprit = world.CulpritSilentNode
	}
	return []diag.Finding{out}
}

// operatorsOwn is the finding of a login that ended, or may have ended, on the operator's side, which is not the node's
// fault. It is nil if the node's own answer, a changed key or silence ended the login.
func operatorsOwn(c *hop.Case, f *diag.Fact) *diag.Finding {
	sig, why := diag.SigOperatorPathBroken, "the node was not contacted"
	switch {
	case f.Failure == diag.SSHNoKey:
		sig, why = diag.SigOperatorKeyMissing, "this operator offered no key"
	case f.Failure == diag.SSHAuth && f.SSH != nil && f.SSH.NotOffered > 0 && f.SSH.AuthMethod == "": // no key accepted
		sig, why = diag.SigOperatorKeyMissing, "the node refused some keys, and was not shown all of this operator's"
	case f.Failure == diag.SSHHostKeyUnknown:
		sig, why = diag.SigOperatorHostKeyUnknown, "no host key has been accepted on this machine yet"
	case f.Failure == diag.SSHSetup && reading.InPhase(f, "exec"):
		sig, why = diag.SigOperatorHelperMissing, "the login works, but there is no gpuaas-agent to probe the node with"
	case f.Failure.Operator():
	case reading.InPhase(f, "config", "dns"):
		why = "the name does not resolve on this machine, so the node was not contacted"
		if reading.InPhase(f, "config") {
			why = "the login was not attempted"
		}
	case world.UnknownRefuser(f):
		why = "a policy refuses the connection: this machine's, or that of a router on the path, which is the same errno " +
			"over IPv6"
	case f.Failure == diag.TCPDenied, f.Failure == diag.TCPNetUnreachable:
		why = "this machine has no route to the node's network"
	case f.Failure == diag.TCPNoRoute && !world.SilentNode(c):
		why = "there is no route to it from this machine, or a firewall rejected the connection; the node itself may be fine"
	default:
		return nil
	}
	text := fmt.Sprintf("no login on %s: %s: %s", c.Subject.NodeHost, why, reading.Saw(f))
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	out := reading.Undecided(f, "%s", text)
	out.Signal = sig
	return &out
}

// SudoRefused reports whether the login should have become root on the node, but did not.
func SudoRefused(c *hop.Case, f *diag.Fact) bool {
	return f.SSH != nil && f.SSH.UID != nil && *f.SSH.UID != 0 &&
		(f.SSH.SudoRefused || strings.HasSuffix(c.Expected("ssh"), hop.SudoWords))
}
