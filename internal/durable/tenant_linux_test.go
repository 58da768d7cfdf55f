package durable_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// TestNoOtherUserHoldsALock: a user who holds locks on a folder and on every file that it can open, and has put its own
// files in a shared folder, delays nobody.
func TestNoOtherUserHoldsALock(t *testing.T) {
	dir := t.TempDir()
	path, lock := filepath.Join(dir, "file"), filepath.Join(dir, ".lock")
	write := func(name string, mode os.FileMode, uid int) {
		t.Helper()
		if err := os.WriteFile(name, []byte("old"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(name, uid, uid); err != nil {
			t.Skip("skipped: needs root, to give a file to another user")
		}
	}
	began := time.Now()
	for name, prepare := range map[string]func(){
		"a folder":                        func() {},
		"a file that all may read":        func() { write(path, 0o644, 0) },
		"its own file in the new's place": func() { write(filepath.Join(dir, ".file.new"), 0o600, 65534) },
		"what all may read there":         func() { write(filepath.Join(dir, ".file.new"), 0o644, 65534) },
	} {
		prepare()
		if held := durabletest.LockAll(t, dir); len(held) == 0 {
			t.Fatalf("%s: nothing is held", name)
		}
		if err := durable.Replace(path, []byte("new"), 0o644); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := durable.Rewrite(path, 0o600, func(old []byte) []byte { return append(old, '+') }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(path); string(text) != "new+" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		unlock, err := durable.Lock(lock)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if held := durabletest.LockAll(t, lock); len(held) > 0 {
			t.Errorf("%s: %v", name, held)
		}
		unlock()
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, mode := range []os.FileMode{0o644, 0o620} {
		write(lock, mode, 0)
		if f, err := durable.TryLock(lock); f != nil || err == nil {
			t.Errorf("a lock file of mode %o is taken", mode)
		}
	}
	write(lock, 0o600, 65534)
	if f, err := durable.TryLock(lock); f != nil || err == nil {
		t.Error("a lock file of another user is taken")
	}
}

// TestAnotherNameOfOursIsNotWritten: where another user has linked one of our files in the new file's or the lock's
// place, that file keeps its text, and no pipe there is waited for.
func TestAnotherNameOfOursIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	victim, pipe := filepath.Join(dir, "victim"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(victim, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".file.new", ".lock"} {
		if err := os.Link(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.Replace(filepath.Join(dir, "file"), []byte("new"), 0o600); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(victim); string(text) != "whole" {
		t.Errorf("the linked file has %q, %v", text, err)
	}
	if f, err := durable.TryLock(filepath.Join(dir, ".lock")); f != nil || err == nil {
		t.Errorf("a second name of a file is locked: %v", err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	free := make(chan bool)
	go func() { free <- durable.Locked(pipe) }()
	select {
	case locked := <-free:
		if locked {
			t.Error("a pipe is locked")
		}
	case <-time.After(5 * time.Second):
		t.Error("a pipe is waited for")
	}
}

// TestWhatACrashLeftIsReplaced: a new file that others may lock, because a crash left it with its final mode, delays a
// writer once.
func TestWhatACrashLeftIsReplaced(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, ".file.new")
	if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	durabletest.LockAll(t, dir)
	if err := durable.ReplaceWithin(50*time.Millisecond, filepath.Join(dir, "file"), []byte("new"), 0o644); err != nil {
		t.Error(err)
	}
}

// TestALockOfOurOwnEndsTheWait: a program of the same user is waited for, and no longer than asked.
func TestALockOfOurOwnEndsTheWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	durabletest.Hold(t, filepath.Join(filepath.Dir(path), ".file.new"))
	began := time.Now()
	if err := durable.ReplaceWithin(50*time.Millisecond, path, []byte("new"), 0o600); err == nil {
		t.Error("two programs wrote one file")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
