package store

import (
	"context"
	"errors"
	"time"
)

// How many challenges of a node are kept: half an hour at the usual interval. Those that began a line and were never
// echoed are limited separately, so that a sender that echoes nothing cannot displace another's line. An echo of an
// older one is an echo of none.
const (
	maxLinks     = 128
	maxBeginning = 64
)

// Link is one challenge that was given to a node. An id is larger than that of every challenge given before.
type Link struct {
	ID         int64
	Digest     string // of the challenge: it is not stored
	Parent     int64  // the challenge that the heartbeat echoed, whose answer this one is; 0: none
	Line       int64  // the first challenge of the line that this one belongs to; a process that starts begins one
	InstanceID string
	Remote     string
	Held       bool // the heartbeat echoed what was left behind so shortly before that it may have been held up on its way
	At         time.Time
	EchoedAt   time.Time // zero: never
}

// Answer is the result of a heartbeat's echo: where the next challenge belongs.
type Answer struct {
	Parent int64
	Line   int64 // 0: a new one
	Echoed int64 // the challenge that was echoed for the first time; 0: none
	Held   bool
	Again  bool  // the next heartbeat is wanted at once
	Second *Link // of another process that was alive at the same time, nil for none
}

const linkColumns = "SELECT id, digest, parent, CASE line WHEN 0 THEN id ELSE line END, instance_id, remote, held, " +
	"at, echoed_at FROM challenges "

// Links returns the node's challenges since the last decision on its identity, the oldest first.
func (s *Store) Links(ctx context.Context, n Node) ([]Link, error) { return links(ctx, s.db, n) }

func links(ctx context.Context, q querier, n Node) ([]Link, error) {
	return all(ctx, q, linkFields, linkColumns+"WHERE node_id = ? AND at > ? ORDER BY id", n.ID, ms(n.IdentityAt))
}

func linkFields(l *Link) []any {
	return []any{&l.ID, &l.Digest, &l.Parent, &l.Line, &l.InstanceID, &l.Remote, &l.Held, moment{&l.At},
		moment{&l.EchoedAt}}
}

// answer judges a heartbeat's echo, and stores the challenge that its answer gives.
func answer(ctx context.Context, q querier, n Node, b Beat,
	judge func([]Link, string, time.Time) Answer) (Answer, error) {
	last, err := links(ctx, q, n)
	if err != nil {
		return Answer{}, err
	}
	echo := ""
	if b.Challenge != "" {
		echo = Digest(b.Challenge)
	}
	a := judge(last, echo, b.ReceivedAt)
	if a.Echoed != 0 {
		err = exec(ctx, q, "UPDATE challenges SET echoed_at = ? WHERE id = ?", ms(b.ReceivedAt), a.Echoed)
	}
	return a, errors.Join(err,
		exec(ctx, q,
			`INSERT INTO challenges (node_id, digest, parent, line, instance_id, remote, held, at) VALUES (?,?,?,?,?,?,?,?)`,
			b.NodeID, Digest(b.Next), a.Parent, a.Line, b.NodeInstanceID, b.Remote, a.Held, ms(b.ReceivedAt)),
		forgetLinks(ctx, q, b.NodeID))
}

// forgetLinks deletes what is more than is kept.
func forgetLinks(ctx context.Context, q querier, nodeID string) error {
	const (
		beginning = "(line = 0 AND echoed_at = 0)"
		of        = "DELETE FROM challenges WHERE node_id = ?1 AND "
		upTo      = " AND id <= (SELECT id FROM challenges WHERE node_id = ?1 AND "
		newest    = " ORDER BY id DESC LIMIT 1 OFFSET ?2)"
	)
	for _, f := range [...]struct {
		query string
		keep  int
	}{
		{of + "NOT " + beginning + upTo + "NOT " + beginning + newest, maxLinks},
		{of + beginning + upTo + beginning + newest, maxBeginning},
	} {
		if err := exec(ctx, q, f.query, nodeID, f.keep); err != nil {
			return err
		}
	}
	return nil
}

// OtherSource keeps that a request under the node's certificate came from a source that is not the heartbeats'. known
// reports whether the same source was recorded within the window.
func (s *Store) OtherSource(ctx context.Context, nodeID, via string, from Source,
	window time.Duration) (known bool, err error) {
	n, err := one(ctx, s.db, value[int],
		`SELECT count(*) FROM heartbeats WHERE node_id = ?1 AND via = ?2 AND at > ?3 AND instance_id = ?4 AND cert_serial = ?5
		AND remote = ?6 AND id > COALESCE((SELECT id FROM heartbeats WHERE node_id = ?1 AND via = '' ORDER BY at DESC, id DESC LIMIT 1), 0)`,
		nodeID, via, ms(from.At.Add(-window)), from.InstanceID, from.Serial, from.Remote)
	if err != nil || n > 0 {
		return n > 0, err
	}
	if err := seen(ctx, s.db, Instance{NodeID: nodeID, ID: from.InstanceID, CertSerial: from.Serial, Remote: from.Remote,
		LastSeenAt: from.At}); err != nil {
		return false, err
	}
	_, err = s.db.ExecContext(ctx,
		`INSERT INTO heartbeats (node_id, at, instance_id, boot_id, cert_serial, generation, remote, node_time, via)
		VALUES (?,?,?,'',?,0,?,0,?)`, nodeID, ms(from.At), from.InstanceID, from.Serial, from.Remote, via)
	return false, err
}

// LastBeat returns the source of the node's newest heartbeat, or ErrNotFound.
func (s *Store) LastBeat(ctx context.Context, nodeID string) (Source, error) {
	return one(ctx, s.db, sourceFields,
		`SELECT at, node_time, instance_id, boot_id, cert_serial, generation, remote, named FROM heartbeats
		WHERE node_id = ? AND via = '' ORDER BY at DESC, id DESC LIMIT 1`, nodeID)
}

// NewerUsed returns when the first certificate of the node that is newer than the generation was first used in a
// heartbeat, the zero time when none was. One that was revoked or superseded ends nothing.
func (s *Store) NewerUsed(ctx context.Context, nodeID string, generation int64) (time.Time, error) {
	return one(ctx, s.db, func(at *time.Time) []any { return []any{moment{at}} },
		`SELECT COALESCE(min(used_at), 0) FROM certs WHERE node_id = ? AND generation > ? AND used_at > 0 AND revoked_at = 0
		AND superseded_at = 0`, nodeID, generation)
}
