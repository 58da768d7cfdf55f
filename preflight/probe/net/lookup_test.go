package net

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

func TestLookupFindsPlainPaths(t *testing.T) {
	doc := []byte(` {"error": {"code": "no_\u00e9", "n": 12, "on": false, "none": null, "0": "zero"},
		"list": [ {"v": "a"}, [1, {"w": {"x" : 2}}] ], "": "empty"}`)
	for path, want := range map[string]string{
		"error.code": "no_é", "error.n": "12", "error.on": "false", "error.0": "zero",
		"list.0.v": "a", "list.1.0": "1", "list.1.1": `{"w": {"x" : 2}}`, "list.1.1.w.x": "2",
	} {
		if got, ok := lookup(doc, path); !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", path, got, ok, want)
		}
	}
	for _, path := range []string{"nothing", "error.none", "error.none.x", "error.code.x", "error.n.0", "list.2",
		"list.-1", "list.v", "list.99999999999999999999"} {
		if got, ok := lookup(doc, path); ok {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestPlainPath(t *testing.T) {
	for path, want := range map[string]bool{
		"code": true, "error.code": true, "errors.0.error-code_2": true,
		"": false, ".": false, "a..b": false, "a.": false, "a.#.b": false, `a.#(b=="c").d`: false, "a|b": false,
		"@this": false, `a\.b`: false, "a*": false, "{a,b}": false,
	} {
		if got := plainPath(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

// A node that does not support a path fails before it contacts any server: an absent field would be a wrong result.
func TestProberWithoutALookupRefusesItsLanguage(t *testing.T) {
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: "http://127.0.0.1:1",
		Extract: map[string]string{"error.code": "errors.#.code"}})
	if f.Failure != diag.Unsupported || f.Phase != phaseTarget || f.TCP != nil {
		t.Errorf("%+v", f)
	}
}
