package world

import (
	"fmt"

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

// BesideOthers returns the text for a request with an effect that a server refused while it answered others of this
// walk; "" for any other.
func BesideOthers(c *hop.Case, f *diag.Fact) string {
	if !(reading.HungUp(f) || reading.NoCode503(f)) || !reading.HasEffect(&f.Request) {
		return ""
	}
	for g := range c.All() {
		if g.Vantage == f.Vantage && platformAnswered(g) && hop.SameEndpoint(reading.Target(g), reading.Target(f)) &&
			g.OffsetMS < reading.EndedAt(f) && f.OffsetMS < reading.EndedAt(g) {
			return "; it is sent once, and others of this walk were answered there at that time: a limit on connections " +
				"refuses so, too"
		}
	}
	return ""
}

// limiter: its answer to the operator says nothing about the route or the token behind it.
func limiter(d *doubted) string {
	if !d.fact.Throttled() || d.fact.Vantage != hop.Operator {
		return ""
	}
	return fmt.Sprintf("%s throttles this operator, so nothing behind it was measured: %s%s", reading.Where(d.fact),
		reading.Saw(d.fact), reading.PauseOf(d.fact))
}

func besideOthers(d *doubted) string {
	if !d.fails() {
		return ""
	}
	return BesideOthers(d.c, d.fact)
}

// refusedBeside: a server refuses a request that is sent once, and refused another one of this walk there only as long
// as others were open.
func refusedBeside(d *doubted) string {
	f := d.fact
	if !(reading.HungUp(f) || reading.NoCode503(f)) || !reading.HasEffect(&f.Request) {
		return ""
	}
	for g := range d.c.All() {
		if refusedFirst(g) && g.Vantage == f.Vantage && hop.SameEndpoint(reading.Target(g), reading.Target(f)) {
			return fmt.Sprintf("%s refuses requests of this walk beside others, and this one is sent once: %s",
				reading.Where(f), reading.Saw(f))
		}
	}
	return ""
}
