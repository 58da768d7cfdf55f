package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// busyTimeout is how long one statement waits for another process's write, which takes milliseconds. Nothing interrupts
// this wait, so it is shorter than the second within which Ctrl-C must work; writes are retried until their context
// ends.
const busyTimeout = 800 * time.Millisecond

// openTimeout bounds Open: if many processes create one history at once, some must retry.
const openTimeout = 2 * time.Second

// busyPause is the time between two tries of a write.
const busyPause = 10 * time.Millisecond

// version is the schema version, in user_version. A newer one is refused, and never written to.
const version = 1

// schema of version 1.
const schema = `
CREATE TABLE reports (
	id          INTEGER PRIMARY KEY,
	run_id      TEXT    NOT NULL UNIQUE,
	environment TEXT    NOT NULL,
	node        TEXT    NOT NULL,
	allocation  TEXT    NOT NULL,
	shape       TEXT    NOT NULL, -- what was walked
	started_at  INTEGER NOT NULL, -- Unix milliseconds
	ended_at    INTEGER NOT NULL,
	duration_ms INTEGER NOT NULL,
	outcome     TEXT    NOT NULL,
	first_failed TEXT   NOT NULL,
	blame_hop   TEXT    NOT NULL,
	blame_signal TEXT   NOT NULL,
	good        INTEGER NOT NULL, -- may be a baseline
	whole       INTEGER NOT NULL, -- nothing was left out on request
	bytes       INTEGER NOT NULL,
	report      BLOB    NOT NULL  -- gzip of JSON
) STRICT;
CREATE INDEX by_subject ON reports (environment, node, allocation, ended_at);
CREATE INDEX by_age ON reports (ended_at, bytes);
`

// Store is an open history. It is safe for concurrent use, by any number of processes.
type Store struct {
	db   *sql.DB
	path string
}

// Open opens or creates the history at path. Folders and file are created for this user only.
func Open(ctx context.Context, path string) (*Store, error) {
	if err := owned.MkdirAll(filepath.Dir(path), owned.Caller()); err != nil {
		return nil, fmt.Errorf("make the history's folder: %w", err)
	}
	// SQLite would create it readable for others; its side files inherit this mode
	if err := ours(path, os.O_RDWR|os.O_CREATE); err != nil {
		return nil, err
	}
	return open(ctx, path)
}

// OpenExisting is Open without creating anything: a missing file is ErrNone.
func OpenExisting(ctx context.Context, path string) (*Store, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err := ours(path, os.O_RDONLY); err != nil {
		return nil, err
	}
	return open(ctx, path)
}

// ours opens the history's file once, and refuses one that another user could have written, or put there as a link:
// what is in it would be believed, and the link's target would be written. Nobody else can replace the file later, nor
// SQLite's side files, since its folders are checked as well.
func ours(path string, how int) error {
	f, err := os.OpenFile(path, how|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("open the history: %w", err)
	}
	if err := errors.Join(owned.Check(f, owned.Caller()), f.Close()); err != nil {
		return fmt.Errorf("open the history: %w", err)
	}
	return nil
}

func open(ctx context.Context, path string) (*Store, error) {
	// normal: after a power failure the last report may be missing, but the file is intact. immediate: a writing
	// transaction takes its lock at the start, and waits for it rather than failing half-way.
	q := url.Values{
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "synchronous(NORMAL)"},
		"_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite",
		(&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open the history %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // one process, one writer; each connection costs its pragmas
	s := &Store{db: db, path: path}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for {
		err := s.migrate(ctx)
		if err == nil {
			return s, nil
		}
		// Switching a new file to WAL needs an exclusive lock, for which SQLite does not wait if two processes try at
		// once.
		if !busy(err) || !sleep.For(ctx, busyPause) {
			return nil, errors.Join(fmt.Errorf("open the history %s: %w", path, err), db.Close())
		}
	}
}

// Close closes the history.
func (s *Store) Close() error { return s.db.Close() }

// migrate creates the schema in a new file.
func (s *Store) migrate(ctx context.Context) error {
	have, err := s.version(ctx, s.db)
	if err != nil || have == version {
		return err
	}
	// Both settings are persistent, and work only in this order; repeated, they would be writes.
	for _, pragma := range []string{"auto_vacuum = incremental", "journal_mode = WAL"} {
		if _, err := s.db.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return err
		}
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		have, err := s.version(ctx, tx) // another process may have created it first
		if err != nil || have == version {
			return err
		}
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
		return err
	})
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *Store) version(ctx context.Context, q querier) (int, error) {
	var have int
	if err := q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return 0, err
	}
	if have > version {
		return have, fmt.Errorf("it is of version %d, and this program knows %d: a newer gpuaasctl wrote it", have, version)
	}
	return have, nil
}

// write runs do in one transaction, which is committed unless do fails. It waits for other writers until ctx ends.
func (s *Store) write(ctx context.Context, do func(*sql.Tx) error) error {
	for {
		if err := s.try(ctx, do); !busy(err) || !sleep.For(ctx, busyPause) {
			return err
		}
	}
}

func (s *Store) try(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
		return err
	}
	return tx.Commit()
}

// Damaged reports whether err means that the file is not a database, or a corrupt one.
func Damaged(err error) bool {
	code := codeOf(err)
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

func busy(err error) bool { return codeOf(err) == sqlite3.SQLITE_BUSY }

// codeOf returns SQLite's primary result code, 0 for any other error.
func codeOf(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}
