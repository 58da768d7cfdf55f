package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/golden"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestEveryFaultHasEntries: the tables name each fault where it is expected and where it is made.
func TestEveryFaultHasEntries(t *testing.T) {
	entries := map[string]string{}
	for _, table := range tables {
		text, err := os.ReadFile(filepath.Join("..", "..", table))
		if err != nil {
			t.Fatal(err)
		}
		var lines []int
		for i := range strings.Count(string(text), "\n") {
			lines = append(lines, i+1)
		}
		names, err := entriesAt(filepath.Join("..", "..", table), lines)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			entries[name] += filepath.Base(table) + " "
		}
	}
	for _, f := range golden.Faults() {
		if got := entries[f.Name]; !strings.Contains(got, "expect.go") || !strings.Contains(got, "faults_") {
			t.Errorf("%s has entries in %q", f.Name, got)
		}
	}
}

func TestChangedLines(t *testing.T) {
	const diff = `diff --git a/old/a.go b/new/a.go
similarity index 99%
rename from old/a.go
rename to new/a.go
--- a/old/a.go
+++ b/new/a.go
@@ -3 +3 @@ import (
-	"example.com/old"
+	"example.com/new"
@@ -9,2 +9,2 @@ func a() {
-	// it was so
-	return 1
+	// it is so
+	return 2
diff --git a/moved.go b/there/moved.go
similarity index 100%
rename from moved.go
rename to there/moved.go
diff --git a/b.go b/b.go
--- a/b.go
+++ b/b.go
@@ -4,0 +5 @@
+// a comment
@@ -7 +8 @@
-	d "example.com/old/d"
+	d "example.com/new/d"
@@ -20 +20 @@
---- x
+	"text",
diff --git a/c.yaml b/c.yaml
--- a/c.yaml
+++ b/c.yaml
@@ -1 +1 @@
-# a
+# b
diff --git a/gone.go b/gone.go
deleted file mode 100644
--- a/gone.go
+++ /dev/null
@@ -1,2 +0,0 @@
-package gone
-var x = 1
`
	want := map[string][]int{"new/a.go": {10, 10}, "b.go": {20, 20}, "gone.go": {0}}
	got := changedLines(diff)
	got["new/a.go"] = slices.DeleteFunc(got["new/a.go"], func(line int) bool { return line == 9 }) // removed before it
	want["new/a.go"] = []int{10}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// TestChangedFiles asks git in a history of its own.
func TestChangedFiles(t *testing.T) {
	tier.NeedsHost(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("skipped: needs git")
	}
	dir := t.TempDir()
	sh := func(argv ...string) {
		t.Helper()
		cmd := exec.Command("git", argv...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=t",
			"GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	body := strings.Repeat("func f() {}\n", 30)
	table := "package golden\n\nvar all = []E{\n\t{Name: \"first\", Hop: 1},\n\t{Name: \"second\", Hop: 2},\n}\n"
	sh("init", "-q")
	for _, name := range []string{"moved.go", "imports.go", "changed.go", "comment.go", "open.go", "same.go"} {
		write(name, "package a // "+name+"\n\nimport (\n\t\"example.com/old\"\n)\n// "+name+"\n"+body)
	}
	write("golden/expect.go", table)
	sh("add", ".")
	sh("commit", "-q", "-m", "begin")
	sh("mv", "moved.go", "sub-moved.go")
	sh("mv", "imports.go", "sub-imports.go")
	write("sub-imports.go", "package a // imports.go\n\nimport (\n\t\"example.com/new\"\n)\n// imports.go\n"+body)
	sh("commit", "-q", "-a", "-m", "moves")
	write("changed.go", "package a // changed.go\n\nimport (\n\t\"example.com/old\"\n)\n// changed.go\nvar x = 1\n"+body)
	write("comment.go", "package a // comment.go\n\nimport (\n\t\"example.com/old\"\n)\n// other\n\n"+body)
	write("golden/expect.go", strings.Replace(table, "Hop: 2", "Hop: 3", 1))
	sh("commit", "-q", "-a", "-m", "changes")
	write("open.go", "package a // open.go\n\nvar y = 1\n"+body)

	got, err := changedFiles(t.Context(), dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := set("changed.go", "open.go", "golden/expect.go", "golden/expect.go#second")
	if !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if got, err := changedFiles(t.Context(), dir, 50); err == nil {
		t.Errorf("a history of three commits says of fifty: %v", got)
	}
	if _, err := changedFiles(t.Context(), t.TempDir(), 1); err == nil {
		t.Error("a folder without a history has changes")
	}
}
