package diagcmd

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
)

// TestNoSecretOfARecord: no output of this tool contains a secret from a record, however the record was written.
func TestNoSecretOfARecord(t *testing.T) {
	for _, format := range []string{cmdutil.FormatTable, cmdutil.FormatJSON, cmdutil.FormatNDJSON} {
		f := diag.RecordFacts{}
		for secret, form := range planted {
			said := fmt.Sprintf(form, secret)
			e := diag.RecordEntry{Seq: uint64(len(f.Entries) + 1), Decision: "retry", Attempt: 1, Detail: said,
				Facts: map[string]string{"why": said}}
			f.Entries = append(f.Entries, e)
			e.Pin = "first"
			f.Pinned = append(f.Pinned, e)
		}
		var out bytes.Buffer
		a := &cmdutil.App{Stdout: &out, Env: func(string) string { return "" }}
		if err := writeRecord(a, ops.NewRecord("n1", f), format); err != nil {
			t.Fatal(err)
		}
		for secret := range planted {
			if strings.Contains(out.String(), secret) {
				t.Errorf("-o %s says %s", format, secret)
			}
		}
	}
}
