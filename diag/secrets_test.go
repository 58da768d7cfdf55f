package diag_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestSecretsLeaveEveryText: a secret in any text of an answer is removed, in each form that a server may repeat; the
// request, and facts that share a part of the answer, stay as they were.
func TestSecretsLeaveEveryText(t *testing.T) {
	req := diag.Request{ID: "a", Target: "https://api/x",
		Token:  diag.NewSecret("tok-12"),
		Cookie: diag.NewSecret(`sid=6f1b2c3d-aaaa-bbbb-cccc-0123456789ab; theme="Dark Mode+1"; region=eu-north-1`),
		Query:  diag.NewSecret("signature=s/g=n1&node=compute-node-01")}
	var known diag.Secrets
	known.Open("https://api.eu-north-1.test")
	known.Clean(&diag.Fact{Request: req})
	known.Clean(&diag.Fact{HTTP: &diag.HTTPFacts{Kept: diag.NewSecret("minted-token"),
		Whole: map[string]diag.Secret{"url": diag.NewSecret("wss://edge/x?ticket=Ticket1")}}})
	for secret, left := range map[string]bool{
		"tok-12": false, "6f1b2c3d-aaaa-bbbb-cccc-0123456789ab": false, "Dark Mode+1": false, "Dark+Mode%2B1": false,
		"dark mode+1": false, "s/g=n1": false, "s%2Fg=n1": false, "minted-token": false, "Ticket1": false,
		"compute-node-01": true, "eu-north-1": true, "none": true,
	} {
		for _, text := range texts(reflect.TypeFor[diag.Fact](), nil) {
			f := diag.Fact{}
			set(reflect.ValueOf(&f).Elem(), text, "/x/"+secret+"/y")
			before, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			shared := f
			known.Clean(&f)
			if after, err := json.Marshal(shared); err != nil || string(after) != string(before) {
				t.Errorf("%v: the fact that shares it became %s", text, after)
			}
			seen := get(reflect.ValueOf(&f).Elem(), text)
			if strings.Contains(seen, secret) != left {
				t.Errorf("%v: %q with %q", text, seen, secret)
			}
		}
	}
	f := diag.Fact{Request: req, Failure: "tok-12", Detail: "tok-12"}
	f.Request.Body = "tok-12"
	if known.Clean(&f); f.Request.Body != "tok-12" || f.Failure != "tok-12" || f.Detail != diag.Redacted {
		t.Errorf("%+v", f)
	}
}

// texts are the paths of every string in a type, by indices of fields; -1 is an element.
func texts(t reflect.Type, path []int) (all [][]int) {
	switch t.Kind() {
	case reflect.String:
		if t == reflect.TypeFor[string]() {
			return [][]int{slices.Clone(path)}
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if len(path) > 12 {
			return nil
		}
		return texts(t.Elem(), append(path, -1))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && t.Field(i).Type != reflect.TypeFor[diag.Request]() {
				all = append(all, texts(t.Field(i).Type, append(path, i))...)
			}
		}
	}
	return all
}

func set(v reflect.Value, path []int, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(v.Elem(), path[1:], text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(v.Index(0), path[1:], text)
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		set(elem, path[1:], text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), elem)
	case reflect.Struct:
		set(v.Field(path[0]), path[1:], text)
	}
}

func get(v reflect.Value, path []int) string {
	switch v.Kind() {
	case reflect.Pointer:
		return get(v.Elem(), path[1:])
	case reflect.Slice:
		return get(v.Index(0), path[1:])
	case reflect.Map:
		return get(v.MapIndex(v.MapKeys()[0]), path[1:])
	case reflect.Struct:
		return get(v.Field(path[0]), path[1:])
	}
	return v.String()
}
