package ops_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// aPlatform serves an operator API on loopback that knows two nodes: the last contact with n1 was just now, with n2 an
// hour ago.
func aPlatform() (*ops.Site, func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard := time.Now()
		switch {
		case strings.HasSuffix(r.URL.Path, "/n1"):
		case strings.HasSuffix(r.URL.Path, "/n2"):
			heard = heard.Add(-time.Hour)
		case strings.Contains(r.URL.Path, "/nodes/"):
			http.Error(w, `{"error":{"code":"node_not_found"}}`, http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": path.Base(r.URL.Path), "now": time.Now(),
			"status": "ready", "agent": map[string]any{"last_seen_at": heard}, "items": []any{},
		})
	}))
	site := ops.New(ops.Site{
		Profile: profile.Profile{APIBase: server.URL}, Secrets: ops.Secrets{Token: diag.NewSecret("an operator's token")},
		Tool: "example",
	})
	return site, server.Close
}
