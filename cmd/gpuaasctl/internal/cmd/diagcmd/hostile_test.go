package diagcmd

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/hostiletest"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/ops"
)

// TestHostileRecordOfANode: a hostile record in the output of diag show, in new entries of diag watch, and in an
// export.
func TestHostileRecordOfANode(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	text := []byte(`{"slots":256,"path":"/v","entries":[{"seq":1,"reason":"dns_failed","facts":{"a":"b"}}],"damaged":[{}],"pinned":[{"seq":1,"pin":"contact"}]}`)
	hostiletest.PlantedIn(t, text, func(field string, f *diag.RecordFacts) bool {
		for _, format := range []string{cmdutil.FormatTable, cmdutil.FormatNDJSON} {
			s.Shows(field+" watched", format, func(a *cmdutil.App) error {
				w := &watch{app: a, opts: &recordOptions{output: format}, seen: map[uint64]seenEntry{}}
				return w.print(append(f.Entries, w.contact(f.Pinned)...))
			})
		}
		s.Shows(field, cmdutil.FormatJSON, func(a *cmdutil.App) error {
			return writeRecord(a, ops.NewRecord("n"+hostiletest.Hostile, *f), cmdutil.FormatJSON)
		})
		return s.Shows(field, cmdutil.FormatTable, func(a *cmdutil.App) error {
			return writeRecord(a, ops.NewRecord("n1", *f), cmdutil.FormatTable)
		})
	})
	hostiletest.PlantedIn(t, []byte(`{"sources":[{"source":"record","status":"missing","why":"w"}]}`), func(field string, m *evidence.Manifest) bool {
		return s.Shows(field, "", func(a *cmdutil.App) error { noteChanged(a, m, map[string]string{}); return nil })
	})
	s.Enough()
}
