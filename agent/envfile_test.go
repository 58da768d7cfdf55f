package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSetEnvKeepsEveryOtherLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(path, []byte("# mine\nA=1\nB=2\nA=3\nC=4"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := setEnv(path, map[string]string{"A": "new", "Z": "last"}); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(path)
	if want := "# mine\nA=new\nB=2\nC=4\nZ=last\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
	for _, v := range []string{"x\nB=evil", "$(evil)", "`evil`", "a;evil", "a b"} { // some source this file in a shell
		if err := setEnv(path, map[string]string{"A": v}); err == nil {
			t.Errorf("%q was taken", v)
		}
	}
	if after, _ := os.ReadFile(path); string(after) != string(got) {
		t.Error("a refused value changed the file")
	}
}
