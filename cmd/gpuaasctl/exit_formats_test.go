package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// headline matches the line of a text format with the verdict; the page has it above the details, and last.
var headline = map[render.Format]*regexp.Regexp{
	render.Table:    regexp.MustCompile(`(?m)^[✔!✘?] ([A-Z]+) · .*$`),
	render.Wide:     regexp.MustCompile(`(?m)^[✔!✘?] ([A-Z]+) · .*$`),
	render.Full:     regexp.MustCompile(`(?m)^[✔!✘?] ([A-Z]+) · .*$`),
	render.Short:    regexp.MustCompile(`\A[✔!✘?] ([a-z]+)  .*\n\z`),
	render.Markdown: regexp.MustCompile(`\A## [✔!✘?] ([a-z]+): .*`),
	render.HTML:     regexp.MustCompile(`<h1 class="[a-z]+">[✔!✘?] ([a-z]+): .*`),
}

// statedOutcome returns the walk's outcome in one rendering; for JUnit only whether a gate reads it as green.
func statedOutcome(t *testing.T, format render.Format, text []byte) string {
	t.Helper()
	var doc struct{ Verdict struct{ Outcome string } }
	switch format {
	case render.JSON:
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		return doc.Verdict.Outcome
	case render.NDJSON:
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		if err := json.Unmarshal(lines[len(lines)-1], &doc); err != nil {
			t.Fatal(err)
		}
		return doc.Verdict.Outcome
	case render.JUnit:
		var s render.JUnitSuites
		if err := xml.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Suites[0].Properties {
			if p.Name == "outcome" {
				return p.Value
			}
		}
	default:
		said := map[string]bool{}
		for _, line := range headline[format].FindAllSubmatch(text, -1) {
			said[strings.ToLower(string(line[1]))] = true
		}
		if len(said) == 1 {
			return slices.Collect(maps.Keys(said))[0]
		}
	}
	return "nothing"
}

// wantedCodes are the allowed exit codes of an outcome.
var wantedCodes = map[string][]int{"pass": {cmdutil.ExitPass}, "warn": {cmdutil.ExitPass}, "fail": {cmdutil.ExitFailed},
	"inconclusive": {cmdutil.ExitInconclusive, cmdutil.ExitUsage}}

// TestFormatsAgree: every format renders the same outcome of every recorded walk, and the command ends with its exit
// code, even if the walk was interrupted or failed.
func TestFormatsAgree(t *testing.T) {
	var files []string
	for _, dir := range []string{"reports", "matrix"} {
		found, _ := filepath.Glob(filepath.Join("..", "..", "golden", dir, "*.json"))
		files = append(files, found...)
	}
	if len(files) < 40 {
		t.Fatalf("%d walks are recorded", len(files))
	}
	for i, file := range files {
		if testing.Short() && i%6 != 0 { // the race detector's run is shorter: the code is the same
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			recorded, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, ended := range []diag.EndedBy{diag.EndedCompleted, diag.EndedDeadline, diag.EndedInterrupted,
				diag.EndedError} {
				data := bytes.Replace(recorded, []byte(`"ended_by": "completed"`), []byte(`"ended_by": "`+string(ended)+`"`), 1)
				agree(t, data, ended)
			}
		})
	}
}

// agree replays one report in every format.
func agree(t *testing.T, report []byte, ended diag.EndedBy) {
	t.Helper()
	first, said := -1, ""
	for _, format := range render.Formats {
		out := &bytes.Buffer{}
		a := &cmdutil.App{Stdin: bytes.NewReader(report), Stdout: out, Stderr: io.Discard,
			Env: func(string) string { return "" }}
		code := execute(a, t.Context(), []string{"preflight", "replay", "-", "-o", string(format)})
		outcome := statedOutcome(t, format, out.Bytes())
		if first < 0 {
			first, said = code, outcome
		}
		if code != first || outcome != said {
			t.Errorf("%s, ended by %s: %s says %s with exit code %d, %s says %s with %d",
				t.Name(), ended, render.Formats[0], said, first, format, outcome, code)
		}
	}
	want := wantedCodes[said]
	switch ended {
	case diag.EndedInterrupted:
		want = []int{cmdutil.ExitInterrupted}
	case diag.EndedError:
		want = []int{cmdutil.ExitInternal}
	}
	for _, code := range want {
		if code == first {
			return
		}
	}
	t.Errorf("%s, ended by %s: the formats say %q, and the exit code is %d, want one of %d", t.Name(), ended, said, first,
		want)
}
