package preflight

import "testing"

// TestShelvedSlicesAreApart: a slice that grows beyond its capacity does not overwrite the next one.
func TestShelvedSlicesAreApart(t *testing.T) {
	var s blocks[int]
	for n := range 20 {
		a, b := s.alloc(n, 8), s.alloc(2, 8)
		if a == nil || len(a) != 0 || cap(a) != n || cap(b) != 2 {
			t.Fatalf("take(%d): %v of %d, then one of %d", n, a, cap(a), cap(b))
		}
		b = append(b, 1, 2)
		for range n + 1 {
			a = append(a, 3)
		}
		if b[0] != 1 || b[1] != 2 {
			t.Fatalf("take(%d): the next slice has %v", n, b)
		}
	}
}
