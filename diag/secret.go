package diag

import (
	"fmt"
	"log/slog"
)

// Redacted is what a Secret prints as, in every format.
const Redacted = "[redacted]"

// Secret is a value that must never be printed: tokens, cookies, passwords. Every way of formatting, logging or
// marshalling it gives a placeholder; Reveal is the one way to the value. It cannot be read back from JSON, so a
// secret that was written to a report is gone.
type Secret struct{ v string }

// NewSecret wraps v. An empty v is "no secret" and marshals as null.
func NewSecret(v string) Secret { return Secret{v} }

// Reveal returns the value, for the one line that puts it on the wire.
func (s Secret) Reveal() string { return s.v }

// IsZero reports whether there is no secret; `omitzero` uses it.
func (s Secret) IsZero() bool { return s.v == "" }

func (s Secret) placeholder() string {
	if s.v == "" {
		return ""
	}
	return Redacted
}

func (s Secret) String() string               { return s.placeholder() }
func (s Secret) GoString() string             { return s.placeholder() }
func (s Secret) Format(f fmt.State, _ rune)   { _, _ = f.Write([]byte(s.placeholder())) }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(s.placeholder()) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.placeholder()), nil }
func (s *Secret) UnmarshalText(b []byte) error {
	// A placeholder stays a placeholder: a replayed request still shows that a secret was there.
	s.v = string(b)
	return nil
}
