package platform

import (
	"errors"
	"net/http"

	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/platform/web"
	"github.com/gpuaas/gpuaasctl/wire"
)

// apiHandler answers the operator.
func (p *Platform) apiHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+wire.PathHealth, web.Handler(p.healthz))
	for pattern, h := range map[string]web.Handler{
		"GET /v1/allocations/{id}":                          p.getAllocation,
		"POST /v1/allocations/{id}/release":                 p.release,
		"POST /v1/admin/allocations/{id}/force-release":     p.forceRelease,
		"POST /v1/admin/allocations/{id}/credential-report": p.credentialReport,
		"POST /v1/allocations/{id}/terminal-token":          p.mintToken,
		"GET /v1/admin/terminal/sessions/{id}":              p.getSession,
		"GET /v1/admin/nodes":                               p.getNodes,
		"GET /v1/admin/nodes/{id}":                          p.getNode,
		"POST /v1/admin/nodes/{id}/tasks":                   p.postTask,
		"POST /v1/admin/nodes/{id}/reenroll":                p.reenroll,
		"GET /v1/admin/tasks/{id}":                          p.getTask,
		"POST /v1/admin/nodes/{id}/fence":                   p.decide(store.Fence),
		"POST /v1/admin/nodes/{id}/reactivate":              p.decide(store.Reactivate),
		"POST /v1/admin/nodes/{id}/revoke":                  p.decide(store.Revoke),
		"POST /v1/admin/nodes/{id}/retire":                  p.decide(store.Retire),
		"POST /v1/admin/nodes/{id}/provider":                p.setProvider,
		"GET /v1/admin/nodes/{id}/provider":                 p.getProvider,
		"DELETE /v1/admin/nodes/{id}/provider":              p.endProvider,
		"GET /v1/admin/nodes/{id}/operations":               p.getOperations,
		"GET /v1/admin/audit":                               p.getAudit,
		"GET /metrics":                                      p.getMetrics,
		"GET /v1/admin/trust":                               p.getTrust,
		"GET /v1/admin/evidence":                            p.getEvidence,
		"POST /v1/admin/nodes/{id}/rollouts":                p.postRollout,
		"GET /v1/admin/rollouts/{id}":                       p.getRollout,
	} {
		mux.Handle(pattern, p.operator(h))
	}
	mux.Handle("/", web.Handler(web.NotFound))
	return web.Front(p.log, "api", mux)
}

// healthz answers anybody; but a token that is given must be right, so that one request tells both.
func (p *Platform) healthz(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Authorization") != "" {
		if err := p.checkOperator(r); err != nil {
			return err
		}
	}
	web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// notFound types a store.ErrNotFound of a thing; other errors stay.
func notFound(err error, thing string) error {
	if errors.Is(err, store.ErrNotFound) {
		return web.Errorf(http.StatusNotFound, thing+"_not_found", "there is no such %s", thing)
	}
	return err
}
