package preflight

import "github.com/gpuaas/gpuaasctl/diag"

// loadWarnings warns of requests of a hop that a server refused first: it limits connections, or is not steady.
func loadWarnings(h *Hop, c *Case) []diag.Finding {
	var out []diag.Finding
	for i := range h.Steps {
		if f := c.judgedFact(&h.Steps[i]); f != nil && h.Steps[i].Uses == "" && refusedFirst(f) {
			out = append(out, warn("", f, "%s refused this request %s beside others of this walk, and then answered it: "+
				"a limit on connections per client, or a server that refuses some requests", where(f), times(f.Refused)))
		}
	}
	return out
}

// refusedFirst reports whether a request was refused before it was answered, even if the answer was an error: a
// platform that judges no GPUs answers 404.
func refusedFirst(f *diag.Fact) bool { return f.Refused > 0 && (f.Passed() || platformAnswered(f)) }

// refusedBeside reports whether a server refused a request that is sent once, and refused another one of this walk
// there only as long as others were open.
func refusedBeside(c *Case, f *diag.Fact) bool {
	if f == nil || !(hungUp(f) || noCode503(f)) || !hasEffect(&f.Request) {
		return false
	}
	for g := range c.all() {
		if refusedFirst(g) && g.Vantage == f.Vantage && sameEndpoint(target(g), target(f)) {
			return true
		}
	}
	return false
}

// besideOthers returns the text for a request with an effect that a server refused while it answered others of this
// walk; "" for any other.
func besideOthers(c *Case, f *diag.Fact) string {
	if !(hungUp(f) || noCode503(f)) || !hasEffect(&f.Request) {
		return ""
	}
	for g := range c.all() {
		if g.Vantage == f.Vantage && platformAnswered(g) && sameEndpoint(target(g), target(f)) &&
			g.OffsetMS < endedAt(f) && f.OffsetMS < endedAt(g) {
			return "; it is sent once, and others of this walk were answered there at that time: a limit on connections " +
				"refuses so, too"
		}
	}
	return ""
}
