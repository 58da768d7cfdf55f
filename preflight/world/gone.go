package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// platformEnd is the end of a platform during a walk: it answered, and then nobody.
type platformEnd struct {
	gone  bool
	last  int64      // when its last answer was complete, in milliseconds since the walk's start
	node  bool       // a request of the node came after that as well
	hosts []string   // the addresses that stopped answering
	by    *diag.Fact // the last answer
}

// endSlack is how long a platform's listeners take to end, in milliseconds: one may refuse while another still answers.
const endSlack = 250

// platformGone returns whether and when the platform stopped answering in this walk: its API answered, and after the
// platform's last answer neither the API answered the operator, nor any listener the node. One missing answer of the
// API is enough only if its port refuses, or if at least two more listeners do not answer. If the node asked nothing
// after the last answer, at least two of the operator's requests were refused or failed at the edge: silence may be the
// operator's own.
func platformGone(c *hop.Case) *platformEnd { return endMemo.Of(c) }

var endMemo = hop.NewMemo(endOfPlatform)

func endOfPlatform(c *hop.Case) platformEnd {
	end, ofAPI := lastAnswer(c)
	if ofAPI {
		end.gone = end.stopped(c)
	}
	return end
}

// lastAnswer returns when the platform last answered in this walk, and whether its API ever answered the operator.
func lastAnswer(c *hop.Case) (end platformEnd, ofAPI bool) {
	end.last = -1
	for f := range c.All() {
		if !platformAnswered(f) || !ofPlatform(c, f) {
			continue
		}
		if at := reading.EndedAt(f); at > end.last || (at == end.last && f.ID < end.by.ID) {
			end.last, end.by = at, f
		}
		ofAPI = ofAPI || asksAPI(c, f)
	}
	return end, ofAPI
}

// stopped reports whether neither the operator's requests of the API nor any of the node's were answered after the last
// answer, and adds the addresses of those that were not.
func (end *platformEnd) stopped(c *hop.Case) bool {
	ofAPI, said, at := 0, 0, map[string]bool{}
	for f := range c.All() {
		if !unansweredAfter(f, end.last) || !ofPlatform(c, f) {
			continue
		}
		at[hop.HostPortOf(reading.Target(f))], end.hosts = true, append(end.hosts, reading.RemoteIP(f))
		switch {
		case f.Vantage == hop.Node:
			end.node = true
		case !asksAPI(c, f):
		case f.Failure == diag.TCPRefused:
			ofAPI, said = ofAPI+2, said+1
		case edgeAlone(f):
			ofAPI, said = ofAPI+1, said+1
		default:
			ofAPI++
		}
	}
	if !end.node {
		return said > 1
	}
	return ofAPI > 1 || (ofAPI > 0 && len(at) > 2)
}

// asksAPI reports whether a request of the operator was for the API: a gateway may have the API's address.
func asksAPI(c *hop.Case, f *diag.Fact) bool {
	step, _, _ := hop.SplitID(f.ID)
	id, name, _ := strings.Cut(step, "/")
	return f.Vantage == hop.Operator && hop.HostPortOf(reading.Target(f)) == hop.HostPortOf(c.Expected("api_base")) &&
		slices.ContainsFunc(c.Hop(diag.HopID(id)).Steps, func(s hop.Step) bool {
			return s.Name == name && (s.Needs.Token || slices.Contains(s.Needs.Paths, profile.PathHealthz))
		})
}

// unansweredAfter reports whether a request got no answer of the platform, ended after the given time, and had not been
// silent for long before it.
func unansweredAfter(f *diag.Fact, last int64) bool {
	late := reading.EndedAt(f) > last && silentSince(f) >= last-endSlack
	if !late || !hop.Conclusive(f) || f.Failure.Local() || platformAnswered(f) {
		return false
	}
	// A listener that ends resets the connections that it has not accepted yet.
	return (reading.GotNoAnswer(f) && !reading.InPhase(f, "dns")) || f.Failure == diag.TCPRefused ||
		f.Failure == diag.TCPReset || reading.HungUp(f) || edgeAlone(f) ||
		(reading.Upgraded(f) && broke(f.WS))
}

// broke reports whether the connection of a session fell silent, or ended without a close frame.
func broke(w *diag.WSFacts) bool {
	return w.PingLost || w.Ended == diag.WSEndEOF || w.Ended == diag.WSEndReset
}

// ofPlatform reports whether a request went to a listener of the platform, and not to a workload.
func ofPlatform(c *hop.Case, f *diag.Fact) bool {
	of, _, _ := strings.Cut(f.ID, "/")
	return f.Request.Op.Row().Ladder && f.Vantage != hop.Platform && !c.Hop(diag.HopID(of)).OfWorkload
}

// platformAnswered reports whether the platform itself answered a request, and over a connection that held.
func platformAnswered(f *diag.Fact) bool {
	switch {
	case reading.Upgraded(f):
		return !broke(f.WS)
	case f.HTTP == nil || f.HTTP.Status == 0, reading.HungUp(f), edgeAlone(f):
		return false
	}
	return f.HTTP.Page == "" && !reading.ForeignPage(f)
}

// edgeAlone reports whether an edge answered for a platform that it does not reach.
func edgeAlone(f *diag.Fact) bool {
	s := reading.Status(f)
	return s >= 502 && s <= 504 && !reading.PlatformSpeaks(f)
}

// silentSince returns since when a request had no sign of the platform, in milliseconds since the walk's start.
func silentSince(f *diag.Fact) int64 {
	switch {
	case reading.Upgraded(f):
		return reading.EndedAt(f) - int64(f.WS.QuietMS)
	case reading.GotNoAnswer(f), reading.Status(f) == 504: // an edge's time-out
		return f.OffsetMS
	}
	return reading.EndedAt(f)
}

// AnsweredUntil describes when an endpoint that takes no connection last answered the same vantage in this walk; "" if
// it never did, or did later.
func AnsweredUntil(c *hop.Case, f *diag.Fact) string {
	last := int64(-1)
	if !reading.InPhase(f, "tcp") {
		return ""
	}
	for g := range c.All() {
		if g.Vantage == f.Vantage && reading.Status(g) > 0 && !edgeAlone(g) &&
			hop.HostPortOf(reading.Target(g)) == hop.HostPortOf(reading.Target(f)) {
			last = max(last, reading.EndedAt(g))
		}
	}
	if last < 0 || !unansweredAfter(f, last) {
		return ""
	}
	return "; it answered in this walk until " + clockAt(c, f, last)
}

// clockAt returns a time of the walk, in milliseconds since its start, by the operator's clock; without a fact of the
// operator, by that of f.
func clockAt(c *hop.Case, f *diag.Fact, ms int64) string {
	for g := range c.All() {
		if g.Vantage == hop.Operator {
			f = g
			break
		}
	}
	return f.At.Add(time.Duration(ms-f.OffsetMS)*time.Millisecond).UTC().Format(time.TimeOnly) + " UTC"
}

func answeredBefore(d *doubted) string {
	if !d.fails() {
		return ""
	}
	return AnsweredUntil(d.c, d.fact)
}

// platformEnded: a platform that answered until some moment of the walk, and then nobody, is the cause of every missing
// answer after it.
func platformEnded(d *doubted) string {
	end := platformGone(d.c)
	if !end.gone || !unansweredAfter(d.fact, end.last-endSlack) {
		return ""
	}
	ip := reading.RemoteIP(d.fact)
	if d.out != nil && !ofPlatform(d.c, d.fact) && (ip == "" || !slices.Contains(end.hosts, ip)) {
		return "" // a workload's route, at an edge of its own
	}
	text := "the platform answered this walk until " + clockAt(d.c, d.fact, end.last)
	if !end.node {
		return text + ", and since then not the operator; the node did not ask"
	}
	return text + ", and since then neither the operator nor the node"
}

func ofPlatformsEnd(d *doubted, words string) {
	text := d.out.Text + d.out.Because
	if d.out.Status == diag.StatusWarn { // it has advice for a platform that works
		text = fmt.Sprintf("%s gives %s: %s", reading.Where(d.fact), Gets(d.fact), reading.Saw(d.fact))
	}
	*d.out = reading.Fail(diag.SigControlPlaneUnreachable, d.fact, "%s; %s", text, words)
	d.out.Side, d.out.Culprit, d.out.Direct = diag.SidePlatform, CulpritControlPlane, true
}
