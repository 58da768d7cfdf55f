package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// Operational statuses of a node that this platform sets itself.
const NodeActive = "ACTIVE"

// Node is what is known about a node. Fields up to CreatedAt come from the operator, the others from the node's
// own reports.
type Node struct {
	ID                 string
	Status             string
	Identity           string // "" accepted, else the wire.Deny code
	Hostname           string
	PrivateIP          string
	ProviderClass      string
	GuestAgentStatus   string
	GuestAgentAt       time.Time
	GuestAgentWas      string    // the previous status, if this one is temporary
	GuestAgentWasAt    time.Time // of the word before it
	GuestAgentUntil    time.Time // zero: it holds until it is replaced
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
	Posture          string
	CertIssuer       string // sha256 of the issuing CA if the agent knows it
	// the environment profile that the agent last named, even in a request that was denied because of it
	ReportedProfile string
	IdentityAt      time.Time
	RecoveryReason  string // as last reported to the node's allocations
	RecoveryState   string
	RecoverySince   time.Time
	Generation      int64
	LastSeenAt      time.Time // heartbeat or task wait
	LastHeartbeatAt time.Time
	LastWaitAt      time.Time
	LastDeniedAt    time.Time
	LastDenial      string
}

const nodeColumns = `SELECT id, status, identity, hostname, private_ip, provider_class, guest_agent_status, guest_agent_at,
	guest_agent_was, guest_agent_was_at, guest_agent_until, environment_profile, created_at, instance_id, boot_id, agent_version, api_url, terminal_url, cert_serial, reported_hostname,
	addresses, counters, record, posture, cert_issuer, reported_profile, identity_at, recovery_reason, recovery_state, recovery_since, generation,
	last_seen_at, last_heartbeat_at, last_wait_at, last_denied_at, last_denial FROM nodes `

// Node returns the node, or ErrNotFound.
func (s *Store) Node(ctx context.Context, id string) (Node, error) { return node(ctx, s.db, id) }

func node(ctx context.Context, q querier, id string) (Node, error) {
	return one(ctx, q, nodeFields, nodeColumns+"WHERE id = ?", id)
}

func nodeFields(n *Node) []any {
	return []any{&n.ID, &n.Status, &n.Identity, &n.Hostname, &n.PrivateIP, &n.ProviderClass, &n.GuestAgentStatus,
		moment{&n.GuestAgentAt}, &n.GuestAgentWas, moment{&n.GuestAgentWasAt}, moment{&n.GuestAgentUntil},
		&n.EnvironmentProfile, moment{&n.CreatedAt}, &n.InstanceID, &n.BootID, &n.AgentVersion, &n.APIURL, &n.TerminalURL,
		&n.CertSerial, &n.ReportedHostname, jsonText{&n.Addresses}, jsonText{&n.Counters}, jsonText{&n.Record}, &n.Posture,
		&n.CertIssuer, &n.ReportedProfile, moment{&n.IdentityAt}, &n.RecoveryReason, &n.RecoveryState,
		moment{&n.RecoverySince}, &n.Generation, moment{&n.LastSeenAt}, moment{&n.LastHeartbeatAt}, moment{&n.LastWaitAt},
		moment{&n.LastDeniedAt}, &n.LastDenial}
}

// SeedNode creates n unless its id exists.
func (s *Store) SeedNode(ctx context.Context, n Node) error {
	return exec(ctx, s.db,
		`INSERT INTO nodes (id, status, hostname, private_ip, provider_class, guest_agent_status, guest_agent_at,
		environment_profile, created_at) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`, n.ID, n.Status, n.Hostname,
		n.PrivateIP, n.ProviderClass, n.GuestAgentStatus, ms(n.GuestAgentAt), n.EnvironmentProfile, ms(n.CreatedAt))
}

// RecordTaskWait notes a real task wait, which is a contact.
func (s *Store) RecordTaskWait(ctx context.Context, nodeID string, at time.Time) error {
	return s.touch(ctx, "UPDATE nodes SET last_wait_at = ?1, last_seen_at = max(last_seen_at, ?1) WHERE id = ?2", ms(at),
		nodeID)
}

// RecordDenial records a denial of e's node, with its evidence if keep is set: a repetition may be counted elsewhere.
// For an unknown node it writes only the evidence.
func (s *Store) RecordDenial(ctx context.Context, code string, e Evidence, keep bool) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE nodes SET last_denied_at = ?, last_denial = ? WHERE id = ?", ms(e.At), code,
			e.NodeID)
		if err != nil || !keep {
			return err
		}
		return record(ctx, tx, e)
	})
}

// RecordOtherProfile notes that the node named an environment profile other than its own, and was denied because of
// it.
func (s *Store) RecordOtherProfile(ctx context.Context, nodeID, profile string) error {
	return s.touch(ctx, "UPDATE nodes SET reported_profile = ? WHERE id = ?", profile, nodeID)
}

// NodeIDs returns the ids of all nodes, in order.
func (s *Store) NodeIDs(ctx context.Context) ([]string, error) {
	return all(ctx, s.db, value[string], "SELECT id FROM nodes ORDER BY id")
}

// touch runs an update that must change one row.
func (s *Store) touch(ctx context.Context, query string, args ...any) error {
	return hit(ctx, s.db, ErrNotFound, query, args...)
}

// Heartbeat is one heartbeat as it was received.
type Heartbeat struct {
	wire.HeartbeatRequest

	NodeID        string
	CorrelationID string
	Remote        string
	Serial        string // of the certificate that was presented
	Named         bool   // the request's header names the host as well
	Next          string // the challenge of the response
	ReceivedAt    time.Time
}

// HeartbeatResult is the result of a heartbeat. A heartbeat that shows a clone is not stored.
type HeartbeatResult struct {
	Cloned bool
	Again  bool // the next heartbeat is requested at once
}

// Judges are the platform's rules about a heartbeat's sender. Clone gets the sources of the last heartbeats and of
// other requests, newest first, and returns the one that proves that now comes from a second host. Echo gets the
// challenges given before, oldest first, and the digest of the echoed one.
type Judges struct {
	Clone func(last []Source, now Source) *Source
	Echo  func(last []Link, echo string, now time.Time) ChallengeResult
}

// Source is the sender of a heartbeat or another request.
type Source struct {
	At         time.Time // received
	NodeTime   time.Time // by the sender's clock
	InstanceID string
	BootID     string
	Serial     string
	Generation int64
	Remote     string
	Named      bool // for a heartbeat: the request's header names the host as well
}

func (b Heartbeat) source() Source {
	return Source{At: b.ReceivedAt, NodeTime: b.At, InstanceID: b.NodeInstanceID, BootID: b.BootID, Serial: b.Serial,
		Generation: b.Generation, Remote: b.Remote}
}

// Heartbeat stores a node's report about itself. Changes since the last report (instance, boot, version,
// endpoints, certificate) are recorded as evidence. The judges see nothing older than the window or than the last
// decision about the node's identity. If one of them finds a second host, the node is marked cloned, and its
// report is not stored.
func (s *Store) Heartbeat(ctx context.Context, b Heartbeat, window time.Duration,
	judge Judges) (HeartbeatResult, error) {

	return inTx(ctx, s, func(tx *sql.Tx) (HeartbeatResult, error) {
		n, err := node(ctx, tx, b.NodeID)
		if err != nil {
			return HeartbeatResult{}, err
		}
		since := b.ReceivedAt.Add(-window)
		if n.IdentityAt.After(since) {
			since = n.IdentityAt
		}
		last, err := all(ctx, tx, sourceFields,
			`SELECT at, node_time, instance_id, boot_id, cert_serial, generation, remote, named FROM heartbeats
			WHERE node_id = ? AND at > ? ORDER BY at DESC, id DESC LIMIT 256`, b.NodeID, ms(since))
		if err != nil {
			return HeartbeatResult{}, err
		}
		if err := errors.Join(
			seen(ctx, tx, Instance{NodeID: b.NodeID, ID: b.NodeInstanceID, BootID: b.BootID, CertSerial: b.Serial,
				Remote: b.Remote, Hostname: b.Hostname, LastSeenAt: b.ReceivedAt}),
			exec(ctx, tx,
				`INSERT INTO heartbeats (node_id, at, instance_id, boot_id, cert_serial, generation, remote, node_time, named)
				VALUES (?,?,?,?,?,?,?,?,?)`, b.NodeID, ms(b.ReceivedAt), b.NodeInstanceID, b.BootID, b.Serial, b.Generation,
				b.Remote, ms(b.At), b.Named)); err != nil {
			return HeartbeatResult{}, err
		}
		a, err := answer(ctx, tx, n, b, judge.Echo)
		if err != nil {
			return HeartbeatResult{}, err
		}
		other := judge.Clone(last, b.source())
		if other == nil && a.Second != nil {
			other = &Source{At: a.Second.At, InstanceID: a.Second.InstanceID, Remote: a.Second.Remote}
		}
		heard := HeartbeatResult{Cloned: other != nil, Again: a.Again}
		if heard.Cloned {
			return heard, markCloned(ctx, tx, doubt{b.NodeID, b.CorrelationID, "heartbeat_correlator", b.source(), *other})
		}
		return heard, errors.Join(
			exec(ctx, tx, "UPDATE certs SET used_at = ? WHERE serial = ? AND used_at = 0", ms(b.ReceivedAt),
				b.Serial),
			report(ctx, tx, n, b))
	})
}

func sourceFields(v *Source) []any {
	return []any{moment{&v.At}, moment{&v.NodeTime}, &v.InstanceID, &v.BootID, &v.Serial, &v.Generation, &v.Remote,
		&v.Named}
}

// report stores a heartbeat's fields in the node's row.
func report(ctx context.Context, q querier, n Node, b Heartbeat) error {
	err := exec(ctx, q,
		`UPDATE nodes SET instance_id=?1, boot_id=?2, agent_version=?3, api_url=?4, terminal_url=?5, cert_serial=?6,
		reported_hostname=?7, addresses=?8, counters=?9, record=?10, posture=?13, cert_issuer=?14, reported_profile=?15, last_heartbeat_at=?11,
		last_seen_at=max(last_seen_at, ?11) WHERE id=?12`,
		b.NodeInstanceID, b.BootID, b.AgentVersion, b.APIURL, b.TerminalURL, b.CertSerial, b.Hostname, jsonText{b.Addresses},
		jsonText{b.Counters}, jsonText{b.Record}, ms(b.ReceivedAt), b.NodeID, b.Posture, b.CertIssuer, b.Profile)
	if changed := heartbeatChanges(n, b.HeartbeatRequest); len(changed) > 0 {
		err = errors.Join(err, record(ctx, q, Evidence{At: b.ReceivedAt, Kind: NodeHeartbeatChange,
			CorrelationID: b.CorrelationID, NodeID: b.NodeID, Detail: changed}))
	}
	return err
}

// heartbeatChanges returns the fields in which the report differs from the previous one.
func heartbeatChanges(n Node, h wire.HeartbeatRequest) map[string]any {
	changed := map[string]any{}
	for _, c := range []struct{ name, was, is string }{
		{"node_instance_id", n.InstanceID, h.NodeInstanceID},
		{"boot_id", n.BootID, h.BootID},
		{"agent_version", n.AgentVersion, h.AgentVersion},
		{"api_url", n.APIURL, h.APIURL},
		{"terminal_url", n.TerminalURL, h.TerminalURL},
		{"cert_serial", n.CertSerial, h.CertSerial},
		{"posture", n.Posture, h.Posture},
	} {
		if c.was != c.is {
			changed[c.name] = c.is
		}
	}
	return changed
}
