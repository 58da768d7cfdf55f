package world

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// ErrsRepeatedly describes a server's error to the operator that is measured and not only met once: the same request
// got one each time, or requests of several steps to the same endpoint did. "" for any other fact.
func ErrsRepeatedly(c *hop.Case, f *diag.Fact) string {
	if f.Vantage != hop.Operator || !erred(f) || reading.NoCode503(f) {
		return "" // any server on the path, or a limit, may answer 503 without a code
	}
	step, _, _ := hop.SplitID(f.ID)
	if u := OwnRuns(c, step); len(u.failed) > 1 {
		if len(u.passed) > 0 || howMany(u.failed, erred) < len(u.failed) {
			return ""
		}
		return fmt.Sprintf("each of %d times", len(u.failed))
	}
	steps := 0
	for g := range c.All() {
		if g.Vantage == hop.Operator && erred(g) && !strings.Contains(g.ID, "~") &&
			hop.SameEndpoint(reading.Target(g), reading.Target(f)) {
			steps++
		}
	}
	if steps < 2 {
		return ""
	}
	return fmt.Sprintf("as %d requests of this walk there do", steps)
}

func erred(f *diag.Fact) bool { return reading.Status(f) >= 500 && f.Failure != diag.Cancelled }

// answeredLater: an answer wins over silence. Where others waited longer for an error, this request got none because
// it did not wait for it.
func answeredLater(d *doubted) string {
	if !d.fails() || !reading.GotNoAnswer(d.fact) || !reading.InPhase(d.fact, "http", "ws") {
		return ""
	}
	var late *diag.Fact
	for g := range d.c.All() {
		if g.Vantage == d.fact.Vantage && erred(g) && g.DurationMS >= d.fact.DurationMS &&
			hop.HostPortOf(reading.Target(g)) == hop.HostPortOf(reading.Target(d.fact)) && (late == nil || g.ID < late.ID) {
			late = g
		}
	}
	if late == nil {
		return ""
	}
	return fmt.Sprintf("; a request that waited longer got an answer there: HTTP %d after %d ms", reading.Status(late),
		late.DurationMS)
}
