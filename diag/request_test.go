package diag_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Changed compares requests as a report shows them: every input by its wire name, and nothing else.
func TestChangedIsWhatTheWireShows(t *testing.T) {
	plain := diag.Request{}
	fields := reflect.TypeFor[diag.Request]()
	for i := range fields.NumField() {
		with := diag.Request{}
		fill(t, reflect.ValueOf(&with).Elem().Field(i), fields.Field(i).Name)
		want := slices.Sorted(maps.Keys(with.Inputs()))
		want = slices.DeleteFunc(want, func(name string) bool { return name == "op" && with.Op == "" }) // never left out
		for _, got := range [][]string{diag.Changed(&plain, &with), diag.Changed(&with, &plain)} {
			if !slices.Equal(got, want) {
				t.Errorf("%s: changed %q, on the wire %q", fields.Field(i).Name, got, want)
			}
		}
		again := diag.Request{}
		fill(t, reflect.ValueOf(&again).Elem().Field(i), fields.Field(i).Name)
		if got := diag.Changed(&with, &again); len(got) != 0 {
			t.Errorf("%s: two equal requests differ in %q", fields.Field(i).Name, got)
		}
	}
	empty := diag.Request{Header: map[string]string{}, Env: []string{}}
	if got := diag.Changed(&plain, &empty); len(got) != 0 {
		t.Errorf("an empty list is a left out one on the wire, but changed %q", got)
	}
}

func fill(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = "x"
	case *bool:
		*p = true
	case *int:
		*p = 1
	case *int64:
		*p = 1
	case *[]string:
		*p = []string{"a", "b"}
	case *map[string]string:
		*p = map[string]string{"a": "b", "c": "d"}
	case **diag.Program:
		*p = &diag.Program{Argv: []string{"/bin/true"}, LimitMS: 1}
	case *[]json.RawMessage:
		*p = []json.RawMessage{json.RawMessage("{}")}
	case *diag.Op:
		*p = diag.OpTCP
	case *diag.View:
		*p = diag.ViewHost
	case *diag.Secret:
		*p = diag.NewSecret("hidden")
	case *diag.Time:
		*p = diag.Time{Time: time.Unix(1, 0).UTC()}
	case **diag.Terminal:
		*p = &diag.Terminal{Kind: diag.TerminalWS, Hello: []string{"{token}"}}
	case **diag.Poll:
		*p = &diag.Poll{Field: "state", Until: []string{"done"}, EveryMS: 1}
	default:
		t.Fatalf("no value for %s of the type %T: add one", name, v.Interface())
	}
}
