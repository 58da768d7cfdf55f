package html5

import (
	"strings"
	"testing"
)

// TestCheckCanFail: everything that a page must not have is found.
func TestCheckCanFail(t *testing.T) {
	const style = "p { margin: 0; }"
	page := func(head, body string) []byte {
		return []byte(`<!DOCTYPE html><html lang="en"><head><meta http-equiv="Content-Security-Policy" content="` +
			policyFor(style) + `">` + head + `<style>` + style + `</style></head><body><main>` + body + `</main></body></html>`)
	}
	if err := Check(page("", `<p class="bad">text</p>`)); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		"<script>alert(1)</script>":   "script",
		"<p onclick=\"x\">a</p>":      "onclick",
		"<p id=\"a\">a</p>":           "id",
		"<p>a":                        "main",
		"<p><p>a</p></p>":             "other elements",
		"<dl><dt>a</dt></dl>":         "<dt> in <dl>",
		"<dl><div><dd></dd></div>":    "main",
		"<details><p>a</p></details>": "does not begin",
		"<table><tr></tr></table>":    "other elements",
		"<!-- a -->":                  "no part",
		"<a href=\"x\">a</a>":         "<a>",
	} {
		if err := Check(page("", body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	for _, head := range []string{"<style>a{}</style>", `<link rel="x">`, `<meta onload="x">`} {
		if Check(page(head, "")) == nil {
			t.Errorf("%s passes", head)
		}
	}
	if Check([]byte(strings.Replace(string(page("", "")), "p { m", "p  { m", 1))) == nil {
		t.Error("a style that the policy does not allow passes")
	}
}
