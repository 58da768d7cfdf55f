package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Filter selects reports; an empty field matches any.
type Filter struct {
	Environment, Node, Allocation string
	Limit                         int // 0: all
}

const columns = `run_id, environment, node, allocation, started_at, ended_at, duration_ms, outcome, first_failed, blame_hop, blame_signal, good, whole, bytes`

func scan(row interface{ Scan(...any) error }, more ...any) (Entry, error) {
	e := Entry{Head: diag.NewHead(KindEntry)}
	var started, ended int64
	err := row.Scan(append([]any{&e.RunID, &e.Environment, &e.NodeID, &e.AllocationID, &started, &ended, &e.DurationMS,
		&e.Outcome, &e.FirstFailedHop, &e.BlameHop, &e.BlameSignal, &e.Good, &e.Whole, &e.Bytes}, more...)...)
	e.StartedAt, e.EndedAt = stored(started), stored(ended)
	e.subject = Subject{e.Environment, e.NodeID, e.AllocationID}
	return e, err
}

// List returns the stored reports, newest first.
func (s *Store) List(ctx context.Context, f Filter) (diag.Documents[Entry], error) {
	if f.Limit <= 0 {
		f.Limit = -1
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+columns+` FROM reports
		WHERE (?1 = '' OR environment = ?1) AND (?2 = '' OR node = ?2) AND (?3 = '' OR allocation = ?3)
		ORDER BY ended_at DESC, id DESC LIMIT ?4`, f.Environment, f.Node, f.Allocation, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", s.path, err)
	}
	defer rows.Close()
	list := diag.Documents[Entry]{}
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", s.path, err)
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// Get returns a report by its run id, or by a unique prefix or suffix of it.
func (s *Store) Get(ctx context.Context, id string) (*diag.Report, error) {
	run, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	var packed []byte
	if err := s.db.QueryRowContext(ctx, `SELECT report FROM reports WHERE run_id = ?`, run).Scan(&packed); err != nil {
		return nil, fmt.Errorf("read %s: %w", run, err)
	}
	r, err := unpack(packed)
	if err != nil {
		return nil, &InputError{fmt.Errorf("the kept report %s is damaged: %w", run, err)}
	}
	return r, nil
}

// find returns the complete run id.
func (s *Store) find(ctx context.Context, id string) (string, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT run_id FROM reports WHERE run_id = ?1 OR substr(run_id, 1, length(?1)) = ?1
		OR substr(run_id, -length(?1)) = ?1 ORDER BY run_id = ?1 DESC, ended_at DESC LIMIT 3`, id)
	if err != nil {
		return "", fmt.Errorf("look for %s in %s: %w", id, s.path, err)
	}
	defer rows.Close()
	var runs []string
	for rows.Next() {
		var run string
		if err := rows.Scan(&run); err != nil {
			return "", err
		}
		runs = append(runs, run)
	}
	switch {
	case rows.Err() != nil:
		return "", rows.Err()
	case len(runs) == 0 || id == "":
		return "", ErrNone // the caller names id
	case len(runs) > 1 && runs[0] != id:
		return "", &InputError{fmt.Errorf("%q may be several: %s", id, strings.Join(runs, ", "))}
	}
	return runs[0], nil
}

// Good returns the newest good reports of a subject, at most n, all of one shape: the given shape, else that of the
// newest whole walk, else that of the newest. It skips unreadable reports. An empty result is not an error.
func (s *Store) Good(ctx context.Context, of Subject, shape string, n int) ([]*diag.Report, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT report FROM reports
		WHERE good AND environment = ?1 AND node = ?2 AND allocation = ?3 AND shape = (
			SELECT shape FROM reports WHERE good AND environment = ?1 AND node = ?2 AND allocation = ?3
			ORDER BY shape = ?4 DESC, whole DESC, ended_at DESC, id DESC LIMIT 1)
		ORDER BY ended_at DESC, id DESC LIMIT ?5`, of.Environment, of.Node, of.Allocation, shape, n)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path, err)
	}
	defer rows.Close()
	var out []*diag.Report
	for rows.Next() {
		var packed []byte
		if err := rows.Scan(&packed); err != nil {
			return nil, fmt.Errorf("read %s: %w", s.path, err)
		}
		if r, err := unpack(packed); err == nil {
			out = append(out, r)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path, err)
	}
	return out, nil
}

// LastGood returns the newest whole walk of a subject that passed, with or without warnings; nil if there is none or
// its report is damaged. It may have been removed from the baselines.
func (s *Store) LastGood(ctx context.Context, of Subject) (*diag.Report, error) {
	var packed []byte
	err := s.db.QueryRowContext(ctx,
		`SELECT report FROM reports WHERE outcome IN ('pass', 'warn') AND whole AND environment = ?1 AND node = ?2 AND allocation = ?3
		ORDER BY ended_at DESC LIMIT 1`, of.Environment, of.Node, of.Allocation).Scan(&packed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path, err)
	}
	r, err := unpack(packed)
	if err != nil {
		return nil, nil
	}
	return r, nil
}

// Accept makes a stored report that passed or warned a baseline, or with good false removes it from the baselines.
func (s *Store) Accept(ctx context.Context, id string, good bool) (string, error) {
	run, err := s.find(ctx, id)
	if err != nil {
		return "", err
	}
	res, err := s.db.ExecContext(ctx, `UPDATE reports SET good = ? WHERE run_id = ? AND outcome IN ('pass', 'warn')`, good,
		run)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", s.path, err)
	}
	if n, err := res.RowsAffected(); err == nil && n == 0 {
		return "", &InputError{fmt.Errorf("%s did not end well, and cannot be a baseline", run)}
	}
	return run, nil
}
