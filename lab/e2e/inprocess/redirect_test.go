//go:build linux

package inprocess

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// stranger is a server that must not be contacted: a request to it fails the test.
func stranger(t *testing.T, withTLS bool) *httptest.Server {
	t.Helper()
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("somebody came to the other host: %s %s, token %t, cookie %t", r.Method, r.URL,
			r.Header.Get("Authorization") != "", r.Header.Get("Cookie") != "")
	})
	s := httptest.NewUnstartedServer(h)
	if withTLS {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// TestNothingFollowsARedirect: no redirect is followed, from either vantage, by any op and status, least of all
// with a token.
func TestNothingFollowsARedirect(t *testing.T) {
	t.Parallel()
	begin(t)
	secure, plain := stranger(t, true), stranger(t, false)
	var tokens, cookies atomic.Int64
	first := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			tokens.Add(1)
		}
		if r.Header.Get("Cookie") != "" {
			cookies.Add(1)
		}
		status := http.StatusFound
		for _, s := range []int{301, 303, 307, 308} {
			if strings.HasSuffix(r.URL.Path, http.StatusText(s)) {
				status = s
			}
		}
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(status)
	}))
	defer first.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first.Certificate().Raw}))
	s := sshtest.Start(t, sshtest.Config{})
	helpers := t.TempDir()
	installed := installAgent(t, helpers)
	places := map[string]hop.Vantage{
		hop.Operator: vantage.Operator(&probe.Prober{Vantage: hop.Operator, Start: time.Now()}),
		hop.Node: vantage.NewNode(vantage.NodeConfig{ID: nodeID, Host: s.Host, SSH: s.Login(t),
			Version: sshtest.Version, Agent: profile.Agent{Binary: installed}, HelperDirs: []string{helpers}, ConfigFile: "none",
			AgentSocket: "none", ConnectTimeout: time.Minute, HelloTimeout: time.Minute}),
	}
	ctx, cancel := context.WithTimeout(context.Background(), walkLimit)
	defer cancel()
	for from, place := range places {
		var reqs []diag.Request
		for _, to := range []string{secure.URL + "/x", plain.URL + "/x", strings.TrimPrefix(secure.URL, "https:") + "/x"} {
			for _, path := range []string{"", "Moved Permanently", "See Other", "Temporary Redirect", "Permanent Redirect"} {
				for _, r := range []diag.Request{{Op: diag.OpHTTP}, {Op: diag.OpHTTP, Method: http.MethodPost, Body: "{}"},
					{Op: diag.OpWS}} {
					r.Target = first.URL + "/" + strings.ReplaceAll(path, " ", "%20") + "?to=" + url.QueryEscape(to)
					r.CAInline, r.TimeoutMS = ca, 60_000
					if from == hop.Operator { // no token leaves for a node
						r.Token, r.Cookie = diag.NewSecret("canary-token"), diag.NewSecret("a=canary-cookie")
					}
					reqs = append(reqs, r)
				}
			}
		}
		for i, f := range place.Probe(ctx, reqs) {
			if f.HTTP == nil && f.WS == nil {
				t.Errorf("%s was not asked %s: %s %s", from, reqs[i].Op, f.Failure, f.Detail)
			}
		}
		closeVantage(t, place)
	}
	if tokens.Load() == 0 || cookies.Load() == 0 {
		t.Errorf("the first host saw %d tokens and %d cookies: nothing was shown", tokens.Load(), cookies.Load())
	}
}

// TestWalkFollowsNoRedirect: the same for every request of a whole walk, to the servers of either side.
func TestWalkFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	secure, plain := stranger(t, true), stranger(t, false)
	w := start(t, options{platform: atHome})
	hurried := mistake{profile: setProfile(func(_ *testing.T, p *profile.Profile) { // what is led away never comes
		p.Budgets[diag.HopNodeTaskRoundtrip], p.Budgets[diag.HopTerminalOpenTask] = 2*time.Second, 2*time.Second
		p.Budgets[diag.HopBrowserTerminalWS], p.Budgets[diag.HopGatewayNodeStream] = 2*time.Second, 2*time.Second
	})}
	for _, to := range []string{secure.URL, plain.URL} {
		move := func(rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, to+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		for name, edge := range map[string]*platformtest.Front{"API": w.platform.APIEdge, "terminal": w.platform.TerminalEdge,
			"ingress": w.platform.Ingress} {
			edge.Intercept(move)
			if r := w.mistaken(t, hurried); r.Verdict.Outcome == diag.OutcomePass {
				t.Errorf("%s: the walk passes\n%s", name, describe(r))
			}
			edge.Intercept(nil)
		}
	}
}
