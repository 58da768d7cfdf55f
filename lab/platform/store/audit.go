package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// Phases of an audit row. A decision is one row; a lasting failure has a first row, a summary for every further
// window, and a recovery, or AuditQuiet.
const (
	AuditDecision = "decision"
	AuditFirst    = "first"
	AuditSummary  = "summary"
	AuditRecovery = "recovery"
)

// AuditKey identifies a failure: occurrences with equal keys are the same failure.
type AuditKey struct {
	ActorType     string // operator, node, app or platform
	ActorID       string
	AppInstanceID string // an allocation
	CredentialID  string // a name or a serial, never a credential
	Action        string
	Reason        string
}

// Hash is the key's name in logs.
func (k AuditKey) Hash() string {
	return Digest(strings.Join([]string{k.ActorType, k.ActorID, k.AppInstanceID, k.CredentialID, k.Action, k.Reason},
		"\x00"))[:16]
}

// Audit is one immutable row or, with an empty Phase, a repetition without a row.
type Audit struct {
	AuditKey

	ID            int64
	At            time.Time
	Phase         string
	NodeID        string
	CorrelationID string
	Remote        string
	FirstSeenAt   time.Time
	LastSeenAt    time.Time
	Count         int64
}

// Failed counts one more occurrence of a failure at a.At. It writes a first row, or a summary if the last row is
// older than the window; other repetitions are only counted.
func (s *Store) Failed(ctx context.Context, a Audit, window time.Duration) (Audit, error) {
	return inTx(ctx, s, func(tx *sql.Tx) (Audit, error) { return failed(ctx, tx, a, window) })
}

func failed(ctx context.Context, q querier, a Audit, window time.Duration) (Audit, error) {
	hash := a.Hash()
	var rowAt time.Time
	err := q.QueryRowContext(ctx, "SELECT first_seen_at, count, row_at FROM audit_open WHERE key_hash = ?", hash).
		Scan(moment{&a.FirstSeenAt}, &a.Count, moment{&rowAt})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		a.Phase, a.FirstSeenAt, rowAt = AuditFirst, a.At, a.At
	case err != nil:
		return a, err
	case a.At.Sub(rowAt) >= window:
		a.Phase, rowAt = AuditSummary, a.At
	default:
		a.Phase = ""
	}
	a.LastSeenAt, a.Count = a.At, a.Count+1
	_, err = q.ExecContext(ctx,
		`INSERT INTO audit_open (key_hash, actor_type, actor_id, app_instance_id, credential_id, action, reason, node_id,
		first_seen_at, last_seen_at, count, row_at) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)
		ON CONFLICT (key_hash) DO UPDATE SET last_seen_at = ?10, count = ?11, row_at = ?12`, hash, a.ActorType, a.ActorID,
		a.AppInstanceID, a.CredentialID, a.Action, a.Reason, a.NodeID, ms(a.FirstSeenAt), ms(a.LastSeenAt), a.Count,
		ms(rowAt))
	if err != nil || a.Phase == "" {
		return a, err
	}
	return a, addAudit(ctx, q, a)
}

// Recovered ends every open failure of an actor's action on an allocation, or on none, whatever its reason, each
// with one row. k.CredentialID restricts it to one credential: a node's contact ends failures of all of its
// credentials, an application's contact only those of the same credential.
func (s *Store) Recovered(ctx context.Context, k AuditKey, correlationID string, at time.Time) ([]Audit, error) {
	const where = "FROM audit_open WHERE actor_type = ?1 AND actor_id = ?2 AND action = ?3 AND app_instance_id = ?4 AND " +
		"(?5 = '' OR credential_id = ?5)"
	args := []any{k.ActorType, k.ActorID, k.Action, k.AppInstanceID, k.CredentialID}
	// nearly always there are none: do not take the write lock
	if failing, err := one(ctx, s.db, value[bool], "SELECT EXISTS (SELECT 1 "+where+")", args...); err != nil || !failing {
		return nil, err
	}
	return inTx(ctx, s, func(tx *sql.Tx) ([]Audit, error) {
		rows, err := all(ctx, tx, openAuditFields,
			`SELECT actor_type, actor_id, app_instance_id, credential_id, action, reason, node_id,
			first_seen_at, last_seen_at, count `+where, args...)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			rows[i].Phase, rows[i].At, rows[i].CorrelationID = AuditRecovery, at, correlationID
			if err := addAudit(ctx, tx, rows[i]); err != nil {
				return rows, err
			}
		}
		return rows, exec(ctx, tx, "DELETE "+where, args...)
	})
}

func openAuditFields(a *Audit) []any {
	return []any{&a.ActorType, &a.ActorID, &a.AppInstanceID, &a.CredentialID, &a.Action, &a.Reason, &a.NodeID,
		moment{&a.FirstSeenAt}, moment{&a.LastSeenAt}, &a.Count}
}

// decided adds the row of a decision.
func decided(ctx context.Context, q querier, a Audit) error {
	a.Phase, a.FirstSeenAt, a.LastSeenAt, a.Count = AuditDecision, a.At, a.At, 1
	return addAudit(ctx, q, a)
}

func addAudit(ctx context.Context, q querier, a Audit) error {
	return exec(ctx, q,
		`INSERT INTO audit (at, phase, actor_type, actor_id, app_instance_id, credential_id, action, reason, node_id,
		correlation_id, key_hash, first_seen_at, last_seen_at, count, remote) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		ms(a.At), a.Phase, a.ActorType, a.ActorID, a.AppInstanceID, a.CredentialID, a.Action, a.Reason, a.NodeID,
		a.CorrelationID, a.Hash(), ms(a.FirstSeenAt), ms(a.LastSeenAt), a.Count, a.Remote)
}

// AuditQuery filters a list; empty fields match everything.
type AuditQuery struct {
	NodeID, AppInstanceID, Action, CorrelationID string
	Since                                        time.Time
	Limit                                        int
}

// AuditRows returns the newest rows, oldest first.
func (s *Store) AuditRows(ctx context.Context, q AuditQuery) ([]Audit, error) {
	return all(ctx, s.db, auditFields,
		`SELECT * FROM (SELECT id, at, phase, actor_type, actor_id, app_instance_id, credential_id, action, reason, node_id,
		correlation_id, first_seen_at, last_seen_at, count, remote FROM audit WHERE at >= ?1 AND (?2 = '' OR node_id = ?2) AND (?3 = '' OR app_instance_id = ?3)
		AND (?4 = '' OR action = ?4) AND (?5 = '' OR correlation_id = ?5) ORDER BY at DESC, id DESC LIMIT ?6) ORDER BY at, id`,
		ms(q.Since), q.NodeID, q.AppInstanceID, q.Action, q.CorrelationID, q.Limit)
}

func auditFields(a *Audit) []any {
	return []any{&a.ID, moment{&a.At}, &a.Phase, &a.ActorType, &a.ActorID, &a.AppInstanceID, &a.CredentialID, &a.Action,
		&a.Reason, &a.NodeID, &a.CorrelationID, moment{&a.FirstSeenAt}, moment{&a.LastSeenAt}, &a.Count, &a.Remote}
}
