package credstore

import (
	"sync"
	"testing"
)

// TestTwoAtOnce: a concurrent enrollment and bundle each store a complete set.
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
