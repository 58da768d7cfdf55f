package hosttools

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWithComponents: sources in both formats get the two components, and nothing else changes.
func TestWithComponents(t *testing.T) {
	conf, to := t.TempDir(), filepath.Join(t.TempDir(), "sources")
	if err := os.Mkdir(filepath.Join(conf, "sources.list.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, texts := range map[string][2]string{
		"sources.list": {"# main\ndeb http://a bookworm main\ndeb-src http://a bookworm main\n",
			"# main\ndeb http://a bookworm main contrib non-free\ndeb-src http://a bookworm main\n"},
		"sources.list.d/debian.sources": {"Types: deb\nURIs: http://a\nComponents: main\nSigned-By: /k\n",
			"Types: deb\nURIs: http://a\nComponents: main contrib non-free\nSigned-By: /k\n"},
		"sources.list.d/other.list": {"deb http://b stable\n", "deb http://b stable\n"},
	} {
		if err := os.WriteFile(filepath.Join(conf, file), []byte(texts[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := withComponents(conf, to); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(to, filepath.Base(file))); err != nil || string(got) != texts[1] {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}
