package preflight

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// situation is what the report knows when the steps for its blame are chosen.
func situation(hops []diag.HopResult, r root, out []excluded, c *Case) diag.Situation {
	s := diag.Situation{Side: r.finding.Side, Failure: r.finding.Failure, Cause: r.finding.Cause, Broken: broken(hops, c)}
	for _, e := range out {
		if e.about != "" {
			s.RuledOut = append(s.RuledOut, e.about)
		}
	}
	if len(r.finding.Evidence) > 0 {
		if f := c.facts[r.finding.Evidence[0]]; f != nil && f.DNS != nil && f.DNS.Source == "literal" { // there is no name to look up
			s.RuledOut = append(s.RuledOut, diag.AboutName)
		}
	}
	wait := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	if wait != nil && wait.TLS != nil && wait.TLS.CertRequested != nil && *wait.TLS.CertRequested {
		s.RuledOut = append(s.RuledOut, diag.AboutListener)
	}
	if ssh := c.Fact(diag.HopNodeOpsAccess, stepSSH); r.hop.ID == diag.HopNodeOpsAccess && sshAnswered(ssh) {
		s.RuledOut = append(s.RuledOut, diag.AboutPath)
	}
	if c.Fact(diag.HopTerminalStartup, stepUser).Passed() {
		s.RuledOut = append(s.RuledOut, diag.AboutUser)
	}
	if r.hop.ID == diag.HopNodeHeartbeat && refusedHeartbeat(c) != nil { // it sends them
		s.RuledOut = append(s.RuledOut, diag.AboutAgent)
	}
	if sessionField(c, "task_status") == "failed" { // the agent said so: its build hides nothing
		s.RuledOut = append(s.RuledOut, diag.AboutBuild)
	}
	return s
}

// sshAnswered reports whether an SSH server answered, if only to refuse.
func sshAnswered(f *diag.Fact) bool {
	if f == nil {
		return false
	}
	switch f.Failure {
	case diag.OK, diag.SSHHostKey, diag.SSHAuth, diag.SSHExec, diag.SSHPenalty:
		return true
	}
	return false
}

// broken lists what steps may rely on and the report says does not work.
func broken(hops []diag.HopResult, c *Case) []diag.Reliance {
	hop := byID(hops)
	is := func(id diag.HopID, of ...diag.Status) bool { return slices.Contains(of, hop[id].Status) }
	var out []diag.Reliance
	if is(diag.HopNodeOpsAccess, diag.StatusFail, diag.StatusInconclusive, diag.StatusNotReached) {
		out = append(out, diag.RelyLogin)
	}
	if is(diag.HopControlPlaneAccess, diag.StatusFail, diag.StatusInconclusive) || len(unanswered(hops, c)) > 0 {
		out = append(out, diag.RelyAPI)
	}
	agent := hop[diag.HopNodeReadiness].Signal
	if is(diag.HopNodeHeartbeat, diag.StatusFail) || is(diag.HopNodeTaskRoundtrip, diag.StatusFail) ||
		agent == diag.SigProcessDown || agent == diag.SigBinaryInvalid {
		out = append(out, diag.RelyTasks)
	}
	return out
}

// unheard is the finding of a hop that did not answer, as a blame says it.
func unheard(h *diag.HopResult, c *Case) diag.Finding {
	f := silentFact(h, c)
	row := silentRows[h.ID]
	out := diag.Finding{
		Status: diag.StatusInconclusive, Signal: row.signal, Side: row.side, Failure: f.Failure, Evidence: []string{f.ID},
		Text: fmt.Sprintf("%s: %s; what needs this answer is not decided", row.text, saw(f)),
	}
	if f.Failure == diag.Cancelled {
		out.Failure = diag.Timeout
	}
	return out
}

// silentRows say whose silence it is when a hop gets no answer. Hops that are not here need only the node itself: no
// signal names a node that is slow to answer.
var silentRows = map[diag.HopID]struct {
	signal diag.Signal
	side   diag.Side
	text   string
}{
	diag.HopControlPlaneAccess:       {diag.SigControlPlaneUnreachable, "", "the API did not answer"},
	diag.HopAllocationBinding:        {diag.SigControlPlaneUnreachable, diag.SidePlatform, "the API did not answer when the allocation was read"},
	diag.HopNodeHeartbeat:            {diag.SigControlPlaneUnreachable, diag.SidePlatform, "the API did not answer when the node was read"},
	diag.HopNodeOpsAccess:            {diag.SigOpsSSHFailed, "", "the login on the node timed out"},
	diag.HopNodeRuntimeAPI:           {diag.SigAPIUnreachable, "", "the node's request to its API timed out"},
	diag.HopNodeTaskRoundtrip:        {diag.SigControlPlaneUnreachable, diag.SidePlatform, "the API did not answer when a task was enqueued"},
	diag.HopTerminalTokenMint:        {diag.SigControlPlaneUnreachable, diag.SidePlatform, "the API did not answer when a terminal token was asked for"},
	diag.HopTerminalPublicRoute:      {diag.SigPublicRouteMissing, "", "the public terminal route did not answer"},
	diag.HopBrowserTerminalWS:        {diag.SigUpgradeFailed, "", "the terminal gateway did not answer in time"},
	diag.HopTerminalOpenTask:         {diag.SigControlPlaneUnreachable, diag.SidePlatform, "the API did not answer when the terminal session was read"},
	diag.HopNodeTerminalReachability: {diag.SigNodeStreamTimeout, "", "the node's request to the terminal listener timed out"},
	diag.HopAppUserRoute:             {diag.SigAppRouteFailed, "", "the product URL did not answer in time"},
}
