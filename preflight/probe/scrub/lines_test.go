package scrub

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestLinesAreBounded: the oldest lines are dropped, and the fact notes that.
func TestLinesAreBounded(t *testing.T) {
	var lines []diag.JournalLine
	for i := range 600 {
		lines = append(lines, diag.JournalLine{Text: fmt.Sprint(i, " ", strings.Repeat("word ", 2000))})
	}
	var j diag.JournalFacts
	kept := Journal(lines, &j)
	size := 0
	for _, l := range kept {
		size += len(l.Text)
	}
	if !j.Truncated || size > MaxText || !strings.HasPrefix(kept[len(kept)-1].Text, "0 ") {
		t.Errorf("%d lines, %d bytes, truncated %v, the last begins %.10q", len(kept), size, j.Truncated,
			kept[len(kept)-1].Text)
	}
}

func TestLinesKeepTheirIDs(t *testing.T) {
	const hex = "0123456789abcdef0123456789abcdef"
	for _, s := range []string{
		"path=/internal/v1/nodes/compute-node-01/tasks/task-" + hex + "/result status=200",
		`{"path":"/v1/terminal/ts-` + hex + `","correlation_id":"req-` + hex[:24] + `","node_instance_id":"` + hex + `"}`,
		"kept under diag-20261121T062435Z-abcd1234",
		"correlation_id=agent-M7I2DNAGDVURGOAW2JBQF4H4HA",
	} {
		if got := Line(s, nil); got != s {
			t.Errorf("%s became %s", s, got)
		}
	}
	for _, s := range []string{"sk-" + hex, "session_id=" + canary + "Xyz", "xtask-" + hex, "task-" + canary,
		"agent-" + canary, "correlation_id=a/" + hex} {
		if got := Line(s, nil); strings.Contains(got, hex) || strings.Contains(got, canary) {
			t.Errorf("%s became %s", s, got)
		}
	}
}

// FuzzHideIDs: hiding ids and showing them again changes no line.
func FuzzHideIDs(f *testing.F) {
	f.Add(`correlation_id=req-1 "node_id":"n1" task_id: x`)
	f.Fuzz(func(t *testing.T, s string) {
		s, _ = clipLine(s, false)
		hidden, ids := hideIDs(s)
		if got := showIDs(hidden, ids); got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}

// TestDigestsOfProgramsStay: digests of programs are not redacted, since they show which build ran during an update.
func TestDigestsOfProgramsStay(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	for _, line := range []string{"package=" + digest + " sha256=" + digest + " version=2",
		`"prior_sha256":"` + digest + `"`} {
		if got := Line(line, nil); got != line {
			t.Errorf("%s became %s", line, got)
		}
	}
	if got := Line("secret="+digest, nil); strings.Contains(got, digest) {
		t.Error("what is no digest by its name stayed")
	}
}
