package bounded

import (
	"bytes"
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxUnknown bounds how many unknown fields Tolerant names.
const maxUnknown = 100

// Tolerant decodes exactly one document within l into v, a pointer to a struct, and returns the names of fields that v
// does not have: "verdict.risk", "facts[].radio". It ignores these fields, since a newer version may have written them.
func Tolerant(data []byte, v any, l Limits) (unknown []string, err error) {
	err = Strict(data, v, l)
	if err == nil || !strings.Contains(err.Error(), "json: unknown field ") {
		return nil, err
	}
	reflect.ValueOf(v).Elem().SetZero()
	if err := only(json.NewDecoder(bytes.NewReader(data)), v); err != nil {
		return nil, err
	}
	var whole any
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	nameUnknown(names, "", whole, reflect.TypeOf(v))
	return slices.Sorted(maps.Keys(names)), nil
}

// nameUnknown adds the paths of the fields in value that t does not have.
func nameUnknown(names map[string]bool, at string, value any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(names) >= maxUnknown || decodesItself(t) {
		return
	}
	switch value := value.(type) {
	case []any:
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			for _, e := range value {
				nameUnknown(names, at+"[]", e, t.Elem())
			}
		}
	case map[string]any:
		switch t.Kind() {
		case reflect.Map:
			for _, e := range value {
				nameUnknown(names, at+"{}", e, t.Elem())
			}
		case reflect.Struct:
			fields := fieldsOf(t)
			for key, e := range value {
				path := strings.TrimPrefix(at+"."+key, ".")
				switch of, ok := fields[strings.ToLower(key)]; {
				case ok:
					nameUnknown(names, path, e, of)
				case len(names) < maxUnknown:
					names[path] = true
				}
			}
		}
	}
}

// decodesItself reports whether a type's own method reads its JSON.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldsOf returns the types of a struct's JSON fields by their lower-case names: encoding/json ignores case.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-", !f.IsExported() && !f.Anonymous, f.Anonymous && name == "":
		case name == "":
			fields[strings.ToLower(f.Name)] = f.Type
		default:
			fields[strings.ToLower(name)] = f.Type
		}
	}
	return fields
}
