// Package testuser gives tests a login of their own, so that they depend neither on this host's users nor on the
// start-up files of whoever runs them.
package testuser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Name is the login that Install makes.
const Name = "tester"

// Install puts a getent and an id in front of PATH that know the user Name, with the caller's own ids, an empty home
// and /bin/sh.
func Install(t testing.TB) {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	for tool, text := range map[string]string{
		"getent": fmt.Sprintf("[ \"$1-$2\" = passwd-%s ] || exit 2\necho '%s:x:%d:%d::%s:/bin/sh'\n", Name, Name, os.Geteuid(), os.Getegid(), home),
		"id":     fmt.Sprintf("echo %d\n", os.Getegid()),
	} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}
