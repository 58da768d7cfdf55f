package store

import (
	"context"
	"slices"
	"time"
)

// Kinds of evidence.
const (
	TaskQueued       = "task.queued"
	TaskDispatched   = "task.dispatched"
	TaskRequeued     = "task.requeued" // claimed, but the response could not be delivered
	TaskCompleted    = "task.completed"
	TaskFailed       = "task.failed"
	TaskExpired      = "task.expired"
	TaskResultLate   = "task.result_late" // the result of an expired task
	NodeEnrolled     = "node.enrolled"
	NodeEnrollDenied = "node.enroll_denied"
	NodeDenied       = "node.denied"
	// another instance, boot, version, endpoint or certificate than before
	NodeHeartbeatChange = "node.heartbeat_changed"
	NodeReenroll        = "node.reenroll_issued"
	NodeEvent           = "node.event"
	TokenMinted         = "terminal.token_minted"
	MintRefused         = "terminal.mint_refused"
	BrowserConnected    = "terminal.browser_connected"
	BrowserRejected     = "terminal.browser_rejected"
	StreamConnected     = "terminal.node_stream_connected"
	StreamRejected      = "terminal.node_stream_rejected"
	// a preflight's own upgrade, which is always refused: no tenant's terminal failed
	StreamProbed       = "terminal.node_stream_probed"
	PTYReady           = "terminal.pty_ready"
	TerminalError      = "terminal.error"
	TerminalClosed     = "terminal.closed"
	HandshakeFailed    = "tls.handshake_failed"
	AllocationReleased = "allocation.force_released"
	TrustMismatch      = "platform.trust_mismatch"
	TrustRestored      = "platform.trust_restored"
	TaskReclaimed      = "task.reclaimed"         // handed out, no result within its lease, and safe to repeat
	TasksSwept         = "node.stale_tasks_swept" // by a sweep that found overdue operations
	OperationFailed    = "operation.failed"       // a desired state that was not reached in time
	NodeCloned         = "node.clone_detected"    // both sources in the detail
	// a request under the node's certificate from another host than the heartbeats'
	NodeSource = "node.source_differs"
	// returned to the queue: the caller is not the proven host
	TaskWithheld = "task.withheld"
	// a result or events under its certificate that do not come from the proven host
	NodeWordRefused    = "node.word_refused"
	NodeHostReused     = "node.host_reused"             // a host that was another node before
	NodeProvider       = "node.provider_status_changed" // the provider's status of the machine's guest agent
	NodeIdentity       = "node.identity_changed"        // by an operator: fence, reactivate, revoke, retire
	NodeRecovery       = "node.recovery_changed"        // its operator reason
	AllocationRecovery = "allocation.recovery_changed"  // what one tenant reads of it
	AllocationState    = "allocation.state_changed"
	CredentialReported = "allocation.credential_reported"
	TokenIssued        = "node.recovery_token_issued"    // handed out in a rotation
	TokenWithdrawn     = "node.recovery_token_withdrawn" // the node did not take it
	TokenRotated       = "node.recovery_token_rotated"
)

// Evidence is one recorded event. Detail holds words and numbers for people, never a secret. If the recorder
// leaves InstanceID and WorkflowID empty, they get the current values of the node and the allocation, so that a
// node's history across a reimage shows which host it was.
type Evidence struct {
	At            time.Time
	Kind          string
	CorrelationID string
	NodeID        string
	InstanceID    string
	WorkflowID    string
	AllocationID  string
	SessionID     string
	TaskID        string
	Detail        map[string]any
}

// Record stores e.
func (s *Store) Record(ctx context.Context, e Evidence) error { return record(ctx, s.db, e) }

func record(ctx context.Context, q querier, e Evidence) error {
	return exec(ctx, q,
		`INSERT INTO evidence (at, kind, correlation_id, node_id, allocation_id, session_id, task_id, detail, instance_id, workflow_id)
		VALUES (?1,?2,?3,?4,?5,?6,?7,?8,
			CASE WHEN ?9 != '' THEN ?9 ELSE COALESCE((SELECT instance_id FROM nodes WHERE id = ?4), '') END,
			CASE WHEN ?10 != '' THEN ?10 ELSE COALESCE((SELECT workflow_id FROM allocations WHERE id = ?5), '') END)`,
		ms(e.At), e.Kind, e.CorrelationID, e.NodeID, e.AllocationID, e.SessionID, e.TaskID, jsonText{e.Detail}, e.InstanceID,
		e.WorkflowID)
}

// evidenceLimit bounds one response; a correlation id belongs to one walk or one request, with far less evidence.
const evidenceLimit = 1000

const evidenceColumns = "SELECT at, kind, correlation_id, node_id, allocation_id, session_id, task_id, detail, " +
	"instance_id, workflow_id FROM evidence "

const newestFirst = " ORDER BY at DESC, id DESC LIMIT ?"

// EvidenceBy returns the evidence of a correlation id or, if that is "", of a session id: the newest evidenceLimit
// rows, oldest first. A caller chooses its correlation id, and may reuse it.
func (s *Store) EvidenceBy(ctx context.Context, correlationID, sessionID string) ([]Evidence, error) {
	query, id := evidenceColumns+"WHERE correlation_id = ?"+newestFirst, correlationID
	if id == "" {
		query, id = evidenceColumns+"WHERE session_id = ?"+newestFirst, sessionID
	}
	rows, err := all(ctx, s.db, evidenceFields, query, id, evidenceLimit)
	slices.Reverse(rows)
	return rows, err
}

// EvidenceOf returns the evidence of a node or, if that is "", of an allocation, since the given time: the newest
// n rows, oldest first.
func (s *Store) EvidenceOf(ctx context.Context, nodeID, allocationID string, since time.Time,
	n int) ([]Evidence, error) {
	query, id := evidenceColumns+"WHERE node_id = ? AND at >= ?"+newestFirst, nodeID
	if id == "" {
		query, id = evidenceColumns+"WHERE allocation_id = ? AND at >= ?"+newestFirst, allocationID
	}
	rows, err := all(ctx, s.db, evidenceFields, query, id, ms(since), n)
	slices.Reverse(rows)
	return rows, err
}

// Recent returns the newest n of a kind, newest first.
func (s *Store) Recent(ctx context.Context, kind string, n int) ([]Evidence, error) {
	return all(ctx, s.db, evidenceFields, evidenceColumns+"WHERE kind = ?"+newestFirst, kind, n)
}

func evidenceFields(e *Evidence) []any {
	return []any{moment{&e.At}, &e.Kind, &e.CorrelationID, &e.NodeID, &e.AllocationID, &e.SessionID, &e.TaskID,
		jsonText{&e.Detail}, &e.InstanceID, &e.WorkflowID}
}
