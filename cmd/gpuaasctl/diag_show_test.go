package main

import (
	"context"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

// mirrored is a node whose disk holds no record where it is looked for, so that the copy in memory answers.
type mirrored struct{}

func (mirrored) Name() string { return "node" }
func (mirrored) Close() error { return nil }
func (mirrored) Probe(_ context.Context, reqs []diag.Request) []diag.Fact {
	return []diag.Fact{{Request: reqs[0], Record: &diag.RecordFacts{Source: record.SourceMirror, Path: "/run/gpuaas/diag", Degraded: "its file record is missing"}}}
}

// TestShowNamesAMistypedFolder: the copy in memory is of the agent's own record, and stands in for no other folder.
func TestShowNamesAMistypedFolder(t *testing.T) {
	for dir, refused := range map[string]bool{recordDir: false, recordDir + "/": false, "/wrong": true} {
		j, o := &job{}, &recordOptions{dir: dir}
		_, err := askRecord(t.Context(), mirrored{}, j.recordRequest(o), j.recordHome())
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "--dir: /wrong") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
