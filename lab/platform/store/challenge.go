package store

import (
	"context"
	"errors"
	"time"
)

// Number of a node's challenges that are kept: half an hour at the usual interval. Those that began a line and
// were never echoed have a separate limit, so that a sender that echoes nothing cannot displace another's line. An
// echo of a deleted challenge counts as no echo.
const (
	maxLinks     = 128
	maxBeginning = 64
)

// Link is one challenge that was given to a node. Ids increase.
type Link struct {
	ID         int64
	Digest     string // of the challenge, which is not stored
	Parent     int64  // the challenge that the heartbeat echoed, to which this one is the response; 0: none
	Line       int64  // id of the first challenge of its line; each new process begins a line
	InstanceID string
	Remote     string
	// the heartbeat echoed a challenge that was abandoned so shortly before that the heartbeat may have been
	// delayed
	Held     bool
	At       time.Time
	EchoedAt time.Time // zero: never
}

// ChallengeResult is the judgement of a heartbeat's echo: where the next challenge belongs.
type ChallengeResult struct {
	Parent int64
	Line   int64 // 0: a new one
	Echoed int64 // the challenge that was echoed for the first time; 0: none
	Held   bool
	Again  bool  // the next heartbeat is requested at once
	Second *Link // a challenge of another process that was alive at the same time, nil for none
}

const linkColumns = "SELECT id, digest, parent, CASE line WHEN 0 THEN id ELSE line END, instance_id, remote, held, " +
	"at, echoed_at FROM challenges "

// Links returns the node's challenges since the last decision about its identity, oldest first.
func (s *Store) Links(ctx context.Context, n Node) ([]Link, error) { return links(ctx, s.db, n) }

func links(ctx context.Context, q querier, n Node) ([]Link, error) {
	return all(ctx, q, linkFields, linkColumns+"WHERE node_id = ? AND at > ? ORDER BY id", n.ID, ms(n.IdentityAt))
}

func linkFields(l *Link) []any {
	return []any{&l.ID, &l.Digest, &l.Parent, &l.Line, &l.InstanceID, &l.Remote, &l.Held, moment{&l.At},
		moment{&l.EchoedAt}}
}

// answer judges a heartbeat's echo, and stores the challenge of the response.
func answer(ctx context.Context, q querier, n Node, b Heartbeat,
	judge func([]Link, string, time.Time) ChallengeResult) (ChallengeResult, error) {
	last, err := links(ctx, q, n)
	if err != nil {
		return ChallengeResult{}, err
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

// forgetLinks deletes challenges beyond the limits.
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

// OtherSource records that a request under the node's certificate came from another source than the heartbeats.
// known reports whether the same source was recorded within the window.
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

// LastHeartbeat returns the source of the node's newest heartbeat, or ErrNotFound.
func (s *Store) LastHeartbeat(ctx context.Context, nodeID string) (Source, error) {
	return one(ctx, s.db, sourceFields,
		`SELECT at, node_time, instance_id, boot_id, cert_serial, generation, remote, named FROM heartbeats
		WHERE node_id = ? AND via = '' ORDER BY at DESC, id DESC LIMIT 1`, nodeID)
}

// NewerUsed returns when a certificate of the node that is newer than the generation was first used in a
// heartbeat, the zero time if none was. Revoked and superseded certificates do not count.
func (s *Store) NewerUsed(ctx context.Context, nodeID string, generation int64) (time.Time, error) {
	return one(ctx, s.db, func(at *time.Time) []any { return []any{moment{at}} },
		`SELECT COALESCE(min(used_at), 0) FROM certs WHERE node_id = ? AND generation > ? AND used_at > 0 AND revoked_at = 0
		AND superseded_at = 0`, nodeID, generation)
}
