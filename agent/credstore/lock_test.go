package credstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTwoAtOnce: an agent that enrolls and somebody who applies a bundle each keep a whole set.
func TestTwoAtOnce(t *testing.T) {
	dir := t.TempDir()
	putPlain(t, dir, newSet(t, 1))
	var wg sync.WaitGroup
	for who := range int64(3) {
		for i := range int64(8) {
			set := newSet(t, 100*(who+1)+i)
			wg.Go(func() {
				if _, err := (Store{Dir: dir}).Put(set); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if serial(t, dir) == 0 {
		t.Error("the plain paths lead to no usable pair")
	}
	s := Store{Dir: dir}
	for _, name := range s.Names() {
		if set := s.load(name); !set.usable(anyPair) {
			t.Errorf("generation %s is a mixture", name)
		}
	}
}

// TestRewritesAreNotLost: each of two programs changes its own line.
func TestRewritesAreNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.env")
	must(t, os.WriteFile(filepath.Join(filepath.Dir(path), ".agent.env.new"), []byte("what a crash left"), 0o600))
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for i := range 25 {
				err := Rewrite(path, 0o600, func(old []byte) []byte { return fmt.Appendf(old, "%d-%d\n", who, i) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(path)
	must(t, err)
	if n := strings.Count(string(text), "\n"); n != 100 {
		t.Errorf("%d lines of 100", n)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v is left: %v", entries, err)
	}
}

// TestWhatCannotBeReadIsReplacedAndNotRewritten: a rewrite of a text that nobody knows would lose it.
func TestWhatCannotBeReadIsReplacedAndNotRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loop")
	must(t, os.Symlink("loop", path))
	if err := Rewrite(path, 0o600, func([]byte) []byte { return nil }); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a rewrite: %v", err)
	}
	must(t, WriteFile(path, []byte("x"), 0o600))
}
