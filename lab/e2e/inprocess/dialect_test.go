//go:build linux

package inprocess

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// dialectProfile is all that the tool needs to understand the second platform.
const dialectProfile = `mapping:
  paths:
    healthz: /api/v2/ping
    allocation: /api/v2/leases/{allocation_id}
    node: /api/v2/hosts/{node_id}
    node_tasks: /api/v2/hosts/{node_id}/jobs
    task: /api/v2/jobs/{task_id}
    trust: /api/v2/fingerprints
    evidence: /api/v2/events?trace={correlation_id}
    terminal_token: /api/v2/leases/{allocation_id}/ticket
    terminal_session: /api/v2/terminals/{session_id}
    terminal_ws: /api/v2/ws/{session_id}
    terminal_healthz: /up
    task_wait: /agents/v2/{node_id}/next?dry=1
    node_terminal: /agents/v2/streams/{session_id}
  fields:
    allocation.state: data.phase
    allocation.node_id: data.host
    allocation.os_user: data.login
    allocation.app_unit: data.workload.service
    allocation.app_port: data.workload.tcpPort
    allocation.app_product_url: data.workload.link
    node.now: data.clock
    node.last_seen_at: data.daemon.lastContact
    node.last_heartbeat_at: data.daemon.lastBeat
    node.stale_tasks: data.backlog
    task.id: data.uid
    task.status: data.phase
    task.queued_at: data.queued
    task.claimed_at: data.taken
    task.completed_at: data.done
    task.error_code: data.outcome.fault.slug
    token.token: data.ticket
    token.session_id: data.session
    token.url: data.href
    session.browser_connected_at: data.browserAt
    session.node_stream_connected_at: data.nodeAt
    session.pty_ready_at: data.shellAt
    session.task_id: data.job.uid
    session.task_status: data.job.phase
    session.task_queued_at: data.job.queued
    session.task_claimed_at: data.job.taken
    session.task_completed_at: data.job.done
    trust.signing_ca: data.nodeCA
    trust.ingress_ca: data.edgeCA
    evidence.items: data.events
    error.code: errors.0.slug
    error.message: errors.0.detail
`

// dialectKeys renames the reference platform's fields; a name that is not in it gets a prefix that no profile
// maps.
var dialectKeys = map[string]string{
	"id": "uid", "state": "phase", "status": "phase", "node_id": "host", "os_user": "login", "app": "workload",
	"unit": "service", "port": "tcpPort", "product_url": "link", "now": "clock", "agent": "daemon",
	"last_seen_at": "lastContact", "last_heartbeat_at": "lastBeat", "stale_tasks": "backlog", "queued_at": "queued",
	"claimed_at": "taken", "completed_at": "done", "result": "outcome", "error": "fault", "code": "slug",
	"token": "ticket", "session_id": "session", "url": "href", "browser_connected_at": "browserAt",
	"node_stream_connected_at": "nodeAt", "pty_ready_at": "shellAt", "task": "job", "signing_ca": "nodeCA",
	"ingress_ca": "edgeCA",
}

// dialectRoutes maps the second platform's paths to the reference platform's.
var dialectRoutes = []struct{ from, to string }{
	{`^/api/v2/ping$`, "/healthz"},
	{`^/up$`, "/healthz"},
	{`^/api/v2/leases/([^/]+)$`, "/v1/allocations/$1"},
	{`^/api/v2/leases/([^/]+)/ticket$`, "/v1/allocations/$1/terminal-token"},
	{`^/api/v2/hosts/([^/]+)$`, "/v1/admin/nodes/$1"},
	{`^/api/v2/hosts/([^/]+)/jobs$`, "/v1/admin/nodes/$1/tasks"},
	{`^/api/v2/jobs/([^/]+)$`, "/v1/admin/tasks/$1"},
	{`^/api/v2/fingerprints$`, "/v1/admin/trust"},
	{`^/api/v2/events$`, "/v1/admin/evidence"},
	{`^/api/v2/terminals/([^/]+)$`, "/v1/admin/terminal/sessions/$1"},
	{`^/api/v2/ws/([^/]+)$`, "/v1/terminal/$1"},
	{`^/agents/v2/([^/]+)/next$`, "/internal/v1/nodes/$1/tasks/wait"},
}

// throughKey marks a request that was translated already.
type throughKey struct{}

// dialect makes a front speak only the second dialect; before, if not nil, may answer first.
func dialect(f *platformtest.Front, before func(http.ResponseWriter, *http.Request) bool) {
	f.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Context().Value(throughKey{}) != nil, strings.HasPrefix(r.URL.Path, "/internal/"): // the agent speaks its own
			return false
		case before != nil && before(w, r):
			return true
		}
		path, ok := dialectPath(r.URL.Path)
		if !ok {
			dialectError(w, http.StatusNotFound, "no_such_route")
			return true
		}
		inner := r.Clone(context.WithValue(r.Context(), throughKey{}, true))
		inner.URL.Path = path
		inner.URL.RawQuery = dialectQuery(r.URL.Query())
		rec := &upgrade{httptest.NewRecorder(), w, false}
		f.ServeHTTP(rec, inner)
		if !rec.accepted {
			translate(w, rec.ResponseRecorder)
		}
		return true
	})
}

// upgrade records an answer. An accepted upgrade takes the connection in place of one.
type upgrade struct {
	*httptest.ResponseRecorder
	to       http.ResponseWriter
	accepted bool
}

func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	u.accepted = true
	return http.NewResponseController(u.to).Hijack()
}

func dialectPath(path string) (string, bool) {
	for _, r := range dialectRoutes {
		if re := regexp.MustCompile(r.from); re.MatchString(path) {
			return re.ReplaceAllString(path, r.to), true
		}
	}
	return "", false
}

func dialectQuery(q url.Values) string {
	out := url.Values{}
	if q.Has("trace") {
		out.Set("correlation_id", q.Get("trace"))
	}
	if q.Has("dry") {
		out.Set("peek", "1")
		out.Set("timeout", "0")
	}
	return out.Encode()
}

// translate converts a reference response to the second dialect.
func translate(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	for k, v := range rec.Header() {
		if k != "Content-Length" {
			w.Header()[k] = v
		}
	}
	var body map[string]any
	if json.Unmarshal(rec.Body.Bytes(), &body) != nil {
		w.WriteHeader(rec.Code)
		_, _ = io.Copy(w, rec.Body)
		return
	}
	if e, ok := body["error"].(map[string]any); ok {
		code, _ := e["code"].(string)
		dialectError(w, rec.Code, code)
		return
	}
	var out any
	if items, ok := body["items"]; ok {
		out = map[string]any{"events": items}
	} else {
		out = renamed(body)
	}
	text, err := json.Marshal(map[string]any{"data": out,
		"meta": map[string]any{"id": "none", "status": "none", "state": "none"}})
	if err != nil {
		panic(err)
	}
	w.WriteHeader(rec.Code)
	_, _ = io.Copy(w, bytes.NewReader(bytes.ReplaceAll(text, []byte("/v1/terminal/"), []byte("/api/v2/ws/"))))
}

func renamed(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, v := range m {
		to, ok := dialectKeys[k]
		if !ok {
			to = "x_" + k
		}
		if word, ok := v.(string); ok && to == "phase" {
			v = strings.ToUpper(word)
		}
		out[to] = renamed(v)
	}
	return out
}

func dialectError(w http.ResponseWriter, status int, slug string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"errors": []any{map[string]string{"slug": slug, "detail": "in other words"}},
	})
}

// startDialect starts a platform that speaks the second dialect to every client except its own agent. If the agent
// will be denied, a walk does not wait long for it.
func startDialect(t *testing.T, denied bool) *world {
	w := start(t, options{
		noStream: denied,
		yaml:     dialectProfile,
		nodeEnv:  func(w *world, env map[string]string) { env["GPUAAS_TERMINAL_API_URL"] = w.platform.NodeAPIURL },
		// The gateway ends TLS itself and has no front, so the ingress answers for it as far as the walk asks.
		profile: func(p *profile.Profile) {
			p.NodeTerminalURL = p.NodeRuntimeAPIURL
			if denied {
				short(diag.HopNodeTaskRoundtrip)(p)
			}
		},
	})
	dialect(w.platform.APIEdge, nil)
	dialect(w.platform.TerminalEdge, nil)
	dialect(w.platform.Ingress, func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/agents/v2/streams/") {
			return false
		}
		dialectError(rw, http.StatusNotFound, "session_not_found")
		return true
	})
	return w
}

// TestSecondDialect: with other paths, other names, another envelope and states in capitals, the profile's mapping
// alone makes the walk green.
func TestSecondDialect(t *testing.T) {
	t.Parallel()
	w := startDialect(t, false)
	r := w.walk(t)
	if r.Verdict.Outcome != diag.OutcomePass {
		t.Fatalf("\n%s", describe(r))
	}
	for _, h := range r.Hops {
		if h.ID != diag.HopGPUHealth && (h.Status != diag.StatusPass || len(h.Evidence) == 0) {
			t.Errorf("%s is %s on %v", h.ID, h.Status, h.Evidence)
		}
	}
	if len(r.Evidence) == 0 {
		t.Error("no evidence was pulled in")
	}
	for _, f := range r.Facts {
		if strings.Contains(f.Request.Target, "/v1/") || strings.Contains(f.Target, "/v1/") {
			t.Errorf("%s asked for the reference platform's %s", f.ID, f.Request.Target)
		}
	}
}

// TestSecondDialectFaults: a fault is blamed as on the reference platform.
func TestSecondDialectFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do     func(t *testing.T, w *world)
		hop    diag.HopID
		signal diag.Signal
		code   string // the error's code, as mapped, in the blame's text
	}{
		"denied": {func(t *testing.T, w *world) {
			w.platform.SetIdentity(nodeID, "revoked")
		}, diag.HopNodeRecoveryStatus, diag.SigAuthFailed, "revoked"},
		"mint": {func(_ *testing.T, w *world) {
			dialect(w.platform.APIEdge, func(rw http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/ticket") {
					dialectError(rw, 500, "ticket_office_closed")
					return true
				}
				return false
			})
		}, diag.HopTerminalTokenMint, diag.SigTokenMintFailed, "ticket_office_closed"},
		"redis": {func(t *testing.T, w *world) { w.loseRedis(t) }, diag.HopBrowserTerminalWS, diag.SigUpgradeFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startDialect(t, name == "denied")
			tc.do(t, w)
			r := w.walk(t)
			b := r.Verdict.Blame
			if b == nil || b.Hop != tc.hop || b.Signal != tc.signal || !strings.Contains(b.Text, tc.code) {
				t.Errorf("\n%s", describe(r))
			}
		})
	}
}

// TestUnmappedDialect: without the mapping nothing of the second platform is understood, and no hop that needs it
// is green.
func TestUnmappedDialect(t *testing.T) {
	t.Parallel()
	w := startDialect(t, false)
	w.writeProfile(options{})
	r := w.walk(t)
	if r.Verdict.Outcome == diag.OutcomePass || resultOf(t, r, diag.HopAllocationBinding).Status == diag.StatusPass {
		t.Errorf("\n%s", describe(r))
	}
}

// TestNoPeek: if a platform's tasks cannot be read without claiming them, they are not read; no task is lost to a
// walk.
func TestNoPeek(t *testing.T) {
	t.Parallel()
	w := start(t, options{yaml: "mapping:\n  peek: false\n"})
	waits := 0
	w.platform.Ingress.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/tasks/wait") && r.Header.Get("X-GPUaaS-Probe") != "" {
			waits++
		}
		return false
	})
	r := w.walk(t)
	if r.Verdict.Outcome != diag.OutcomePass {
		t.Errorf("\n%s", describe(r))
	}
	h := resultOf(t, r, diag.HopNodeRecoveryStatus)
	for _, s := range h.Steps {
		if s.Name == "task_wait" && (s.Status != diag.StatusSkipped || !strings.Contains(s.Because, "mapping.peek: false")) {
			t.Errorf("task_wait is %s: %s", s.Status, s.Because)
		}
	}
	if strings.Contains(h.Text, "task wait answers") {
		t.Errorf("the hop claims what was not measured: %s", h.Text)
	}
	w.platform.Ingress.Intercept(nil)
	if waits > 0 {
		t.Errorf("the walk waited for a task %d times", waits)
	}
}
