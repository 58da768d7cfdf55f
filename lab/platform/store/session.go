package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// Session is one terminal session, from the mint of its token to its end.
type Session struct {
	ID                    string
	AllocationID          string
	NodeID                string
	OSUser                string
	TokenDigest           string
	CorrelationID         string
	TaskID                string // id of the terminal.open, once a browser has connected
	CreatedAt             time.Time
	ExpiresAt             time.Time // of the token, not of the session
	BrowserConnectedAt    time.Time
	NodeStreamConnectedAt time.Time
	PTYReadyAt            time.Time
	ClosedAt              time.Time
	CloseReason           string
	Closing               Closing // how it ended; zero while it is open
}

// Closing says which side ended a session, and how.
type Closing struct {
	By string // one of wire.By*
	// of the close frame that By sent; wire.CloseBroken if its connection broke without one, 0 for the gateway
	// itself
	Code        int
	Detail      string // the reason in that close frame, or how the connection broke
	NodeAnswers string // whether the node answered the gateway's last ping: "yes", "no", or "" if none was sent
}

const sessionColumns = `SELECT id, allocation_id, node_id, os_user, token_digest, correlation_id, task_id, created_at, expires_at,
	browser_connected_at, node_stream_connected_at, pty_ready_at, closed_at, close_reason,
	closed_by, close_code, close_detail, node_answers FROM sessions `

func sessionFields(v *Session) []any {
	return []any{&v.ID, &v.AllocationID, &v.NodeID, &v.OSUser, &v.TokenDigest, &v.CorrelationID, &v.TaskID,
		moment{&v.CreatedAt}, moment{&v.ExpiresAt}, moment{&v.BrowserConnectedAt}, moment{&v.NodeStreamConnectedAt},
		moment{&v.PTYReadyAt}, moment{&v.ClosedAt}, &v.CloseReason, &v.Closing.By, &v.Closing.Code, &v.Closing.Detail,
		&v.Closing.NodeAnswers}
}

func (v Session) evidence(kind string, at time.Time, detail map[string]any) Evidence {
	return Evidence{At: at, Kind: kind, CorrelationID: v.CorrelationID, NodeID: v.NodeID, AllocationID: v.AllocationID,
		SessionID: v.ID, TaskID: v.TaskID, Detail: detail}
}

// Session returns a session, or ErrNotFound.
func (s *Store) Session(ctx context.Context, id string) (Session, error) {
	return one(ctx, s.db, sessionFields, sessionColumns+"WHERE id = ?", id)
}

// LatestSession returns the node's newest session that a browser used or still can use; ErrNotFound if none of its
// newest latestOf qualifies.
func (s *Store) LatestSession(ctx context.Context, nodeID string, now time.Time) (Session, error) {
	return one(ctx, s.db, sessionFields, sessionColumns+
		`WHERE rowid IN (SELECT rowid FROM sessions WHERE node_id = ? ORDER BY created_at DESC, rowid DESC LIMIT ?)
		AND (browser_connected_at > 0 OR expires_at > ?) ORDER BY created_at DESC, rowid DESC LIMIT 1`, nodeID, latestOf,
		ms(now))
}

// Mint stores a new session.
func (s *Store) Mint(ctx context.Context, v Session) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		return errors.Join(
			exec(ctx, tx,
				`INSERT INTO sessions (id, allocation_id, node_id, os_user, token_digest, correlation_id, created_at, expires_at)
				VALUES (?,?,?,?,?,?,?,?)`, v.ID, v.AllocationID, v.NodeID, v.OSUser, v.TokenDigest, v.CorrelationID,
				ms(v.CreatedAt), ms(v.ExpiresAt)),
			record(ctx, tx, v.evidence(TokenMinted, v.CreatedAt, map[string]any{"expires_at": v.ExpiresAt})))
	})
}

// Step is a moment in a session, named by the kind of its evidence.
type Step string

// The steps.
const (
	StepBrowser Step = BrowserConnected
	StepStream  Step = StreamConnected
	StepPTY     Step = PTYReady
)

// stepUpdates record that a session reached a step, once.
var stepUpdates = map[Step]string{
	StepBrowser: "UPDATE sessions SET browser_connected_at = ?, correlation_id = ? WHERE id = ? AND " +
		"browser_connected_at = 0",
	StepStream: "UPDATE sessions SET node_stream_connected_at = ?, correlation_id = ? WHERE id = ? AND " +
		"node_stream_connected_at = 0",
	StepPTY: "UPDATE sessions SET pty_ready_at = ?, correlation_id = ? WHERE id = ? AND pty_ready_at = 0",
}

// Reached records that a session reached a step, once.
func (s *Store) Reached(ctx context.Context, v Session, step Step, at time.Time, detail map[string]any) error {
	query, ok := stepUpdates[step]
	if !ok {
		return fmt.Errorf("no such step: %q", step)
	}
	return s.tx(ctx, func(tx *sql.Tx) error {
		return errors.Join(
			exec(ctx, tx, query, ms(at), v.CorrelationID, v.ID),
			record(ctx, tx, v.evidence(string(step), at, detail)))
	})
}

// SetSessionTask stores the id of a session's terminal.open.
func (s *Store) SetSessionTask(ctx context.Context, id, taskID string) error {
	return s.touch(ctx, "UPDATE sessions SET task_id = ? WHERE id = ?", taskID, id)
}

// CloseSession ends a session, once; the first reason is kept.
func (s *Store) CloseSession(ctx context.Context, v Session, reason string, how Closing, at time.Time) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		if err := exec(ctx, tx, `UPDATE sessions SET closed_at = ?, close_reason = ?, closed_by = ?, close_code = ?,
			close_detail = ?, node_answers = ? WHERE id = ? AND closed_at = 0`, ms(at), reason, how.By, how.Code, how.Detail,
			how.NodeAnswers, v.ID); err != nil {
			return err
		}
		detail := map[string]any{"reason": reason, "closed_by": how.By}
		for key, value := range map[string]string{"close_detail": how.Detail, "node_answers": how.NodeAnswers} {
			if value != "" {
				detail[key] = value
			}
		}
		if how.Code != 0 {
			detail["close_code"] = how.Code
		}
		return record(ctx, tx, v.evidence(TerminalClosed, at, detail))
	})
}

// CloseOrphans ends the sessions that an earlier process left open.
func (s *Store) CloseOrphans(ctx context.Context, now time.Time) error {
	open, err := all(ctx, s.db, sessionFields, sessionColumns+"WHERE browser_connected_at > 0 AND closed_at = 0")
	if err != nil {
		return err
	}
	for _, v := range open {
		if err := s.CloseSession(ctx, v, "gateway_restarted", Closing{By: wire.ByGateway}, now); err != nil {
			return err
		}
	}
	return nil
}
