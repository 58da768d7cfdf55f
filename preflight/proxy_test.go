package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestAProxyThatIsNotUsedIsSaid: where a request gets no connection, and the operator's other programs go through a
// proxy, the finding says so and the steps begin there; where a server answers, the proxy is no matter.
func TestAProxyThatIsNotUsedIsSaid(t *testing.T) {
	const route = "terminal_public_route/healthz"
	behind := func(proxy string, then func(*diag.Fact)) func(*diag.Fact) {
		return func(f *diag.Fact) { then(f); f.Proxy = proxy }
	}
	const proxy, said = "HTTPS_PROXY (proxy.test:3128)", "HTTPS_PROXY is set (proxy.test:3128) and is not used here"
	for what, c := range map[string]struct {
		step string
		do   func(*diag.Fact)
		says bool
	}{
		"no connection to the API":      {healthFact, behind(proxy, failWith(diag.TCPTimeout, "tcp")), true},
		"the API refuses":               {healthFact, behind(proxy, failWith(diag.TCPRefused, "tcp")), true},
		"a name that only it knows":     {healthFact, behind(proxy, failWith(diag.DNSNXDomain, "dns")), true},
		"no connection to the terminal": {route, behind(proxy, failWith(diag.TCPTimeout, "tcp")), true},
		"an API that fails":             {healthFact, behind(proxy, answerOf(500, diag.HTTPStatus)), false},
		"no proxy":                      {healthFact, failWith(diag.TCPTimeout, "tcp"), false},
		"all is well":                   {healthFact, behind(proxy, func(*diag.Fact) {}), false},
	} {
		t.Run(what, func(t *testing.T) {
			r := walkWith(t, answers{c.step: c.do})
			steps := strings.Join(r.Verdict.Recovery, "\n")
			if strings.Contains(describe(r), said) != c.says || strings.Contains(steps, "names a proxy") != c.says {
				t.Errorf("%s\n%s", describe(r), steps)
			}
		})
	}
}
