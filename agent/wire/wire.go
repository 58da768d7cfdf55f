// Package wire defines the protocol between the node agent and the platform: paths, headers, message types,
// frames, and the signature on a task. Both sides use these types, so that they cannot drift apart within one
// build.
//
// The preflight does not use it, since it reads any platform through its profile's mapping. The package imports
// only the standard library. Unknown fields are ignored on the wire, so that a rolling update works.
package wire

import (
	"slices"
	"time"
)

// Longer than 300 lines: the types of one protocol, in the order in which a node uses them.

// Headers.
const (
	HeaderCorrelationID = "X-Correlation-Id"
	HeaderReplayFrom    = "X-GPUaaS-Replay-From"
	HeaderProbe         = "X-GPUaaS-Probe" // marks a preflight's own request, which changes no state
	// identifies the sending host, on every request of an agent: two hosts may share one identity
	HeaderNodeInstance = "X-GPUaaS-Node-Instance"

	// HeaderChallenge is the newest challenge that the sending agent holds. It proves more than the certificate,
	// which may be a copy: only one process got that response.
	HeaderChallenge = "X-GPUaaS-Challenge"

	// Set by the node ingress for the node API, which listens on loopback only. HeaderIngress is a secret that the
	// two share: it distinguishes the ingress from any other program on that machine, and without it the other
	// headers are not trusted.
	HeaderIngress      = "X-GPUaaS-Ingress"
	HeaderClientVerify = "X-SSL-Client-Verify" // SUCCESS, NONE or FAILED:reason, nginx's $ssl_client_verify
	HeaderClientCert   = "X-SSL-Client-Cert"   // URL-escaped PEM, nginx's $ssl_client_escaped_cert
)

// Node API paths; {node_id}, {task_id}, {session_id} are path-escaped.
const (
	PathHeartbeat    = "/internal/v1/nodes/{node_id}/heartbeat"
	PathTaskWait     = "/internal/v1/nodes/{node_id}/tasks/wait"
	PathTaskResult   = "/internal/v1/nodes/{node_id}/tasks/{task_id}/result"
	PathEvents       = "/internal/v1/nodes/{node_id}/events"
	PathEnroll       = "/internal/v1/enroll"
	PathNodeTerminal = "/internal/v1/terminal/{session_id}"
	PathHealth       = "/healthz"
)

// TerminalSubprotocol and BearerPrefix are the two subprotocols that a browser offers: the protocol and, after the
// prefix, its token.
const (
	TerminalSubprotocol = "gpuaas.terminal.v1"
	BearerPrefix        = "bearer."
)

// Task types.
const (
	TaskNoop         = "noop"         // payload NoopPayload
	TaskProbe        = "probe"        // payload: a list of diag.Request; result: a list of diag.Fact
	TaskStatusProbe  = "status.probe" // payload StatusProbePayload, result StatusProbeResult
	TaskTerminalOpen = "terminal.open"
	TaskSelfUpdate   = "node.self_update"
	TaskRotateToken  = "recovery_token.rotate"
	TaskCordon       = "node.cordon"
	TaskCleanup      = "allocation.cleanup" // payload CleanupPayload
)

// Task statuses.
const (
	TaskQueued     = "queued"
	TaskDispatched = "dispatched"
	TaskCompleted  = "completed"
	TaskFailed     = "failed"
	TaskExpired    = "expired"
)

// Typed denials: the error.code of a 401 or 403 on the node API.
const (
	DenyExpired         = "expired"
	DenyNotNodeBound    = "not_node_bound"
	DenyRevoked         = "revoked"
	DenyFenced          = "fenced"
	DenyRetired         = "retired"
	DenyCloned          = "cloned"
	DenyProfileMismatch = "profile_mismatch"
	DenyTokenExpired    = "token_expired"
	DenyTokenConsumed   = "token_consumed"
	// on a node stream: the certificate is valid, but the host is not the one that sends the heartbeats
	DenyUnproven = "source_unproven"
)

// Codes of terminal error frames and of session close reasons.
const (
	CodeNodeStreamTimeout = "node_stream_timeout"
	CodeUserMissing       = "user_missing"
	CodeShellMissing      = "user_shell_missing"
	CodeUserRefused       = "user_refused" // the login may not have a terminal: a system account, or locked or expired
	CodePTYFailed         = "pty_failed"
	CodePTYExited         = "pty_exited" // the shell exited before it was usable
	CodePTYSilent         = "pty_silent" // the shell runs but prints nothing
	CodeSessionNotFound   = "session_not_found"
	CodeSessionStore      = "session_store_unavailable" // Redis does not answer
	CodeNodeStreamMTLS    = "node_stream_mtls"
	CodeRateLimited       = "rate_limit_exceeded" // a limiter refused the request before it reached a server
	// CodeAgentStopping is the reason in the close frame of the node's stream, with the code 1001, and the error code of
	// a task that the agent did not finish because it was stopping. It is no failure of the terminal.
	CodeAgentStopping = "agent_stopping"
)

// Codes of a cleanup that did not complete, in addition to CodeUserMissing.
const (
	CodeSessionsLeft  = "sessions_left"  // terminal sessions of the allocation did not end in time
	CodeProcessesLeft = "processes_left" // the message names them, at most eight
	CodeUserProtected = "user_protected" // the login belongs to root, a system user or the agent
)

// Reasons for which a decision, rather than either side, ended a terminal session. They are the code of the error
// frame and of the refused attach, the close reason, and the text of the evidence.
const (
	EndAllocationReleased = "allocation_released" // the allocation is no longer active
	EndNodeFenced         = "node_fenced"
	EndNodeRevoked        = "node_revoked"
	EndNodeRetired        = "node_retired"
	EndNodeCloned         = "node_cloned"
	EndIdentityReplaced   = "node_identity_replaced" // an operator requested a new identity for the node
	EndSessionLimit       = "session_time_limit"     // it reached the time limit of a session
	EndSessionIdle        = "session_idle_limit"     // no data in either direction for too long
)

// Who ended a terminal session, in the session's record and in its evidence.
const (
	ByBrowser  = "browser"
	ByNode     = "node"
	ByGateway  = "gateway"
	ByDecision = "decision" // one of End*
)

// CloseBroken is the WebSocket code of a connection that ended without a close frame. No side ever sends it.
const CloseBroken = 1006

// EndOfIdentity returns why a node's sessions end when its identity is denied with one of the codes of Deny*.
func EndOfIdentity(denial string) string { return "node_" + denial }

// Decided reports whether a reason is one of End*: a decision and not a failure.
func Decided(reason string) bool {
	return slices.Contains([]string{EndAllocationReleased, EndNodeFenced, EndNodeRevoked, EndNodeRetired, EndNodeCloned,
		EndIdentityReplaced, EndSessionLimit, EndSessionIdle}, reason)
}

// ErrorBody is the envelope of every error response.
type ErrorBody struct {
	Error ErrorInfo `json:"error"`
}

// ErrorInfo holds a machine-readable code, a sentence, and the request's correlation id.
type ErrorInfo struct {
	Code          string `json:"code"`
	Message       string `json:"message"`
	CorrelationID string `json:"correlation_id"`
	RetryAfterS   *int64 `json:"retry_after_s,omitempty"`
}

// HeartbeatRequest is a node's report about itself.
type HeartbeatRequest struct {
	NodeInstanceID string            `json:"node_instance_id"`
	BootID         string            `json:"boot_id"`
	AgentVersion   string            `json:"agent_version"`
	APIURL         string            `json:"api_url"`
	TerminalURL    string            `json:"terminal_url"`
	CertSerial     string            `json:"cert_serial"`
	Generation     int64             `json:"generation"`
	Hostname       string            `json:"hostname"`
	Addresses      []string          `json:"addresses,omitempty"`
	At             time.Time         `json:"at"`
	Counters       map[string]int64  `json:"counters,omitempty"`
	Record         map[string]string `json:"record,omitempty"`  // summary of the diagnostic record
	Posture        string            `json:"posture,omitempty"` // serving | recovering | stopped | quarantined
	// sha256 of the issuing CA if the node knows it, lower-case hex
	CertIssuer string      `json:"cert_issuer,omitempty"`
	Profile    string      `json:"environment_profile,omitempty"`
	Boot       *BootReport `json:"boot,omitempty"` // sent until one was answered, and during a rollout

	// Challenge is the challenge of the newest response that this process got; "" if it has none yet. It is kept in
	// memory only: a new process has none.
	Challenge string `json:"challenge,omitempty"`
}

// HeartbeatResponse is the platform's response to a heartbeat.
type HeartbeatResponse struct {
	Time time.Time `json:"time"`
	// the build that the platform now attributes to this node, taken from the boot report
	Running   *Build     `json:"running,omitempty"`
	Snapshots []Snapshot `json:"snapshots,omitempty"`

	Challenge string `json:"challenge,omitempty"` // 128 random bits for the next heartbeat to echo
	// send the next heartbeat at once: another process acted as this node, or no process has proved itself
	EchoNow bool `json:"echo_now,omitempty"`
}

// Task is one piece of work for a node, signed by the platform. The signature covers SigningBytes.
type Task struct {
	ID            string    `json:"id"`
	NodeID        string    `json:"node_id"`
	Type          string    `json:"type"`
	Payload       []byte    `json:"payload,omitempty"` // JSON text, base64 on the wire so that the signed bytes survive
	CorrelationID string    `json:"correlation_id"`
	QueuedAt      time.Time `json:"queued_at"`
	ExpiresAt     time.Time `json:"expires_at"`
	KeyID         string    `json:"key_id"`
	Signature     []byte    `json:"signature"`
}

// TaskBatch is the response to a task wait: a task, and further ones for a node that asks for several
// (QueryTasks).
type TaskBatch struct {
	Task
	More []Task `json:"more,omitempty"`
}

// QueryTasks is the query parameter of a task wait with the number of tasks that the node can take at once; one if
// absent.
const QueryTasks = "tasks"

// MaxTasks bounds the tasks in one response.
const MaxTasks = 16

// TaskResult is a node's report of a task. Posting it twice is accepted and has no further effect.
type TaskResult struct {
	Status     string     `json:"status"` // completed | failed
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt time.Time  `json:"finished_at"`
	Error      *ErrorInfo `json:"error,omitempty"`
	Output     []byte     `json:"output,omitempty"` // JSON text
}

// NoopPayload asks the agent to wait before it completes the task.
type NoopPayload struct {
	HoldMS int64 `json:"hold_ms,omitempty"`
}

// TerminalOpenPayload asks the agent for a node stream and a PTY.
type TerminalOpenPayload struct {
	SessionID    string `json:"session_id"`
	AllocationID string `json:"allocation_id"`
	OSUser       string `json:"os_user"`
	Cols         uint16 `json:"cols"`
	Rows         uint16 `json:"rows"`
	MaxSeconds   int64  `json:"max_seconds,omitempty"` // time limit of the session; 0: the node sets none
}

// TerminalOpenResult lists the limits of the session that was opened. An older agent returns none.
type TerminalOpenResult struct {
	Unit        string   `json:"unit,omitempty"`         // the session's own unit
	Unconfined  string   `json:"unconfined,omitempty"`   // why it has no unit and runs in the agent's cgroup
	NotEnforced []string `json:"not_enforced,omitempty"` // limits of the unit that the host cannot enforce
}

// RotateTokenPayload carries a node's next recovery token. It exists only in the response that hands out the task.
type RotateTokenPayload struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// CleanupPayload asks the agent to end everything that a released allocation runs: its terminal sessions, its
// workload, and every process of its login.
type CleanupPayload struct {
	AllocationID string `json:"allocation_id"`
	OSUser       string `json:"os_user"` // empty: the allocation has no login
	Unit         string `json:"unit,omitempty"`
	// KeepProcesses keeps the login's processes, since another allocation on the node uses the same login.
	KeepProcesses bool `json:"keep_processes,omitempty"`
}

// CleanupResult lists what a completed cleanup ended. None of it is left.
type CleanupResult struct {
	State     string `json:"state,omitempty"` // of the unit, systemd's active state
	Sessions  int    `json:"sessions"`        // terminal sessions of the allocation
	Processes int    `json:"processes"`       // of the login
}

// StatusProbePayload names the workload to probe.
type StatusProbePayload struct {
	Unit string `json:"unit"`
	Port int    `json:"port,omitempty"`
}

// StatusProbeResult is the observed state of a workload.
type StatusProbeResult struct {
	Running bool   `json:"running"`
	State   string `json:"state"` // systemd's active state
	PortOK  *bool  `json:"port_ok,omitempty"`
}

// EnrollRequest asks for a certificate with a node-bound token (sent as Authorization: Bearer, never in the body).
type EnrollRequest struct {
	NodeID         string `json:"node_id"`
	NodeInstanceID string `json:"node_instance_id"`
	CSR            string `json:"csr"`                           // PEM
	Profile        string `json:"environment_profile,omitempty"` // the node's active profile, if it knows it
}

// EnrollResponse carries the certificate, the trust bundle and the endpoints together, since they drift together.
type EnrollResponse struct {
	Certificate string    `json:"certificate"` // PEM chain, leaf first
	CABundle    string    `json:"ca_bundle"`   // PEM
	APIURL      string    `json:"api_url"`
	TerminalURL string    `json:"terminal_url"`
	Generation  int64     `json:"generation"`
	NotAfter    time.Time `json:"not_after"`
	Profile     string    `json:"environment_profile,omitempty"`
}

// Bundle is an audited recovery bundle. Token, endpoints and trust drift together, so one document replaces all of
// them. An operator takes it to the node and pipes it to `gpuaas-agent bundle apply`.
type Bundle struct {
	NodeID      string    `json:"node_id"`
	Token       string    `json:"token"`
	ExpiresAt   time.Time `json:"expires_at"`
	Profile     string    `json:"environment_profile"`
	APIURL      string    `json:"api_url"`
	TerminalURL string    `json:"terminal_url"`
	RecoveryURL string    `json:"recovery_api_url,omitempty"`
	CABundle    string    `json:"ca_bundle"`                    // PEM
	RecoveryCA  string    `json:"recovery_ca_bundle,omitempty"` // PEM
	TaskKeys    string    `json:"task_signing_pubkeys"`
	// of its creation: the agent records it, so that both sides report the same id
	CorrelationID string    `json:"correlation_id"`
	Now           time.Time `json:"now"`
}

// Frame is a text frame of a terminal, on both legs. Binary frames hold the PTY's bytes.
type Frame struct {
	Type          string `json:"type"` // ready | error | exit | resize
	Code          string `json:"code,omitempty"`
	Message       string `json:"message,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	Cols          uint16 `json:"cols,omitempty"`
	Rows          uint16 `json:"rows,omitempty"`
	ExitCode      *int   `json:"exit_code,omitempty"`
}

// Event is one numbered report of a node; (node, instance, seq) identifies it.
type Event struct {
	Seq           uint64    `json:"seq"`
	At            time.Time `json:"at"`
	Kind          string    `json:"kind"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	Detail        []byte    `json:"detail,omitempty"` // JSON text
}

// Limits of one request with events. An agent's outbox observes them; the platform refuses a request that exceeds
// them.
const (
	MaxEvents      = 64
	MaxEventKind   = 128     // bytes, of kind and of correlation id
	MaxEventDetail = 4 << 10 // bytes
)

// Limits of sequence numbers. An agent believes a platform up to half of MaxSeq, so that a wrong number leaves it as
// many again.
const (
	MaxSeq = 1 << 52
	// MaxJump bounds how many events one request can report as lost. An outbox that is full takes no events that it
	// could lose in such numbers.
	MaxJump = 1 << 20
)

// EventsRequest delivers events in order.
type EventsRequest struct {
	NodeInstanceID string  `json:"node_instance_id"`
	Events         []Event `json:"events"`
	// events between the watermark and this seq are lost on the node
	Oldest uint64 `json:"oldest,omitempty"`
}

// EventsResponse carries the watermark: the highest seq that is stored durably without a gap.
type EventsResponse struct {
	Watermark uint64 `json:"watermark"`
}
