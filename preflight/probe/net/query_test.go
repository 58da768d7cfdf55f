package net

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// TestQuerySecret: the query is sent with the request, and is redacted in every answer that repeats it.
func TestQuerySecret(t *testing.T) {
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "a=1&ticket="+kit.Canary {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		kit.Page(500, kit.JSONType,
			`{"error":{"code":"no `+kit.Canary+`","message":"not `+r.URL.String()+`"},"v":"`+kit.Canary+`"}`)(w, r)
	}))
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL + "/lab?a=1", Query: diag.NewSecret("ticket=" + kit.Canary),
		CAInline: ca.PEM, Extract: map[string]string{"v": "v"}})
	b, err := json.Marshal(f)
	if err != nil || strings.Contains(string(b), kit.Canary) {
		t.Errorf("%v: %s", err, b)
	}
	if f.HTTP == nil || f.HTTP.Status != 500 || !strings.Contains(string(b), `"query":"[redacted]"`) {
		t.Errorf("%s", b)
	}
}

// TestURLSecrets: of a URL in an answer, the report has neither credentials nor query nor fragment; the next request
// has the complete URL.
func TestURLSecrets(t *testing.T) {
	ca := kit.NewAuthority(t, "ca")
	for in, want := range map[string]string{
		"https://me:" + kit.Canary + "@a.test/lab": "https://a.test/lab",
		"https://" + kit.Canary + "@a.test/lab":    "https://a.test/lab",
		"https://a.test/lab#token=" + kit.Canary:   "https://a.test/lab",
		"https://a.test/lab?ticket=" + kit.Canary: "https://a.test/lab?" +
			diag.Redacted,
		"https://me:" + kit.Canary + "@a.test/lab?t=" + kit.Canary + "#" + kit.Canary: "https://a.test/lab?" + diag.Redacted,
		"/lab?ticket=" + kit.Canary:                     "/lab?" + diag.Redacted,
		"https://me:pass/" + kit.Canary + "@a.test/lab": diag.Redacted,
		"https://a.test/lab":                            "https://a.test/lab",
	} {
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, `{"url":"`+in+`"}`))
		f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM, Extract: map[string]string{"url": "url"}})
		b, err := json.Marshal(f)
		if err != nil || f.HTTP == nil || strings.Contains(string(b), kit.Canary) {
			t.Fatalf("%s: %v: %s", in, err, b)
		}
		whole, cut := f.HTTP.Whole["url"]
		if f.HTTP.Fields["url"] != want || cut != (in != want) || (cut && whole.Reveal() != in) {
			t.Errorf("%s becomes %s, kept whole as %q", in, f.HTTP.Fields["url"], whole.Reveal())
		}
	}
}
