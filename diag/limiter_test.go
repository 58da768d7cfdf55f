package diag_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/limitertest"
)

func TestLimitedBy(t *testing.T) {
	for _, a := range append(limitertest.Limiters(), limitertest.Others()...) {
		h := http.Header{}
		for k, v := range a.Header {
			h.Set(k, v)
		}
		r := diag.Refusal{Status: a.Status, Header: h.Get, Code: a.Code, Body: []byte(a.Body)}
		if got := diag.LimitedBy(r); got != a.Want {
			t.Errorf("%s (%d): %q, want %q", a.Name, a.Status, got, a.Want)
		}
	}
}

// A page of megabytes, or of nothing but blanks, is read up to limiterBody only.
func TestLimitedByOfAHugeBody(t *testing.T) {
	huge := diag.Refusal{Status: 403, Header: http.Header{}.Get, Body: []byte(strings.Repeat(" ",
		1<<20) + "error code: 1015")}
	if got := diag.LimitedBy(huge); got != diag.NoLimiter {
		t.Errorf("%q", got)
	}
}

func TestThrottledFactsOfOlderReports(t *testing.T) {
	coded := func(status int, code string) *diag.Fact {
		return &diag.Fact{Failure: diag.HTTPStatus, HTTP: &diag.HTTPFacts{Status: status,
			Fields: map[string]string{"error.code": code}}}
	}
	for name, c := range map[string]struct {
		f    *diag.Fact
		want bool
	}{
		"nothing":                {nil, false},
		"the word":               {&diag.Fact{Failure: diag.HTTPRateLimited}, true},
		"a 403 with the code":    {coded(403, "rate_limit_exceeded"), true},
		"a 403 with another":     {coded(403, "revoked"), false},
		"an answer that is good": {coded(200, "rate_limit_exceeded"), false},
		"a terminal's frame": {&diag.Fact{Failure: diag.WSClosed,
			WS: &diag.WSFacts{FrameCode: "rate_limit_exceeded"}}, true},
	} {
		if got := c.f.Throttled(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
