// Package hostiletest plants control characters in every string of a document, and checks how it is shown. Its callers
// are the tests of commands.
package hostiletest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/tools/testkit/html5"
)

// Shown counts what a test has checked: a command that always refuses shows nothing.
type Shown struct {
	T             *testing.T
	Home          string
	Looks, Passed int
}

// Shows runs the part of a command after it has its document, with the cleaning writers that every command has.
func (s *Shown) Shows(field, format string, do func(a *cmdutil.App) error) bool {
	s.T.Helper()
	var out, errs bytes.Buffer
	a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: func(string) string { return "" }}
	end := a.CleanOutput()
	err := do(a)
	cmdutil.PrintError(a.Stderr, err)
	end()
	s.Looks++
	if err == nil && out.Len()+errs.Len() > 0 {
		s.Passed++
	}
	HarmlessText(s.T, field+" (stdout)", out.String())
	HarmlessText(s.T, field+" (stderr)", errs.String())
	WellFormed(s.T, field, format, out.String())
	return err == nil
}

func HarmlessText(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: bytes that are not UTF-8", what)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && clean.Hidden(r) }); i >= 0 {
		t.Errorf("%s: a hidden rune reaches the terminal: %q", what, text[max(0, i-40):min(len(text), i+20)])
	}
}

// WellFormed checks that a document is valid in its format.
func WellFormed(t *testing.T, what, format, text string) {
	t.Helper()
	switch {
	case text == "":
	case format == cmdutil.FormatJSON && !json.Valid([]byte(text)):
		t.Errorf("%s: no JSON: %.300q", what, text)
	case format == cmdutil.FormatNDJSON:
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: no JSON: %.300q", what, line)
			}
		}
	case format == cmdutil.FormatHTML:
		if err := html5.Check([]byte(text)); err != nil {
			t.Errorf("%s: no page: %v", what, err)
		}
	case format == cmdutil.FormatJUnit:
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: no XML: %v", what, err)
				break
			}
		}
	}
}

// Enough fails if too little was shown: refusing everything would pass.
func (s *Shown) Enough() {
	s.T.Helper()
	s.T.Logf("%d outputs, of which %d are documents", s.Looks, s.Passed)
	if s.Passed*3 < s.Looks {
		s.T.Errorf("%d of %d hostile documents were refused", s.Looks-s.Passed, s.Looks)
	}
}

func (s *Shown) Write(name string, text []byte) string {
	s.T.Helper()
	path := filepath.Join(s.Home, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.T.Fatal(err)
	}
	return path
}

// AlterNth plants hostile text in the nth string of a JSON text; in all of them for 0.
func AlterNth(text []byte, nth int) []byte {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return text
	}
	seen := 0
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if seen++; seen == nth || nth == 0 {
				return v + Hostile
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		return text
	}
	return out
}
