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
// MaxNumber, or whose time is neither zero nor plausible. It follows pointers, slices, maps and structs.
func Values(v any) error { return values("", reflect.ValueOf(v), true) }

// Times is Values for the times alone.
func Times(v any) error { return values("", reflect.ValueOf(v), false) }

func values(path string, v reflect.Value, numbers bool) error {
	if t, ok := moment(v); ok {
		if !t.IsZero() && !Plausible(t) {
			return fmt.Errorf("%s: the year %d is not between %d and %d", path, t.UTC().Year(), firstYear, lastYear)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n := v.Int(); numbers && (n < 0 || n > MaxNumber) {
			return fmt.Errorf("%s: %d is not between 0 and %d", path, n, int64(MaxNumber))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return values(path, v.Elem(), numbers)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := values(fmt.Sprintf("%s[%d]", path, i), v.Index(i), numbers); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() { // the key is text of the sender's: it is not repeated
			if err := values(path+"[...]", v.MapIndex(key), numbers); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if err := values(path+"."+f.Name, v.Field(i), numbers); err != nil {
					return err
				}
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
