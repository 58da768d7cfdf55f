package golden

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestNothingKnocksAtDoorsNobodyNamed: no request of a walk of today goes to an address and port that neither the
// profile nor an answer names. Walks of older rules tried ports 22, 53 and 443 of an API's address, and are listed.
func TestNothingKnocksAtDoorsNobodyNamed(t *testing.T) {
	older := 0
	for _, path := range recordings(t) {
		r := recorded(t, path)
		strays := UnknownAddresses(r)
		if beforeRepeats(madeBy(t, path)) {
			tried := false
			strays = slices.DeleteFunc(strays, func(s string) bool {
				old := strings.Contains(s, "~port-")
				tried = tried || old
				return old
			})
			if tried {
				older++
			}
		}
		for _, s := range strays {
			t.Errorf("%s: %s", path, s)
		}
	}
	t.Logf("%d recordings of older rules tried ports that nobody named", older)
}

// TestStraysAreListed: a forbidden destination is listed, and destinations from the profile and answers are not.
func TestStraysAreListed(t *testing.T) {
	r := recorded(t, "reports/healthy.json")
	if s := UnknownAddresses(r); len(s) != 0 {
		t.Fatalf("a healthy walk strays: %v", s)
	}
	for _, req := range []diag.Request{
		{Op: diag.OpTCP, Target: "10.231.77.11:22"},
		{Op: diag.OpTCP, Target: "10.231.77.10:53"},
		{Op: diag.OpHTTP, Target: "https://elsewhere.test/"},
		{Op: diag.OpHTTP, Target: "https://api.gpuaas.test:8443/"},
		{Op: diag.OpHTTP, Target: "https://api.gpuaas.test/", Resolve: "192.0.2.1"},
		{Op: diag.OpHTTP, Target: "https://api.gpuaas.test/", Resolver: "192.0.2.53:53"},
	} {
		again := *r
		again.Facts = append(slices.Clone(r.Facts), diag.Fact{ID: "x/y~z", Request: req})
		if s := UnknownAddresses(&again); len(s) != 1 {
			t.Errorf("%+v: %v", req, s)
		}
	}
}
