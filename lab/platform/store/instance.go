package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Instance is a host that acted as a node: several over time mean a reimage or a reuse, several at a time a clone.
type Instance struct {
	NodeID      string
	ID          string
	BootID      string
	CertSerial  string
	Remote      string
	Hostname    string
	FirstSeenAt time.Time
	LastSeenAt  time.Time
	FencedAt    time.Time // zero: not fenced
}

const instanceColumns = `SELECT node_id, instance_id, boot_id, cert_serial, remote, hostname, first_seen_at, last_seen_at, fenced_at FROM instances `

func instanceFields(i *Instance) []any {
	return []any{&i.NodeID, &i.ID, &i.BootID, &i.CertSerial, &i.Remote, &i.Hostname, moment{&i.FirstSeenAt},
		moment{&i.LastSeenAt}, moment{&i.FencedAt}}
}

// Instances returns the hosts that acted as the node, newest first.
func (s *Store) Instances(ctx context.Context, nodeID string) ([]Instance, error) {
	return all(ctx, s.db, instanceFields, instanceColumns+"WHERE node_id = ? ORDER BY last_seen_at DESC, instance_id",
		nodeID)
}

// KnownInstance reports whether the host ever acted as the node.
func (s *Store) KnownInstance(ctx context.Context, nodeID, instanceID string) (bool, error) {
	return one(ctx, s.db, value[bool], "SELECT count(*) > 0 FROM instances WHERE node_id = ? AND instance_id = ?", nodeID,
		instanceID)
}

// seen notes that an instance was active. An empty field does not overwrite a known value.
func seen(ctx context.Context, q querier, i Instance) error {
	if i.ID == "" {
		return nil
	}
	return exec(ctx, q,
		`INSERT INTO instances (node_id, instance_id, boot_id, cert_serial, remote, hostname, first_seen_at, last_seen_at)
		VALUES (?1,?2,?3,?4,?5,?6,?7,?7) ON CONFLICT (node_id, instance_id) DO UPDATE SET last_seen_at = ?7, remote = ?5,
		boot_id = CASE ?3 WHEN '' THEN boot_id ELSE ?3 END, cert_serial = CASE ?4 WHEN '' THEN cert_serial ELSE ?4 END,
		hostname = CASE ?6 WHEN '' THEN hostname ELSE ?6 END`, i.NodeID, i.ID, i.BootID, i.CertSerial, i.Remote, i.Hostname,
		ms(i.LastSeenAt))
}

// Fenced reports whether a request as the node comes from a fenced host. It compares the instance id; and, unless
// that belongs to a known host that is not fenced, the last certificate of the fenced host or, for a request
// without an instance id, its address, provided that no other host has the same. So a fenced host cannot get back
// in by another name.
func (s *Store) Fenced(ctx context.Context, nodeID string, from Source) (bool, error) {
	return fenced(ctx, s.db, nodeID, from)
}

func fenced(ctx context.Context, q querier, nodeID string, from Source) (bool, error) {
	return one(ctx, q, value[bool], `WITH others AS (SELECT * FROM instances WHERE node_id = ?1 AND fenced_at = 0)
		SELECT count(*) > 0 FROM instances f WHERE f.node_id = ?1 AND f.fenced_at > 0 AND (f.instance_id = ?2 OR ?2 NOT IN (SELECT instance_id FROM others) AND (
			?4 != '' AND f.cert_serial = ?4 AND ?4 NOT IN (SELECT cert_serial FROM others) OR
			?2 = '' AND f.remote = ?3 AND ?3 NOT IN (SELECT remote FROM others)))`, nodeID, from.InstanceID, from.Remote,
		from.Serial)
}

// formerNode returns the other node that the host last acted as, and whether it still is that node: neither
// retired, nor moved to another host, nor fenced there. It is "" if the host was never another node.
func formerNode(ctx context.Context, q querier, nodeID, instanceID string) (former string, still bool, err error) {
	if instanceID == "" {
		return "", false, nil
	}
	err = q.QueryRowContext(ctx,
		`SELECT i.node_id, n.identity != 'retired' AND n.instance_id = i.instance_id AND i.fenced_at = 0
		FROM instances i JOIN nodes n ON n.id = i.node_id WHERE i.instance_id = ? AND i.node_id != ? ORDER BY 2 DESC, i.last_seen_at DESC LIMIT 1`,
		instanceID, nodeID).Scan(&former, &still)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return former, still, err
}
