package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits for what a reader takes in at once: columns of a line (a tab counts as one), lines of a file, files of a
// folder. A longer file and a fuller folder give their reason, after the words below: the file in a comment, the folder
// in its package doc. Tests may be long, since they are read one function at a time.
const (
	maxColumns, maxLines, maxFiles = 120, 300, 25

	longFile   = "Longer than 300 lines:"
	fullFolder = "More than 25 files:"
)

// TestLayout checks lines, files and folders against the limits.
func TestLayout(t *testing.T) {
	files, docs := map[string]int{}, map[string]string{}
	eachFile(t, func(rel string, file *ast.File, _ func(ast.Node) int) {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(rel)))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range longLines(text) {
			t.Errorf("%s:%d: more than %d columns", rel, line, maxColumns)
		}
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		folder := path.Dir(rel)
		files[folder]++
		docs[folder] += file.Doc.Text()
		n, comments := bytes.Count(text, []byte("\n")), ""
		for _, c := range file.Comments {
			comments += c.Text()
		}
		if said := strings.Contains(comments, longFile); said != (n > maxLines) {
			t.Errorf("%s has %d lines; its comments say %q: %t", rel, n, longFile, said)
		}
	})
	for folder, n := range files {
		if said := strings.Contains(docs[folder], fullFolder); said != (n > maxFiles) {
			t.Errorf("%s has %d files; its package doc says %q: %t", folder, n, fullFolder, said)
		}
	}
}

// longLines returns the numbers of the lines longer than maxColumns. It ignores raw strings, whose text is in another
// language and cannot be wrapped here.
func longLines(text []byte) (long []int) {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	raw := map[int]bool{}
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		if tok == token.STRING && lit[0] == '`' {
			first := file.Line(pos)
			for i := range strings.Count(lit, "\n") + 1 {
				raw[first+i] = true
			}
		}
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n"))) > maxColumns && !raw[n] {
			long = append(long, n)
		}
	}
	return long
}

// TestLongLinesAreFound: the rule above can fail.
func TestLongLinesAreFound(t *testing.T) {
	wide := strings.Repeat("x", maxColumns)
	for text, want := range map[string]int{
		"// " + wide: 1, "const " + wide + " = 1": 1, "const s = `\n" + wide + wide + "\n`": 0,
		"var " + wide[:100] + " int": 0, "const s = `" + wide + "`": 0, "const s = \"" + wide + "\"": 1,
	} {
		text = "package p\n\n" + text + "\n"
		if _, err := parser.ParseFile(token.NewFileSet(), "", text, 0); err != nil {
			t.Fatal(err)
		}
		if got := longLines([]byte(text)); len(got) != want {
			t.Errorf("%s: long lines %v, want %d", text, got, want)
		}
	}
}
