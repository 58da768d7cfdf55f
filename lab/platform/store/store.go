// Package store is the platform's database: one SQLite file with nodes, credentials, tasks, allocations, terminal
// sessions and the evidence of every change to them.
//
// Every change of state is one transaction that also writes its evidence, so that neither exists without the
// other. The database holds no secret: tokens are stored by their digest. The package contains no policy; callers
// pass the time.
package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the pure Go driver, "sqlite"
)

// ErrNotFound is returned for a row that does not exist.
var ErrNotFound = errors.New("not found")

// Memory is the path of an in-memory database that lives as long as its Store.
const Memory = ":memory:"

// Store is the database. It is safe for concurrent use.
type Store struct{ db *sql.DB }

// Open opens or creates the database at path and brings its schema up to date.
func Open(ctx context.Context, path string) (*Store, error) {
	db, err := Connect(path)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate database %s: %w", path, err)
	}
	return s, nil
}

// New brings the schema of a database that Connect opened up to date. It closes db if that fails.
func New(ctx context.Context, db *sql.DB) (*Store, error) {
	s := &Store{db: db}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// Connect opens or creates the database at path, with any schema.
func Connect(path string) (*sql.DB, error) {
	// full: a watermark that was sent survives a power cut. immediate: a writing transaction takes the write lock
	// when it begins, and waits for it instead of failing half-way.
	q := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
		"_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+path+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	db.SetMaxOpenConns(4)
	if path == Memory {
		db.SetMaxOpenConns(1) // each connection would have its own database
	}
	return db, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Writes reports whether the disk takes a write, of more than a page. It is synced, like every other one.
func (s *Store) Writes(ctx context.Context) error {
	return exec(ctx, s.db, "INSERT OR REPLACE INTO written (only, text) VALUES (1, ?)", NewID(strings.Repeat("-", 8<<10)))
}

// migrate applies the missing migrations, each in its own transaction.
func (s *Store) migrate(ctx context.Context) error {
	have, err := one(ctx, s.db, value[int], "PRAGMA user_version")
	if err != nil {
		return err
	}
	if have > len(migrations) {
		return fmt.Errorf("schema version %d is newer than this program's %d", have, len(migrations))
	}
	for v := have; v < len(migrations); v++ {
		err := s.tx(ctx, func(tx *sql.Tx) error {
			return errors.Join(
				exec(ctx, tx, migrations[v]),
				exec(ctx, tx, fmt.Sprintf("PRAGMA user_version = %d", v+1)))
		})
		if err != nil {
			return fmt.Errorf("version %d: %w", v+1, err)
		}
	}
	return nil
}

// tx runs do in a transaction, committed unless do fails.
func (s *Store) tx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := do(tx); err != nil {
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// inTx runs do in a transaction that is committed unless do fails, and returns do's result.
func inTx[T any](ctx context.Context, s *Store, do func(*sql.Tx) (T, error)) (v T, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		v, err = do(tx)
		return err
	})
	return v, err
}

// querier is the common part of *sql.DB and *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// exec runs a statement without a result. A transaction joins the errors of its statements: if one fails, none
// takes effect.
func exec(ctx context.Context, q querier, query string, args ...any) error {
	_, err := q.ExecContext(ctx, query, args...)
	return err
}

// hit runs an update that must change a row; missing is the error if it changes none.
func hit(ctx context.Context, q querier, missing error, query string, args ...any) error {
	res, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return missing
}

// all returns all rows of a query; fields returns pointers into a T for the columns of the query.
func all[T any](ctx context.Context, q querier, fields func(*T) []any, query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		var v T
		if err := rows.Scan(fields(&v)...); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// one returns the first row of a query, like all, or ErrNotFound.
func one[T any](ctx context.Context, q querier, fields func(*T) []any, query string, args ...any) (T, error) {
	var v T
	err := q.QueryRowContext(ctx, query, args...).Scan(fields(&v)...)
	if errors.Is(err, sql.ErrNoRows) {
		return v, ErrNotFound
	}
	return v, err
}

// value is the field of a row with a single column.
func value[T any](v *T) []any { return []any{v} }

// NewID returns prefix plus 128 random bits.
func NewID(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

// Digest returns the form in which a token is stored and compared: the hex sha256. Tokens have 256 random bits, so
// no salt is needed.
func Digest(token string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
}

// ms returns t as it is stored: Unix milliseconds, 0 for never.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment scans a stored time.
type moment struct{ t *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(v any) error {
	n, ok := v.(int64)
	switch {
	case v == nil || (ok && n == 0):
		*m.t = time.Time{}
	case ok:
		*m.t = time.UnixMilli(n).UTC()
	default:
		return fmt.Errorf("a time is stored as %T", v)
	}
	return nil
}

// jsonText scans and stores v as JSON text, "" for nothing.
type jsonText struct{ v any }

// Scan implements sql.Scanner.
func (j jsonText) Scan(v any) error {
	text, ok := v.(string)
	if !ok || text == "" {
		return nil
	}
	err := json.Unmarshal([]byte(text), j.v)
	var huge *json.UnmarshalTypeError
	if _, open := j.v.(*map[string]any); open && errors.As(err, &huge) { // a number above all: only it is left out
		return nil
	}
	return err
}

// Value implements driver.Valuer: what cannot be stored fails the transaction.
func (j jsonText) Value() (driver.Value, error) {
	b, err := json.Marshal(j.v)
	if err != nil {
		return nil, fmt.Errorf("store a value: %w", err)
	}
	if string(b) == "null" {
		return "", nil
	}
	return string(b), nil
}

// toJSON is for values that always have a text.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil || string(b) == "null" {
		return ""
	}
	return string(b)
}
