package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
)

// TestNoDeprecatedSpelling: no page, script, help or error of this repository shows a command or a flag that is only
// kept for older scripts.
func TestNoDeprecatedSpelling(t *testing.T) {
	var old []*regexp.Regexp
	for _, r := range cmdutil.Renamings {
		words := regexp.QuoteMeta(strings.TrimPrefix(r.Command, "gpuaasctl "))
		between := `\s+`
		if strings.HasPrefix(r.Old, "--") {
			between = `\b[^\n|;\x60]*\s`
		}
		old = append(old, regexp.MustCompile(words+between+regexp.QuoteMeta(r.Old)+`\b`))
	}
	read := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		if err != nil || d.IsDir() {
			if err == nil && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "dist" || d.Name() == ".git" ||
				strings.HasPrefix(path, "../../golden/")) {
				return fs.SkipDir
			}
			return err
		}
		shown := strings.HasSuffix(path, ".md") || strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".svg") ||
			d.Name() == "Makefile" || filepath.Base(filepath.Dir(path)) == ".ci" ||
			(strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"))
		if !shown || d.Name() == "renamed.go" || path == "../../docs/contract.md" { // the rule itself, with its table
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		for n, line := range strings.Split(string(text), "\n") {
			for _, re := range old {
				if found := re.FindString(line); found != "" {
					t.Errorf("%s:%d: deprecated: %s", path, n+1, found)
				}
			}
		}
		return nil
	})
	if err != nil || read < 500 {
		t.Errorf("%d files, %v", read, err)
	}
}

// TestQuickStartOnATerminal: what README.md shows to a user without a lab has no note about a deprecated spelling on
// a terminal, where such notes appear, and has the exit code that README.md states.
func TestQuickStartOnATerminal(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, m := range regexp.MustCompile(`(?m)^bin/gpuaasctl (\S.*golden/\S+)\s+# exit code 3$`).FindAllStringSubmatch(
		string(text), -1) {
		cmd, _ := command(t, append([]string{"gpuaasctl"}, strings.Fields(m[1])...)...)
		cmd.Dir = "../.."
		cmd.Env = append(cmd.Env, "LC_ALL=C.UTF-8", "TERM=xterm-256color")
		far, _ := atTerminal(t, cmd)
		all, _ := io.ReadAll(far) // the end of a terminal is an error
		out, code := string(all), waitCode(t, cmd)
		if ran++; code != cmdutil.ExitFailed || strings.Contains(out, "is now gpuaasctl") || !strings.Contains(out, "FAIL") {
			t.Errorf("%s: exit code %d\n%s", m[1], code, out)
		}
	}
	if ran == 0 {
		t.Error("README.md has no command that needs no lab")
	}
}
