package diag

import "testing"

// TestFingerprint: one digest has one spelling here, however a platform writes it.
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
