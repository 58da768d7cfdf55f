package trust

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestRecorded explains reports recorded on real machines before this package existed.
func TestRecorded(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first string
		cause Cause
	}{
		{"healthy", "", ""},
		{"stale-ca-bundle", linkBundle, CauseBundle},
		{"ca-bundle-missing", linkBundle, CauseBundle},
		{"ingress-ca-drift", linkIngress, CauseIngress},
		{"wrong-public-edge", linkEndpoint, CauseEndpoint},
		{"node-cert-expired", linkCredential, CauseCredential},
		{"terminal-mtls-rejected", linkStream, CauseTerminal},
		{"api-egress-blocked", "", ""},
		{"agent-stopped", "", ""},
		{"ops-path-lost", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "golden", "reports", tc.name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var r diag.Report
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			got := Explain(r.Subject, r.Facts)
			if got.Verdict.First != tc.first || got.Verdict.Cause != tc.cause {
				t.Errorf("first %q, cause %q: %s; want %q, %q", got.Verdict.First, got.Verdict.Cause, got.Verdict.Text, tc.first,
					tc.cause)
				for _, l := range got.Links {
					t.Logf("%-32s %-8s %s  %s", l.ID, l.Status, l.Text, l.Cause)
				}
			}
			// these walks did not read the bundle's file and had no handshake from the operator
			if tc.first == "" && got.Verdict.Outcome != Unclear {
				t.Errorf("outcome %s", got.Verdict.Outcome)
			}
		})
	}
}
