package preflight

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// fillUndecided fills in the cause, owner and steps of an inconclusive walk without a blame: from the first
// inconclusive finding in chain order that has a signal, else from what the walk lacked.
func fillUndecided(v *diag.Verdict, hops []diag.HopResult, c *Case) {
	for _, h := range hops {
		row, ok := diag.LookupSignal(h.Signal)
		if h.Status != diag.StatusInconclusive || !ok {
			continue
		}
		r := root{hop: h, finding: h.Finding}
		v.Because, v.Owner, v.Owners, v.Layer = h.Because, row.Owners.String(), row.Owners, h.Layer
		fillFromTables(v, r, situation(hops, r, nil, c), c)
		return
	}
	adviseOn(v, lackOf(hops, c), c)
}

// adviseOn fills in who can supply what the walk lacked, and how.
func adviseOn(v *diag.Verdict, lack diag.Lack, c *Case) {
	row, ok := diag.LookupLack(lack)
	if !ok {
		return
	}
	v.Owner, v.Owners = row.Owners.String(), row.Owners
	for i := range row.Recovery {
		v.Advise(&row.Recovery[i], placeholders(c))
	}
}

// targetOf returns the node as this tool's commands take it, with the profile and the host of this walk; "" if no node
// is named.
func targetOf(c *Case) string {
	if c.Subject.NodeID == "" {
		return ""
	}
	argv := []string{c.Subject.NodeID}
	if p := cmp.Or(c.expected("profile_file"), c.Plan.Profile); p != "" {
		argv = append(argv, "--profile", p)
	}
	if strings.Contains(c.Plan.Command, " --node-host ") && c.Subject.NodeHost != "" {
		argv = append(argv, "--node-host", c.Subject.NodeHost)
	}
	return pasted(diag.Command(argv...), targetLine())
}

// decisions are the reference platform's reasons for a terminal that a decision ended or forbids, so that nothing
// failed. Other platforms do not use these words.
var decisions = map[string]string{
	"allocation_released":    "the allocation was released",
	"allocation_not_active":  "the allocation was no longer active",
	"node_fenced":            "the node or its host was fenced",
	"node_revoked":           "the node's identity was revoked",
	"node_retired":           "the node was retired",
	"node_cloned":            "the node was quarantined (two hosts use its identity)",
	"node_identity_replaced": "the node was given a new identity",
	"session_time_limit":     "the session reached the platform's time limit",
	"session_idle_limit":     "the session reached the platform's idle limit",
}

// decided returns the key of decisions that the platform gave for this walk's session: in its refusal, over the
// stream, or in its row; "" without one.
func decided(c *Case) string {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	words := [...]string{code(c.Fact(diag.HopTerminalTokenMint, stepMint)), code(f),
		sessionField(c, "session.close_reason"), "", ""}
	if f != nil && f.WS != nil {
		words[3], words[4] = f.WS.FrameCode, f.WS.CloseReason
	}
	for _, w := range words {
		if w != "" && decisions[w] != "" {
			return w
		}
	}
	return ""
}

// byDecision is the finding of a terminal hop that did not pass because of a decision during the walk: no hop is at
// fault, and nothing proves that the terminal works.
func byDecision(f *diag.Fact, word string) []diag.Finding {
	out := undecided(f, "%s",
		fmt.Sprintf("%s during this walk (the platform says %s), so no terminal is given: read the allocation and "+
			"the node again", decisions[word], word))
	out.Failure, out.Lack = diag.OK, diag.LackAnswer // the failure is the end of the session, which was intended
	return []diag.Finding{out}
}

// lackOf returns what the walk lacked: time if it was cut short, else what its first inconclusive hop lacked.
func lackOf(hops []diag.HopResult, c *Case) diag.Lack {
	if c.EndedBy != diag.EndedCompleted {
		return diag.LackTime
	}
	for i := range hops {
		if h := &hops[i]; h.Status == diag.StatusInconclusive {
			return lackAt(h, c)
		}
	}
	return diag.LackPlan
}

// lackAt returns what one inconclusive hop lacked.
func lackAt(h *diag.HopResult, c *Case) diag.Lack {
	var f *diag.Fact
	for _, s := range h.Steps {
		if s.Status == diag.StatusFail || s.Status == diag.StatusInconclusive {
			f = c.fact(s.Fact)
			break
		}
	}
	switch {
	case h.Lack != "":
		return h.Lack
	case f == nil:
		return diag.LackAnswer
	case inTransition(f):
		return diag.LackTime
	case f.Failure == diag.HTTPEdgeAuth:
		return diag.LackLogin
	case f.Throttled():
		return diag.LackLimit
	case foreignPage(f), f.Failure == diag.HTTPMalformed, unrouted(f):
		return diag.LackPlatform
	case f.Vantage == Operator && notKnown(f):
		return diag.LackSubject
	case notAllowed(f), f.Vantage == Operator && (status(f) == 401 || status(f) == 403) && !passedOnce(c, f):
		return diag.LackRights
	case f.Vantage == Node && !f.Request.Op.Row().Ladder && noAnswer(f, c.EndedBy):
		return diag.LackNode
	case f.Failure == diag.Cancelled:
		return diag.LackTime
	case status(f)/100 == 4 && !platformSpeaks(f):
		return diag.LackPlatform
	case status(f) >= 400:
		return diag.LackRefusal
	}
	return diag.LackAnswer
}

// redirects reports whether f was answered with a redirect, other than one to a login.
func redirects(f *diag.Fact) bool { return f.Passed() && status(f)/100 == 3 }

// redirected is the finding for a request that was redirected: no answer lacks a field.
func redirected(f *diag.Fact) diag.Finding {
	out := undecided(f, "%s sends the request elsewhere: %s; nothing of the platform was seen", where(f), saw(f))
	out.Lack = diag.LackPlatform
	return out
}
