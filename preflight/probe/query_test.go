package probe

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestQuerySecret: the query is sent with the request, and is redacted in every answer that repeats it.
func TestQuerySecret(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := site(t, ca.leaf(t, leafOf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "a=1&ticket="+canary {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		page(500, jsonType, `{"error":{"code":"no `+canary+`","message":"not `+r.URL.String()+`"},"v":"`+canary+`"}`)(w, r)
	}))
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL + "/lab?a=1", Query: diag.NewSecret("ticket=" + canary),
		CAInline: ca.pem, Extract: map[string]string{"v": "v"}})
	b, err := json.Marshal(f)
	if err != nil || strings.Contains(string(b), canary) {
		t.Errorf("%v: %s", err, b)
	}
	if f.HTTP == nil || f.HTTP.Status != 500 || !strings.Contains(string(b), `"query":"[redacted]"`) {
		t.Errorf("%s", b)
	}
}

// TestURLSecrets: of a URL in an answer, the report has neither credentials nor query nor fragment; the next request
// has the complete URL.
func TestURLSecrets(t *testing.T) {
	ca := newAuthority(t, "ca")
	for in, want := range map[string]string{
		"https://me:" + canary + "@a.test/lab":                            "https://a.test/lab",
		"https://" + canary + "@a.test/lab":                               "https://a.test/lab",
		"https://a.test/lab#token=" + canary:                              "https://a.test/lab",
		"https://a.test/lab?ticket=" + canary:                             "https://a.test/lab?" + diag.Redacted,
		"https://me:" + canary + "@a.test/lab?t=" + canary + "#" + canary: "https://a.test/lab?" + diag.Redacted,
		"/lab?ticket=" + canary:                                           "/lab?" + diag.Redacted,
		"https://me:pass/" + canary + "@a.test/lab":                       diag.Redacted,
		"https://a.test/lab":                                              "https://a.test/lab",
	} {
		s := site(t, ca.leaf(t, leafOf{}), page(200, jsonType, `{"url":"`+in+`"}`))
		f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.pem, Extract: map[string]string{"url": "url"}})
		b, err := json.Marshal(f)
		if err != nil || f.HTTP == nil || strings.Contains(string(b), canary) {
			t.Fatalf("%s: %v: %s", in, err, b)
		}
		whole, cut := f.HTTP.Whole["url"]
		if f.HTTP.Fields["url"] != want || cut != (in != want) || (cut && whole.Reveal() != in) {
			t.Errorf("%s becomes %s, kept whole as %q", in, f.HTTP.Fields["url"], whole.Reveal())
		}
	}
}
