package host

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

const (
	// recordMirror is the folder of the record's copy in memory.
	recordMirror = "/run/gpuaas/diag"
	// recordEntries is the number of entries for a request without a limit.
	recordEntries = 32
)

// record reads the diagnostic record in the folder Target: all pinned entries, and the newest Limit entries of the
// ring. Entries that are missing on the disk come from the copy in memory. Failures: file_missing, file_unreadable,
// unsupported.
func (p *Prober) record(_ context.Context, req diag.Request, f *diag.Fact) {
	if !filepath.IsAbs(req.Target) || req.Limit < 0 {
		measure.Fail(f, "read", diag.Unsupported, fmt.Errorf("record wants an absolute path, and no negative limit"))
		return
	}
	mirror := cmp.Or(p.mirror, recordMirror)
	facts, err := record.ReadBoth(os.DirFS(req.Target), os.DirFS(mirror))
	if err != nil {
		measure.Fail(f, "read", measure.FileWord(err), err)
		return
	}
	facts.Path = req.Target
	if facts.Source == record.SourceMirror {
		facts.Path = mirror
	}
	limit := cmp.Or(req.Limit, recordEntries)
	facts = record.Newest(facts, limit)
	for _, list := range [...][]diag.RecordEntry{facts.Entries, facts.Pinned} {
		for i := range list {
			list[i].Detail = scrub.Text(list[i].Detail)
		}
	}
	f.Record = &facts
}

// MergeRecord uses the record outside the agent's mounts if the agent itself sees none on its disk: that record was
// written before the mounts covered it.
func MergeRecord(f *diag.Fact, host diag.Fact) {
	if f.Record != nil && (f.Record.Source == record.SourceDisk || host.Record.Source != record.SourceDisk) {
		return
	}
	f.Detail = measure.JoinDetail(f.Detail, "read outside of the agent's mounts")
	f.Record, f.Failure, f.Phase, f.Errno = host.Record, host.Failure, host.Phase, host.Errno
}
