package hostiletest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Hostile is text that a terminal interprets: colours, a clipboard, a title, C1, direction marks, an overwritten line,
// a bell, NUL; and text that a browser interprets: the end of an attribute and of an element, and a script.
const Hostile = "X\x1b[31mX\x1b[2J\x1b]52;c;cHduZWQ=\x07\x1b]0;t\x1b\\\u009b2J\u0085" +
	"\u202eX\u2066\u200bX\rX\x00\x08\x07\x7f" +
	`"'><script>alert(1)<svg onload=alert(1)>`

// leaf is one string field of a document's type: its name for messages, and how to plant text in it. Only the path to
// it is created; in a list, all elements are planted, or only the first.
type leaf struct {
	name  string
	plant func(doc reflect.Value, all bool)
}

// leavesOf returns all string fields below t, descending at most once into a recursive type.
func leavesOf(t reflect.Type) []leaf { return leavesBelow(t, "", map[reflect.Type]bool{}) }

func leavesBelow(t reflect.Type, name string, open map[reflect.Type]bool) []leaf {
	if open[t] {
		return nil
	}
	within := func(t reflect.Type, name string,
		into func(doc reflect.Value, all bool, then func(reflect.Value, bool))) (out []leaf) {
		for _, l := range leavesBelow(t, name, open) {
			out = append(out, leaf{l.name, func(doc reflect.Value, all bool) { into(doc, all, l.plant) }})
		}
		return out
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return []leaf{{name, func(doc reflect.Value, _ bool) {
			text, _ := json.Marshal(map[string]string{"text": Hostile})
			doc.SetBytes(text)
		}}}
	case t.PkgPath() == "time" || strings.HasSuffix(t.String(), "diag.Secret"):
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return []leaf{{name, func(doc reflect.Value, _ bool) { doc.SetString(doc.String() + Hostile) }}}
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return nil
		}
		return []leaf{{name, func(doc reflect.Value, _ bool) { doc.Set(reflect.ValueOf(Hostile)) }}}
	case reflect.Pointer:
		return within(t.Elem(), name, func(doc reflect.Value, all bool, then func(reflect.Value, bool)) {
			if doc.IsNil() {
				doc.Set(reflect.New(t.Elem()))
			}
			then(doc.Elem(), all)
		})
	case reflect.Slice:
		return within(t.Elem(), name+"[]", func(doc reflect.Value, all bool, then func(reflect.Value, bool)) {
			if doc.Len() == 0 {
				doc.Set(reflect.MakeSlice(t, 1, 1))
			}
			for i := range doc.Len() {
				if i == 0 || all {
					then(doc.Index(i), all)
				}
			}
		})
	case reflect.Map:
		return mapLeaves(t, name, within)
	case reflect.Struct:
		open[t] = true
		defer delete(open, t)
		return fieldLeaves(t, name, within)
	}
	return nil
}

func fieldLeaves(t reflect.Type, name string,
	within func(reflect.Type, string, func(reflect.Value, bool, func(reflect.Value, bool))) []leaf) []leaf {
	var out []leaf
	for i := range t.NumField() {
		f := t.Field(i)
		if (!f.IsExported() && !f.Anonymous) || strings.HasPrefix(f.Tag.Get("json"), "-") {
			continue
		}
		out = append(out, within(f.Type, name+"."+f.Name, func(doc reflect.Value, all bool, then func(reflect.Value, bool)) {
			then(doc.Field(i), all)
		})...)
	}
	return out
}

func mapLeaves(t reflect.Type, name string,
	within func(reflect.Type, string, func(reflect.Value, bool, func(reflect.Value, bool))) []leaf) []leaf {
	if t.Key().Kind() != reflect.String {
		return nil
	}
	room := func(doc reflect.Value) {
		if doc.IsNil() {
			doc.Set(reflect.MakeMap(t))
		}
		if doc.Len() == 0 {
			doc.SetMapIndex(reflect.ValueOf("key").Convert(t.Key()), reflect.Zero(t.Elem()))
		}
	}
	out := within(t.Elem(), name+"{}", func(doc reflect.Value, all bool, then func(reflect.Value, bool)) {
		room(doc)
		for _, k := range doc.MapKeys() {
			v := reflect.New(t.Elem()).Elem()
			v.Set(doc.MapIndex(k))
			then(v, all)
			doc.SetMapIndex(k, v)
		}
	})
	return append(out, leaf{name + "{key}", func(doc reflect.Value, _ bool) {
		room(doc)
		k := doc.MapKeys()[0]
		doc.SetMapIndex(reflect.ValueOf(k.String()+Hostile).Convert(t.Key()), doc.MapIndex(k))
	}})
}

// batch is how many fields are planted at once: a refused batch is planted again in halves, down to a single field.
const batch = 32

// shortStride: under -short, which the race detector's run uses, every sixth batch is planted.
const shortStride = 6

// PlantedIn visits copies of the document in text with planted string fields, until each field was in a copy that visit
// accepted (true) or was refused alone: first in every place, then in the first element of lists.
func PlantedIn[T any](t *testing.T, text []byte, visit func(fields string, doc *T) bool) {
	t.Helper()
	leaves := leavesOf(reflect.TypeFor[T]())
	if len(leaves) < 10 {
		t.Fatalf("%T has %d string fields", *new(T), len(leaves))
	}
	try := func(some []leaf, all bool) bool {
		doc := new(T)
		if err := json.Unmarshal(text, doc); err != nil {
			t.Fatal(err)
		}
		for _, l := range some {
			l.plant(reflect.ValueOf(doc).Elem(), all)
		}
		return visit(some[0].name+" to "+some[len(some)-1].name, doc)
	}
	var each func(some []leaf)
	each = func(some []leaf) {
		switch {
		case len(some) == 0 || try(some, true):
		case len(some) > 1:
			each(some[:len(some)/2])
			each(some[len(some)/2:])
		default:
			try(some, false)
		}
	}
	n := 0
	for some := range slices.Chunk(leaves, batch) {
		if n++; !testing.Short() || n%shortStride == 1 {
			each(some)
		}
	}
}

// Encoded returns a document's JSON as an attacker would write it: nothing beyond what JSON requires is escaped.
func Encoded(t *testing.T, doc any) []byte {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		t.Fatal(fmt.Errorf("%T: %w", doc, err))
	}
	return []byte(b.String())
}
