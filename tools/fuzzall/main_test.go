package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNoFuzzerIsMissed: every function that takes a *testing.F is found, once, in the folder of its file.
func TestNoFuzzerIsMissed(t *testing.T) {
	const root = "../.."
	found, err := fuzzers(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range found {
		for _, name := range p.names {
			names = append(names, p.folder+" "+name)
		}
	}
	taking := regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\) \{$`)
	var want []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range taking.FindAllStringSubmatch(string(text), -1) {
			want = append(want, filepath.ToSlash(folder)+" "+m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	slices.Sort(want)
	if len(want) < 25 || !slices.Equal(names, want) {
		t.Errorf("found %d:\n%s\nwant %d:\n%s", len(names), strings.Join(names, "\n"), len(want), strings.Join(want, "\n"))
	}
}
