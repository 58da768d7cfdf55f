package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(bad, []byte("listen: {api: x}\nnonsense: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{nil, exitUsage, "", "usage:"},
		{[]string{"dance"}, exitUsage, "", `unknown command "dance"`},
		{[]string{"version"}, exitOK, version + "\n", ""},
		{[]string{"help"}, exitOK, "usage:", ""},
		{[]string{"serve", "extra"}, exitUsage, "", "usage:"},
		{[]string{"serve", "--config", bad}, exitUsage, "", bad + ":2: nonsense: unknown field"},
		{[]string{"task-pubkeys", "--config", bad + ".none"}, exitUsage, "", "no such file"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(c.args, &stdout, &stderr); code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.args, code, c.code)
		}
		if !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) ||
			(c.stdout == "" && stdout.Len() > 0) {
			t.Errorf("%v: stdout %q, stderr %q", c.args, stdout.String(), stderr.String())
		}
	}
}
