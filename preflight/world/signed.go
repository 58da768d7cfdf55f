package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// The functions of this file decide whether an answer is the platform's or that of a server on the path.

// PageFrom describes the server that answered with a page, as far as it is known.
func PageFrom(f *diag.Fact) string {
	return fmt.Sprintf("what answers at %s, or in front of it, answers with a page (%s)", reading.Where(f), reading.Saw(f))
}

// LetIn describes what contradicts that f, a refusal, is a decision about this node: what let the node in, or that the
// same answer goes to others. "" if nothing does, or if the platform confirms f.
func LetIn(c *hop.Case, f *diag.Fact) string {
	switch {
	case PassedOnce(c, f): // one of several servers may be the one that confirms
		return "the same request was let in at other times"
	case confirmed(c, f):
		return ""
	case GatewayAccepts(c):
		return "the terminal gateway accepts the same certificate"
	case ingressAccepts(c):
		return "the node ingress accepts the same certificate"
	case OperatorGetsSame(c, f):
		return "the operator, who shows no certificate, gets the same answer"
	}
	return ""
}

// ingressAccepts reports whether the node ingress asked for the node's certificate, and let this walk's task wait in,
// if only once.
func ingressAccepts(c *hop.Case) bool {
	w := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	return w != nil && ((reading.Admitted(w) && reading.AsksForCert(w) && (w.HTTP == nil || w.HTTP.Cached == "")) ||
		PassedOnce(c, w))
}

// OperatorGetsSame reports whether every request of the operator to the API has the answer of f, which nothing shows to
// be the platform's. A 401 is not compared: an operator gets it for a token.
func OperatorGetsSame(c *hop.Case, f *diag.Fact) bool {
	if s := reading.Status(f); (s != 400 && s != 403) || !reading.Vague(f) || reading.PlatformCode(f) {
		return false
	}
	seen := false
	for _, step := range [...]string{hop.StepHealthz, hop.StepAuth} {
		k := c.Fact(diag.HopControlPlaneAccess, step)
		if k != nil && (reading.Status(k) != reading.Status(f) || !reading.Vague(k) || k.Throttled() ||
			reading.Code(k) != reading.Code(f)) {
			return false
		}
		seen = seen || (k != nil && (step == hop.StepAuth || reading.Status(f) == 400)) // a health page may be closed to all
	}
	return seen
}

// confirmed reports whether the platform gives the same code for this node elsewhere: as the end of its terminal, or in
// the read model as its last denial since the node was last seen.
func confirmed(c *hop.Case, f *diag.Fact) bool {
	word := strings.TrimPrefix(reading.Code(f), "node_")
	return word != "" && (strings.TrimPrefix(Decided(c), "node_") == word ||
		strings.TrimPrefix(recordedDenial(c), "node_") == word)
}

// Unrouted reports whether f is unsigned and as a server answers that does not pass a request on.
func Unrouted(f *diag.Fact) bool {
	return reading.Unsigned(f) && (reading.Status(f) == 400 || reading.Status(f) == 404)
}

// Signer names the server of an unsigned answer as far as it is known; "" for any other.
func Signer(f *diag.Fact) string {
	if !reading.Unsigned(f) {
		return ""
	}
	if reading.Code(f) != "" {
		return "; it has " + OfNoPlatform(f) + ": " + reading.Where(f) + ", or what is in front of it, may have answered"
	}
	return "; it has no error code of the platform, so " + reading.Where(f) +
		", or what is in front of it, may have answered"
}

// OfNoPlatform describes what shows that a refusal may not be the platform's.
func OfNoPlatform(f *diag.Fact) string {
	if reading.Code(f) == "" {
		return "nothing of the platform"
	}
	return "the code " + reading.Code(f) + ", which is not known to be the platform's"
}

// ReadFromCache reports whether an answer of the API to the operator came from a cache: it says what was, and not what
// is.
func ReadFromCache(c *hop.Case, f *diag.Fact) bool {
	return f != nil && f.Vantage == hop.Operator && ofPlatform(c, f) && reading.Status(f) == 200 && f.HTTP.Cached != ""
}

// FromCache describes an answer that ReadFromCache reports.
func FromCache(f *diag.Fact) string {
	return fmt.Sprintf("the API's answer came from a cache (%s), so it may be out of date", f.HTTP.Cached)
}

// CachedReads warns of an answer of the API from a cache by which a hop would pass.
func CachedReads(h *hop.Hop, c *hop.Case, findings []diag.Finding) []diag.Finding {
	if slices.ContainsFunc(findings, func(f diag.Finding) bool { return f.Status != diag.StatusWarn }) {
		return nil
	}
	for i := range h.Steps {
		s := &h.Steps[i]
		if f := c.JudgedFact(s); s.Token && s.Uses == "" && ReadFromCache(c, f) {
			return []diag.Finding{reading.Warn("", f, "%s", FromCache(f))}
		}
	}
	return nil
}

func cached(d *doubted) string {
	if !d.fails() || !ReadFromCache(d.c, d.fact) {
		return ""
	}
	return d.out.Text + "; " + FromCache(d.fact)
}

func answerWithGap(d *doubted) string {
	if !d.fails() || !d.steps() || !reading.HasGap(d.fact) {
		return ""
	}
	return fmt.Sprintf("; %s answers, but a part of its answer never arrived at the %s and later parts did: packets are "+
		"lost on the way back, for example those larger than a link on the path allows (MTU)", reading.Where(d.fact),
		d.fact.Vantage)
}

func ofGap(d *doubted, words string) {
	add(d, words)
	d.out.Side, d.out.Culprit = diag.SideNetwork, reading.LossOf(d.fact.Vantage)
}

func answerStopped(d *doubted) string {
	if !d.fails() || !d.steps() || reading.HasGap(d.fact) || !reading.AnswerBegan(d.fact) {
		return ""
	}
	return "; the answer began, and stopped: its server paused, or the rest was lost on the way back"
}

// turns is about the step's own look-up, whichever of its requests is in doubt.
func turns(d *doubted) string {
	step, _, _ := hop.SplitID(d.fact.ID)
	if words := reading.TurnsDiffer(d.c.FactByID(step)); words != "" {
		return "the name servers of the " + d.fact.Vantage + " take turns and do not agree: " + words
	}
	return ""
}

func gap(d *doubted) string {
	if !reading.HasGap(d.fact) {
		return ""
	}
	return "packets of the failing request's answer were lost"
}
