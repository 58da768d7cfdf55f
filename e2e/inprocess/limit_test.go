//go:build linux

package inprocess

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestLimitedConnections: a limit on connections per client, as nginx's limit_conn, refuses what the walk sends at
// once. That is a warning, and no fault of the platform.
func TestLimitedConnections(t *testing.T) {
	t.Parallel()
	for _, page := range []bool{true, false} {
		t.Run(fmt.Sprintf("with a page %t", page), func(t *testing.T) {
			t.Parallel()
			w := start(t, options{})
			var open, refused atomic.Int32
			front := w.platform.APIEdge
			front.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
				defer open.Add(-1)
				// a request with an effect that is cut off may have reached the platform, so it is not repeated
				if open.Add(1) <= 2 || (!page && r.Method != http.MethodGet) {
					time.Sleep(60 * time.Millisecond)
					front.Forward(rw, r)
					return true
				}
				refused.Add(1)
				if !page {
					panic(http.ErrAbortHandler)
				}
				rw.Header().Set("Content-Type", "text/html")
				rw.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(rw, "<html><head><title>503 Service Temporarily Unavailable</title></head><body>"+
					"<center><h1>503 Service Temporarily Unavailable</h1></center><hr><center>nginx</center></body></html>")
				return true
			})
			r := w.walk(t)
			if v, n := r.Verdict, refused.Load(); v.Outcome == diag.OutcomeFail || v.Blame != nil ||
				(page && n > 0 && v.Outcome != diag.OutcomeWarn) {
				t.Errorf("%d refused\n%s", refused.Load(), describe(r))
			}
		})
	}
}
