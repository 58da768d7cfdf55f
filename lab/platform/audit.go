package platform

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// Actors and actions of the audit rows of failures.
const (
	actorNode          = "node"
	actorHost          = "host" // a fenced one, or one with a previous certificate
	actionAuthenticate = "node.authenticate"
	actionEnroll       = "node.enroll"
	actionCredential   = "app.credential"
)

// unknownActor replaces every node id that does not exist, so that invented names cannot fill the audit.
const unknownActor = "unknown"

func (p *Platform) knownNode(ctx context.Context, nodeID string) string {
	if _, err := p.store.Node(ctx, nodeID); err != nil {
		return unknownActor
	}
	return nodeID
}

// knownHost names a host in the audit: by its instance if the node was ever seen on it, otherwise by its address,
// since the instance in a request is only a claim.
func (p *Platform) knownHost(ctx context.Context, nodeID, instance, remote string) string {
	if known, err := p.store.KnownInstance(ctx, nodeID, instance); err == nil && known {
		return instance
	}
	return remote
}

// failed counts one occurrence of a failure: always in the log and the metrics, and with an audit row if one is
// due.
func (p *Platform) failed(ctx context.Context, a store.Audit) {
	a.At, a.CorrelationID = p.now(), web.CorrelationID(ctx)
	if a.ActorID == unknownActor {
		a.NodeID = ""
	}
	a, err := p.store.Failed(ctx, a, seconds(p.cfg.Policy.AuditDedupeWindow))
	if err != nil {
		p.log.Error("write audit", "error", err)
		return
	}
	p.logAudit(ctx, a)
	p.metrics.add("audited_failures_total", "action", a.Action)
	if a.Phase != "" {
		p.metrics.add("audit_rows_total", "phase", a.Phase)
	}
}

// recovered ends the open failures of an actor's action, with any reason and, if k names no credential, with any
// credential.
func (p *Platform) recovered(ctx context.Context, k store.AuditKey) {
	rows, err := p.store.Recovered(ctx, k, web.CorrelationID(ctx), p.now())
	if err != nil {
		p.log.Error("write audit", "error", err)
	}
	for _, a := range rows {
		p.logAudit(ctx, a)
		p.metrics.add("audit_rows_total", "phase", a.Phase)
	}
}

func (p *Platform) logAudit(ctx context.Context, a store.Audit) {
	p.log.LogAttrs(ctx, slog.LevelWarn, "audited failure", slog.String("phase", a.Phase), slog.String("action", a.Action),
		slog.String("reason", a.Reason), slog.String("dedupe_key_hash", a.Hash()),
		slog.Time("first_seen_at", a.FirstSeenAt.UTC()), slog.Time("last_seen_at", a.LastSeenAt.UTC()),
		slog.Int64("count", a.Count), slog.String("correlation_id", a.CorrelationID), slog.String("node_id", a.NodeID))
}

// auditView is one immutable row.
type auditView struct {
	ID            int64     `json:"id"`
	At            diag.Time `json:"at"`
	Phase         string    `json:"phase"` // decision | first | summary | recovery | quiet
	ActorType     string    `json:"actor_type"`
	ActorID       string    `json:"actor_id"`
	AppInstanceID string    `json:"app_instance_id,omitempty"`
	CredentialID  string    `json:"credential_id,omitempty"`
	Action        string    `json:"action"`
	Reason        string    `json:"reason"`
	NodeID        string    `json:"node_id,omitempty"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	DedupeKeyHash string    `json:"dedupe_key_hash"`
	FirstSeenAt   diag.Time `json:"first_seen_at"`
	LastSeenAt    diag.Time `json:"last_seen_at"`
	Count         int64     `json:"count"`
	Remote        string    `json:"remote,omitempty"`
}

// maxAudit bounds a list.
const maxAudit = 1000

// getAudit lists the newest audit rows, oldest first, filtered by node_id, app_instance_id, action,
// correlation_id, since (RFC 3339) and limit.
func (p *Platform) getAudit(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	q := store.AuditQuery{NodeID: v.Get("node_id"), AppInstanceID: v.Get("app_instance_id"), Action: v.Get("action"),
		CorrelationID: v.Get("correlation_id"), Limit: maxAudit}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxAudit {
			return web.Errorf(http.StatusBadRequest, "limit_invalid", "limit is a number from 1 to %d", maxAudit)
		}
		q.Limit = n
	}
	var since diag.Time
	if err := since.UnmarshalText([]byte(v.Get("since"))); err != nil {
		return web.Errorf(http.StatusBadRequest, "since_invalid", "since is a time in RFC 3339")
	}
	q.Since = since.Time
	rows, err := p.store.AuditRows(r.Context(), q)
	if err != nil {
		return err
	}
	views := make([]auditView, len(rows))
	for i, a := range rows {
		views[i] = auditView{ID: a.ID, At: when(a.At), Phase: a.Phase, ActorType: a.ActorType, ActorID: a.ActorID,
			AppInstanceID: a.AppInstanceID, CredentialID: a.CredentialID, Action: a.Action, Reason: a.Reason, NodeID: a.NodeID,
			CorrelationID: a.CorrelationID, DedupeKeyHash: a.Hash(), FirstSeenAt: when(a.FirstSeenAt),
			LastSeenAt: when(a.LastSeenAt), Count: a.Count, Remote: a.Remote}
	}
	return web.Answer(w, http.StatusOK, struct {
		Items []auditView `json:"items"`
		Now   diag.Time   `json:"now"`
	}{views, diag.At(p.now())})
}
