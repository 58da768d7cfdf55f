package ops

import (
	"context"
	"testing"

	"errors"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/profile"
)

// mirrored is a node without a record in the given folder on its disk, so that the copy in memory answers.
type mirrored struct{}

func (mirrored) Name() string { return "node" }
func (mirrored) Close() error { return nil }
func (mirrored) Probe(_ context.Context, reqs []diag.Request) []diag.Fact {
	return []diag.Fact{{Request: reqs[0],
		Record: &diag.RecordFacts{Source: record.SourceMirror, Path: "/run/gpuaas/diag",
			Degraded: "its file record is missing"}}}
}

// TestShowNamesAMistypedFolder: the copy in memory belongs to the agent's own record, and is not shown for another
// folder.
func TestShowNamesAMistypedFolder(t *testing.T) {
	for dir, refused := range map[string]bool{profile.DefaultAgentRecord: false, profile.DefaultAgentRecord + "/": false,
		"/wrong": true} {
		s := New(Site{}).Node("n1", "")
		_, err := s.readRecord(t.Context(), mirrored{}, dir, 1)
		var other *OtherRecordError
		if (err != nil) != refused || (refused && (!errors.As(err, &other) || other.Dir != dir)) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
