package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// TestPowerCut cuts the power after every operation. A replaced file is the newest for which Write returned, or the one
// that was being written; every line for which Append returned is present.
func TestPowerCut(t *testing.T) {
	roll := rand.New(rand.NewPCG(1, 2))
	disk := durabletest.New(true)
	dir := durable.Dir{FS: disk, Root: "/state"}
	kept := []int{0} // operations after which version i was promised
	for i := 1; i <= 6; i++ {
		text := []byte(strings.Repeat(fmt.Sprint(i), 700) + "\n")
		if err := errors.Join(dir.Write("a/whole", text, 0o600), dir.Append("lines", text)); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, disk.Len())
	}
	for n := range disk.Len() + 1 {
		for range 20 {
			cut := durable.Dir{FS: disk.Cut(n, roll), Root: "/state"}
			version := 0
			for version+1 < len(kept) && kept[version+1] <= n {
				version++
			}
			whole, err := cut.Read("a/whole")
			if err != nil && (version > 0 || !errors.Is(err, fs.ErrNotExist)) {
				t.Fatalf("after operation %d, version %d: %v", n, version, err)
			}
			lines, _ := cut.Read("lines")
			for i := 1; i <= version; i++ {
				if !strings.Contains(string(lines), strings.Repeat(fmt.Sprint(i), 700)+"\n") {
					t.Fatalf("after operation %d, line %d is lost", n, i)
				}
			}
			if err != nil {
				continue
			}
			var is int
			if _, err := fmt.Sscanf(string(whole[:1]), "%d", &is); err != nil || len(whole) != 701 || is < version ||
				is > version+1 {
				t.Fatalf("after operation %d, version %d: %d bytes of version %q", n, version, len(whole), whole[:1])
			}
		}
	}
}

// TestTheDisksAgree: operations that work on the tests' disk work on a real one.
func TestTheDisksAgree(t *testing.T) {
	memory, _ := durabletest.NewDir()
	for name, d := range map[string]durable.Dir{"memory": memory, "host": {Root: filepath.Join(t.TempDir(), "state")}} {
		t.Run(name, func(t *testing.T) {
			if _, err := d.Read("a/b"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a missing file: %v", err)
			}
			if names, err := d.List("a"); err != nil || len(names) != 0 {
				t.Errorf("a missing folder: %v %v", names, err)
			}
			err := errors.Join(d.Remove("a"), d.Write("a/b", []byte("one, longer"), 0o600), d.Write("a/b", []byte("two"), 0o640),
				d.Append("a/c", []byte("x")), d.Append("a/c", []byte("y")))
			b, errB := d.Read("a/b")
			c, errC := d.Read("a/c")
			if err := errors.Join(err, errB, errC); err != nil || string(b) != "two" || string(c) != "xy" {
				t.Errorf("%q %q %v", b, c, err)
			}
			no, short := errors.New("not good"), strings.NewReader("12345")
			for why, err := range map[error]error{
				io.ErrShortBuffer: d.Stream("a/b", short, 4, 0o600, io.Discard, func() error { return nil }),
				no:                d.Stream("a/b", strings.NewReader("1"), 4, 0o600, io.Discard, func() error { return no }),
				iotest.ErrTimeout: d.Stream("a/b", iotest.ErrReader(iotest.ErrTimeout), 4, 0o600, io.Discard, nil),
			} {
				if !errors.Is(err, why) {
					t.Errorf("%v, want %v", err, why)
				}
			}
			names, err := d.List("a")
			if b, errB := d.Read("a/b"); err != nil || errB != nil || string(b) != "two" || fmt.Sprint(names) != "[b c]" {
				t.Errorf("%q, %v, %v", b, names, err)
			}
			if err := d.Remove("a"); err != nil {
				t.Error(err)
			}
			if names, err := d.List("a"); err != nil || len(names) != 0 {
				t.Errorf("a removed folder: %v %v", names, err)
			}
		})
	}
}

// TestModesAndLinks: a file has the requested mode, and nothing is written through a symbolic link.
func TestModesAndLinks(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "x"), filepath.Join(dir, "victim")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(victim, []byte("whole"), 0o600))
	must(os.Symlink(victim, filepath.Join(dir, ".x.new")))
	must(durable.Replace(path, []byte("#!"), 0o775))
	if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o775 {
		t.Errorf("%v %v", fi, err)
	}
	must(os.Symlink(victim, filepath.Join(dir, "log")))
	if err := (durable.Dir{Root: dir}).Append("log", []byte("more")); err == nil {
		t.Error("appended through a symbolic link")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "whole" {
		t.Errorf("%q %v", text, err)
	}
}

// TestRewritesAreNotLost: each of two programs changes its own line.
func TestRewritesAreNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".agent.env.new"), []byte("of a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for i := range 25 {
				mine := func(old []byte) []byte { return fmt.Appendf(old, "%d-%d\n", who, i) }
				err := durable.Rewrite(path, 0o600, mine)
				for err != nil && strings.Contains(err.Error(), "another program is changing it") { // a busy disk syncs slowly
					err = durable.Rewrite(path, 0o600, mine)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(path)
	if n := strings.Count(string(text), "\n"); err != nil || n != 100 {
		t.Errorf("%d lines of 100, %v", n, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v is left: %v", entries, err)
	}
}

// TestWhatCannotBeReadIsReplacedAndNotRewritten: an unreadable file can be replaced, but not rewritten, which would
// lose its text.
func TestWhatCannotBeReadIsReplacedAndNotRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink("loop", path); err != nil {
		t.Fatal(err)
	}
	if err := durable.Rewrite(path, 0o600, func([]byte) []byte { return nil }); err == nil ||
		errors.Is(err, os.ErrNotExist) {
		t.Errorf("a rewrite: %v", err)
	}
	if err := durable.Replace(path, []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
}

// TestTryLock: a lock has one holder, and a lock on a removed file does not count.
func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if durable.Locked(path) {
		t.Error("a missing file is locked")
	}
	f, err := durable.TryLock(path)
	if f == nil || err != nil || !durable.Locked(path) {
		t.Fatal(f, err)
	}
	if again, err := durable.TryLock(path); again != nil || err != nil {
		t.Error("locked twice", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := durable.TryLock(path)
	if other == nil || err != nil {
		t.Fatal(other, err)
	}
	if err := errors.Join(f.Close(), other.Close()); err != nil || durable.Locked(path) {
		t.Errorf("still locked, %v", err)
	}
}

// TestReplaceInANewFolder: two concurrent writers of a file are serialized even if its folder is missing.
func TestReplaceInANewFolder(t *testing.T) {
	for round := range 200 {
		path := filepath.Join(t.TempDir(), "new", "file")
		var wg sync.WaitGroup
		for _, c := range "ab" {
			wg.Go(func() {
				if err := durable.Replace(path, bytes.Repeat([]byte(string(c)), 64<<10), 0o600); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		text, err := os.ReadFile(path)
		if err != nil || len(text) != 64<<10 || len(bytes.Trim(text, string(text[:1]))) > 0 {
			t.Fatalf("round %d: %d bytes, %v", round, len(text), err)
		}
	}
}
