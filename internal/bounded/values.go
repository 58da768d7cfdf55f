package bounded

import (
	"fmt"
	"reflect"
	"time"
)

// MaxNumber is the largest number that every JSON decoder reads exactly.
const MaxNumber = 1 << 53

// Times of a document are between these years, in UTC: a clock that was never set is not before the first, and
// time.Time has no JSON beyond 9999.
const firstYear, lastYear = 1970, 2200

// Plausible reports whether a time is one that a clock may show.
func Plausible(t time.Time) bool {
	y := t.UTC().Year()
	return firstYear <= y && y <= lastYear
}

// Add adds two counts and stops at most.
func Add(a, b, most int64) int64 {
	if a > most-b {
		return most
	}
	return a + b
}

// Values returns an error that names the first field of a decoded document whose signed number is negative or above
// MaxNumber, or whose time is neither zero nor plausible. It follows pointers, slices, maps and structs. A field with
// the tag `bounded:"signed"` may be negative, down to -MaxNumber.
func Values(v any) error { return values("", reflect.ValueOf(v), checks{numbers: true, times: true}) }

// Times is Values for the times alone.
func Times(v any) error { return values("", reflect.ValueOf(v), checks{times: true}) }

// Numbers is Values for the numbers alone.
func Numbers(v any) error { return values("", reflect.ValueOf(v), checks{numbers: true}) }

// checks is what values looks at.
type checks struct{ numbers, times, signed bool }

func (l checks) least() int64 {
	if l.signed {
		return -MaxNumber
	}
	return 0
}

func values(path string, v reflect.Value, l checks) error {
	if t, ok := moment(v); ok {
		if l.times && !t.IsZero() && !Plausible(t) {
			return fmt.Errorf("%s: the year %d is not between %d and %d", path, t.UTC().Year(), firstYear, lastYear)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n := v.Int(); l.numbers && (n < l.least() || n > MaxNumber) {
			return fmt.Errorf("%s: %d is not between %d and %d", path, n, l.least(), int64(MaxNumber))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return values(path, v.Elem(), l)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := values(fmt.Sprintf("%s[%d]", path, i), v.Index(i), l); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() { // the key is text of the sender's: it is not repeated
			if err := values(path+"[...]", v.MapIndex(key), l); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			l.signed = f.Tag.Get("bounded") == "signed"
			if err := values(path+"."+f.Name, v.Field(i), l); err != nil {
				return err
			}
		}
	}
	return nil
}

func moment(v reflect.Value) (time.Time, bool) {
	if !v.IsValid() || !v.CanInterface() {
		return time.Time{}, false
	}
	t, ok := v.Interface().(time.Time)
	return t, ok
}
