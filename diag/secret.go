package diag

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// Redacted is what a Secret prints as, in every format.
const Redacted = "[redacted]"

// Secret is a value that must never be printed: tokens, cookies, passwords. Every way of formatting, logging or
// marshalling it gives a placeholder; Reveal is the one way to the value. What was written to a report is gone: read
// back, it is the placeholder.
//
// The value lies behind a pointer, because fmt calls no method of an unexported field: it would print the value of a
// Secret in somebody's private field, and prints an address so. Secrets are not compared with ==.
type Secret struct{ v *string }

// NewSecret wraps v. An empty v is "no secret", the zero Secret, and marshals as the empty string.
func NewSecret(v string) Secret {
	if v == "" {
		return Secret{}
	}
	return Secret{&v}
}

// Reveal returns the value, for the one line that puts it on the wire.
func (s Secret) Reveal() string {
	if s.v == nil {
		return ""
	}
	return *s.v
}

// IsZero reports whether there is no secret; `omitzero` uses it.
func (s Secret) IsZero() bool { return s.v == nil }

func (s Secret) placeholder() string {
	if s.IsZero() {
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
	*s = NewSecret(string(b))
	return nil
}

// BareURL takes out of a URL where other people's links carry logins: user and password, the query, the fragment. It
// returns what everybody may read, and the query. Text that is no URL, and a URL without any of these, come back as
// they are with false; what looks like one and cannot be read becomes the placeholder.
func BareURL(s string) (bare string, query Secret, cut bool) {
	scheme, _, absolute := strings.Cut(s, "://")
	isURL := absolute && !strings.ContainsAny(scheme, " ?{[\"") || strings.HasPrefix(s, "/")
	if !isURL || !strings.ContainsAny(s, "@?#") {
		return s, Secret{}, false
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return Redacted, Secret{}, true
	case u.User == nil && u.RawQuery == "" && u.Fragment == "":
		return s, Secret{}, false
	}
	query = NewSecret(u.RawQuery)
	u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, "", "", ""
	return u.String(), query, true
}
