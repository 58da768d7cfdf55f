package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// LineError returns an error for a type that decodes itself, which the decoder collects with others instead of
// stopping.
func LineError(n *yaml.Node, message string) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s", n.Line, message)}}
}

// problems translates the decoder's errors. t is the decoded type.
func problems(err error, t reflect.Type) []Problem {
	all := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		all = te.Errors
	}
	found := make([]Problem, len(all))
	for i, m := range all {
		if rest, ok := strings.CutPrefix(m, "line "); ok {
			if number, text, ok := strings.Cut(rest, ": "); ok {
				if line, err := strconv.Atoi(number); err == nil {
					found[i].Line, m = line, text
				}
			}
		}
		found[i].Text, found[i].whole = typeWords(m, t)
	}
	return found
}

// typeWords translates the decoder's "cannot unmarshal !!str `x` into int". whole reports that the value was a list or
// a mapping.
func typeWords(m string, t reflect.Type) (text string, whole bool) {
	rest, ok := strings.CutPrefix(m, "cannot unmarshal ")
	got, name, split := strings.Cut(rest, " into ")
	if !ok || !split {
		return m, false
	}
	want := "a mapping"
	if of := typeNamed(t, name, map[reflect.Type]bool{}); of != nil {
		want = wanted(of)
	}
	if _, value, quoted := strings.Cut(got, " `"); quoted {
		return fmt.Sprintf("want %s, not %q", want, strings.TrimSuffix(value, "`")), false
	}
	got = cmp.Or(map[string]string{"!!seq": "a list", "!!map": "a mapping"}[got], got)
	return fmt.Sprintf("want %s here, not %s", want, got), true
}

func wanted(t reflect.Type) string {
	switch k := t.Kind(); {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration with its unit (5s, 500ms)"
	case k == reflect.String:
		return "text"
	case k == reflect.Bool:
		return "true or false"
	case k == reflect.Slice:
		return "a list"
	case k >= reflect.Int && k <= reflect.Uint64:
		return "a whole number"
	case k == reflect.Float32 || k == reflect.Float64:
		return "a number"
	}
	return "a mapping"
}

// typeNamed finds the type with that name in t and below it, or nil.
func typeNamed(t reflect.Type, name string, seen map[reflect.Type]bool) reflect.Type {
	switch {
	case t == nil || seen[t]:
		return nil
	case t.String() == name:
		return t
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Array:
		return typeNamed(t.Elem(), name, seen)
	case reflect.Struct:
		for field := range t.Fields() {
			if found := typeNamed(field.Type, name, seen); found != nil {
				return found
			}
		}
	}
	return nil
}

// Nearest suggests the known word that is closest to an unknown one, as ` (did you mean "x"?)`, or nothing if none is
// close. It never suggests the unknown word itself, which may be known in another place.
func Nearest(word string, known []string) string {
	best, bestAway := "", max(2, len(word)/3)+1
	for _, k := range known {
		if k == word {
			continue
		}
		away := max(len(word)-len(k), len(k)-len(word)) // at least
		if away < bestAway {
			away = distance(word, k)
		}
		if len(word) > 3 && strings.HasPrefix(k, word) { // the beginning of a long name is a good guess
			away = min(away, 2)
		}
		if away < bestAway {
			best, bestAway = k, away
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// maxNear is how many names a message about an unknown name suggests.
const maxNear = 5

// NearestOf returns at most five of the known words, the closest to word first, equally close ones in order.
func NearestOf(word string, known []string) []string {
	all := slices.Sorted(slices.Values(known))
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(distance(word, a), distance(word, b)) })
	return all[:min(len(all), maxNear)]
}

// distance returns the number of bytes to insert, remove or replace to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
