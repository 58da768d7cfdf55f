package explaincmd_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops/explain"
)

var (
	link   = regexp.MustCompile(`\[` + "`" + `?([^]` + "`" + `]*)` + "`" + `?\]\(#[^)]*\)`)
	number = regexp.MustCompile(`^(\d+\.|-) `)
	marks  = strings.NewReplacer("\\", "", "`", "", "&lt;", "<", "&gt;", ">", "&amp;", "&", "$ ", "", ",", "", ":", "",
		";", "")
)

// words are the words of a text, without marks and punctuation of either form.
func words(text string) string {
	return strings.Join(strings.Fields(marks.Replace(link.ReplaceAllString(text, "$1"))), " ")
}

// TestRunbookIsWhatExplainPrints: every line of a signal's and a reason's section, and every cell of the failure
// matrix, is in the text that explain prints for that word. Conditions, commands and values included.
func TestRunbookIsWhatExplainPrints(t *testing.T) {
	data, err := os.ReadFile("../../../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	kind, printed, lines := "", "", 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			kind, printed = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(line, "## "), "s")), ""
			continue
		case strings.HasPrefix(line, "### "):
			printed = printedFor(t, kind, strings.TrimPrefix(strings.TrimPrefix(line, "### "), "reason "))
			continue
		case kind == "failure matrix" && strings.HasPrefix(line, "| ") && strings.Contains(line, " (`"):
			_, id, _ := strings.Cut(line, " (`")
			id, _, _ = strings.Cut(id, "`)")
			printed = printedFor(t, "scenario", id)
			line = strings.ReplaceAll(line, " (`"+id+"`)", "")
		case printed == "" || line == "" || kind == "failure matrix":
			continue
		}
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), " | ") {
			cell = strings.TrimPrefix(number.ReplaceAllString(cell, ""), "Repaired when this passes: ")
			if text := words(cell); !strings.Contains(printed, strings.TrimSuffix(text, ".")) {
				t.Errorf("explain does not print %q; it prints\n%s", text, printed)
			}
			lines++
		}
	}
	if lines < 500 {
		t.Errorf("only %d lines", lines)
	}
}

func printedFor(t *testing.T, kind, word string) string {
	t.Helper()
	found := explain.Lookup(kind, word)
	if len(found) != 1 {
		t.Fatalf("%s %q has %d meanings", kind, word, len(found))
	}
	return words(string(page.Text(page.Layout{}, cmdutil.EntryPage(&found[0])...)))
}
