package bounded

import (
	"io"
	"strings"
	"testing"
)

// TestHead: the first bytes are kept, the writer is never held up, and what is left out is noticed.
func TestHead(t *testing.T) {
	for _, tc := range []struct {
		most   int
		writes []string
		kept   string
		full   int
	}{
		{4, []string{"ab", "cd"}, "abcd", 0},
		{4, []string{"ab", "cde"}, "abcd", 1},
		{4, []string{"abcdef", "g"}, "abcd", 2},
		{0, []string{"a"}, "", 1},
		{0, []string{""}, "", 0},
	} {
		full := 0
		h := &Head{Most: tc.most, Full: func() { full++ }}
		for _, w := range tc.writes {
			if n, err := h.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%v: wrote %d of %q: %v", tc, n, w, err)
			}
		}
		if h.String() != tc.kept || string(h.Bytes()) != tc.kept || full != tc.full || h.Cut() != (tc.full > 0) {
			t.Errorf("%v: kept %q, full %d times, cut %v", tc, h, full, h.Cut())
		}
	}
	h := &Head{Most: 3}
	n, err := io.Copy(h, strings.NewReader(strings.Repeat("x", 100_000)))
	if n != 100_000 || err != nil || h.String() != "xxx" {
		t.Errorf("copied %d, kept %q: %v", n, h, err)
	}
}
