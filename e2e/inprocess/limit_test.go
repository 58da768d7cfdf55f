//go:build linux

package inprocess

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestLimitedConnections: a limit on connections per client, as nginx's limit_conn, refuses what the walk sends at
// once. That is a warning, and no fault of the platform.
func TestLimitedConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		page   bool
		method string // "": any
	}{
		"a page": {true, ""}, "a cut": {false, http.MethodGet}, "a cut of any request": {false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, options{})
			var open, refused atomic.Int32
			front := w.platform.APIEdge
			front.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
				defer open.Add(-1)
				if open.Add(1) <= 2 || (c.method != "" && r.Method != c.method) {
					time.Sleep(60 * time.Millisecond)
					front.Forward(rw, r)
					return true
				}
				refused.Add(1)
				if !c.page {
					panic(http.ErrAbortHandler)
				}
				rw.Header().Set("Content-Type", "text/html")
				rw.Header().Set("Server", "nginx")
				rw.WriteHeader(http.StatusServiceUnavailable)
				_, _ = rw.Write([]byte("<html><head><title>503 Service Temporarily Unavailable</title></head><body>" +
					"<center><h1>503 Service Temporarily Unavailable</h1></center><hr><center>nginx</center></body></html>"))
				return true
			})
			r := w.walk(t)
			v, n := r.Verdict, refused.Load()
			if c.method == "" && !c.page && v.Blame != nil && strings.Contains(v.Blame.Text, "a limit on connections") {
				return // a request with an effect that is cut off may have reached the platform, so it is not repeated
			}
			if v.Outcome == diag.OutcomeFail || v.Blame != nil || (c.page && n > 0 && v.Outcome != diag.OutcomeWarn) {
				t.Errorf("%d refused, %+v\n%s", n, v.Blame, describe(r))
			}
		})
	}
}
