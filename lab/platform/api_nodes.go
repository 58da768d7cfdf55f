package platform

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// unknown is the status of something that was not measured. It is not "healthy".
const unknown = "unknown"

// healthUnknown is a node's GPU health if no GPU is reported.
const healthUnknown = "UNKNOWN"

// nodeView is the operator's read model of a node.
type nodeView struct {
	ID                 string           `json:"id"`
	Status             string           `json:"status"`
	Health             string           `json:"health"`
	Identity           string           `json:"identity"` // accepted, or the denial code for its credentials
	Hostname           string           `json:"hostname"`
	PrivateIP          string           `json:"private_ip"`
	NodeInstanceID     string           `json:"node_instance_id,omitempty"`
	BootID             string           `json:"boot_id,omitempty"`
	Provider           providerView     `json:"provider"`
	EnvironmentProfile string           `json:"environment_profile,omitempty"`
	Agent              agentView        `json:"agent"`
	Cert               *certView        `json:"cert,omitempty"`
	Recovery           recoveryView     `json:"recovery"`
	TerminalReadiness  string           `json:"terminal_readiness"`
	LatestOperation    *operationView   `json:"latest_operation,omitempty"`
	Rollout            *rolloutView     `json:"rollout,omitempty"` // the newest self-update
	Boot               *wire.BootReport `json:"boot,omitempty"`    // from the node's own journal
	StaleTasks         int              `json:"stale_tasks"`
	// operations that were handed out and whose result is overdue
	LostResults int            `json:"lost_results"`
	Occupancy   string         `json:"occupancy"` // free | occupied | cleanup: whether its slot can be reassigned
	Instances   []instanceView `json:"instances"` // hosts that acted as the node, newest first
	Now         diag.Time      `json:"now"`
}

type providerView struct {
	Class      string         `json:"class,omitempty"`
	GuestAgent guestAgentView `json:"guest_agent"`
}

type guestAgentView struct {
	Status string    `json:"status"`
	At     diag.Time `json:"at,omitzero"`
}

type agentView struct {
	Version         string    `json:"version,omitempty"`
	LastSeenAt      diag.Time `json:"last_seen_at,omitzero"`
	LastHeartbeatAt diag.Time `json:"last_heartbeat_at,omitzero"`
	LastTaskWaitAt  diag.Time `json:"last_task_wait_at,omitzero"`
	APIURL          string    `json:"api_url,omitempty"`
	TerminalURL     string    `json:"terminal_url,omitempty"`
	Hostname        string    `json:"hostname,omitempty"`
	Addresses       []string  `json:"addresses,omitempty"`
	BootID          string    `json:"boot_id,omitempty"`
	DesiredVersion  string    `json:"desired_version,omitempty"` // by policy; absent: any
	// serving | recovering | stopped | quarantined, as reported by the agent
	Posture      string            `json:"posture,omitempty"`
	Profile      string            `json:"environment_profile,omitempty"`
	CertSerial   string            `json:"cert_serial,omitempty"`
	CertIssuer   string            `json:"cert_issuer,omitempty"`
	Counters     map[string]int64  `json:"counters,omitempty"`
	Record       map[string]string `json:"record,omitempty"`
	LastDenial   string            `json:"last_denial,omitempty"`
	LastDeniedAt diag.Time         `json:"last_denied_at,omitzero"`
}

// instanceView is one host that acted as the node.
type instanceView struct {
	ID          string    `json:"node_instance_id"`
	BootID      string    `json:"boot_id,omitempty"`
	CertSerial  string    `json:"cert_serial,omitempty"`
	Remote      string    `json:"remote,omitempty"`
	Hostname    string    `json:"hostname,omitempty"`
	FirstSeenAt diag.Time `json:"first_seen_at"`
	LastSeenAt  diag.Time `json:"last_seen_at"`
	FencedAt    diag.Time `json:"fenced_at,omitzero"`
}

// certView is the newest certificate issued to the node.
type certView struct {
	Serial            string    `json:"serial"`
	IssuerFingerprint string    `json:"issuer_fingerprint"`
	NotAfter          diag.Time `json:"not_after"`
	Generation        int64     `json:"generation"`
	RevokedAt         diag.Time `json:"revoked_at,omitzero"`
}

type operationView struct {
	ID            string    `json:"id"`
	Type          string    `json:"type"`
	Status        string    `json:"status"`
	TaskID        string    `json:"task_id,omitempty"`
	CorrelationID string    `json:"correlation_id"`
	CreatedAt     diag.Time `json:"created_at,omitzero"`
	ExpiresAt     diag.Time `json:"expires_at,omitzero"`
}

func operationRead(o store.Operation) operationView {
	return operationView{ID: o.ID, Type: o.Type, Status: o.Status, TaskID: o.TaskID, CorrelationID: o.CorrelationID,
		CreatedAt: when(o.CreatedAt), ExpiresAt: when(o.ExpiresAt)}
}

// getNodes lists the read model of every node, by id.
func (p *Platform) getNodes(w http.ResponseWriter, r *http.Request) error {
	ids, err := p.store.NodeIDs(r.Context())
	if err != nil {
		return err
	}
	views := make([]nodeView, len(ids))
	for i, id := range ids {
		o, err := p.observe(r.Context(), id)
		if err != nil {
			return err
		}
		views[i] = nodeRead(o)
	}
	return web.Answer(w, http.StatusOK, struct {
		Items []nodeView `json:"items"`
		Now   diag.Time  `json:"now"`
	}{views, diag.At(p.now())})
}

func (p *Platform) getNode(w http.ResponseWriter, r *http.Request) error {
	in, err := p.observe(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "node")
	}
	return web.Answer(w, http.StatusOK, nodeRead(in))
}

// observe collects the inputs of the read model.
func (p *Platform) observe(ctx context.Context, nodeID string) (observation, error) {
	o := observation{now: p.now(), trust: p.pki.trust(), endpoints: p.cfg.Endpoints,
		staleAfter: seconds(p.cfg.Policy.HeartbeatStaleAfter), wait: seconds(p.cfg.Policy.TaskWait),
		desired: p.cfg.Policy.DesiredAgentVersion}
	var err error
	if o.node, err = p.store.Node(ctx, nodeID); err != nil {
		return o, err
	}
	o.profile = p.profileOf(o.node)
	lease := seconds(p.cfg.Policy.TaskLease)
	var errs [12]error
	o.cert, errs[0] = optional(p.store.NewestCert(ctx, nodeID))
	o.operation, errs[1] = optional(p.store.LatestOperation(ctx, nodeID, o.now))
	o.rollout, errs[2] = optional(p.store.NewestRollout(ctx, nodeID))
	o.boot, errs[3] = optional(p.store.BootReport(ctx, nodeID))
	o.session, errs[4] = optional(p.store.LatestSession(ctx, nodeID, o.now))
	o.settled, errs[5] = optional(p.store.LastSettled(ctx, nodeID))
	o.token, errs[6] = p.store.CurrentToken(ctx, nodeID, o.now)
	o.instances, errs[7] = p.store.Instances(ctx, nodeID)
	o.states, errs[8] = p.store.PlacesOn(ctx, nodeID)
	o.lost, errs[9] = p.store.LostResults(ctx, nodeID, o.now.Add(-lease), o.now.Add(-lostFor))
	o.stale, errs[10] = p.store.StaleTasks(ctx, nodeID, o.now)
	if p.cfg.GPU.Policy != "" {
		o.gpu, errs[11] = optional(p.store.GPUNode(ctx, nodeID))
	}
	if err := errors.Join(errs[:]...); err != nil || o.session == nil || o.session.TaskID == "" {
		return o, err
	}
	o.openTask, err = optional(p.store.Task(ctx, o.session.TaskID))
	return o, err
}

// optional converts store.ErrNotFound to nil.
func optional[T any](v T, err error) (*T, error) {
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// nodeRead computes the read model, as a pure function of the observation.
func nodeRead(o observation) nodeView {
	n := o.node
	guest, guestAt := n.GuestAgent(o.now)
	v := nodeView{
		ID: n.ID, Status: n.Status, Health: healthUnknown, Identity: "accepted", Hostname: n.Hostname, PrivateIP: n.PrivateIP,
		NodeInstanceID: n.InstanceID, BootID: n.BootID, EnvironmentProfile: o.profile,
		Provider: providerView{Class: n.ProviderClass,
			GuestAgent: guestAgentView{Status: cmp.Or(guest, unknown), At: when(guestAt)}},
		Agent: agentView{Version: n.AgentVersion, LastSeenAt: when(n.LastSeenAt), LastHeartbeatAt: when(n.LastHeartbeatAt),
			LastTaskWaitAt: when(n.LastWaitAt), APIURL: n.APIURL, TerminalURL: n.TerminalURL, Hostname: n.ReportedHostname,
			Addresses: n.Addresses, BootID: n.BootID, DesiredVersion: o.desired, Posture: n.Posture, Profile: n.ReportedProfile,
			CertSerial: n.CertSerial, CertIssuer: n.CertIssuer, Counters: n.Counters, Record: n.Record, LastDenial: n.LastDenial,
			LastDeniedAt: when(n.LastDeniedAt)},
		Recovery: recovery(o), TerminalReadiness: readiness(o.session, o.openTask), StaleTasks: o.stale, LostResults: o.lost,
		Occupancy: occupancy(o.states), Instances: instanceViews(o.instances), Now: diag.At(o.now),
	}
	v.Identity = cmp.Or(n.Identity, v.Identity)
	if o.gpu != nil {
		v.Health = cmp.Or(string(o.gpu.Status.Health), v.Health)
	}
	if c := o.cert; c != nil {
		v.Cert = &certView{Serial: c.Serial, IssuerFingerprint: c.IssuerFingerprint, NotAfter: when(c.NotAfter),
			Generation: c.Generation, RevokedAt: when(c.RevokedAt)}
	}
	v.Rollout, v.Boot = viewRollout(o.rollout), o.boot
	if op := o.operation; op != nil {
		v.LatestOperation = new(operationRead(*op))
	}
	return v
}

func instanceViews(rows []store.Instance) []instanceView {
	views := make([]instanceView, len(rows))
	for i, r := range rows {
		views[i] = instanceView{ID: r.ID, BootID: r.BootID, CertSerial: r.CertSerial, Remote: r.Remote, Hostname: r.Hostname,
			FirstSeenAt: when(r.FirstSeenAt), LastSeenAt: when(r.LastSeenAt), FencedAt: when(r.FencedAt)}
	}
	return views
}

// occupancy returns the worst state of a node's allocations: a slot that is being cleaned up cannot be reassigned.
func occupancy(states []string) string {
	worst := occupancies[store.StateReleased]
	for _, s := range states {
		switch o := occupancies[s]; {
		case o == occupancies[store.StateReleaseFailed]:
			return o
		case o != occupancies[store.StateReleased]:
			worst = o
		}
	}
	return worst
}
