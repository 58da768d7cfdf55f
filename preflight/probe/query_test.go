package probe

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestQuerySecret: the query goes out with the request, and is in no answer that repeats it.
func TestQuerySecret(t *testing.T) {
	ca := newAuthority(t, "ca")
	s := site(t, ca.leaf(t, leafOf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "a=1&ticket="+canary {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		page(500, jsonType, `{"error":{"code":"no `+canary+`","message":"not `+r.URL.String()+`"},"v":"`+canary+`"}`)(w, r)
	}))
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL + "/lab?a=1", Query: diag.NewSecret("ticket=" + canary), CAInline: ca.pem,
		Extract: map[string]string{"v": "v"}})
	b, err := json.Marshal(f)
	if err != nil || strings.Contains(string(b), canary) {
		t.Errorf("%v: %s", err, b)
	}
	if f.HTTP == nil || f.HTTP.Status != 500 || !strings.Contains(string(b), `"query":"[redacted]"`) {
		t.Errorf("%s", b)
	}
}

func TestWithoutQuery(t *testing.T) {
	for in, want := range map[string]string{
		"https://a.test/lab?ticket=x": "https://a.test/lab?[redacted]", "wss://t/?token=x": "wss://t/?[redacted]",
		"https://a.test/lab": "", "what?": "", `{"u":"https://a.test/?x=1"}`: "", "": "", "see https://a.test/?x=1": "",
	} {
		if got, isURL := withoutQuery(in); isURL != (want != "") || isURL && got != want || !isURL && got != in {
			t.Errorf("%q becomes %q, %v", in, got, isURL)
		}
	}
}
