package store

// migrations is the schema as a list of steps; a released step is never changed. The database's user_version is
// the number of applied steps. Times are Unix milliseconds, 0 is never.
var migrations = [...]string{`
CREATE TABLE nodes (
  id TEXT PRIMARY KEY,
  status TEXT NOT NULL,                        -- operational: ACTIVE, CORDONED, ...
  identity TEXT NOT NULL DEFAULT '',           -- '' accepted, else the code with which its credentials are denied
  hostname TEXT NOT NULL, private_ip TEXT NOT NULL,
  provider_class TEXT NOT NULL, guest_agent_status TEXT NOT NULL DEFAULT '', guest_agent_at INTEGER NOT NULL DEFAULT 0,
  environment_profile TEXT NOT NULL DEFAULT '',
  instance_id TEXT NOT NULL DEFAULT '', boot_id TEXT NOT NULL DEFAULT '', agent_version TEXT NOT NULL DEFAULT '',
  api_url TEXT NOT NULL DEFAULT '', terminal_url TEXT NOT NULL DEFAULT '', cert_serial TEXT NOT NULL DEFAULT '',
  reported_hostname TEXT NOT NULL DEFAULT '', addresses TEXT NOT NULL DEFAULT '',
  counters TEXT NOT NULL DEFAULT '', record TEXT NOT NULL DEFAULT '',
  generation INTEGER NOT NULL DEFAULT 0,       -- of the newest certificate issued
  created_at INTEGER NOT NULL, last_seen_at INTEGER NOT NULL DEFAULT 0, last_heartbeat_at INTEGER NOT NULL DEFAULT 0,
  last_wait_at INTEGER NOT NULL DEFAULT 0, last_denied_at INTEGER NOT NULL DEFAULT 0, last_denial TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE tokens (
  digest TEXT PRIMARY KEY, node_id TEXT NOT NULL REFERENCES nodes(id), created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL, consumed_at INTEGER NOT NULL DEFAULT 0, consumed_by TEXT NOT NULL DEFAULT '' -- digest of the public key
) STRICT;
CREATE TABLE certs (
  serial TEXT PRIMARY KEY, node_id TEXT NOT NULL REFERENCES nodes(id), generation INTEGER NOT NULL,
  fingerprint TEXT NOT NULL, issuer_fingerprint TEXT NOT NULL, not_before INTEGER NOT NULL, not_after INTEGER NOT NULL,
  issued_at INTEGER NOT NULL, revoked_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX certs_node ON certs(node_id, generation);
CREATE TABLE heartbeats (
  id INTEGER PRIMARY KEY, node_id TEXT NOT NULL, at INTEGER NOT NULL, instance_id TEXT NOT NULL, boot_id TEXT NOT NULL,
  cert_serial TEXT NOT NULL, remote TEXT NOT NULL, node_time INTEGER NOT NULL
) STRICT;
CREATE INDEX heartbeats_node ON heartbeats(node_id, at);
CREATE TABLE tasks (
  id TEXT PRIMARY KEY, node_id TEXT NOT NULL REFERENCES nodes(id), type TEXT NOT NULL, payload BLOB,
  correlation_id TEXT NOT NULL, session_id TEXT NOT NULL, allocation_id TEXT NOT NULL, status TEXT NOT NULL,
  queued_at INTEGER NOT NULL, claimed_at INTEGER NOT NULL DEFAULT 0, completed_at INTEGER NOT NULL DEFAULT 0,
  expires_at INTEGER NOT NULL, result TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX tasks_open ON tasks(status, node_id, queued_at);
CREATE INDEX tasks_node ON tasks(node_id, completed_at);
CREATE TABLE operations (
  id TEXT PRIMARY KEY, node_id TEXT NOT NULL, type TEXT NOT NULL, task_id TEXT NOT NULL DEFAULT '', -- a task's operation has the task's status
  status TEXT NOT NULL, correlation_id TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX operations_node ON operations(node_id, created_at);
CREATE TABLE allocations (
  id TEXT PRIMARY KEY, node_id TEXT NOT NULL REFERENCES nodes(id), state TEXT NOT NULL, os_user TEXT NOT NULL,
  workflow_id TEXT NOT NULL, app_kind TEXT NOT NULL, app_unit TEXT NOT NULL, app_port INTEGER NOT NULL,
  app_product_url TEXT NOT NULL, app_status TEXT NOT NULL DEFAULT '', app_observed_at INTEGER NOT NULL DEFAULT 0,
  app_probe_failed_at INTEGER NOT NULL DEFAULT 0, app_probe_failures INTEGER NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, allocation_id TEXT NOT NULL, node_id TEXT NOT NULL, os_user TEXT NOT NULL,
  token_digest TEXT NOT NULL, correlation_id TEXT NOT NULL, task_id TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, browser_connected_at INTEGER NOT NULL DEFAULT 0,
  node_stream_connected_at INTEGER NOT NULL DEFAULT 0, pty_ready_at INTEGER NOT NULL DEFAULT 0,
  closed_at INTEGER NOT NULL DEFAULT 0, close_reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX sessions_node ON sessions(node_id, created_at);
CREATE TABLE events (
  node_id TEXT NOT NULL, instance_id TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL,
  correlation_id TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (node_id, instance_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE watermarks (
  node_id TEXT NOT NULL, instance_id TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (node_id, instance_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE evidence (
  id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, correlation_id TEXT NOT NULL, node_id TEXT NOT NULL,
  allocation_id TEXT NOT NULL, session_id TEXT NOT NULL, task_id TEXT NOT NULL, detail TEXT NOT NULL
) STRICT;
CREATE INDEX evidence_correlation ON evidence(correlation_id, at);
CREATE INDEX evidence_session ON evidence(session_id, at);
CREATE INDEX evidence_kind ON evidence(kind, at);
`, `
ALTER TABLE evidence ADD COLUMN instance_id TEXT NOT NULL DEFAULT '';  -- the node's when it was recorded
ALTER TABLE evidence ADD COLUMN workflow_id TEXT NOT NULL DEFAULT '';  -- the allocation's
CREATE INDEX evidence_node ON evidence(node_id, at);
CREATE INDEX evidence_allocation ON evidence(allocation_id, at);
`, `
-- What the recovery model needs: who spoke as a node, what an operator decided, what a node's reason did to its tenants.
ALTER TABLE nodes ADD COLUMN posture TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN cert_issuer TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN reported_profile TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN identity_at INTEGER NOT NULL DEFAULT 0;      -- of the last decision on identity: older heartbeats are settled
ALTER TABLE nodes ADD COLUMN recovery_reason TEXT NOT NULL DEFAULT 'none';
ALTER TABLE nodes ADD COLUMN recovery_state TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN recovery_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE heartbeats ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN profile TEXT NOT NULL DEFAULT '';           -- '': any
ALTER TABLE tokens ADD COLUMN task_id TEXT NOT NULL DEFAULT '';           -- of the rotation that brought it
CREATE INDEX tokens_node ON tokens(node_id, expires_at);
ALTER TABLE tasks ADD COLUMN reclaims INTEGER NOT NULL DEFAULT 0;         -- how often it went back to the queue for want of a result
ALTER TABLE tasks ADD COLUMN late_at INTEGER NOT NULL DEFAULT 0;          -- when a result came after the expiry
ALTER TABLE allocations ADD COLUMN recovery_reason TEXT NOT NULL DEFAULT 'none';
ALTER TABLE allocations ADD COLUMN recovery_state TEXT NOT NULL DEFAULT '';
ALTER TABLE allocations ADD COLUMN recovery_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE allocations ADD COLUMN credential TEXT NOT NULL DEFAULT '';   -- JSON, '' never reported
CREATE INDEX allocations_node ON allocations(node_id, state);
CREATE TABLE instances (                                                  -- every host that ever spoke as a node
  node_id TEXT NOT NULL, instance_id TEXT NOT NULL, boot_id TEXT NOT NULL, cert_serial TEXT NOT NULL, remote TEXT NOT NULL,
  hostname TEXT NOT NULL, first_seen_at INTEGER NOT NULL, last_seen_at INTEGER NOT NULL, fenced_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (node_id, instance_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX instances_host ON instances(instance_id);
CREATE TABLE audit (
  id INTEGER PRIMARY KEY, at INTEGER NOT NULL, phase TEXT NOT NULL,        -- decision, first, summary or recovery
  actor_type TEXT NOT NULL, actor_id TEXT NOT NULL, app_instance_id TEXT NOT NULL, credential_id TEXT NOT NULL, action TEXT NOT NULL,
  reason TEXT NOT NULL, node_id TEXT NOT NULL, correlation_id TEXT NOT NULL, key_hash TEXT NOT NULL,
  first_seen_at INTEGER NOT NULL, last_seen_at INTEGER NOT NULL, count INTEGER NOT NULL, remote TEXT NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit(at);
CREATE TABLE audit_open (                                                 -- failures that last
  key_hash TEXT PRIMARY KEY, actor_type TEXT NOT NULL, actor_id TEXT NOT NULL, app_instance_id TEXT NOT NULL, credential_id TEXT NOT NULL,
  action TEXT NOT NULL, reason TEXT NOT NULL, node_id TEXT NOT NULL, first_seen_at INTEGER NOT NULL, last_seen_at INTEGER NOT NULL,
  count INTEGER NOT NULL, row_at INTEGER NOT NULL                          -- when the audit last had a row of it
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_open_actor ON audit_open(actor_type, actor_id, action);
`, `
CREATE TABLE rollouts (                                                   -- self-updates; body is what node and platform tell each other
  id TEXT PRIMARY KEY, node_id TEXT NOT NULL, instance_id TEXT NOT NULL DEFAULT '', state TEXT NOT NULL, body TEXT NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX rollouts_node ON rollouts(node_id, created_at);
CREATE TABLE boots (                                                      -- the newest boot report of each node
  node_id TEXT PRIMARY KEY, instance_id TEXT NOT NULL, report TEXT NOT NULL, at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`, `
ALTER TABLE certs ADD COLUMN superseded_at INTEGER NOT NULL DEFAULT 0; -- by a decision that asks for a new identity
`, `
ALTER TABLE watermarks ADD COLUMN told_at INTEGER NOT NULL DEFAULT 0; -- when the host last sent events
`, `
UPDATE allocations SET credential = '[' || credential || ']' WHERE credential != ''; -- an application has more than one
`, `
-- A provider's word that holds for a while: what held before it, and until when it holds (0: no end).
ALTER TABLE nodes ADD COLUMN guest_agent_was TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN guest_agent_was_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN guest_agent_until INTEGER NOT NULL DEFAULT 0;
`, `
ALTER TABLE allocations ADD COLUMN uncleaned INTEGER NOT NULL DEFAULT 0; -- released by an operator; not known yet that the node has cleaned up
`, `
ALTER TABLE certs ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;          -- of the first heartbeat under it: older ones end soon after
ALTER TABLE heartbeats ADD COLUMN via TEXT NOT NULL DEFAULT '';           -- '' a heartbeat, else another request, of a source that is not the heartbeats'
ALTER TABLE heartbeats ADD COLUMN named INTEGER NOT NULL DEFAULT 0;       -- its request named its host in the header, too
CREATE TABLE challenges (                                                 -- what each answer to a heartbeat gave to echo
  id INTEGER PRIMARY KEY AUTOINCREMENT, node_id TEXT NOT NULL, digest TEXT NOT NULL,
  parent INTEGER NOT NULL, line INTEGER NOT NULL,                         -- the one that the heartbeat echoed; the first of its process, 0: this one
  instance_id TEXT NOT NULL, remote TEXT NOT NULL, held INTEGER NOT NULL, -- held: its heartbeat may have been held up on its way
  at INTEGER NOT NULL, echoed_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX challenges_node ON challenges(node_id, id);
CREATE INDEX heartbeats_via ON heartbeats(node_id, via, at);
`, `
-- No request and no pruning reads more of a table because the platform is older.
CREATE INDEX evidence_at ON evidence(at);
CREATE INDEX evidence_notices ON evidence(allocation_id, at) WHERE kind = 'allocation.recovery_changed';
CREATE INDEX heartbeats_at ON heartbeats(at);
CREATE INDEX tasks_queued ON tasks(queued_at);
CREATE INDEX operations_created ON operations(created_at);
CREATE INDEX operations_task ON operations(task_id);
CREATE INDEX sessions_created ON sessions(created_at);
CREATE INDEX sessions_open ON sessions(browser_connected_at) WHERE closed_at = 0;
CREATE INDEX events_at ON events(at);
`, `
ALTER TABLE allocations ADD COLUMN release_until INTEGER NOT NULL DEFAULT 0; -- of a release for a while: when it is active again (0: a release for good)
`, `
ALTER TABLE sessions ADD COLUMN closed_by TEXT NOT NULL DEFAULT '';       -- wire.By*
ALTER TABLE sessions ADD COLUMN close_code INTEGER NOT NULL DEFAULT 0;    -- what that side sent; 1006: its connection broke
ALTER TABLE sessions ADD COLUMN close_detail TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN node_answers TEXT NOT NULL DEFAULT '';    -- whether the node answered the last ping: yes, no, '' not asked
`, `
CREATE TABLE gpu_nodes (                                                  -- nodes that have reported GPUs
  node_id TEXT PRIMARY KEY, instance_id TEXT NOT NULL, boot_id TEXT NOT NULL, seq INTEGER NOT NULL, -- of the newest event
  status TEXT NOT NULL DEFAULT '', judged TEXT NOT NULL DEFAULT ''        -- JSON, '' never judged
) STRICT, WITHOUT ROWID;
CREATE TABLE gpu_events (                                                 -- what they are judged by, of this boot
  node_id TEXT NOT NULL, seq INTEGER NOT NULL, slot TEXT NOT NULL,        -- what it is one of: a GPU, an error of a GPU, the probe
  received_at INTEGER NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (node_id, slot, seq)
) STRICT, WITHOUT ROWID;
`, `
ALTER TABLE gpu_nodes ADD COLUMN due TEXT NOT NULL DEFAULT '';            -- JSON: the newest change that the coordinator has not taken
CREATE TABLE gpu_policy (                                                 -- the one that was accepted last, in one row
  path TEXT NOT NULL, digest TEXT NOT NULL, text BLOB NOT NULL
) STRICT;
`, `
-- Numbers above 2^51, which agents do not believe, were wrong. Events of such a node count from what it sent before.
DELETE FROM events WHERE seq > 2251799813685248;
UPDATE watermarks SET seq = coalesce((SELECT max(seq) FROM events e WHERE e.node_id = watermarks.node_id
  AND e.instance_id = watermarks.instance_id), 0) WHERE seq > 2251799813685248;
CREATE TABLE retention (                                                  -- in one row: up to when rows were pruned
  only INTEGER PRIMARY KEY CHECK (only = 1), at INTEGER NOT NULL
) STRICT;
CREATE TABLE written (                                                    -- in one row: the last check that the disk takes writes
  only INTEGER PRIMARY KEY CHECK (only = 1), text TEXT NOT NULL
) STRICT;
`}
