package main

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops/explain"
)

// runbookPage is docs/runbook.md, to which reports refer: every signal and every reason has an anchor, from the
// catalogue.
func runbookPage() string {
	return written("runbook", map[string]any{
		"Signals": explained("signal"), "Reasons": explained("reason"), "Scenarios": diag.Scenarios(),
	})
}

// explained returns the meanings of all words of a kind, as `gpuaasctl explain` prints them.
func explained(kind string) []explain.Entry {
	return slices.DeleteFunc(explain.All(), func(e explain.Entry) bool { return e.Kind != kind })
}

// meansLine is a line of an entry's meaning. A reason is linked to its section.
func meansLine(text string) string {
	if code, ok := strings.CutPrefix(text, "Reason: "); ok {
		code = strings.TrimSuffix(code, ".")
		return "Reason: [`" + code + "`](#reason-" + code + ")."
	}
	return page.Escaped(text)
}

func repair(d time.Duration) string {
	if d == 0 {
		return "by itself or on the next business day"
	}
	return "within " + diag.Span(d)
}
