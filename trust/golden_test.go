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
		name   string
		first  string
		corner Corner
	}{
		{"healthy", "", ""},
		{"stale-ca-bundle", linkBundle, CornerBundle},
		{"ca-bundle-missing", linkBundle, CornerBundle},
		{"ingress-ca-drift", linkIngress, CornerIngress},
		{"wrong-public-edge", linkEndpoint, CornerEndpoint},
		{"node-cert-expired", linkCredential, CornerCredential},
		{"terminal-mtls-rejected", linkStream, CornerTerminal},
		{"api-egress-blocked", "", ""},
		{"agent-stopped", "", ""},
		{"ops-path-lost", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "golden", "reports", tc.name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var r diag.Report
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			got := Explain(r.Subject, r.Facts)
			if got.Verdict.First != tc.first || got.Verdict.Corner != tc.corner {
				t.Errorf("first %q, corner %q: %s; want %q, %q", got.Verdict.First, got.Verdict.Corner, got.Verdict.Text, tc.first,
					tc.corner)
				for _, l := range got.Links {
					t.Logf("%-32s %-8s %s  %s", l.ID, l.Status, l.Text, l.Corner)
				}
			}
			// these walks did not read the bundle's file and had no handshake from the operator
			if tc.first == "" && got.Verdict.Outcome != Unclear {
				t.Errorf("outcome %s", got.Verdict.Outcome)
			}
		})
	}
}
