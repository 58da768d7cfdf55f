package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Reasons why an enrollment token does not count. Callers map them to denials.
var (
	ErrTokenUnknown   = errors.New("token is unknown")
	ErrTokenOtherNode = errors.New("token is bound to another node")
	ErrTokenExpired   = errors.New("token has expired")
	ErrTokenConsumed  = errors.New("token was used already")
	ErrProfile        = errors.New("token or node is of another environment profile")
	ErrNodeDenied     = errors.New("node is denied")
	ErrFenced         = errors.New("host is fenced")
	ErrDoubt          = errors.New("another host speaks as the node at this time")
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
	SupersededAt      time.Time // an operator asked for a new identity: it was the node's and is no longer
}

// Token is an enrollment token as it is stored: by its digest.
type Token struct {
	NodeID    string
	Digest    string
	Profile   string // the environment that it is for; empty: any
	TaskID    string // of the rotation that brought it to the node
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// AddToken stores an enrollment token; one that exists is left as it is.
func (s *Store) AddToken(ctx context.Context, t Token) error { return addToken(ctx, s.db, t) }

func addToken(ctx context.Context, q querier, t Token) error {
	return exec(ctx, q,
		"INSERT INTO tokens (digest, node_id, profile, task_id, created_at, expires_at) VALUES (?,?,?,?,?,?) ON CONFLICT "+
			"(digest) DO NOTHING", t.Digest, t.NodeID, t.Profile, t.TaskID, ms(t.IssuedAt), ms(t.ExpiresAt))
}

// CurrentToken reports whether the node could enroll with a token that it may have: unused and not expired.
func (s *Store) CurrentToken(ctx context.Context, nodeID string, now time.Time) (bool, error) {
	return one(ctx, s.db, value[bool],
		"SELECT count(*) > 0 FROM tokens WHERE node_id = ? AND consumed_at = 0 AND expires_at > ?", nodeID, ms(now))
}

// endTokens makes every unused token of a node expire now, but for the one of a digest.
func endTokens(ctx context.Context, q querier, nodeID, but string, at time.Time) error {
	return exec(ctx, q,
		"UPDATE tokens SET expires_at = ?1 WHERE node_id = ?2 AND digest != ?3 AND consumed_at = 0 AND expires_at > ?1",
		ms(at), nodeID, but)
}

// Enrollment is one attempt to turn a token into a certificate.
type Enrollment struct {
	NodeID        string
	InstanceID    string
	Remote        string
	Profile       string // the environment that is active for the node; empty: any
	NodeProfile   string // the one that the node names; empty: none
	CorrelationID string
	TokenDigest   string
	KeyDigest     string // of the public key that the CSR proved
	At            time.Time
	Retry         time.Duration // how long the same key may ask again: its first answer may have been lost
	Fresh         time.Duration // how long after its last heartbeat a host counts as alive
}

// Enroll consumes the token, counts the node's generation up and stores the certificate that issue makes for it; all
// or nothing. While another host is alive the node is marked cloned instead, and the error is ErrDoubt.
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
			// The answer tells the node its profile, so what it named before is over.
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

// doubtful reports whether another host speaks as the node at this time, as far as the operator's last decision leaves
// it open. A host that does not say who it is is none.
func (e Enrollment) doubtful(n Node) bool {
	return e.InstanceID != "" && n.InstanceID != "" && e.InstanceID != n.InstanceID &&
		n.LastHeartbeatAt.After(n.IdentityAt) &&
		e.At.Sub(n.LastHeartbeatAt) < e.Fresh
}

// doubtEnrollment marks the node cloned. The token stays as it is: the operator settles that, too.
func doubtEnrollment(ctx context.Context, q querier, n Node, e Enrollment) error {
	now := Source{At: e.At, InstanceID: e.InstanceID, Remote: e.Remote}
	other := Source{At: n.LastHeartbeatAt, InstanceID: n.InstanceID, BootID: n.BootID, Serial: n.CertSerial}
	return errors.Join(
		seen(ctx, q, Instance{NodeID: n.ID, ID: e.InstanceID, Remote: e.Remote, LastSeenAt: e.At}),
		markCloned(ctx, q, doubt{n.ID, e.CorrelationID, "enrollment", now, other}))
}

// checkHost refuses a host that is fenced, or that is another node still; one that was another node before is recorded.
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
	switch { // the identity is checked before the token: a retired node learns that it is retired
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

// OtherProfile reports whether two environment profiles are known and differ.
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

// RevokeCert revokes one certificate.
func (s *Store) RevokeCert(ctx context.Context, serial string, at time.Time) error {
	return s.touch(ctx, "UPDATE certs SET revoked_at = ? WHERE serial = ?", ms(at), serial)
}

func certFields(c *Cert) []any {
	return []any{&c.Serial, &c.NodeID, &c.Generation, &c.Fingerprint, &c.IssuerFingerprint, moment{&c.NotBefore},
		moment{&c.NotAfter}, moment{&c.IssuedAt}, moment{&c.RevokedAt}, moment{&c.SupersededAt}}
}
