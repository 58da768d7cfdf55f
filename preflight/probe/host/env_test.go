//go:build linux

package host

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// untilTheThird is
// {"node_id":"n","environment_profile":"lab","issued_at":"2026-01-02T12:00:00Z","expires_at":"2026-01-03T12:00:00Z"}.
const untilTheThird = "eyJub2RlX2lkIjoibiIsImVudmlyb25tZW50X3Byb2ZpbGUiOiJsYWIiLCJpc3N1" +
	"ZWRfYXQiOiIyMDI2LTAxLTAyVDEyOjAwOjAwWiIsImV4cGlyZXNfYXQiOiIyMDI2LTAxLTAzVDEyOjAwOjAwWiJ9"

// TestATokenTellsUntilWhen: a token's presence, age and expiry are reported, never its text.
func TestATokenTellsUntilWhen(t *testing.T) {
	for value, want := range map[string]string{
		"":                                  "empty",
		"opaque-canary":                     "present, issued 2h ago",
		"grt1." + untilTheThird + ".canary": "present, issued 2h ago, until 2026-01-03T12:00:00Z",
		"grt1." + untilTheThird:             "present, issued 2h ago",
		"grt1.x.canary":                     "present, issued 2h ago",
	} {
		var e diag.EnvFacts
		splitSecrets(&e, map[string]string{"GPUAAS_ENROLLMENT_TOKEN": value}, "issued 2h ago")
		got := e.Secret["GPUAAS_ENROLLMENT_TOKEN"]
		if got != want || strings.Contains(got, "canary") {
			t.Errorf("%q is reported as %q, want %q", value, got, want)
		}
	}
}
