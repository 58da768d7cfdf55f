package render

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// span formats the time of an event: "0.40–1.1 s", or "≤0.31 s" if it may have happened at the start. The lower
// bound is rounded down and the upper one up, so that the text is never more precise than the measurement. An
// event that was not seen is "not in 31 s", or "–" if no probe ran.
func span(t drill.Timing) string {
	switch {
	case t.Seen && t.AfterMS <= 0:
		return "≤" + drill.Rounded(t.WithinMS, math.Ceil) + " s"
	case t.Seen:
		return drill.Rounded(t.AfterMS, math.Floor) + "–" + drill.Rounded(t.WithinMS, math.Ceil) + " s"
	case t.AfterMS > 0:
		return "not in " + drill.Rounded(t.AfterMS, math.Floor) + " s"
	}
	return "–"
}

// sentence returns span in words, with the budget: "between 0.40 s and 1.1 s, budget 30s".
func sentence(t drill.Timing) string {
	text := "not seen"
	switch {
	case t.Seen && t.AfterMS <= 0:
		text = "within " + drill.Rounded(t.WithinMS, math.Ceil) + " s"
	case t.Seen:
		text = "between " + drill.Rounded(t.AfterMS, math.Floor) + " s and " + drill.Rounded(t.WithinMS, math.Ceil) + " s"
	case t.AfterMS > 0:
		text = "not within " + drill.Rounded(t.AfterMS, math.Floor) + " s"
	}
	if t.Budget <= 0 {
		return text
	}
	text += ", budget " + budget(t)
	if t.Seen && t.WithinMS > t.Budget.Std().Milliseconds() {
		text += ", which it is past"
	}
	return text
}

// budget formats a budget in seconds: "30 s".
func budget(t drill.Timing) string {
	if t.Budget <= 0 {
		return "–"
	}
	return drill.Rounded(t.Budget.Std().Milliseconds(), math.Round) + " s"
}

// bar draws t in n columns: dots until the lower bound, blocks up to the upper bound, a line for the rest of the
// budget. If the budget was exceeded, a stroke marks its end.
func bar(t drill.Timing, n int) string {
	limit := t.Budget.Std().Milliseconds()
	all := max(limit, t.WithinMS, t.AfterMS)
	if all <= 0 || limit <= 0 {
		return ""
	}
	at := func(ms int64) int { return min(n, int(ms*int64(n)/all)) }
	after, within := at(t.AfterMS), at(t.AfterMS)
	if t.Seen {
		after = min(after, n-1)
		within = max(after+1, int((t.WithinMS*int64(n)+all-1)/all))
	}
	b := []rune(strings.Repeat("·", after) + strings.Repeat("█", within-after) + strings.Repeat("─", n-within))
	if end := at(limit); end < n {
		b[end] = '│'
	}
	return string(b)
}

// micros formats a duration that was measured on a machine: "0.8 ms", "31 ms", "1.2 s".
func micros(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(us)/1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(us)/1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
