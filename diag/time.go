package diag

import (
	"errors"
	"time"
)

// Millis is a duration in whole milliseconds, rounded up: what was measured is never 0, so 0 (absent in JSON)
// means "not measured".
type Millis int64

// Measured rounds d up to whole milliseconds, at least 1.
func Measured(d time.Duration) Millis {
	return max(1, Millis((d+time.Millisecond-1)/time.Millisecond))
}

// TimeLayout is RFC 3339 in UTC with milliseconds, the one way in which reports write a time.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Time is a wall-clock time that marshals by TimeLayout. The zero Time is absent (use omitzero).
type Time struct{ time.Time }

// At converts t to UTC milliseconds, the precision that survives a report.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) {
	if t.IsZero() {
		return nil, nil
	}
	return []byte(t.UTC().Format(TimeLayout)), nil
}

// MarshalJSON shadows time.Time's, which has another precision.
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
	*t = At(v)
	return nil
}
