package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesAreTested: each promise in SECURITY.md names its tests, and all of them exist.
func TestPromisesAreTested(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, ".txtar"):
			there[strings.TrimSuffix(d.Name(), ".txtar")] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				there[string(m[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "## Not promised")
	rows, name := 0, regexp.MustCompile("`([A-Za-z_]+)`")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 4 || strings.HasPrefix(line, "| from") {
			continue
		}
		rows++
		tests := name.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(tests) == 0 {
			t.Errorf("no test holds: %s", cells[0])
		}
		for _, m := range tests {
			if !there[m[1]] {
				t.Errorf("%s: there is no test %s", strings.TrimSpace(cells[0]), m[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d boundaries", rows)
	}
}
