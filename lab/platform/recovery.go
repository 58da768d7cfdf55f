package platform

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// observation is the input of a node's read model. Pointers are nil for rows that do not exist.
type observation struct {
	now        time.Time
	node       store.Node
	cert       *store.Cert
	operation  *store.Operation
	rollout    *store.Rollout
	boot       *wire.BootReport
	gpu        *store.GPUNode
	session    *store.Session
	openTask   *store.Task // the session's terminal.open
	settled    *store.Task // the newest task that ended and proves that tasks complete
	stale      int
	lost       int  // results that are overdue
	token      bool // whether the node may have a current recovery token
	instances  []store.Instance
	states     []string // of its allocations
	profile    string   // the active one for the node; "" means any
	desired    string   // agent version; "" any
	trust      Trust
	endpoints  Endpoints
	staleAfter time.Duration
	wait       time.Duration
}

// recoveryView is a node's state, judged by the five points that make it healthy.
type recoveryView struct {
	Reason    diag.ReasonCode `json:"reason"`
	State     diag.UserState  `json:"state"`
	Since     diag.Time       `json:"since,omitzero"` // since when the reason holds, as far as the platform noticed
	UpdatedAt diag.Time       `json:"updated_at"`
	Denial    *denialView     `json:"last_denial,omitempty"`
	Token     bool            `json:"current_token"` // an unused, unexpired recovery token was issued for the node
	Evidence  []string        `json:"evidence"`
	Checklist []checkpoint    `json:"checklist"`

	seen diag.Seen // what was measured, as diag.ForUser reads it
}

// denialView is the last denial of the node itself.
type denialView struct {
	Code string    `json:"code"`
	At   diag.Time `json:"at"`
}

// checkpoint is one of the five points of recovery evidence; Status is pass, fail or unknown.
type checkpoint struct {
	ID     string    `json:"id"`
	Status string    `json:"status"`
	Text   string    `json:"text"`
	At     diag.Time `json:"at,omitzero"`
}

const (
	passed = "pass"
	failed = "fail"
)

// settledFor is how long a completed task proves that tasks complete.
const settledFor = 15 * time.Minute

// lostFor is how long an operation that expired without a result is shown as lost; afterwards it is history.
const lostFor = 15 * time.Minute

// recovery returns the node's classified state. "Normal" requires all five points, not just the absence of
// failures.
func recovery(o observation) recoveryView {
	v := recoveryView{UpdatedAt: diag.At(o.now), Token: o.token, Evidence: []string{}, Checklist: checklist(o)}
	v.Reason, v.seen = reason(o), seen(o, v.Checklist)
	v.State = diag.StateOf(v.Reason, v.seen)
	if string(v.Reason) == o.node.RecoveryReason {
		v.Since = when(o.node.RecoverySince)
	}
	if !o.node.LastDeniedAt.IsZero() {
		v.Denial = &denialView{Code: o.node.LastDenial, At: when(o.node.LastDeniedAt)}
	}
	healthy := true
	for _, c := range v.Checklist {
		healthy = healthy && c.Status == passed
		if c.Status == failed {
			v.Evidence = append(v.Evidence, c.ID+": "+c.Text)
		}
	}
	if n := o.node; !n.LastDeniedAt.IsZero() && n.LastDeniedAt.After(n.LastSeenAt) {
		v.Evidence = append(v.Evidence, "last denial: "+n.LastDenial)
	}
	if h := fencedHost(o); h != nil {
		v.Evidence = append(v.Evidence,
			fmt.Sprintf("host %s, which spoke last, is fenced since %s", h.ID, h.FencedAt.UTC().Format(timeText)))
	}
	if v.Reason == diag.ReasonNone && !healthy {
		v.State = unknown
	}
	return v
}

// seen returns what was measured of the node.
func seen(o observation, points []checkpoint) diag.Seen {
	m := diag.Seen{diag.FactContact: diag.MarkPass, diag.FactToken: diag.MarkFail}
	for _, p := range points {
		if p.Status != unknown {
			m[p.ID] = diag.Mark(p.Status)
		}
	}
	if stale(o) {
		m[diag.FactContact] = diag.MarkFail
	}
	if o.token {
		m[diag.FactToken] = diag.MarkPass
	}
	if n := o.node; !n.LastSeenAt.IsZero() || !n.LastDeniedAt.IsZero() {
		m[diag.FactNode] = diag.MarkPass
	}
	return m
}

// stale reports whether the platform has lost contact with the node, or never had any.
func stale(o observation) bool {
	return o.node.LastSeenAt.IsZero() || o.now.Sub(o.node.LastSeenAt) > o.staleAfter
}

// reason returns the first row that applies.
func reason(o observation) diag.ReasonCode {
	n := o.node
	expired := stale(o) && o.cert != nil && !o.now.Before(o.cert.NotAfter)
	denied := func(codes ...string) bool { // by the node's identity, or by its last request
		return slices.Contains(codes, n.Identity) ||
			(n.LastDeniedAt.After(n.LastSeenAt) && slices.Contains(codes, n.LastDenial))
	}
	rows := []struct {
		holds  bool
		reason diag.ReasonCode
	}{
		{denied(wire.DenyCloned), diag.ReasonClonedIdentity},
		{fencedHost(o) != nil || denied(wire.DenyRevoked, wire.DenyFenced, wire.DenyRetired),
			diag.ReasonIdentityRevokedOrFenced},
		{o.trust.IngressTrustsSigningCA != nil && !*o.trust.IngressTrustsSigningCA, diag.ReasonCertUntrustedByIngress},
		{drifted(n, o.endpoints) || denied(wire.DenyProfileMismatch), diag.ReasonEndpointProfileDrift},
		{expired && !o.token, diag.ReasonRecoveryTokenMissing},
		{expired || denied(wire.DenyExpired), diag.ReasonCertExpired},
		{denied(wire.DenyTokenExpired, wire.DenyTokenConsumed), diag.ReasonRecoveryEnrollmentBlocked},
		{denied(wire.DenyNotNodeBound), diag.ReasonIdentityRejectedRecoverable},
		{stale(o), diag.ReasonNodeAgentUnreachable},
		{o.stale > 0, diag.ReasonTaskBacklogStale},
		{o.lost > 0, diag.ReasonDispatchedResultLost},
		{o.desired != "" && n.AgentVersion != "" && n.AgentVersion != o.desired, diag.ReasonAgentVersionDrift},
		{moved(n), diag.ReasonIPRouteDrift},
	}
	for _, r := range rows {
		if r.holds {
			return r.reason
		}
	}
	return diag.ReasonNone
}

// fencedHost returns the host that last acted as the node, if an operator has fenced it; nil if it is not fenced.
func fencedHost(o observation) *store.Instance {
	if len(o.instances) == 0 || o.instances[0].FencedAt.IsZero() {
		return nil
	}
	return &o.instances[0]
}

// drifted reports whether the endpoints that the node last reported differ from the active ones.
func drifted(n store.Node, e Endpoints) bool {
	differs := func(said, active string) bool {
		return said != "" && strings.TrimRight(said, "/") != strings.TrimRight(active, "/")
	}
	return differs(n.APIURL, e.APIURL) || differs(n.TerminalURL, e.TerminalURL)
}

// moved reports whether the node reports addresses that do not include the one that the platform has for it.
func moved(n store.Node) bool {
	known := net.ParseIP(n.PrivateIP)
	if known == nil || known.IsLoopback() || len(n.Addresses) == 0 {
		return false
	}
	return !slices.ContainsFunc(n.Addresses, func(a string) bool {
		host, _, _ := strings.Cut(a, "/") // with or without a prefix length
		return known.Equal(net.ParseIP(host))
	})
}

// checklist returns the five points of recovery evidence. A point that was not measured is unknown.
func checklist(o observation) []checkpoint {
	return []checkpoint{heartbeatPoint(o), issuerPoint(o), waitPoint(o), taskPoint(o), backlogPoint(o)}
}

func heartbeatPoint(o observation) checkpoint {
	c := checkpoint{ID: "heartbeat_current", Status: unknown, Text: "no heartbeat was ever received",
		At: when(o.node.LastHeartbeatAt)}
	if o.node.LastHeartbeatAt.IsZero() {
		return c
	}
	age := o.now.Sub(o.node.LastHeartbeatAt)
	c.Status, c.Text = passed,
		fmt.Sprintf("last heartbeat %s ago, stale after %s", age.Round(time.Millisecond), o.staleAfter)
	if age > o.staleAfter {
		c.Status = failed
	}
	return c
}

func issuerPoint(o observation) checkpoint {
	c := checkpoint{ID: "cert_issuer_trusted_by_ingress", Status: unknown,
		Text: "no certificate was issued, or the ingress CA is not known"}
	if o.cert == nil || len(o.trust.IngressCAs) == 0 {
		return c
	}
	c.At = when(o.cert.IssuedAt)
	if slices.Contains(o.trust.IngressCAs, o.cert.IssuerFingerprint) {
		c.Status, c.Text = passed, "the ingress trusts the issuer of the node's certificate"
		return c
	}
	c.Status, c.Text = failed, "the ingress does not trust the issuer of the node's certificate"
	return c
}

func waitPoint(o observation) checkpoint {
	n := o.node
	c := checkpoint{ID: "task_wait_succeeds", Status: unknown, Text: "no task wait was ever received",
		At: when(n.LastWaitAt)}
	fresh := !n.LastWaitAt.IsZero() && o.now.Sub(n.LastWaitAt) <= o.wait+o.staleAfter
	switch h := fencedHost(o); {
	case h != nil:
		c.Status, c.Text, c.At = failed, "the host that spoke last is fenced", when(h.FencedAt)
	case n.LastDeniedAt.After(n.LastWaitAt):
		c.Status, c.Text, c.At = failed, "the node was denied: "+n.LastDenial, when(n.LastDeniedAt)
	case fresh:
		c.Status, c.Text = passed, "the node waits for tasks through mutual TLS"
	case !n.LastWaitAt.IsZero():
		c.Text = "no recent task wait"
	}
	return c
}

func taskPoint(o observation) checkpoint {
	c := checkpoint{ID: "task_completes", Status: unknown, Text: "no recent no-op, probe or terminal.open"}
	if o.settled == nil {
		return c
	}
	c.At = when(o.settled.CompletedAt)
	switch {
	case o.settled.Status != wire.TaskCompleted:
		c.Status, c.Text = failed, fmt.Sprintf("the last %s %s", o.settled.Type, o.settled.Status)
	case o.now.Sub(o.settled.CompletedAt) <= settledFor:
		c.Status, c.Text = passed, fmt.Sprintf("the last %s completed", o.settled.Type)
	}
	return c
}

func backlogPoint(o observation) checkpoint {
	if o.stale > 0 {
		return checkpoint{ID: "no_expired_tasks_current", Status: failed,
			Text: fmt.Sprintf("%d open tasks are past their deadline", o.stale), At: diag.At(o.now)}
	}
	return checkpoint{ID: "no_expired_tasks_current", Status: passed, Text: "no open task is past its time",
		At: diag.At(o.now)}
}

// readiness returns how far the node's newest terminal session got.
func readiness(s *store.Session, open *store.Task) string {
	switch {
	case s == nil:
		return unknown
	case !s.PTYReadyAt.IsZero():
		return "pty_ready"
	case !s.ClosedAt.IsZero():
		return "failed"
	case !s.NodeStreamConnectedAt.IsZero():
		return "node_stream_connected"
	case open != nil && !open.ClaimedAt.IsZero():
		return "terminal_open_sent"
	case !s.BrowserConnectedAt.IsZero():
		return "browser_ws_ready"
	}
	return "token_ready"
}
