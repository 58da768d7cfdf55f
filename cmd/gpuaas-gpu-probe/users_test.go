//go:build linux && cgo

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// TestUsersOfProcesses: name and user are the kernel's and the node's, whatever a process calls itself.
func TestUsersOfProcesses(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/passwd", "root:x:0:0::/root:/bin/sh\nodd line\nana:x:1001:1001::/:/bin/sh\nsecond:x:1001:1::/:/bin/sh\n"+
		strings.Repeat("x", 40)+":x:1002:1::/:/bin/sh\n\x1b[31m:x:1003:1::/:/bin/sh\n")
	write("proc/1/status", "Name:\tpython3\nUmask:\t0022\nUid:\t7\t1001\t7\t7\n")
	write("proc/2/status", "Name:\ta\\nUid:\\t0\nState:\tR\nUid:\t1001\t1002\t0\t0\n") // as the kernel quotes a name
	write("proc/3/status", "Name:\t\x1b[31m\xff\u202e\nUid:\t1003\t1003\t1003\t1003\n")
	write("proc/4/status", "Name:\tx\nUid:\t1\t-1\t1\t1\n")
	write("proc/5/status", strings.Repeat("Name:\n", 2000)+"Uid:\t0\t0\t0\t0\n")
	for pid, want := range map[int]struct {
		name, user string
		uid        int
	}{
		1: {"python3", "ana", 1001}, 2: {`a\nUid:\t0`, "", 1002}, 3: {"?[31m??", "?[31m", 1003}, 4: {"x", "", -1},
		5: {"", "", -1}, 6: {"", "", -1},
	} {
		u := users{root: root}
		p := report.Process{PID: pid}
		u.describe(&p)
		uid := -1
		if p.UID != nil {
			uid = *p.UID
		}
		if p.Name != want.name || p.User != want.user || uid != want.uid {
			t.Errorf("%d: %q of %q, %d; want %+v", pid, p.Name, p.User, uid, want)
		}
	}
}
