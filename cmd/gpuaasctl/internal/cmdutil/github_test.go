package cmdutil

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPublish: under GITHUB_ACTIONS=true a summary is appended, annotations are on stderr, stdout is untouched.
func TestPublish(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary")
	if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	publish := func(env string, quiet bool) (stdout, stderr string) {
		var out, errs bytes.Buffer
		a := &App{Stdout: &out, Stderr: &errs, Env: environ(env), Quiet: quiet}
		end := a.CleanOutput()
		a.Publish([]Annotation{{Title: "t", Text: "one\ntwo"}, {Warning: true, Title: "w", Text: "x"}},
			func(w io.Writer) error { _, err := io.WriteString(w, "## fail\n"); return err })
		end()
		return out.String(), errs.String()
	}
	notes := "::error title=t::one%0Atwo\n::warning title=w::x\n"
	for _, c := range []struct {
		env    string
		quiet  bool
		stderr string
	}{
		{"GITHUB_STEP_SUMMARY=" + path, false, ""},
		{"GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=" + path, false, notes},
		{"GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=" + path, true, ""},
		{"GITHUB_ACTIONS=true", false, notes},
	} {
		if stdout, stderr := publish(c.env, c.quiet); stdout != "" || stderr != c.stderr {
			t.Errorf("%s: stdout %q, stderr %q", c.env, stdout, stderr)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != "before\n## fail\n## fail\n" {
		t.Errorf("the summary is %q", text)
	}
	_, stderr := publish("GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY="+t.TempDir(), false)
	if !strings.Contains(stderr, "gpuaasctl: no step summary: ") || !strings.HasSuffix(stderr, notes) {
		t.Errorf("a folder as summary: %q", stderr)
	}
}

// TestSummaryIsBounded: a summary that GitHub would refuse is not written.
func TestSummaryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary")
	if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, mostSummary-10)); err != nil {
		t.Fatal(err)
	}
	if err := appendSummary(path, []byte("0123456789")); err != nil {
		t.Error(err)
	}
	if err := appendSummary(path, []byte("0")); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("one byte more: %v", err)
	}
}

// command matches what runners interpret: :: and a word at a line's start, and the other form anywhere in a line.
var command = regexp.MustCompile(`(?m)^[\s\p{Z}]*::[^\s\d]|##[\pL\pN._-]*\[`)

// TestNoForeignTextCommandsTheRunner: foreign text becomes no command of a CI system, in no stream and no annotation,
// in whatever environment: a log may be shown by another system than the one that the environment names.
func TestNoForeignTextCommandsTheRunner(t *testing.T) {
	hostile := []string{
		"::set-output name=a::b", "  ::add-mask::x", "\t::stop-commands::y", "ok\n::error::z", "ok\r\n::debug::z",
		"\u00a0::error::z",
		"see ##[error]x", "###[add-path]x", "x ##vso[task.setvariable variable=PATH]/evil", "##VSO[task.complete]",
		"##teamcity[setParameter name='a' value='b']", "##octopus[stdout-x]",
		"%0A::error::x", "a\r::error::x", ":\n::error::x", ": ::error::x",
	}
	for _, text := range hostile {
		for cut := 0; cut <= 2*len(text)+1; cut++ {
			var out bytes.Buffer
			env := [...]string{"", "GITHUB_ACTIONS=true"}[cut%2]
			a := &App{Stdout: &out, Stderr: &out, Env: environ(env)}
			cut := cut / 2
			end := a.CleanOutput()
			_, _ = io.WriteString(a.Stdout, text[:cut])
			_, _ = io.WriteString(a.Stdout, text[cut:])
			if end(); command.MatchString(out.String()) {
				t.Fatalf("%q cut at %d is written as %q", text, cut, out.String())
			}
		}
		line := Annotation{Title: text, Text: text}.line()
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") || !strings.HasPrefix(line, "::error title=") ||
			strings.Contains(line, "\r") || command.MatchString(line[2:]) {
			t.Errorf("%q is annotated as %q", text, line)
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(line, "::error title="), "::")
		if strings.ContainsAny(title, ":,") {
			t.Errorf("the title of %q is %q", text, title)
		}
	}
	if line := (Annotation{Title: "100%", Text: "%0A"}).line(); line != "::error title=100%25::%250A\n" {
		t.Errorf("a percent sign: %q", line)
	}
	if line := (Annotation{Text: strings.Repeat("x", 10*mostMessage)}).line(); len(line) > mostMessage+100 {
		t.Errorf("an annotation of %d bytes", len(line))
	}
}
