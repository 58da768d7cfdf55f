package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Session is one terminal session, from the token's mint to its end.
type Session struct {
	ID                    string
	AllocationID          string
	NodeID                string
	OSUser                string
	TokenDigest           string
	CorrelationID         string
	TaskID                string // the terminal.open, once the browser is there
	CreatedAt             time.Time
	ExpiresAt             time.Time // of the token, not of the session
	BrowserConnectedAt    time.Time
	NodeStreamConnectedAt time.Time
	PTYReadyAt            time.Time
	ClosedAt              time.Time
	CloseReason           string
}

const sessionColumns = `SELECT id, allocation_id, node_id, os_user, token_digest, correlation_id, task_id, created_at, expires_at,
	browser_connected_at, node_stream_connected_at, pty_ready_at, closed_at, close_reason FROM sessions `

func readSession(row scanner) (Session, error) {
	var v Session
	err := row.Scan(&v.ID, &v.AllocationID, &v.NodeID, &v.OSUser, &v.TokenDigest, &v.CorrelationID, &v.TaskID, moment{&v.CreatedAt}, moment{&v.ExpiresAt},
		moment{&v.BrowserConnectedAt}, moment{&v.NodeStreamConnectedAt}, moment{&v.PTYReadyAt}, moment{&v.ClosedAt}, &v.CloseReason)
	return v, err
}

func (v Session) evidence(kind string, at time.Time, detail map[string]any) Evidence {
	return Evidence{At: at, Kind: kind, CorrelationID: v.CorrelationID, NodeID: v.NodeID, AllocationID: v.AllocationID, SessionID: v.ID,
		TaskID: v.TaskID, Detail: detail}
}

// Session returns a session, or ErrNotFound.
func (s *Store) Session(ctx context.Context, id string) (Session, error) {
	return one(readSession(s.db.QueryRowContext(ctx, sessionColumns+"WHERE id = ?", id)))
}

// LatestSession returns the node's newest session that a browser used or still can use; ErrNotFound when there is none.
func (s *Store) LatestSession(ctx context.Context, nodeID string, now time.Time) (Session, error) {
	return one(readSession(s.db.QueryRowContext(ctx, sessionColumns+`WHERE node_id = ? AND (browser_connected_at > 0 OR expires_at > ?)
		ORDER BY created_at DESC, rowid DESC LIMIT 1`, nodeID, ms(now))))
}

// Mint stores a new session.
func (s *Store) Mint(ctx context.Context, v Session) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, allocation_id, node_id, os_user, token_digest, correlation_id, created_at, expires_at)
			VALUES (?,?,?,?,?,?,?,?)`, v.ID, v.AllocationID, v.NodeID, v.OSUser, v.TokenDigest, v.CorrelationID, ms(v.CreatedAt), ms(v.ExpiresAt))
		if err != nil {
			return err
		}
		return record(ctx, tx, v.evidence(TokenMinted, v.CreatedAt, map[string]any{"expires_at": v.ExpiresAt}))
	})
}

// Step is one of the moments of a session.
type Step string

// The steps, by their column.
const (
	StepBrowser Step = "browser_connected_at"
	StepStream  Step = "node_stream_connected_at"
	StepPTY     Step = "pty_ready_at"
)

var stepKinds = map[Step]string{StepBrowser: BrowserConnected, StepStream: StreamConnected, StepPTY: PTYReady}

// Reached notes that a session came to a step, once.
func (s *Store) Reached(ctx context.Context, v Session, step Step, at time.Time, detail map[string]any) error {
	kind, ok := stepKinds[step]
	if !ok {
		return fmt.Errorf("no such step: %q", step)
	}
	return s.tx(ctx, func(tx *sql.Tx) error {
		query := "UPDATE sessions SET " + string(step) + " = ?, correlation_id = ? WHERE id = ? AND " + string(step) + " = 0"
		if _, err := tx.ExecContext(ctx, query, ms(at), v.CorrelationID, v.ID); err != nil {
			return err
		}
		return record(ctx, tx, v.evidence(kind, at, detail))
	})
}

// SetSessionTask notes the terminal.open of a session.
func (s *Store) SetSessionTask(ctx context.Context, id, taskID string) error {
	return s.touch(ctx, "UPDATE sessions SET task_id = ? WHERE id = ?", taskID, id)
}

// CloseSession ends a session, once; the first reason stays.
func (s *Store) CloseSession(ctx context.Context, v Session, reason string, at time.Time) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE sessions SET closed_at = ?, close_reason = ? WHERE id = ? AND closed_at = 0", ms(at), reason, v.ID); err != nil {
			return err
		}
		return record(ctx, tx, v.evidence(TerminalClosed, at, map[string]any{"reason": reason}))
	})
}

// CloseOrphans ends the sessions that a former process left open.
func (s *Store) CloseOrphans(ctx context.Context, now time.Time) error {
	open, err := all(ctx, s.db, readSession, sessionColumns+"WHERE browser_connected_at > 0 AND closed_at = 0")
	if err != nil {
		return err
	}
	for _, v := range open {
		if err := s.CloseSession(ctx, v, "gateway_restarted", now); err != nil {
			return err
		}
	}
	return nil
}
