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
		ID: id, Budget: 12 * time.Second,
		About: hop.About{NotAbout: func(c *hop.Case) []diag.Aspect {
			if sshAnswered(c.Fact(id, hop.StepSSH)) {
				return []diag.Aspect{diag.AboutPath}
			}
			return nil
		}},
		Role:    hop.Role{Opens: hop.Node},
		Silence: &hop.Silence{Signal: diag.SigOpsSSHFailed, Side: "", Request: "the login on the node"},
		Steps: []hop.Step{{
			Name: hop.StepSSH, From: hop.Node, Timeout: 10 * time.Second,
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				return diag.Request{Op: diag.OpSSH, Target: e.Subject.NodeHost}
			},
		}},
		Judge: opsAccessRows.about(id, hop.StepSSH),
		Pass: func(c *hop.Case) string {
			s := c.Fact(id, hop.StepSSH).SSH
			if s == nil {
				return "logged in"
			}
			text := fmt.Sprintf("%s@%s, probes run by the %s agent", s.User, c.Subject.NodeHost, s.Helper)
			if SudoRefused(c, c.Fact(id, hop.StepSSH)) {
				text += ", without root: sudo -n is refused, so what needs root is not measured"
			}
			return text
		},
	}
}

var opsAccessRows = rows{
	{of: lostLater,
		then: fails(diag.SigOpsSSHFailed, "the login on %s worked, and broke in the middle of the walk: %s", nodeHost,
			saw)},
	{when: func(j judged) bool { return j.f.Passed() && (!SudoRefused(j.c, j.f) || hop.Checked(&j.c.Plan)) }},
	{
		when: func(j judged) bool {
			return j.f.Passed() && (j.f.SSH.SudoMissing || !world.Reference(j.c))
		},
		then: warns("", "%s logs in, but sudo -n does not work for this login%s: what only root may read is not measured; "+
			"set ssh.sudo: false, or let %s use sudo without a password", loginUser, noSudo, loginUser)},
	{when: func(j judged) bool { return j.f.Passed() }, failure: diag.NotPermitted,
		then: fails(diag.SigOpsSSHFailed, "%s logs in, but sudo -n is refused, so checks that need root cannot run (if "+
			"that is intended, set ssh.sudo: false in the profile)", loginUser)},
	{when: func(j judged) bool { return reading.InPhase(j.f, "exec") && strings.Contains(j.f.Detail, "sudo:") },
		then: fails(diag.SigOpsSSHFailed, "the login on %s works, but sudo -n does not work for it%s; set ssh.sudo: false, "+
			"or let the login use sudo without a password", nodeHost, detail)},

	// It ended, or may have ended, on the operator's side, which is not the node's fault: not by the node's own answer,
	// by a changed key or in silence.
	{when: func(j judged) bool { return j.f.Failure == diag.SSHNoKey },
		then: noLogin(diag.SigOperatorKeyMissing, "this operator offered no key")},
	{when: func(j judged) bool { return j.f.Failure == diag.SSHAuth && keysLeft(j.f.SSH) },
		then: noLogin(diag.SigOperatorKeyMissing, "the node refused some keys, and was not shown all of this "+
			"operator's")},
	{when: func(j judged) bool { return j.f.Failure == diag.SSHHostKeyUnknown },
		then: noLogin(diag.SigOperatorHostKeyUnknown, "no host key has been accepted on this machine yet")},
	{when: func(j judged) bool { return j.f.Failure == diag.SSHSetup && reading.InPhase(j.f, "exec") },
		then: noLogin(diag.SigOperatorHelperMissing, "the login works, but there is no gpuaas-agent to probe the node "+
			"with")},
	{when: func(j judged) bool { return j.f.Failure.Operator() },
		then: noLogin(diag.SigOperatorPathBroken, "the node was not contacted")},
	{when: func(j judged) bool { return reading.InPhase(j.f, "config") },
		then: noLogin(diag.SigOperatorPathBroken, "the login was not attempted")},
	{when: func(j judged) bool { return reading.InPhase(j.f, "dns") },
		then: noLogin(diag.SigOperatorPathBroken, "the name does not resolve on this machine, so the node was not "+
			"contacted")},
	{when: func(j judged) bool { return world.UnknownRefuser(j.f) },
		then: noLogin(diag.SigOperatorPathBroken, "a policy refuses the connection: this machine's, or that of a router on "+
			"the path, which is the same errno over IPv6")},
	{when: func(j judged) bool { return j.f.Failure == diag.TCPDenied || j.f.Failure == diag.TCPNetUnreachable },
		then: noLogin(diag.SigOperatorPathBroken, "this machine has no route to the node's network")},
	{when: func(j judged) bool { return j.f.Failure == diag.TCPNoRoute && !world.SilentNode(j.c) },
		then: noLogin(diag.SigOperatorPathBroken, "there is no route to it from this machine, or a firewall rejected the "+
			"connection; the node itself may be fine")},

	{when: func(j judged) bool { return classify.GuestAgentGone(guestAgent(j)) },
		then: fails(diag.SigOpsAccessUnhealthy, "no login on %s: %s%s; the provider says that the guest agent is %s",
			nodeHost, saw, detail, guestAgent),
		also: sayAlive},
	{then: fails(diag.SigOpsSSHFailed, "no login on %s: %s%s", nodeHost, saw, detail), also: sayAlive},
}

func loginUser(j judged) string { return j.f.SSH.User }

func noSudo(j judged) string {
	if j.f.SSH.SudoMissing {
		return ", since there is no sudo on the node"
	}
	return ""
}

func noLogin(sig diag.Signal, why string) func(judged) diag.Finding {
	then := undecided("no login on %s: "+why+": %s%s", nodeHost, saw, detail)
	return func(j judged) diag.Finding {
		out := then(j)
		out.Signal = sig
		return out
	}
}

// lostLater returns a probe that lost its login, if the login itself worked.
func lostLater(c *hop.Case) *diag.Fact {
	if !c.Fact(diag.HopNodeOpsAccess, hop.StepSSH).Passed() {
		return nil
	}
	return c.LostOnTheWay()
}

// keysLeft reports whether no key was accepted, and not all were offered.
func keysLeft(s *diag.SSHFacts) bool { return s != nil && s.NotOffered > 0 && s.AuthMethod == "" }

func guestAgent(j judged) string {
	return j.c.Field(diag.HopNodeHeartbeat, hop.StepReadModel, "node.guest_agent_status")
}

// sayAlive adds what shows that the agent lives, or that nothing of the node answers.
func sayAlive(j judged, out *diag.Finding) {
	if age, known := world.ContactAge(j.c); !world.Claim(j.c, out, world.ClaimAgentAlive) && known {
		world.Claim(j.c, out, world.ClaimAgentSeen, diag.Age(age))
	}
	if world.SSHSilent(j.c) {
		out.Culprit = world.CulpritSilentNode
	}
}

// SudoRefused reports whether the login should have become root on the node, but did not.
func SudoRefused(c *hop.Case, f *diag.Fact) bool {
	return f.SSH != nil && f.SSH.UID != nil && *f.SSH.UID != 0 &&
		(f.SSH.SudoRefused || strings.HasSuffix(c.Expected("ssh"), hop.SudoWords))
}
