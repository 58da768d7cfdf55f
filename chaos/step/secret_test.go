package step

import (
	"bytes"
	"strings"
	"testing"
)

// TestSeal: a sealed drill, which may be on a disk, has no secret, and its secrets are found by digest.
func TestSeal(t *testing.T) {
	d := whole()
	d.Steps[2].Changes[0].Mount.Secret = true
	text := string(d.Encode())
	sealed, secrets := d.Seal()
	for secret, digest := range map[string]string{
		"not to be shown":             sealed.Steps[1].Changes[1].File.SHA256,
		"root:x:0:0::/root:/bin/sh\n": sealed.Steps[2].Changes[0].Mount.SHA256,
	} {
		if secrets[digest] != secret || len(digest) != 64 {
			t.Errorf("%q: %q has %q", secret, digest, secrets[digest])
		}
	}
	for name, b := range map[string][]byte{"sealed": sealed.Encode(), "shown": sealed.Redacted().Encode()} {
		if bytes.Contains(b, []byte("not to be shown")) || bytes.Contains(b, []byte("root:x:0")) ||
			!bytes.Contains(b, []byte("127.0.0.1 localhost")) {
			t.Errorf("%s: %s", name, b)
		}
	}
	if len(secrets) != 2 || string(d.Encode()) != text || strings.Contains(string(sealed.Redacted().Encode()), "sha256") {
		t.Error("sealing changed the drill, or a digest is shown")
	}
	if _, err := Decode(bytes.NewReader(sealed.Encode())); err == nil ||
		!strings.Contains(err.Error(), "a digest without its text") {
		t.Errorf("a machine takes a drill without its texts: %v", err)
	}
}
