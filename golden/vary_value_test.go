package golden

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// point is one value of a fact, and another value for it.
type point struct {
	name   string
	change func()
}

// unread are values that no rule reads: they would only make the file longer.
var unread = map[string]bool{
	"duration_ms": true, "server": true, "local": true, "correlation_id": true, "body_bytes": true, "sha256": true,
	"trust_roots": true, "fingerprint": true, "serial": true, "version": true, "dns_names": true, "banner": true,
	"tcp_ms": true, "banner_ms": true, "auth_ms": true, "exec_ms": true, "first_byte_ms": true, "rss_bytes": true,
}

// pointsOf returns the values of a fact's sections, each with another value: a text, a list or a pointer is emptied, a
// text also replaced, a number grows, a flag is turned, and a time moves by an hour.
func pointsOf(f *diag.Fact) []point {
	var all []point
	v := reflect.ValueOf(f).Elem()
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.Type.Kind() == reflect.Pointer && !v.Field(i).IsNil() {
			all = append(all, pointsIn(v.Field(i), wireName(field))...)
		}
	}
	return all
}

func wireName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return cmp.Or(name, f.Name)
}

// pointsIn returns the values in v, which is at path.
func pointsIn(v reflect.Value, path string) []point {
	emptied := point{path + " empty", func() { v.SetZero() }}
	switch x := v.Addr().Interface().(type) {
	case *diag.Time:
		if x.IsZero() {
			return nil
		}
		moved := func(by time.Duration) func() { return func() { x.Time = x.Add(by) } }
		return []point{emptied, {path + " an hour before", moved(-time.Hour)}, {path + " an hour later", moved(time.Hour)}}
	case *diag.Secret:
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return append([]point{emptied}, pointsIn(v.Elem(), path)...)
	case reflect.Struct:
		return pointsInStruct(v, path)
	case reflect.Map:
		return pointsInMap(v, path)
	case reflect.Slice:
		return pointsInSlice(v, path)
	case reflect.Bool:
		return []point{{path + " turned", func() { v.SetBool(!v.Bool()) }}}
	case reflect.String:
		if v.Len() == 0 {
			return nil
		}
		return []point{emptied, {path + " another", func() { v.SetString("other") }}}
	case reflect.Int, reflect.Int64:
		return []point{{path + " one more", func() { v.SetInt(v.Int() + 1) }},
			{path + " much more", func() { v.SetInt(v.Int() + 1_000_000) }}}
	case reflect.Uint64:
		return []point{emptied}
	}
	return nil
}

func pointsInStruct(v reflect.Value, path string) []point {
	var all []point
	for i := range v.NumField() {
		if name := wireName(v.Type().Field(i)); v.Type().Field(i).IsExported() && name != "-" && !unread[name] {
			all = append(all, pointsIn(v.Field(i), path+"."+name)...)
		}
	}
	return all
}

// pointsInSlice has the list, and the values of its first and last element.
func pointsInSlice(v reflect.Value, path string) []point {
	if v.Len() == 0 || v.Type().Elem().Kind() == reflect.Uint8 {
		return nil
	}
	all := []point{{path + " empty", func() { v.SetZero() }}}
	if v.Len() > 1 {
		all = append(all, point{path + " without its last", func() { v.Set(v.Slice(0, v.Len()-1)) }},
			point{path + " without its first", func() { v.Set(v.Slice(1, v.Len())) }})
	}
	last := v.Len() - 1
	for _, i := range slices.Compact([]int{0, last}) {
		all = append(all, pointsIn(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
	}
	return all
}

// pointsInMap has the entries of a map of texts: an answer's fields, an environment.
func pointsInMap(v reflect.Value, path string) []point {
	m, ok := v.Interface().(map[string]string)
	if !ok {
		return []point{{path + " empty", func() { v.SetZero() }}}
	}
	var all []point
	for _, key := range slices.Sorted(maps.Keys(m)) {
		set := func(words, value string) {
			all = append(all, point{path + "." + key + " " + words, func() { m[key] = value }})
		}
		all = append(all, point{path + "." + key + " missing", func() { delete(m, key) }})
		old := m[key]
		at, err := time.Parse(time.RFC3339Nano, old)
		n, notNumber := strconv.Atoi(old)
		flag, notFlag := strconv.ParseBool(old)
		switch {
		case err == nil:
			set("an hour before", at.Add(-time.Hour).Format(time.RFC3339Nano))
			set("an hour later", at.Add(time.Hour).Format(time.RFC3339Nano))
		case notNumber == nil:
			set("one more", strconv.Itoa(n+1))
		case notFlag == nil:
			set("turned", strconv.FormatBool(!flag))
		case old == "pass":
			set("fail", "fail")
		default:
			set("another", "other")
		}
	}
	return all
}
