package diag

import "testing"

// TestFingerprint: every spelling of one digest normalizes to the same text.
func TestFingerprint(t *testing.T) {
	for _, text := range []string{"aabb01", "AA:BB:01", "sha256:aabb01", "SHA-256 AA BB 01", " SHA256=aa:bb:01 "} {
		if got := Fingerprint(text); got != "aabb01" {
			t.Errorf("%q is %q", text, got)
		}
	}
	if Fingerprint("aabb02") == Fingerprint("aabb01") || Fingerprint("") != "" {
		t.Error("two digests are one, or none is one")
	}
}
