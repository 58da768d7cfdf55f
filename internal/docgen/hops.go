package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// hopsPage is docs/hops.md.
func hopsPage() string {
	var b strings.Builder
	b.WriteString(
		"# Hops\n\nMade from the chain in `preflight/` by `make picture`; change it there, and what hops mean in\n" +
			"`diag/catalogue/hops.yaml`.\n\n" +
			"A hop passes only when every step that was planned was measured and no fault was found. A step that could not " +
			"be\n" +
			"measured makes it `not_reached` or `inconclusive`, never a pass. `operator` is the machine where you run the\n" +
			"command; `node` is the node itself, over SSH. `both` has steps from either.\n\n" +
			"\"Explained by\" lists hops whose failure makes a failure here a symptom. It is transitive: what explains those\n" +
			"hops explains this one, too. A finding whose own facts show the fault right there is never a symptom.\n\n" +
			"A step runs when the hops that it needs have passed; a hop that is skipped has not passed, so a step that needs " +
			"it\n" +
			"is skipped too. \"After\" names the answers that it asks with. \"Left out without\" names the paths and fields " +
			"of the\n" +
			"profile's mapping: a platform that lacks one (`\"-\"`) is not asked. A hop that a platform lacks altogether is " +
			"not\n" +
			"waited for.\n\n" +
			"| # | hop | from | budget | signals |\n|--:|---|---|--:|---|\n")
	chain := preflight.Chain()
	for i, h := range chain {
		fmt.Fprintf(&b, "| %d | [`%s`](#%s) | %s | %s | %s |\n", i+1, h.ID, h.ID, from(&h), budget(&h),
			codes(meaning(h.ID).Signals))
	}
	for i := range chain {
		hopSection(&b, &chain[i])
	}
	return b.String()
}

func hopSection(b *strings.Builder, h *preflight.Hop) {
	fmt.Fprintf(b, "\n## %s\n\n%s. Layer: %s. Budget: %s.\n", h.ID, upper(h.Title), h.Layer, budget(h))
	fmt.Fprintf(b, "\n%s\n", meaning(h.ID).About)
	if len(h.ExplainedBy) > 0 {
		fmt.Fprintf(b, "\nExplained by: %s.\n", codes(h.ExplainedBy))
	}
	if len(h.Steps) == 0 {
		return
	}
	if len(h.Fields) > 0 {
		fmt.Fprintf(b, "\nAsked and not judged where the platform lacks: %s.\n", codes(h.Fields))
	}
	b.WriteString("\n| step | from | time | needs | after | left out without |\n|---|---|--:|---|---|---|\n")
	for _, s := range h.Steps {
		limit := "the hop's budget less 1 s"
		switch {
		case s.Uses != "":
			limit = "looks at what another hop measured"
		case s.Pure:
			limit = "asks nothing"
		case s.Timeout > 0:
			limit = s.Timeout.String()
		}
		asks := slices.Clone(s.Paths)
		for _, f := range s.Fields {
			asks = append(asks, strings.ReplaceAll(f, "|", " or "))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", s.Name, s.From, limit, codes(s.Needs), codes(s.After),
			codes(asks))
	}
}

// budget is a hop's budget as the chain has it, with the policy that adds to it.
func budget(h *preflight.Hop) string {
	if h.Patience != "" {
		return h.Budget.String() + " + `" + h.Patience + "`"
	}
	return h.Budget.String()
}

// meaning is the hop's row in the catalogue.
func meaning(id diag.HopID) diag.HopRow {
	row, _ := diag.LookupHop(id)
	return row
}

func from(h *preflight.Hop) string {
	switch v := h.From(); {
	case len(v) == 0:
		return "-"
	case slices.Equal(v, []string{preflight.Operator, preflight.Node}):
		return "both"
	default:
		return strings.Join(v, "+")
	}
}

// codes lists names, each as code; "-" when there is none.
func codes[S ~string](names []S) string {
	if len(names) == 0 {
		return "-"
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + string(n) + "`"
	}
	return strings.Join(slices.Compact(quoted), ", ")
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
