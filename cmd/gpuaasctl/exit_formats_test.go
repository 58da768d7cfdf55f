package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// headline is the line of a text format that says the verdict.
var headline = map[render.Format]*regexp.Regexp{
	render.Table:    regexp.MustCompile(`(?m)^[✔!✘?] ([A-Z]+) · .*$`),
	render.Wide:     regexp.MustCompile(`(?m)^[✔!✘?] ([A-Z]+) · .*$`),
	render.Short:    regexp.MustCompile(`\A[✔!✘?] ([a-z]+)  .*\n\z`),
	render.Markdown: regexp.MustCompile(`\A## [✔!✘?] ([a-z]+): .*`),
}

// statedOutcome is what one rendering says of the walk as a whole; of JUnit only whether a gate reads it as green.
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
		if all := headline[format].FindAllSubmatch(text, -1); len(all) == 1 {
			return strings.ToLower(string(all[0][1]))
		}
	}
	return "nothing"
}

// wantedCodes are the exit codes that an outcome may have.
var wantedCodes = map[string][]int{"pass": {exitPass}, "warn": {exitPass}, "fail": {exitFailed}, "inconclusive": {exitInconclusive, exitUsage}}

// TestFormatsAgree: of every recorded walk each format says the same outcome, and the command ends with its exit code;
// so it does where the file says that the walk was cut short or that it broke.
func TestFormatsAgree(t *testing.T) {
	var files []string
	for _, dir := range []string{"reports", "matrix"} {
		found, _ := filepath.Glob(filepath.Join("..", "..", "golden", dir, "*.json"))
		files = append(files, found...)
	}
	if len(files) < 40 {
		t.Fatalf("%d walks are recorded", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			recorded, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, ended := range []diag.EndedBy{diag.EndedCompleted, diag.EndedDeadline, diag.EndedInterrupted, diag.EndedError} {
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
		a := &app{stdin: bytes.NewReader(report), stdout: out, stderr: io.Discard, env: func(string) string { return "" }}
		code := a.execute(t.Context(), []string{"preflight", "replay", "-", "-o", string(format)})
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
		want = []int{exitInterrupted}
	case diag.EndedError:
		want = []int{exitInternal}
	}
	for _, code := range want {
		if code == first {
			return
		}
	}
	t.Errorf("%s, ended by %s: the formats say %q, and the exit code is %d, want one of %d", t.Name(), ended, said, first, want)
}
