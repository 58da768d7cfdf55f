package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// Retention times.
const (
	// KeepEvidence: a diagnosis needs days, not weeks; anything longer-lived is in the audit.
	KeepEvidence = 7 * 24 * time.Hour
	// KeepHistory applies to what the read models list: operations, ended sessions and tasks, former hosts. A
	// quarter answers "has this node done that before".
	KeepHistory = 90 * 24 * time.Hour
	// KeepFailures applies to audit rows of failures, which a caller can cause.
	KeepFailures = KeepHistory
	// KeepDecisions applies to audit rows of decisions: an auditor asks for a year, and may be a month late.
	KeepDecisions = 400 * 24 * time.Hour
	// QuietAfter is the time without a repetition after which a failure is closed. Denied agents retry at least
	// hourly.
	QuietAfter = 24 * time.Hour
	// KeepStrangers applies to events of a host that is no longer known: the node API accepts events of known hosts
	// only.
	KeepStrangers = time.Hour
)

// Limits on rows that a caller can add within these times, with text of its choice.
const (
	// MaxInstances bounds a node's hosts, in addition to fenced ones and its own: a node has one at a time.
	MaxInstances = 64
	// MaxEvents bounds the events of one host of a node; its outbox is far smaller.
	MaxEvents = 10_000
	// MaxGPUEvents bounds the events by which one node is judged: an honest one has a few per GPU. It exceeds the
	// limit of a judgement, so that after a deletion here the node is unknown until its next boot.
	MaxGPUEvents = 2 * policy.MaxEvents
	// MaxOpenFailures bounds the failures of all actors together: a few for every node of a large site.
	MaxOpenFailures = 10_000
	// MaxFailureRows bounds the audit rows of failures.
	MaxFailureRows = 100_000
)

// AuditQuiet is the phase of the row that closes a failure that did not recur. It does not prove a recovery.
const AuditQuiet = "quiet"

// pruning lists the rows to delete, by time (?1, Unix milliseconds) or by number (?2; 0 if only by time).
var pruning = [...]struct {
	query string
	keep  time.Duration
	most  int
}{
	{"DELETE FROM evidence WHERE at < ?1 AND ?2 = 0", KeepEvidence, 0},
	{"DELETE FROM heartbeats WHERE at < ?1 AND ?2 = 0", KeepEvidence, 0},
	{"DELETE FROM tasks WHERE type = 'status.probe' AND status NOT IN ('queued', 'dispatched') AND queued_at < ?1 AND " +
		"?2 = 0", KeepEvidence, 0},
	{"DELETE FROM tasks WHERE status NOT IN ('queued', 'dispatched') AND queued_at < ?1 AND ?2 = 0", KeepHistory, 0},
	{"DELETE FROM operations WHERE created_at < ?1 AND ?2 = 0", KeepHistory, 0},
	{"DELETE FROM sessions WHERE created_at < ?1 AND ?2 = 0 AND (closed_at > 0 OR browser_connected_at = 0)", KeepHistory,
		0},
	// A confirmed event has served its purpose, and its repetition is detected by the watermark. Events are also
	// limited by number, since the node sets their time.
	{
		`DELETE FROM events WHERE at < ?1 AND ?2 = 0 AND seq <= (SELECT seq FROM watermarks w WHERE w.node_id = events.node_id AND w.instance_id = events.instance_id)`, KeepEvidence, 0,
	},
	{`DELETE FROM events WHERE ?1 > 0 AND (node_id, instance_id, seq) IN (SELECT node_id, instance_id, seq FROM (SELECT node_id, instance_id, seq,
		row_number() OVER (PARTITION BY node_id, instance_id ORDER BY seq DESC) AS place FROM events) WHERE place > ?2)`, 0,
		MaxEvents},
	{`DELETE FROM gpu_events WHERE ?1 > 0 AND (node_id, slot, seq) IN (SELECT node_id, slot, seq FROM (SELECT node_id, slot, seq,
		row_number() OVER (PARTITION BY node_id ORDER BY seq DESC) AS place FROM gpu_events) WHERE place > ?2)`, 0,
		MaxGPUEvents},
	// A fence is permanent: only reactivation removes it. The node's own host is kept however long it is silent.
	{`DELETE FROM instances WHERE fenced_at = 0 AND last_seen_at < ?1 AND ?2 = 0
		AND instance_id != (SELECT instance_id FROM nodes WHERE id = instances.node_id)`, KeepHistory, 0},
	{`DELETE FROM instances WHERE ?1 > 0 AND (node_id, instance_id) IN (SELECT node_id, instance_id FROM (SELECT i.node_id, i.instance_id,
		row_number() OVER (PARTITION BY i.node_id ORDER BY i.last_seen_at DESC) AS place FROM instances i JOIN nodes n ON n.id = i.node_id
		WHERE i.fenced_at = 0 AND i.instance_id != n.instance_id) WHERE place > ?2)`, 0, MaxInstances},
	// Events of a deleted host are deleted later: until then, confirmed events stay confirmed.
	{
		`DELETE FROM watermarks WHERE told_at < ?1 AND ?2 = 0 AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.node_id = watermarks.node_id AND i.instance_id = watermarks.instance_id)`, KeepStrangers, 0,
	},
	{
		`DELETE FROM events WHERE ?1 > 0 AND ?2 = 0 AND NOT EXISTS (SELECT 1 FROM watermarks w WHERE w.node_id = events.node_id AND w.instance_id = events.instance_id)`, 0, 0,
	},
	{"DELETE FROM audit WHERE phase = 'decision' AND at < ?1 AND ?2 = 0", KeepDecisions, 0},
	{"DELETE FROM audit WHERE phase != 'decision' AND at < ?1 AND ?2 = 0", KeepFailures, 0},
	{
		`DELETE FROM audit WHERE ?1 > 0 AND phase != 'decision' AND id <= (SELECT id FROM audit WHERE phase != 'decision' ORDER BY id DESC LIMIT 1 OFFSET ?2)`, 0, MaxFailureRows,
	},
}

// Prune closes failures that are over and deletes rows beyond their retention time or number. The time that counts
// moves by at most step in one call, so that a clock that is years ahead deletes no more than that; at first it is the
// time of the newest row. behind is by how much the clock is ahead of it.
func (s *Store) Prune(ctx context.Context, clock time.Time, step time.Duration) (behind time.Duration, err error) {
	now, err := s.retention(ctx, clock, step)
	if err != nil {
		return 0, err
	}
	if err := s.quiet(ctx, now); err != nil {
		return 0, err
	}
	for _, p := range pruning {
		if err := exec(ctx, s.db, p.query, ms(now.Add(-p.keep)), p.most); err != nil {
			return 0, err
		}
	}
	return clock.Sub(now), nil
}

// retention returns the time that counts for a Prune, and stores it for the next one.
func (s *Store) retention(ctx context.Context, clock time.Time, step time.Duration) (time.Time, error) {
	return inTx(ctx, s, func(tx *sql.Tx) (time.Time, error) {
		last, err := one(ctx, tx, value[int64], `SELECT coalesce((SELECT at FROM retention WHERE only = 1), max(
			(SELECT coalesce(max(at), 0) FROM evidence), (SELECT coalesce(max(at), 0) FROM heartbeats),
			(SELECT coalesce(max(at), 0) FROM audit)))`)
		if err != nil {
			return clock, err
		}
		now := clock
		if most := time.UnixMilli(last).Add(step); last > 0 && most.Before(clock) {
			now = most
		}
		return now, exec(ctx, tx, "INSERT OR REPLACE INTO retention (only, at) VALUES (1, ?)", ms(now))
	})
}

// quiet closes failures that did not recur and, if there are too many, those that have been quiet the longest,
// each with a row.
func (s *Store) quiet(ctx context.Context, now time.Time) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		const over = "FROM audit_open WHERE last_seen_at < ?1 OR key_hash IN (SELECT key_hash FROM audit_open ORDER BY " +
			"last_seen_at DESC LIMIT -1 OFFSET ?2)"
		rows, err := all(ctx, tx, openAuditFields,
			`SELECT actor_type, actor_id, app_instance_id, credential_id, action, reason, node_id,
			first_seen_at, last_seen_at, count `+over, ms(now.Add(-QuietAfter)), MaxOpenFailures)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, a := range rows {
			a.Phase, a.At = AuditQuiet, now
			if err := addAudit(ctx, tx, a); err != nil {
				return err
			}
		}
		return exec(ctx, tx, "DELETE "+over, ms(now.Add(-QuietAfter)), MaxOpenFailures)
	})
}
