package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// TestEveryVerdictIsDocumented: every verdict has a row, from good to bad, and every claim has one, in the order of a
// run.
func TestEveryVerdictIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "run-a-drill.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, claims, _ := strings.Cut(string(page), "\n## What it claims\n")
	claims, verdicts, ok := strings.Cut(claims, "\n## Verdicts\n")
	if !ok {
		t.Fatal("docs/run-a-drill.md has no chapter of claims before one of verdicts")
	}
	row := func(chapter *string, name string) {
		_, rest, ok := strings.Cut(*chapter, fmt.Sprintf("\n| `%s` |", name))
		if !ok {
			t.Errorf("docs/run-a-drill.md has no row for %s where it belongs", name)
			return
		}
		*chapter = rest
	}
	for _, c := range (&drill.Story{}).Claims() {
		row(&claims, c.ID)
	}
	for _, w := range drill.Words() {
		row(&verdicts, string(w))
	}
}
