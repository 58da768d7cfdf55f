//go:build linux

package inprocess

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestLimitedConnections: a limit on connections per client, as nginx's limit_conn, refuses what the walk sends at
// once. That is no fault of the platform, and a warning where only requests without an effect were refused: they are
// sent again.
func TestLimitedConnections(t *testing.T) {
	t.Parallel()
	const html = "<html><head><title>503 Service Temporarily Unavailable</title></head><body>" +
		"<center><h1>503 Service Temporarily Unavailable</h1></center><hr><center>nginx</center></body></html>"
	for name, c := range map[string]struct {
		kind, text string // "": the connection is closed
		method     string // "": any
	}{
		"a page": {"text/html", html, "GET"}, "a text": {"text/plain", "Service Unavailable", "GET"},
		"a cut":                 {"", "", "GET"},
		"a page to any request": {"text/html", html, ""}, "a cut of any request": {"", "", ""},
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
				if c.kind == "" {
					panic(http.ErrAbortHandler)
				}
				rw.Header().Set("Content-Type", c.kind)
				rw.WriteHeader(http.StatusServiceUnavailable)
				_, _ = rw.Write([]byte(c.text))
				return true
			})
			r := w.walk(t)
			v, n := r.Verdict, refused.Load()
			if c.method == "" && v.Blame != nil && strings.Contains(v.Blame.Text, "a limit on connections") {
				return // an effect may have reached the platform, so its request is not sent again
			}
			if v.Outcome == diag.OutcomeFail || v.Blame != nil {
				t.Errorf("%d refused, %+v\n%s", n, v.Blame, describe(r))
			}
			if c.method != "" && refusedMeasured(r) != (v.Outcome == diag.OutcomeWarn) {
				t.Errorf("%d refused, %s\n%s", n, v.Outcome, describe(r))
			}
		})
	}
}

// refusedMeasured reports whether a request of a hop that was measured was refused before it was answered. A hop that
// is skipped, since this platform judges no GPUs, lists its refusals and stays skipped.
func refusedMeasured(r *diag.Report) bool {
	return slices.ContainsFunc(r.Facts, func(f diag.Fact) bool {
		hop, _, _ := strings.Cut(f.ID, "/")
		return f.Refused > 0 && slices.ContainsFunc(r.Hops, func(h diag.HopResult) bool {
			return string(h.ID) == hop && h.Status != diag.StatusSkipped
		})
	})
}
