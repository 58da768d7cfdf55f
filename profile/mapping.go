package profile

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// Longer than 300 lines: the rows of the platform's contract, with what reads them.

// Absent as the value of a path or field means that this platform does not have it.
const Absent = diag.Absent

// Platform paths that a hop may request. The first fourteen are served by the API base, the next two by the terminal
// base, the last two by the node-facing listeners.
const (
	PathHealthz         = "healthz"
	PathAllocation      = "allocation"
	PathRelease         = "allocation_release"
	PathNode            = "node"
	PathNodeTasks       = "node_tasks"
	PathNodeProvider    = "node_provider"
	PathNodeGPU         = "node_gpu"
	PathTask            = "task"
	PathTrust           = "trust"
	PathNodeReenroll    = "node_reenroll"
	PathEvidence        = "evidence"
	PathNodeEvidence    = "node_evidence"
	PathSessionEvidence = "session_evidence"
	PathTerminalToken   = "terminal_token"
	PathTerminalSession = "terminal_session"
	PathTerminalWS      = "terminal_ws"
	PathTerminalHealthz = "terminal_healthz"
	PathTaskWait        = "task_wait"
	PathNodeTerminal    = "node_terminal"
)

// pathRow is one path as on the reference platform, with the placeholders that a template may use.
type pathRow struct {
	name, template string
	vars           []string
}

var pathRows = [...]pathRow{
	{PathHealthz, "/healthz", nil},
	{PathAllocation, "/v1/allocations/{allocation_id}", []string{"allocation_id"}},
	// requested only by drills
	{PathRelease, "/v1/allocations/{allocation_id}/release", []string{"allocation_id", "node_id"}},
	{PathNode, "/v1/admin/nodes/{node_id}", []string{"node_id"}},
	{PathNodeTasks, "/v1/admin/nodes/{node_id}/tasks", []string{"node_id"}},
	{PathNodeProvider, "/v1/admin/nodes/{node_id}/provider", []string{"node_id"}}, // requested only by drills
	{PathNodeGPU, "/v1/admin/nodes/{node_id}/gpu", []string{"node_id"}},
	{PathTask, "/v1/admin/tasks/{task_id}", []string{"task_id", "node_id"}},
	{PathTrust, "/v1/admin/trust", nil},
	// the request is a POST, which issues a bundle
	{PathNodeReenroll, "/v1/admin/nodes/{node_id}/reenroll", []string{"node_id"}},
	{PathEvidence, "/v1/admin/evidence?correlation_id={correlation_id}", []string{"correlation_id", "node_id"}},
	{PathNodeEvidence, "/v1/admin/evidence?node_id={node_id}&since={since}", []string{"node_id", "since"}},
	{PathSessionEvidence, "/v1/admin/evidence?session_id={session_id}", []string{"session_id", "node_id"}},
	{PathTerminalToken, "/v1/allocations/{allocation_id}/terminal-token", []string{"allocation_id", "node_id"}},
	{PathTerminalSession, "/v1/admin/terminal/sessions/{session_id}", []string{"session_id", "allocation_id", "node_id"}},
	{PathTerminalWS, "/v1/terminal/{session_id}", []string{"session_id", "allocation_id"}},
	{PathTerminalHealthz, "/healthz", nil},
	// peek claims nothing; a wait of 0 is answered at once.
	{PathTaskWait, "/internal/v1/nodes/{node_id}/tasks/wait?timeout=0&peek=1", []string{"node_id"}},
	{PathNodeTerminal, "/internal/v1/terminal/{session_id}", []string{"session_id", "node_id"}},
}

// fieldRow is one field of an answer, and its gjson path on the reference platform.
type fieldRow struct{ name, path string }

var fieldRows = [...]fieldRow{
	{"allocation.id", "id"},
	{"allocation.state", "state"},
	{"allocation.occupancy", "occupancy"},
	{"allocation.node_id", "node_id"},
	{"allocation.os_user", "os_user"},
	{"allocation.workflow_id", "workflow_id"},
	{"allocation.app_kind", "app.kind"},
	{"allocation.app_status", "app.status"},
	{"allocation.app_unit", "app.unit"},
	{"allocation.app_port", "app.port"},
	{"allocation.app_endpoint", "app.endpoint"},
	{"allocation.app_product_url", "app.product_url"},
	{"allocation.app_last_observed_at", "app.last_observed_at"},
	{"allocation.app_last_runtime_probe_failed_at", "app.last_runtime_probe_failed_at"},
	{"allocation.app_credential_healthy", "app.credential.healthy"},
	{"allocation.app_websocket", "app.websocket"}, // a path under the product URL, or true

	{"node.id", "id"},
	{"node.now", "now"},
	{"node.status", "status"},
	{"node.health", "health"},
	{"node.hostname", "hostname"},
	{"node.private_ip", "private_ip"},
	{"node.instance_id", "node_instance_id"},
	{"node.provider_class", "provider.class"},
	{"node.guest_agent_status", "provider.guest_agent.status"},
	{"node.environment_profile", "environment_profile"},
	{"node.agent_version", "agent.version"},
	{"node.last_seen_at", "agent.last_seen_at"},
	{"node.last_heartbeat_at", "agent.last_heartbeat_at"}, // of an accepted heartbeat, not of any other request
	{"node.agent_api_url", "agent.api_url"},
	{"node.agent_terminal_url", "agent.terminal_url"},
	{"node.cert_serial", "cert.serial"},
	{"node.cert_issuer_fingerprint", "cert.issuer_fingerprint"},
	{"node.cert_not_after", "cert.not_after"},
	{"node.cert_generation", "cert.generation"},
	{"node.recovery_reason", "recovery.reason"},
	{"node.recovery_state", "recovery.state"},
	{"node.recovery_updated_at", "recovery.updated_at"},
	{"node.identity", "identity"},
	{"node.boot_id", "agent.boot_id"},
	{"node.agent_posture", "agent.posture"},
	{"node.agent_desired_version", "agent.desired_version"},
	{"node.agent_addresses", "agent.addresses"}, // a JSON list
	{"node.record_state", "agent.record.state"},
	{"node.record_last_reason", "agent.record.last_reason"},
	{"node.recovery_current_token", "recovery.current_token"},
	{"node.last_denial_code", "recovery.last_denial.code"},
	{"node.last_denial_at", "recovery.last_denial.at"},
	{"node.check_heartbeat", `recovery.checklist.#(id=="heartbeat_current").status`}, // pass | fail | unknown
	{"node.check_issuer", `recovery.checklist.#(id=="cert_issuer_trusted_by_ingress").status`},
	{"node.check_task_wait", `recovery.checklist.#(id=="task_wait_succeeds").status`},
	{"node.check_task", `recovery.checklist.#(id=="task_completes").status`},
	{"node.check_backlog", `recovery.checklist.#(id=="no_expired_tasks_current").status`},
	{"node.lost_results", "lost_results"},
	{"node.terminal_readiness", "terminal_readiness"},
	{"node.stale_tasks", "stale_tasks"},
	{"node.latest_operation_id", "latest_operation.id"},
	{"node.latest_operation_type", "latest_operation.type"},
	{"node.latest_operation_status", "latest_operation.status"},
	{"node.latest_operation_expires_at", "latest_operation.expires_at"},

	{"gpu.health", "health"}, // HEALTHY | DEGRADED | UNHEALTHY | UNKNOWN, by the policy
	{"gpu.node", "node"},     // the id of the node that it is about
	{"gpu.node_status", "status"},
	{"gpu.node_before", "before"},
	{"gpu.policy", "policy.name"},
	{"gpu.policy_sha256", "policy.sha256"},
	{"gpu.policy_refused", "policy.refused"}, // a JSON list of texts
	{"gpu.mode", "policy.mode"},              // enforce | shadow: nothing acts on it
	{"gpu.xid_tables", "xid_tables"},
	{"gpu.decided_about", "decided_by.subject.about"}, // event | gpu | node
	{"gpu.decided_what", "decided_by.subject.what"},   // as text: "xid 79", "GPU 3"
	{"gpu.decided_index", "decided_by.subject.index"},
	{"gpu.decided_uuid", "decided_by.subject.uuid"},
	{"gpu.decided_pci", "decided_by.subject.pci"},
	{"gpu.decided_rule", "decided_by.rule"},
	{"gpu.decided_why", "decided_by.why"},
	{"gpu.gpus", "gpus"},    // a JSON list of {index, uuid, pci, health, rule, why}
	{"gpu.count", "gpus.#"}, // how many it has
	{"gpu.expected", "gpus_expected"},
	{"gpu.findings", "findings"}, // a JSON list of {subject, health, rule, why}, the worst first
	{"gpu.notes", "notes"},       // a JSON list of texts
	{"gpu.past", "past"},         // as gpu.findings: errors that are over
	{"gpu.sampled_at", "sampled_at"},
	{"gpu.judged_at", "judged_at"},
	{"gpu.now", "now"},

	{"task.id", "id"},
	{"task.status", "status"},
	{"task.queued_at", "queued_at"},
	{"task.claimed_at", "claimed_at"},
	{"task.completed_at", "completed_at"},
	{"task.expires_at", "expires_at"},
	{"task.error_code", "result.error.code"},

	{"token.token", "token"},
	{"token.session_id", "session_id"},
	{"token.url", "url"},
	{"token.expires_at", "expires_at"},

	{"session.browser_connected_at", "browser_connected_at"},
	{"session.node_stream_connected_at", "node_stream_connected_at"},
	{"session.pty_ready_at", "pty_ready_at"},
	{"session.closed_at", "closed_at"},
	{"session.close_reason", "close_reason"},
	{"session.closed_by", "closed_by"},       // browser | node | gateway | decision
	{"session.close_code", "close_code"},     // 1006: the connection of that side broke without a close frame
	{"session.close_detail", "close_detail"}, // reported by that side, or how its connection broke
	{"session.node_answers", "node_answers"}, // yes | no: the node's answer to the gateway's last ping
	{"session.task_id", "task.id"},           // task id of its terminal.open
	{"session.task_status", "task.status"},
	{"session.task_queued_at", "task.queued_at"},
	{"session.task_claimed_at", "task.claimed_at"},
	{"session.task_completed_at", "task.completed_at"},
	{"session.task_error_code", "task.result.error.code"},

	{"trust.signing_ca", "signing_ca"},
	{"trust.ingress_ca", "ingress_ca"},
	{"trust.ingress_trusts_signing_ca", "ingress_trusts_signing_ca"},
	{"trust.node_api_server", "node_api_server"},
	{"trust.terminal_server", "terminal_server"},

	{"evidence.items", "items"},
	{"evidence.truncated", "truncated"}, // the platform has older evidence than the answer

	{"app.header_names", "header_names"}, // from the workload's own answer: a JSON list of names, never values

	{"error.code", "error.code"},
	{"error.message", "error.message"},
}

// DefaultMapping returns the mapping of the reference platform, in new maps.
func DefaultMapping() Mapping {
	m := Mapping{Paths: map[string]string{}, Fields: map[string]string{}, Peek: new(bool), Record: new(bool)}
	*m.Peek, *m.Record = true, true
	for _, r := range pathRows {
		m.Paths[r.name] = r.template
	}
	for _, r := range fieldRows {
		m.Fields[r.name] = r.path
	}
	return m
}

// Path returns the named path with its placeholders filled in, path segments and query values escaped. It returns ""
// for an unknown name, and for one that this platform does not have (mapped to "-"). A value of the form ${NAME} is
// kept for the node's probe to expand. Variables that vars lacks become empty.
func (m Mapping) Path(name string, vars map[string]string) string {
	template := m.template(name)
	if template == Absent {
		return ""
	}
	path, query, hasQuery := strings.Cut(template, "?")
	path = expand(path, vars, url.PathEscape)
	if hasQuery {
		path += "?" + expand(query, vars, url.QueryEscape)
	}
	return path
}

// Lacks reports whether this platform does not have the named path.
func (m Mapping) Lacks(name string) bool { return m.template(name) == Absent }

// template returns the named path as mapped, else the reference platform's. A platform without evidence gets no other
// default path for it, and one with its own path for nodes no default path for GPUs.
func (m Mapping) template(name string) string {
	if t, ok := m.Paths[name]; ok {
		return t
	}
	if (name == PathNodeEvidence || name == PathSessionEvidence) && m.Paths[PathEvidence] == Absent {
		return Absent
	}
	if name == PathNodeGPU && m.template(PathNode) != defaultPath(PathNode) {
		return Absent
	}
	return defaultPath(name)
}

// Field returns the gjson path of the named field; "" if it is unknown, or this platform does not have it.
func (m Mapping) Field(name string) string {
	path, ok := m.Fields[name]
	if !ok {
		path = defaultField(name)
	}
	if path == Absent {
		return ""
	}
	return path
}

// guesses reports whether nothing but the reference platform's default is known of the named path.
func (m Mapping) guesses(name string) bool {
	_, set := m.Paths[name]
	return !set && m.template(name) != Absent
}

// GuessedPaths returns the names of the paths that a profile with defaults has only by default, where it does not say
// that it describes the reference platform: an answer there that there is no such page shows nothing.
func (p Profile) GuessedPaths() []string { return slices.Sorted(slices.Values(p.Mapping.guessed)) }

// Made reports whether the path of a URL, without its query, is made from the named path.
func (m Mapping) Made(name, path string) bool {
	template, _, _ := strings.Cut(m.template(name), "?")
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if placeholder := strings.HasPrefix(want[i], "{"); want[i] != have[i] && (!placeholder || have[i] == "") {
			return false
		}
	}
	return true
}

// Extract returns the named fields' gjson paths by name, as for diag.Request.Extract, without those that this platform
// does not have.
func (m Mapping) Extract(names ...string) map[string]string {
	out := make(map[string]string, len(names))
	for _, n := range names {
		if p := m.Field(n); p != "" {
			out[n] = p
		}
	}
	return out
}

// KeepsRecord reports whether this platform's agents keep a diagnostic record.
func (m Mapping) KeepsRecord() bool { return m.Record == nil || *m.Record }

// CanPeek reports whether the platform supports a task wait that claims nothing.
func (m Mapping) CanPeek() bool { return m.Peek == nil || *m.Peek }

// withDefaults returns every path and field, as mapped or else as on the reference platform. A platform of another kind
// has only the paths that are mapped.
func (m Mapping) withDefaults(kind string) Mapping {
	d := DefaultMapping()
	maps.Copy(d.Paths, m.Paths)
	d.guessed = m.guessed
	for _, r := range pathRows {
		if _, set := m.Paths[r.name]; !set && kind != "" && kind != KindGPUaaS {
			d.Paths[r.name] = Absent
			continue
		}
		if d.Paths[r.name] = m.template(r.name); kind == "" && m.guesses(r.name) {
			d.guessed = append(d.guessed, r.name)
		}
	}
	maps.Copy(d.Fields, m.Fields)
	*d.Peek, *d.Record = m.CanPeek(), m.KeepsRecord()
	return d
}

// expand replaces each {name} by its escaped value.
func expand(template string, vars map[string]string, escape func(string) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString("{" + rest)
			return b.String()
		}
		value := vars[name]
		if !deferred(value) {
			value = escape(value)
		}
		b.WriteString(value)
		template = after
	}
}

// deferred reports whether v is a ${NAME} that the probe expands on the node.
func deferred(v string) bool {
	return strings.HasPrefix(v, "${") && strings.HasSuffix(v, "}") && !strings.ContainsAny(v[2:len(v)-1], "${}/?&")
}

// checkPath returns the error of one entry of a profile's mapping.paths.
func checkPath(name, template string) error {
	i := slices.IndexFunc(pathRows[:], func(r pathRow) bool { return r.name == name })
	if i < 0 {
		return fmt.Errorf("unknown path %q in mapping%s", name, strictyaml.Nearest(name, pathNames()))
	}
	if template == Absent {
		return nil
	}
	if !strings.HasPrefix(template, "/") {
		return fmt.Errorf("path %s must begin with / (or be %q where this platform has none), not %q", name, Absent, template)
	}
	for rest := template; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			return nil
		}
		v, tail, closed := strings.Cut(after, "}")
		if !closed {
			return fmt.Errorf("path %s has a { without its }: %q", name, template)
		}
		if !slices.Contains(pathRows[i].vars, v) {
			return fmt.Errorf("path %s cannot use {%s}; it has %s", name, v, placeholders(pathRows[i].vars))
		}
		rest = tail
	}
}

// checkField returns the error of one entry of a profile's mapping.fields.
func checkField(name, path string) error {
	if defaultField(name) == "" {
		return fmt.Errorf("unknown field %q in mapping%s", name, strictyaml.Nearest(name, fieldNames()))
	}
	if path == "" {
		return fmt.Errorf("field %s is empty; use %q where this platform has no such field", name, Absent)
	}
	if onNodes(name) && !plainPath().MatchString(path) {
		return fmt.Errorf("field %s is looked up on nodes as well, where a path is names and indices joined by dots, not %q",
			name, path)
	}
	return nil
}

// onNodes reports whether nodes extract the field. They only extract errors: other answers to an agent's requests are
// not parsed.
func onNodes(name string) bool { return name == "error.code" || name == "error.message" }

// plainPath matches the gjson paths that the probe on a node supports, and Absent.
var plainPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w-]+(\.[\w-]+)*$`) })

func placeholders(vars []string) string {
	if len(vars) == 0 {
		return "no placeholder"
	}
	return "{" + strings.Join(vars, "}, {") + "}"
}

func defaultPath(name string) string {
	for _, r := range pathRows {
		if r.name == name {
			return r.template
		}
	}
	return Absent
}

func defaultField(name string) string {
	for _, r := range fieldRows {
		if r.name == name {
			return r.path
		}
	}
	return ""
}

func pathNames() []string {
	names := make([]string, len(pathRows))
	for i, r := range pathRows {
		names[i] = r.name
	}
	return names
}

func fieldNames() []string {
	names := make([]string, len(fieldRows))
	for i, r := range fieldRows {
		names[i] = r.name
	}
	return names
}
