package platform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/status"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// apiHandler serves the operator's API.
func (p *Platform) apiHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+wire.PathHealth, web.Handler(p.healthz))
	for pattern, h := range map[string]web.Handler{
		"GET /v1/allocations/{id}":                          p.getAllocation,
		"POST /v1/allocations/{id}/release":                 p.release,
		"GET /v1/allocations/{id}/release":                  p.getRelease,
		"DELETE /v1/allocations/{id}/release":               p.endRelease,
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
		"GET /v1/admin/nodes/{id}/gpu":                      p.getGPU,
		"POST /v1/admin/nodes/{id}/cordon":                  p.askStatus(status.AskCordon, status.Node.Cordon),
		"POST /v1/admin/nodes/{id}/uncordon":                p.askStatus(status.AskUncordon, status.Node.Uncordon),
		"POST /v1/admin/nodes/{id}/drain":                   p.askStatus(status.AskDrain, status.Node.Drain),
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

// healthz responds to any caller, but rejects a wrong token, so that one request checks both reachability and
// token.
func (p *Platform) healthz(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Authorization") != "" {
		if err := p.checkOperator(r); err != nil {
			return err
		}
	}
	status := map[string]string{"status": "ok", "writes": "ok"}
	if err := p.writes.check(r.Context(), p.store, time.Now()); err != nil {
		p.log.Error("the database takes no writes", "error", err)
		status = map[string]string{"status": "degraded", "writes": "failing"}
	}
	return web.Answer(w, http.StatusOK, status)
}

// writeCheck is the newest result of writing to the database: a health check is cheap and anybody's, a write is not.
type writeCheck struct {
	mu  sync.Mutex // guards what follows
	at  time.Time
	err error
}

// writeCheckAge is how long a result counts.
const writeCheckAge = 5 * time.Second

func (c *writeCheck) check(ctx context.Context, s *store.Store, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.at) < writeCheckAge {
		return c.err
	}
	if err := s.Writes(ctx); ctx.Err() == nil { // else the caller has left
		c.at, c.err = now, err
	}
	return c.err
}

// notFound converts a store.ErrNotFound to a 404 for that thing; it returns other errors unchanged.
func notFound(err error, thing string) error {
	if errors.Is(err, store.ErrNotFound) {
		return web.Errorf(http.StatusNotFound, thing+"_not_found", "there is no such %s", thing)
	}
	return err
}

// metricHelp lists every counter of the platform. Labels have a closed set of values: a reason, a phase, a type;
// never an id, an address or text from another process.
var metricHelp = [...]struct{ name, help string }{
	{"audit_rows_total", "Rows written to the audit by phase."},
	{"audited_failures_total", "Failures counted for the audit by action, repetitions included."},
	{"clones_detected_total", "Nodes that were quarantined because two hosts spoke as one."},
	{"credential_reports_total", "Reports on application credentials by outcome."},
	{"enrollments_denied_total", "Enrollments denied by reason."},
	{"enrollments_total", "Certificates issued to nodes."},
	{"events_refused_total", "Requests with events whose sequence numbers are impossible."},
	{"gpu_judgements_total", "Judgements of a node's GPUs by health."},
	{"gpu_policies_refused_total", "GPU policies that were refused when their file had changed."},
	{"heartbeats_total", "Heartbeats taken."},
	{"node_denials_total", "Node requests denied by reason."},
	{"other_sources_total", "Sources besides a node's proven host that used its certificate while the host was alive."},
	{"prunes_behind_clock_total", "Rounds of deleting old rows in which the clock was too far ahead."},
	{"recovery_changes_total", "Changes of a node's operator reason by the new reason."},
	{"task_results_late_total", "Results that came after their task had expired, by type."},
	{"tasks_reclaimed_total", "Tasks that went back to the queue for want of a result, by type."},
	{"tasks_settled_total", "Tasks that ended by type and status."},
	{"tasks_withheld_total", "Tasks withheld from a source that is not the node's proven host, by type."},
}

// metricPrefix is the prefix of every name.
const metricPrefix = "gpuaas_platform_"

// metrics holds the counters. The zero value is ready to use.
type metrics struct {
	mu sync.Mutex
	n  map[string]int64 // by sample, name{labels}; guarded by mu
}

// add increments a counter; labels are pairs of name and value.
func (m *metrics) add(name string, labels ...string) {
	sample := metricPrefix + name
	if len(labels) > 0 {
		pairs := make([]string, 0, len(labels)/2)
		for i := 0; i+1 < len(labels); i += 2 {
			pairs = append(pairs, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
		}
		sample += "{" + strings.Join(pairs, ",") + "}"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == nil {
		m.n = map[string]int64{}
	}
	m.n[sample]++
}

// text formats the counters for Prometheus.
func (m *metrics) text() string {
	m.mu.Lock()
	n := maps.Clone(m.n)
	m.mu.Unlock()
	samples := slices.Sorted(maps.Keys(n))
	var b strings.Builder
	for _, h := range metricHelp {
		fmt.Fprintf(&b, "# HELP %[1]s%[2]s %[3]s\n# TYPE %[1]s%[2]s counter\n", metricPrefix, h.name, h.help)
		for _, s := range samples {
			if name, _, _ := strings.Cut(s, "{"); name == metricPrefix+h.name {
				fmt.Fprintf(&b, "%s %d\n", s, n[s])
			}
		}
	}
	return b.String()
}

// getMetrics serves the operator's metrics collector.
func (p *Platform) getMetrics(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(p.metrics.text())) // the client may have disconnected
	return nil
}
