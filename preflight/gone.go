package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// platformEnd is the end of a platform during a walk: it answered, and then nobody.
type platformEnd struct {
	gone  bool
	last  int64    // when its last answer was complete, in milliseconds since the walk's start
	hosts []string // the addresses that stopped answering
}

// endSlack is how long a platform's listeners take to end, in milliseconds: one may refuse while another still answers.
const endSlack = 250

// platformGone returns whether and when the platform stopped answering in this walk: its API answered, and after the
// platform's last answer neither the API answered the operator, nor any listener the node. One missing answer of the
// API is enough only if its port refuses, or if at least two more listeners do not answer.
func platformGone(c *Case) *platformEnd { return endMemo.of(c) }

var endMemo = newMemo(endOfPlatform)

func endOfPlatform(c *Case) platformEnd {
	end := platformEnd{last: -1}
	answered := false
	for f := range c.all() {
		if ofPlatform(c, f) && platformAnswered(f) {
			end.last = max(end.last, endedAt(f))
			answered = answered || asksAPI(c, f)
		}
	}
	ofAPI, ofNode, at := 0, 0, map[string]bool{}
	for f := range c.all() {
		if !ofPlatform(c, f) || !unansweredAfter(f, end.last) {
			continue
		}
		at[hostPortOf(target(f))], end.hosts = true, append(end.hosts, remoteIP(f))
		if f.Vantage == Node {
			ofNode++
		} else if asksAPI(c, f) {
			if ofAPI++; f.Failure == diag.TCPRefused {
				ofAPI++
			}
		}
	}
	end.gone = answered && ofNode > 0 && (ofAPI > 1 || (ofAPI > 0 && len(at) > 2))
	return end
}

// asksAPI reports whether a request of the operator was for the API: a gateway may have the API's address.
func asksAPI(c *Case, f *diag.Fact) bool {
	step, _, _ := splitID(f.ID)
	id, name, _ := strings.Cut(step, "/")
	return f.Vantage == Operator && hostPortOf(target(f)) == hostPortOf(c.expected("api_base")) &&
		slices.ContainsFunc(c.hop(diag.HopID(id)).Steps, func(s Step) bool {
			return s.Name == name && (s.Token || slices.Contains(s.Paths, profile.PathHealthz))
		})
}

// unansweredAfter reports whether a request got no answer of the platform, ended after the given time, and had not been
// silent for long before it.
func unansweredAfter(f *diag.Fact, last int64) bool {
	late := endedAt(f) > last && silentSince(f) >= last-endSlack
	if !late || !conclusive(f) || f.Failure.Local() || platformAnswered(f) {
		return false
	}
	return (gotNoAnswer(f) && !inPhase(f, "dns")) || f.Failure == diag.TCPRefused || hungUp(f) || edgeAlone(f) ||
		(upgraded(f) && broke(f.WS))
}

// broke reports whether the connection of a session fell silent, or ended without a close frame.
func broke(w *diag.WSFacts) bool {
	return w.PingLost || w.Ended == diag.WSEndEOF || w.Ended == diag.WSEndReset
}

// ofPlatform reports whether a request went to a listener of the platform, and not to a workload.
func ofPlatform(c *Case, f *diag.Fact) bool {
	hop, _, _ := strings.Cut(f.ID, "/")
	return f.Request.Op.Row().Ladder && f.Vantage != Platform && !c.hop(diag.HopID(hop)).OfWorkload
}

// platformAnswered reports whether the platform itself answered a request, and over a connection that held.
func platformAnswered(f *diag.Fact) bool {
	switch {
	case upgraded(f):
		return !broke(f.WS)
	case f.HTTP == nil || f.HTTP.Status == 0, hungUp(f), edgeAlone(f):
		return false
	}
	return f.HTTP.Page == "" && !foreignPage(f)
}

// edgeAlone reports whether an edge answered for a platform that it does not reach.
func edgeAlone(f *diag.Fact) bool {
	s := status(f)
	return s >= 502 && s <= 504 && !platformSpeaks(f)
}

// silentSince returns since when a request had no sign of the platform, in milliseconds since the walk's start.
func silentSince(f *diag.Fact) int64 {
	switch {
	case upgraded(f):
		return endedAt(f) - int64(f.WS.QuietMS)
	case gotNoAnswer(f), status(f) == 504: // an edge's time-out
		return f.OffsetMS
	}
	return endedAt(f)
}

// endedAt returns when a request ended, in milliseconds since the walk's start.
func endedAt(f *diag.Fact) int64 { return f.OffsetMS + int64(f.DurationMS) }

// answeredUntil describes when an endpoint that takes no connection last answered the same vantage in this walk; "" if
// it never did, or did later.
func answeredUntil(c *Case, f *diag.Fact) string {
	last := int64(-1)
	if !inPhase(f, "tcp") {
		return ""
	}
	for g := range c.all() {
		if g.Vantage == f.Vantage && status(g) > 0 && !edgeAlone(g) && hostPortOf(target(g)) == hostPortOf(target(f)) {
			last = max(last, endedAt(g))
		}
	}
	if last < 0 || !unansweredAfter(f, last) {
		return ""
	}
	return "; it answered in this walk until " + clockAt(c, f, last)
}

// clockAt returns a time of the walk, in milliseconds since its start, by the operator's clock; without a fact of the
// operator, by that of f.
func clockAt(c *Case, f *diag.Fact, ms int64) string {
	for g := range c.all() {
		if g.Vantage == Operator {
			f = g
			break
		}
	}
	return f.At.Add(time.Duration(ms-f.OffsetMS)*time.Millisecond).UTC().Format(time.TimeOnly) + " UTC"
}

// judgeGone makes a finding of a request that a platform did not answer any more one of the platform's end. It reports
// whether it did.
func judgeGone(c *Case, f *diag.Fact, out *diag.Finding) bool {
	end := platformGone(c)
	if !end.gone || !unansweredAfter(f, end.last-endSlack) {
		return false
	}
	if ip := remoteIP(f); !ofPlatform(c, f) && (ip == "" || !slices.Contains(end.hosts, ip)) {
		return false // a workload's route, at an edge of its own
	}
	text := out.Text + out.Because
	if out.Status == diag.StatusWarn { // it has advice for a platform that works
		text = fmt.Sprintf("%s gives %s: %s", where(f), gets(f), saw(f))
	}
	*out = fail(diag.SigControlPlaneUnreachable, f,
		"%s; the platform answered this walk until %s, and since then neither the operator nor the node", text,
		clockAt(c, f, end.last))
	out.Side, out.Culprit, out.Direct = diag.SidePlatform, culpritControlPlane, true
	return true
}
