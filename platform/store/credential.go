package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Reasons why an enrollment token does not count. Callers map them to denials.
var (
	ErrTokenUnknown   = errors.New("token is unknown")
	ErrTokenOtherNode = errors.New("token is bound to another node")
	ErrTokenExpired   = errors.New("token has expired")
	ErrTokenConsumed  = errors.New("token was used already")
	ErrNodeDenied     = errors.New("node is denied")
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
}

// AddToken stores an enrollment token by its digest; one that exists is left as it is.
func (s *Store) AddToken(ctx context.Context, nodeID, digest string, now, expires time.Time) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO tokens (digest, node_id, created_at, expires_at) VALUES (?,?,?,?) ON CONFLICT (digest) DO NOTHING",
		digest, nodeID, ms(now), ms(expires))
	return err
}

// Reenroll stores a fresh token of a node with the audit of its issue.
func (s *Store) Reenroll(ctx context.Context, digest string, expires time.Time, e Evidence) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO tokens (digest, node_id, created_at, expires_at) VALUES (?,?,?,?)",
			digest, e.NodeID, ms(e.At), ms(expires)); err != nil {
			return err
		}
		if err := addOperation(ctx, tx, Operation{NodeID: e.NodeID, Type: "reenroll", Status: "issued", CorrelationID: e.CorrelationID,
			CreatedAt: e.At, ExpiresAt: expires}); err != nil {
			return err
		}
		return record(ctx, tx, e)
	})
}

// Enrollment is one attempt to turn a token into a certificate.
type Enrollment struct {
	NodeID        string
	InstanceID    string
	CorrelationID string
	TokenDigest   string
	KeyDigest     string // of the public key that the CSR proved
	At            time.Time
	Retry         time.Duration // how long the same key may ask again: its first answer may have been lost
}

// Enroll consumes the token, counts the node's generation up and stores the certificate that issue makes for it; all
// or nothing.
func (s *Store) Enroll(ctx context.Context, e Enrollment, issue func(generation int64) (Cert, error)) (Cert, error) {
	var c Cert
	err := s.tx(ctx, func(tx *sql.Tx) error {
		n, err := checkToken(ctx, tx, e)
		if err != nil {
			return err
		}
		if c, err = issue(n.Generation + 1); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "UPDATE tokens SET consumed_by = ?, consumed_at = CASE consumed_at WHEN 0 THEN ? ELSE consumed_at END WHERE digest = ?",
			e.KeyDigest, ms(e.At), e.TokenDigest); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "UPDATE nodes SET generation = ? WHERE id = ?", c.Generation, n.ID); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, `INSERT INTO certs (serial, node_id, generation, fingerprint, issuer_fingerprint, not_before, not_after, issued_at)
			VALUES (?,?,?,?,?,?,?,?)`, c.Serial, n.ID, c.Generation, c.Fingerprint, c.IssuerFingerprint, ms(c.NotBefore), ms(c.NotAfter), ms(e.At)); err != nil {
			return err
		}
		return record(ctx, tx, Evidence{At: e.At, Kind: NodeEnrolled, CorrelationID: e.CorrelationID, NodeID: n.ID, Detail: map[string]any{
			"serial": c.Serial, "generation": c.Generation, "not_after": c.NotAfter, "node_instance_id": e.InstanceID,
		}})
	})
	return c, err
}

// checkToken returns the node that may enroll with the token.
func checkToken(ctx context.Context, q querier, e Enrollment) (Node, error) {
	var nodeID, consumedBy string
	var expires, consumed time.Time
	err := q.QueryRowContext(ctx, "SELECT node_id, expires_at, consumed_at, consumed_by FROM tokens WHERE digest = ?", e.TokenDigest).
		Scan(&nodeID, moment{&expires}, moment{&consumed}, &consumedBy)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Node{}, ErrTokenUnknown
	case err != nil:
		return Node{}, err
	case nodeID != e.NodeID:
		return Node{}, ErrTokenOtherNode
	case !e.At.Before(expires):
		return Node{}, ErrTokenExpired
	case !consumed.IsZero() && (consumedBy != e.KeyDigest || e.At.Sub(consumed) > e.Retry):
		return Node{}, ErrTokenConsumed
	}
	n, err := node(ctx, q, nodeID)
	if err == nil && n.Identity != "" {
		err = ErrNodeDenied
	}
	return n, err
}

const certColumns = "SELECT serial, node_id, generation, fingerprint, issuer_fingerprint, not_before, not_after, issued_at, revoked_at FROM certs "

// Cert returns the certificate of a serial, or ErrNotFound.
func (s *Store) Cert(ctx context.Context, serial string) (Cert, error) {
	return one(readCert(s.db.QueryRowContext(ctx, certColumns+"WHERE serial = ?", serial)))
}

// NewestCert returns the newest certificate issued to a node, or ErrNotFound.
func (s *Store) NewestCert(ctx context.Context, nodeID string) (Cert, error) {
	return one(readCert(s.db.QueryRowContext(ctx, certColumns+"WHERE node_id = ? ORDER BY generation DESC LIMIT 1", nodeID)))
}

// RevokeCert revokes one certificate.
func (s *Store) RevokeCert(ctx context.Context, serial string, at time.Time) error {
	return s.touch(ctx, "UPDATE certs SET revoked_at = ? WHERE serial = ?", ms(at), serial)
}

func readCert(row scanner) (Cert, error) {
	var c Cert
	err := row.Scan(&c.Serial, &c.NodeID, &c.Generation, &c.Fingerprint, &c.IssuerFingerprint, moment{&c.NotBefore}, moment{&c.NotAfter},
		moment{&c.IssuedAt}, moment{&c.RevokedAt})
	return c, err
}
