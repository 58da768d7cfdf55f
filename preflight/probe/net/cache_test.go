package net

import (
	"net/http"
	"testing"
)

// TestFromCache has headers of answers that came from a cache, and of others.
func TestFromCache(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"Age", "120", "Age: 120"}, {"Age", "0", ""}, {"Age", "old", ""}, {"Age", "-3", ""},
		{"X-Cache", "HIT from proxy", "X-Cache: HIT"}, {"X-Cache", "MISS", ""},
		{"CF-Cache-Status", "hit", "CF-Cache-Status: HIT"},
		{"X-Cache-Status", "", ""},
	} {
		if got := fromCache(http.Header{tc.name: {tc.value}, http.CanonicalHeaderKey(tc.name): {tc.value}}); got != tc.want {
			t.Errorf("%s: %s: %q, want %q", tc.name, tc.value, got, tc.want)
		}
	}
}
