// Package goldentest compares a program's output with a file that has the last reviewed output. Tests call it.
package goldentest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const variable = "GPUAASCTL_UPDATE_GOLDEN"

// Writing reports whether to rewrite the files instead: GPUAASCTL_UPDATE_GOLDEN is set, as by make golden.
func Writing() bool { return os.Getenv(variable) != "" }

// Check requires that the file at path equals got, byte for byte. It reports the first line that differs.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if Writing() {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(got), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (make golden writes it)", err)
	}
	if got == string(want) {
		return
	}
	a, b := strings.SplitAfter(got, "\n"), strings.SplitAfter(string(want), "\n")
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	t.Errorf("%s differs from line %d on; run make golden and read the difference\ngot  %s\nwant %s", path, n+1,
		line(a, n), line(b, n))
}

func line(all []string, n int) string {
	if n >= len(all) {
		return "(nothing)"
	}
	return strings.TrimSuffix(all[n], "\n")
}
