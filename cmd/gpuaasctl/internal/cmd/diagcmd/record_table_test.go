package diagcmd

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestAFenceIsCalledOne: the record has one reason for revoked, retired and fenced; the output distinguishes them.
func TestAFenceIsCalledOne(t *testing.T) {
	e := &diag.RecordEntry{Reason: diag.RecIdentityRevoked, About: "heartbeat", Decision: "stop", Status: 403,
		Code: "fenced", Detail: "this host is fenced"}
	row := entryRow(e)
	if row[3] != "identity_revoked (fenced)" || row[8] != "HTTP 403; this host is fenced" {
		t.Errorf("row %q", row)
	}
	if got := sentence(e, ""); !strings.HasSuffix(got,
		"identity_revoked (fenced), heartbeat: stop (HTTP 403; this host is fenced)") {
		t.Errorf("sentence %q", got)
	}
	if row := entryRow(&diag.RecordEntry{Reason: diag.RecCertExpired, Code: "expired"}); row[3] != "cert_expired" ||
		row[8] != "expired" {
		t.Errorf("any other reason stays as it is: %q", row)
	}
}
