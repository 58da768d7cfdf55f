package render

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// TestLiveTimesAreWhole: at 80 columns, the live table truncates neither a hop's name nor a time nor the unit of its
// budget, for every hop and every time up to and beyond the chain's longest budget.
func TestLiveTimesAreWhole(t *testing.T) {
	for _, hop := range diag.HopIDs() {
		for _, budget := range []int64{5000, 7000, 9000, 10_000, 12_000} {
			for _, spent := range []diag.Millis{1, 9, 99, 112, 999, 1000, 9900, 9990, 10_000, 10_400, 11_900, 12_000, 15_400,
				99_400} {
				vantage := page.Cell{Text: "✘ " + spent.Words()}
				row := HopRow{
					Hop: string(hop), State: page.Cell{Text: "⠋ " + AskingWhy}, Operator: vantage, Node: vantage,
					Time: page.Cell{Text: TimeUsed(spent, budget)},
				}
				var b strings.Builder
				if err := Rows(&b, []HopRow{row}, []int64{12_000, budget}, Options{Width: 80}); err != nil {
					t.Fatal(err)
				}
				line := strings.TrimRight(strings.Split(b.String(), "\n")[1], " ")
				if strings.Contains(line, "…") || !strings.HasSuffix(line, "s") || !strings.Contains(line, string(hop)) ||
					page.Width(line) > 80 {
					t.Fatalf("%q", line)
				}
			}
		}
	}
}
