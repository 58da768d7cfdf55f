package diag_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/heaptest"
)

// TestLimiterKeepsNothing: parsing an answer allocates no more than a few times its size, however many members it has
// and at any nesting, and an answer larger than limiterBody is not searched as JSON.
func TestLimiterKeepsNothing(t *testing.T) {
	var members strings.Builder
	for i := range 7_000 {
		fmt.Fprintf(&members, `"%x":0,`, i)
	}
	for name, body := range map[string]string{
		"at the top": `{` + members.String() + `"code":"rate_limited"}`,
		"in error":   `{"error":{` + members.String() + `"code":"rate_limited"}}`,
	} {
		answer := diag.Refusal{Status: 403, Header: func(string) string { return "" }, Body: []byte(body)}
		if got := diag.LimitedBy(answer); got != diag.LimiterRate {
			t.Errorf("%s, of %d bytes: %q", name, len(body), got)
		}
		if n := testing.AllocsPerRun(10, func() { diag.LimitedBy(answer) }); n > 200 {
			t.Errorf("%s: %.0f allocations", name, n)
		}
	}
	huge := diag.Refusal{Status: 403, Header: func(string) string { return "" },
		Body: []byte(`{` + strings.Repeat(members.String(), 200) + `"code":"rate_limited"}`)}
	heaptest.Under(t, 4<<20, func() {
		if got := diag.LimitedBy(huge); got != diag.NoLimiter {
			t.Errorf("a body of %d bytes: %q", len(huge.Body), got)
		}
	})
}
