package world

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// LoadWarnings warns of requests of a hop that a server refused first: it limits connections, or is not steady.
func LoadWarnings(h *hop.Hop, c *hop.Case) []diag.Finding {
	var out []diag.Finding
	for i := range h.Steps {
		if f := c.JudgedFact(&h.Steps[i]); f != nil && h.Steps[i].Uses == "" && refusedFirst(f) {
			out = append(out, reading.Warn("", f,
				"%s refused this request %s beside others of this walk, and then answered it: "+
					"a limit on connections per client, or a server that refuses some requests", reading.Where(f),
				reading.Times(f.Refused)))
		}
	}
	return out
}

// refusedFirst reports whether a request was refused before it was answered, even if the answer was an error: a
// platform that judges no GPUs answers 404.
func refusedFirst(f *diag.Fact) bool { return f.Refused > 0 && (f.Passed() || platformAnswered(f)) }

// RefusedBeside reports whether a server refused a request that is sent once, and refused another one of this walk
// there only as long as others were open.
func RefusedBeside(c *hop.Case, f *diag.Fact) bool {
	if f == nil || !(reading.HungUp(f) || reading.NoCode503(f)) || !reading.HasEffect(&f.Request) {
		return false
	}
	for g := range c.All() {
		if refusedFirst(g) && g.Vantage == f.Vantage && hop.SameEndpoint(reading.Target(g), reading.Target(f)) {
			return true
		}
	}
	return false
}

// BesideOthers returns the text for a request with an effect that a server refused while it answered others of this
// walk; "" for any other.
func BesideOthers(c *hop.Case, f *diag.Fact) string {
	if !(reading.HungUp(f) || reading.NoCode503(f)) || !reading.HasEffect(&f.Request) {
		return ""
	}
	for g := range c.All() {
		if g.Vantage == f.Vantage && platformAnswered(g) && hop.SameEndpoint(reading.Target(g), reading.Target(f)) &&
			g.OffsetMS < EndedAt(f) && f.OffsetMS < EndedAt(g) {
			return "; it is sent once, and others of this walk were answered there at that time: a limit on connections " +
				"refuses so, too"
		}
	}
	return ""
}
