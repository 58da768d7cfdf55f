package house

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxMakefile is how many lines the Makefile has at most: what is longer is a program in tools/, and a reason is a line
// of docs/building.md.
const maxMakefile = 120

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z -]*):(?:[^=]|$)`)
	makeCall   = regexp.MustCompile("(?m)(?:`|^)make ([a-z]+(?:-[a-z]+)*)\\b")
)

// targetsOf returns the targets of a Makefile.
func targetsOf(makefile []byte) map[string]bool {
	targets := map[string]bool{}
	for _, found := range makeTarget.FindAllSubmatch(makefile, -1) {
		for _, name := range strings.Fields(string(found[1])) {
			targets[name] = true
		}
	}
	return targets
}

// TestMakefile: it is short, and has every target that a page or a source names.
func TestMakefile(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(makefile, []byte("\n")); n >= maxMakefile {
		t.Errorf("the Makefile has %d lines, and at most %d are allowed", n, maxMakefile-1)
	}
	targets, named := targetsOf(makefile), map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && (strings.HasPrefix(d.Name(), ".git") || d.Name() == "bin" || d.Name() == "dist" ||
				d.Name() == "testdata" || d.Name() == "shared") {
				return fs.SkipDir
			}
			return err
		}
		if ext := filepath.Ext(path); ext != ".md" && ext != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range makeCall.FindAllSubmatch(text, -1) {
			name := string(found[1])
			if named[name] = true; !targets[name] {
				t.Errorf("%s names make %s, which the Makefile does not have", path, name)
			}
		}
		return err
	})
	if err != nil || len(named) < 15 {
		t.Errorf("%d targets are named, %v", len(named), err)
	}
}
