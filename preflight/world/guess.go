package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Reference reports whether this walk is about the reference platform, so that its default paths, and what its nodes
// have by default, are there: the profile says so, the report is older than that key, or an answer of this walk shows
// it.
func Reference(c *hop.Case) bool { return *referenceMemo.Of(c) }

var referenceMemo = hop.NewMemo(func(c *hop.Case) bool {
	if kind := c.Expected("kind"); kind != "" {
		return kind == profile.KindGPUaaS
	}
	if c.Expected("guessed_paths") == "" {
		return true
	}
	list := c.Chain.List()
	for i := range list {
		for k := range list[i].Steps {
			if f := c.JudgedFact(&list[i].Steps[k]); f != nil && ofReference(c, f) {
				return true
			}
		}
	}
	return false
})

// ofReference reports whether only the reference platform gives this answer: a word of its contract as an error code,
// or fields at the places where it has them, below a default path.
func ofReference(c *hop.Case, f *diag.Fact) bool {
	if f.HTTP == nil {
		return false
	}
	if reading.PlatformCode(f) || reading.SessionNotFound(f) || (reading.NotKnown(f) && reading.NamesObject(f)) {
		return true
	}
	if !reading.Good(f) || guessedPath(c, f) == "" {
		return false
	}
	for name := range f.HTTP.Fields {
		if !strings.HasPrefix(name, "error.") {
			return true
		}
	}
	return false
}

// guessedPath returns the name of the path that f requested, if it is a default that the profile did not set; "" if
// not.
func guessedPath(c *hop.Case, f *diag.Fact) string {
	guessed := c.Expected("guessed_paths")
	if guessed == "" || (f.Request.Op != diag.OpHTTP && f.Request.Op != diag.OpWS && f.Request.Op != diag.OpSession) {
		return ""
	}
	standard := profile.DefaultMapping()
	names := slices.Sorted(maps.Keys(standard.Paths))
	step, _, _ := hop.SplitID(f.ID)
	for _, of := range c.Hop(hop.OfFact(step)).Steps {
		if hop.FactID(hop.OfFact(step), of.Name) == step { // its own paths first: two may be alike
			names = slices.Concat(of.Needs.Paths, names)
		}
	}
	path := hop.PathOf(reading.Target(f))
	i := slices.IndexFunc(names, func(name string) bool { return standard.Made(name, path) })
	if i < 0 || !slices.Contains(strings.Split(guessed, ","), names[i]) {
		return ""
	}
	return names[i]
}

// noSuchPage reports whether an answer says, or may mean, that there is no such page: a server that knows no route, or
// that shows one page for all of them.
func noSuchPage(f *diag.Fact) bool {
	switch reading.Status(f) {
	case 404, 405, 410, 501:
		return true
	}
	return reading.Good(f) && reading.ForeignPage(f)
}

// guessed returns why the answer to f is about nothing: it was requested at a default path that the profile did not
// set, nothing shows that this is the reference platform, and the answer is that of a server without such a page.
func guessed(d *doubted) string { return Guessed(d.c, d.fact) }

// Guessed is guessed for a fact on which no finding rests.
func Guessed(c *hop.Case, f *diag.Fact) string {
	if !noSuchPage(f) || Reference(c) {
		return ""
	}
	name := guessedPath(c, f)
	if name == "" {
		return ""
	}
	what := fmt.Sprintf("HTTP %d", reading.Status(f))
	if reading.Good(f) {
		what += " with a web page"
	}
	path, _, _ := strings.Cut(hop.PathOf(reading.Target(f)), "?")
	return fmt.Sprintf("%s answers, and %s is a default path that the profile does not set (%s): write mapping: {paths: "+
		"{%s: /its/path}}, or {%s: %q} where there is none, or kind: %s if this is the reference platform",
		reading.Where(f), path, what, name, name, profile.Absent, profile.KindGPUaaS)
}

// GuessedPages are the findings of a hop whose step passed with an answer that is about nothing, see guessed.
func GuessedPages(h *hop.Hop, c *hop.Case, findings []diag.Finding) (out []diag.Finding) {
	for i := range h.Steps {
		s := &h.Steps[i]
		f := c.JudgedFact(s)
		if f == nil || s.Uses != "" || s.Policy.Optional ||
			(reading.NoTrustPage(f) && s.Name == hop.StepAuth) ||
			slices.ContainsFunc(findings, func(o diag.Finding) bool { return slices.Contains(o.Evidence, f.ID) }) {
			continue
		}
		if words := Guessed(c, f); words != "" && f.Request.Op == diag.OpHTTP && reading.Good(f) {
			out = append(out, notMapped(f, words))
		}
	}
	return out
}

// notMapped is the finding for an answer at a guessed path.
func notMapped(f *diag.Fact, words string) diag.Finding {
	out := reading.Undecided(f, "%s", words)
	out.Lack = diag.LackMapping
	return out
}
