package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/gpuaas/gpuaasctl/wire"
)

// Operational statuses of a node that this platform sets itself.
const NodeActive = "ACTIVE"

// Node is what is known of a node. Fields up to CreatedAt are the operator's, the others the node's own reports.
type Node struct {
	ID                 string
	Status             string
	Identity           string // "" accepted, else the wire.Deny code
	Hostname           string
	PrivateIP          string
	ProviderClass      string
	GuestAgentStatus   string
	GuestAgentAt       time.Time
	EnvironmentProfile string
	CreatedAt          time.Time

	InstanceID       string
	BootID           string
	AgentVersion     string
	APIURL           string
	TerminalURL      string
	CertSerial       string // as the agent reported it
	ReportedHostname string
	Addresses        []string
	Counters         map[string]int64
	Record           map[string]string
	Generation       int64
	LastSeenAt       time.Time // heartbeat or task wait
	LastHeartbeatAt  time.Time
	LastWaitAt       time.Time
	LastDeniedAt     time.Time
	LastDenial       string
}

const nodeColumns = `SELECT id, status, identity, hostname, private_ip, provider_class, guest_agent_status, guest_agent_at,
	environment_profile, created_at, instance_id, boot_id, agent_version, api_url, terminal_url, cert_serial, reported_hostname,
	addresses, counters, record, generation, last_seen_at, last_heartbeat_at, last_wait_at, last_denied_at, last_denial FROM nodes `

// Node returns the node, or ErrNotFound.
func (s *Store) Node(ctx context.Context, id string) (Node, error) { return node(ctx, s.db, id) }

func node(ctx context.Context, q querier, id string) (Node, error) {
	return one(readNode(q.QueryRowContext(ctx, nodeColumns+"WHERE id = ?", id)))
}

func readNode(row scanner) (Node, error) {
	var n Node
	err := row.Scan(&n.ID, &n.Status, &n.Identity, &n.Hostname, &n.PrivateIP, &n.ProviderClass, &n.GuestAgentStatus, moment{&n.GuestAgentAt},
		&n.EnvironmentProfile, moment{&n.CreatedAt}, &n.InstanceID, &n.BootID, &n.AgentVersion, &n.APIURL, &n.TerminalURL, &n.CertSerial,
		&n.ReportedHostname, jsonText{&n.Addresses}, jsonText{&n.Counters}, jsonText{&n.Record}, &n.Generation, moment{&n.LastSeenAt},
		moment{&n.LastHeartbeatAt}, moment{&n.LastWaitAt}, moment{&n.LastDeniedAt}, &n.LastDenial)
	return n, err
}

// SeedNode creates n when there is none of its id.
func (s *Store) SeedNode(ctx context.Context, n Node) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO nodes (id, status, hostname, private_ip, provider_class, guest_agent_status, guest_agent_at,
		environment_profile, created_at) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`, n.ID, n.Status, n.Hostname, n.PrivateIP,
		n.ProviderClass, n.GuestAgentStatus, ms(n.GuestAgentAt), n.EnvironmentProfile, ms(n.CreatedAt))
	return err
}

// SetIdentity accepts (code "") or denies (a wire.Deny code) the node's credentials.
func (s *Store) SetIdentity(ctx context.Context, nodeID, code string) error {
	return s.touch(ctx, "UPDATE nodes SET identity = ? WHERE id = ?", code, nodeID)
}

// Waited notes a real task wait: a contact.
func (s *Store) Waited(ctx context.Context, nodeID string, at time.Time) error {
	return s.touch(ctx, "UPDATE nodes SET last_wait_at = ?1, last_seen_at = max(last_seen_at, ?1) WHERE id = ?2", ms(at), nodeID)
}

// Denied notes a denial, with its evidence. A node that does not exist gets the evidence alone.
func (s *Store) Denied(ctx context.Context, code string, e Evidence) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE nodes SET last_denied_at = ?, last_denial = ? WHERE id = ?", ms(e.At), code, e.NodeID); err != nil {
			return err
		}
		return record(ctx, tx, e)
	})
}

// touch runs an update that must hit one row.
func (s *Store) touch(ctx context.Context, query string, args ...any) error {
	res, err := s.db.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		if err == nil {
			err = ErrNotFound
		}
		return err
	}
	return nil
}

// Heartbeat stores a node's report of itself, received at the given time from remote. What changed since the last
// report (instance, boot, version, endpoints, certificate) is recorded as evidence.
func (s *Store) Heartbeat(ctx context.Context, nodeID, correlationID, remote string, at time.Time, h wire.HeartbeatRequest) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		n, err := node(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE nodes SET instance_id=?1, boot_id=?2, agent_version=?3, api_url=?4, terminal_url=?5, cert_serial=?6,
			reported_hostname=?7, addresses=?8, counters=?9, record=?10, last_heartbeat_at=?11, last_seen_at=max(last_seen_at, ?11) WHERE id=?12`,
			h.NodeInstanceID, h.BootID, h.AgentVersion, h.APIURL, h.TerminalURL, h.CertSerial, h.Hostname, toJSON(h.Addresses),
			toJSON(h.Counters), toJSON(h.Record), ms(at), nodeID)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO heartbeats (node_id, at, instance_id, boot_id, cert_serial, remote, node_time) VALUES (?,?,?,?,?,?,?)`,
			nodeID, ms(at), h.NodeInstanceID, h.BootID, h.CertSerial, remote, ms(h.At))
		if err != nil {
			return err
		}
		if changed := heartbeatChanges(n, h); len(changed) > 0 {
			return record(ctx, tx, Evidence{At: at, Kind: NodeHeartbeatChange, CorrelationID: correlationID, NodeID: nodeID, Detail: changed})
		}
		return nil
	})
}

// heartbeatChanges names what the report says differently from the one before.
func heartbeatChanges(n Node, h wire.HeartbeatRequest) map[string]any {
	changed := map[string]any{}
	for _, c := range []struct{ name, was, is string }{
		{"node_instance_id", n.InstanceID, h.NodeInstanceID},
		{"boot_id", n.BootID, h.BootID},
		{"agent_version", n.AgentVersion, h.AgentVersion},
		{"api_url", n.APIURL, h.APIURL},
		{"terminal_url", n.TerminalURL, h.TerminalURL},
		{"cert_serial", n.CertSerial, h.CertSerial},
	} {
		if c.was != c.is {
			changed[c.name] = c.is
		}
	}
	return changed
}
