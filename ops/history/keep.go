package history

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Limits bound what is stored.
type Limits struct {
	PerSubject int
	Bytes      int64
	Before     diag.Time // also delete reports that ended earlier; zero: none
}

// DefaultLimits returns the limits that every Save applies.
func DefaultLimits() Limits { return Limits{PerSubject: PerSubject, Bytes: TotalBytes} }

// Save stores a finished report, and deletes those above the limits. good: it may be a baseline. whole: nothing was
// left out on request. A run that is already stored is not changed.
func (s *Store) Save(ctx context.Context, r *diag.Report, good, whole bool) error {
	packed, err := pack(r)
	if err != nil {
		return err
	}
	e := entry(r, good, whole)
	err = s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`INSERT INTO reports (run_id, environment, node, allocation, shape, started_at, ended_at, duration_ms,
			outcome, first_failed, blame_hop, blame_signal, good, whole, bytes, report) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
			e.RunID, e.subject.Environment, e.subject.Node, e.subject.Allocation, Shape(r.Plan), millis(e.StartedAt),
			millis(e.EndedAt), int64(e.DurationMS), string(e.Outcome), string(e.FirstFailedHop), string(e.BlameHop),
			string(e.BlameSignal), e.Good, e.Whole, len(packed), packed)
		if err != nil {
			return err
		}
		_, _, err = forget(ctx, tx, DefaultLimits(), &e.subject)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the report in %s: %w", s.path, err)
	}
	return nil
}

// Prune deletes reports by limits, over all subjects, and frees the space. The newest good report of each subject is
// kept.
func (s *Store) Prune(ctx context.Context, l Limits) (reports int, bytes int64, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		reports, bytes, err = forget(ctx, tx, l, nil)
		return err
	})
	if err == nil {
		_, err = s.db.ExecContext(ctx, "PRAGMA incremental_vacuum")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("prune %s: %w", s.path, err)
	}
	return reports, bytes, nil
}

// lastGood selects the rows that are never deleted: for each subject the newest good one, and the newest good whole
// one.
const lastGood = `SELECT id FROM (SELECT id,
	row_number() OVER (PARTITION BY environment, node, allocation ORDER BY ended_at DESC, id DESC) AS n,
	row_number() OVER (PARTITION BY environment, node, allocation, whole ORDER BY ended_at DESC, id DESC) AS m
	FROM reports WHERE good AND (?1 IS NULL OR environment = ?1 AND node = ?2 AND allocation = ?3)) WHERE n = 1 OR m = 1`

// forget deletes reports by limits. If of is not nil, the limit per subject is applied to that subject only.
func forget(ctx context.Context, tx *sql.Tx, l Limits, of *Subject) (reports int, bytes int64, err error) {
	var who [3]any
	if of != nil {
		who = [3]any{of.Environment, of.Node, of.Allocation}
	}
	drop := func(query string, args ...any) error {
		rows, err := tx.QueryContext(ctx, "DELETE FROM reports WHERE id IN ("+query+") RETURNING bytes", args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int64
			if err := rows.Scan(&n); err != nil {
				return err
			}
			reports, bytes = reports+1, bytes+n
		}
		return rows.Err()
	}
	err = drop(
		`SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY environment, node, allocation ORDER BY ended_at DESC, id DESC) AS n
		FROM reports WHERE (?1 IS NULL OR environment = ?1 AND node = ?2 AND allocation = ?3)) WHERE n > ?4 AND id NOT IN (`+lastGood+`)`,
		who[0], who[1], who[2], l.PerSubject)
	if err != nil {
		return 0, 0, err
	}
	if !l.Before.IsZero() {
		if err := drop(`SELECT id FROM reports WHERE ended_at < ?4 AND id NOT IN (`+lastGood+`)`, nil, nil, nil,
			millis(l.Before)); err != nil {
			return 0, 0, err
		}
	}
	var total int64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(bytes), 0) FROM reports").Scan(&total); err != nil ||
		total <= l.Bytes {
		return reports, bytes, err
	}
	// Delete the oldest until the rest fits.
	err = drop(`SELECT id FROM (SELECT id, sum(bytes) OVER (ORDER BY ended_at DESC, id DESC) AS upto FROM reports)
		WHERE upto > ?4 AND id NOT IN (`+lastGood+`)`, nil, nil, nil, l.Bytes)
	return reports, bytes, err
}
