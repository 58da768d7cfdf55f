package net

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// TestNoAnswerRepeatsASecret: a server that repeats the request's token or cookie in whatever part of its answer, in
// each form that a part may have, puts it into no fact. None of these secrets looks random.
func TestNoAnswerRepeatsASecret(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	leaf := ca.Leaf(t, kit.Leaf{})
	const token, cookie = "5f0c1d3e-7a44-4c1b-9d1c-0242ac120002", "ShortOne"
	for _, form := range []string{token, cookie, strings.ToUpper(token[:8]) + "-" + cookie, "x-" + token + ";y"} {
		s := kit.Site(t, leaf, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for name, value := range map[string]string{"Server": "nginx/" + form, "Location": "/login/" + form + "/x",
				"Content-Type": "text/" + form, "X-Correlation-Id": form, "X-Cache": "hit " + form, "Age": form,
				"Retry-After": form, "Date": form, "Sec-WebSocket-Protocol": form, "Www-Authenticate": form} {
				w.Header().Set(name, value)
			}
			w.WriteHeader(http.StatusBadGateway)
			body, _ := json.Marshal(map[string]any{"error": map[string]string{"code": form, "message": form, "id": form}})
			_, _ = w.Write(body)
		}))
		for _, op := range []diag.Op{diag.OpHTTP, diag.OpWS} {
			f := run(t, diag.Request{Op: op, Target: strings.Replace(s.URL, "https", map[diag.Op]string{diag.OpHTTP: "https",
				diag.OpWS: "wss"}[op], 1), CAInline: ca.PEM, Token: diag.NewSecret(token),
				Cookie: diag.NewSecret("theme=dark; sid=" + cookie), Extract: map[string]string{"id": "error.id"}})
			text, err := json.Marshal(f)
			if err != nil || f.HTTP == nil || f.HTTP.Server == "" {
				t.Fatalf("%s: %v %s", op, err, text)
			}
			for _, secret := range []string{token, cookie} {
				if strings.Contains(strings.ToLower(string(text)), strings.ToLower(secret)) {
					t.Errorf("%s of %q: %s", op, form, text)
				}
			}
		}
	}
}
