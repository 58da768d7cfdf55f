package world

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

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
		if f := c.JudgedFact(s); s.Needs.Token && s.Uses == "" && ReadFromCache(c, f) {
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
