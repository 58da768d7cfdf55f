package goldentest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// failed is a test that records its failure instead of failing.
type failed struct {
	testing.TB
	text string
}

func (*failed) Helper() {}

func (f *failed) Errorf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

func (f *failed) Fatalf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

func (f *failed) Fatal(args ...any) { f.text = fmt.Sprint(args...) }

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b.txt")
	try := func(update, got string) string {
		t.Setenv(variable, update)
		f := &failed{TB: t}
		Check(f, path, got)
		return f.text
	}
	if try("1", "one\ntwo\n") != "" {
		t.Fatal("it is not written")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "one\ntwo\n" {
		t.Fatalf("%q, %v", text, err)
	}
	for got, want := range map[string]string{
		"one\ntwo\n": "", "one\nTwo\n": "from line 2 on", "one\n": "from line 2 on", "one\ntwo\nthree": "from line 3 on",
		"one\ntwo": "from line 2 on",
	} {
		if said := try("", got); (want == "" && said != "") || !strings.Contains(said, want) {
			t.Errorf("%q: %s", got, said)
		}
	}
}
