package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Reasons to reject an enrollment token. Callers map them to denials.
var (
	ErrTokenUnknown   = errors.New("token is unknown")
	ErrTokenOtherNode = errors.New("token is bound to another node")
	ErrTokenExpired   = errors.New("token has expired")
	ErrTokenConsumed  = errors.New("token was used already")
	ErrProfile        = errors.New("token or node is of another environment profile")
	ErrNodeDenied     = errors.New("node is denied")
	ErrFenced         = errors.New("host is fenced")
	ErrDoubt          = errors.New("another host is using the node's identity")
	ErrHostBound      = errors.New("host is another node that is not retired")
)

// Cert is one certificate issued to a node.
type Cert struct {
	Serial            string
	NodeID            string
	Generation        int64
	Fingerprint       string
	IssuerFingerprint string
	NotBefore         time.Time
	NotAfter          time.Time
	IssuedAt          time.Time
	RevokedAt         time.Time
	SupersededAt      time.Time // when an operator requested a new identity, which ended this one
}

// Token is an enrollment token as it is stored, by its digest.
type Token struct {
	NodeID    string
	Digest    string
	Profile   string // the environment profile that it is for; empty: any
	TaskID    string // of the rotation that delivered it to the node
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// AddToken stores an enrollment token unless it exists.
func (s *Store) AddToken(ctx context.Context, t Token) error { return addToken(ctx, s.db, t) }

func addToken(ctx context.Context, q querier, t Token) error {
	return exec(ctx, q,
		"INSERT INTO tokens (digest, node_id, profile, task_id, created_at, expires_at) VALUES (?,?,?,?,?,?) ON CONFLICT "+
			"(digest) DO NOTHING", t.Digest, t.NodeID, t.Profile, t.TaskID, ms(t.IssuedAt), ms(t.ExpiresAt))
}

// CurrentToken reports whether the node may have a token with which it could enroll: unused and not expired.
func (s *Store) CurrentToken(ctx context.Context, nodeID string, now time.Time) (bool, error) {
	return one(ctx, s.db, value[bool],
		"SELECT count(*) > 0 FROM tokens WHERE node_id = ? AND consumed_at = 0 AND expires_at > ?", nodeID, ms(now))
}

// endTokens expires every unused token of a node now, except the one with the digest.
func endTokens(ctx context.Context, q querier, nodeID, but string, at time.Time) error {
	return exec(ctx, q,
		"UPDATE tokens SET expires_at = ?1 WHERE node_id = ?2 AND digest != ?3 AND consumed_at = 0 AND expires_at > ?1",
		ms(at), nodeID, but)
}

// Enrollment is one attempt to exchange a token for a certificate.
type Enrollment struct {
	NodeID        string
	InstanceID    string
	Remote        string
	Profile       string // the environment profile that is active for the node; empty: any
	NodeProfile   string // the one that the node names; empty: none
	CorrelationID string
	TokenDigest   string
	KeyDigest     string // of the public key that the CSR proved
	At            time.Time
	Retry         time.Duration // how long the same key may be used again: its first response may have been lost
	Fresh         time.Duration // how long a host counts as alive after its last heartbeat
}

// Enroll consumes the token, increments the node's generation and stores the certificate that issue makes for it,
// in one transaction. If another host is alive it marks the node cloned instead, and returns ErrDoubt.
func (s *Store) Enroll(ctx context.Context, e Enrollment, issue func(generation int64) (Cert, error)) (Cert, error) {
	var c Cert
	doubted := false
	err := s.tx(ctx, func(tx *sql.Tx) error {
		n, err := checkToken(ctx, tx, e)
		if err != nil {
			return err
		}
		if err = checkHost(ctx, tx, e); err != nil {
			return err
		}
		if doubted = e.doubtful(n); doubted {
			return doubtEnrollment(ctx, tx, n, e)
		}
		if c, err = issue(n.Generation + 1); err != nil {
			return err
		}
		return errors.Join(
			exec(ctx, tx,
				"UPDATE tokens SET consumed_by = ?, consumed_at = CASE consumed_at WHEN 0 THEN ? ELSE consumed_at END WHERE "+
					"digest = ?", e.KeyDigest, ms(e.At), e.TokenDigest),
			// The response tells the node its profile, so the one that it named before is outdated.
			exec(ctx, tx, "UPDATE nodes SET generation = ?, reported_profile = '' WHERE id = ?", c.Generation, n.ID),
			exec(ctx, tx,
				`INSERT INTO certs (serial, node_id, generation, fingerprint, issuer_fingerprint, not_before, not_after, issued_at)
				VALUES (?,?,?,?,?,?,?,?)`, c.Serial, n.ID, c.Generation, c.Fingerprint, c.IssuerFingerprint, ms(c.NotBefore),
				ms(c.NotAfter), ms(e.At)),
			seen(ctx, tx, Instance{NodeID: n.ID, ID: e.InstanceID, CertSerial: c.Serial, Remote: e.Remote, LastSeenAt: e.At}),
			record(ctx, tx, Evidence{At: e.At, Kind: NodeEnrolled, CorrelationID: e.CorrelationID, NodeID: n.ID,
				InstanceID: e.InstanceID, Detail: map[string]any{
					"serial": c.Serial, "generation": c.Generation, "not_after": c.NotAfter, "node_instance_id": e.InstanceID,
				}}))
	})
	if err == nil && doubted {
		err = ErrDoubt
	}
	return c, err
}

// doubtful reports whether another host acts as the node at this time, according to heartbeats since the
// operator's last decision. A host that does not name itself does not count.
func (e Enrollment) doubtful(n Node) bool {
	return e.InstanceID != "" && n.InstanceID != "" && e.InstanceID != n.InstanceID &&
		n.LastHeartbeatAt.After(n.IdentityAt) &&
		e.At.Sub(n.LastHeartbeatAt) < e.Fresh
}

// doubtEnrollment marks the node cloned. The token stays valid: the operator decides about that as well.
func doubtEnrollment(ctx context.Context, q querier, n Node, e Enrollment) error {
	now := Source{At: e.At, InstanceID: e.InstanceID, Remote: e.Remote}
	other := Source{At: n.LastHeartbeatAt, InstanceID: n.InstanceID, BootID: n.BootID, Serial: n.CertSerial}
	return errors.Join(
		seen(ctx, q, Instance{NodeID: n.ID, ID: e.InstanceID, Remote: e.Remote, LastSeenAt: e.At}),
		markCloned(ctx, q, doubt{n.ID, e.CorrelationID, "enrollment", now, other}))
}

// checkHost refuses a host that is fenced, or that is still another node. It records a host that was another node
// before.
func checkHost(ctx context.Context, q querier, e Enrollment) error {
	out, err := fenced(ctx, q, e.NodeID, Source{InstanceID: e.InstanceID, Remote: e.Remote})
	switch {
	case err != nil:
		return err
	case out:
		return ErrFenced
	}
	former, still, err := formerNode(ctx, q, e.NodeID, e.InstanceID)
	switch {
	case err != nil || former == "":
		return err
	case still:
		return fmt.Errorf("%w: %s", ErrHostBound, former)
	}
	return record(ctx, q, Evidence{At: e.At, Kind: NodeHostReused, CorrelationID: e.CorrelationID, NodeID: e.NodeID,
		InstanceID: e.InstanceID, Detail: map[string]any{"former_node_id": former}})
}

// checkToken returns the node that may enroll with the token.
func checkToken(ctx context.Context, q querier, e Enrollment) (Node, error) {
	var nodeID, profile, consumedBy string
	var expires, consumed time.Time
	err := q.QueryRowContext(ctx,
		"SELECT node_id, profile, expires_at, consumed_at, consumed_by FROM tokens WHERE digest = ?", e.TokenDigest).
		Scan(&nodeID, &profile, moment{&expires}, moment{&consumed}, &consumedBy)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Node{}, ErrTokenUnknown
	case err != nil:
		return Node{}, err
	case nodeID != e.NodeID:
		return Node{}, ErrTokenOtherNode
	}
	n, err := node(ctx, q, nodeID)
	switch { // the identity is checked before the token, so that a retired node gets the reason "retired"
	case err != nil:
	case n.Identity != "":
		err = ErrNodeDenied
	case OtherProfile(profile, e.Profile) || OtherProfile(e.NodeProfile, e.Profile):
		err = ErrProfile
	case !e.At.Before(expires):
		err = ErrTokenExpired
	case !consumed.IsZero() && (consumedBy != e.KeyDigest || e.At.Sub(consumed) > e.Retry):
		err = ErrTokenConsumed
	}
	return n, err
}

// OtherProfile reports whether two environment profiles are both known and differ.
func OtherProfile(a, b string) bool { return a != "" && b != "" && a != b }

const certColumns = "SELECT serial, node_id, generation, fingerprint, issuer_fingerprint, not_before, not_after, " +
	"issued_at, revoked_at, superseded_at FROM certs "

// Cert returns the certificate of a serial, or ErrNotFound.
func (s *Store) Cert(ctx context.Context, serial string) (Cert, error) {
	return one(ctx, s.db, certFields, certColumns+"WHERE serial = ?", serial)
}

// NewestCert returns the newest certificate issued to a node, or ErrNotFound.
func (s *Store) NewestCert(ctx context.Context, nodeID string) (Cert, error) {
	return one(ctx, s.db, certFields, certColumns+"WHERE node_id = ? ORDER BY generation DESC LIMIT 1",
		nodeID)
}

func certFields(c *Cert) []any {
	return []any{&c.Serial, &c.NodeID, &c.Generation, &c.Fingerprint, &c.IssuerFingerprint, moment{&c.NotBefore},
		moment{&c.NotAfter}, moment{&c.IssuedAt}, moment{&c.RevokedAt}, moment{&c.SupersededAt}}
}
