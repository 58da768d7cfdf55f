package cmdutil

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	old, link := filepath.Join(dir, "old.json"), filepath.Join(dir, "link.json")
	if err := os.WriteFile(old, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old.json", link); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(filepath.Join(dir, "open"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := open.WriteString("table\n"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, at, want string }{
		{filepath.Join(dir, "new.json"), filepath.Join(dir, "new.json"), "{}"},
		{link, old, "{}"},
		{fmt.Sprintf("/dev/fd/%d", open.Fd()), open.Name(), "table\n{}"},
	} {
		if err := ReplaceFile(c.path, []byte("{}")); err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
		if got, err := os.ReadFile(c.at); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", c.at, got, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

// TestCheckReportPath: a report is not written to a file whose name says that it is another document; any other name
// is JSON, as that of a temporary file.
func TestCheckReportPath(t *testing.T) {
	dir := t.TempDir() + "/"
	for name, kinds := range map[string][]string{"r.json": nil, "r": nil, "tmp.aBcD12": nil, "r.HTML": {".html"}} {
		if err := CheckReportPath(dir+name, kinds...); err != nil {
			t.Error(err)
		}
	}
	for name, kinds := range map[string][]string{"r.pdf": {".html"}, "r.html": nil, "r.Md": {".html"}, "r.xml": nil} {
		if err := CheckReportPath(dir+name, kinds...); err == nil {
			t.Errorf("%s is accepted, with %q", name, kinds)
		}
	}
}
