package diag

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Redacted is the text that replaces a Secret, in every format.
const Redacted = "[redacted]"

// Secret is a value that must never be printed: tokens, cookies, passwords. Formatting, logging or marshalling it gives
// a placeholder; only Reveal returns the value. A report does not contain it: read back, the Secret is the placeholder.
//
// The value is behind a pointer because fmt calls no methods of unexported fields: it would print a string value, but
// prints only the address of a pointer. Secrets cannot be compared with ==.
type Secret struct{ v *string }

// NewSecret wraps v. An empty v is the zero Secret, "no secret", and marshals as the empty string.
func NewSecret(v string) Secret {
	if v == "" {
		return Secret{}
	}
	return Secret{&v}
}

// Reveal returns the value, for the one line that sends it.
func (s Secret) Reveal() string {
	if s.v == nil {
		return ""
	}
	return *s.v
}

// IsZero reports whether the secret is absent; `omitzero` uses it.
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
	// A placeholder stays a placeholder: a replayed request still shows that there was a secret.
	*s = NewSecret(string(b))
	return nil
}

// BareURL removes the parts of a URL that may contain credentials: user and password, the query, the fragment. It
// returns the public rest and the query, and whether it removed anything; it returns other text unchanged. A malformed
// URL becomes the placeholder.
func BareURL(s string) (bare string, query Secret, cut bool) {
	scheme, _, absolute := strings.Cut(s, "://")
	isURL := (absolute && !strings.ContainsAny(scheme, " ?{[\"")) || strings.HasPrefix(s, "/")
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

// Millis is a duration in whole milliseconds, rounded up: a measured duration is never 0, so 0 (absent in JSON) means
// "not measured".
type Millis int64

// Measured rounds d up to whole milliseconds, at least 1.
func Measured(d time.Duration) Millis {
	return max(1, Millis((d+time.Millisecond-1)/time.Millisecond))
}

// TimeLayout is RFC 3339 in UTC with milliseconds, the only format of times in reports.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Time is a wall-clock time that marshals by TimeLayout. The zero Time is absent (use omitzero).
type Time struct{ time.Time }

// At converts t to UTC milliseconds, the precision of reports.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) {
	if t.IsZero() {
		return nil, nil
	}
	return []byte(t.UTC().Format(TimeLayout)), nil
}

// MarshalJSON overrides the method of time.Time, which has another precision.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.UTC().Format(TimeLayout) + `"`), nil
}

// UnmarshalJSON accepts null and RFC 3339.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = Time{}
		return nil
	}
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return errors.New("a time must be a string")
	}
	return t.UnmarshalText(b[1 : len(b)-1])
}

// UnmarshalText accepts RFC 3339.
func (t *Time) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*t = Time{}
		return nil
	}
	v, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return err
	}
	if y := v.UTC().Year(); y < 0 || y > 9999 { // what is written could not be read again
		return fmt.Errorf("the year %d has no four digits", y)
	}
	*t = At(v)
	return nil
}
