package diag

// Diff lists what changed in a walk since an earlier one of the same subject. It is computed once, when the baseline
// is loaded, and does not affect the verdict: a replay copies it unchanged.
type Diff struct {
	Baseline   Baseline `json:"baseline"`
	Comparable bool     `json:"comparable"`
	Because    string   `json:"because,omitempty"` // why it is not comparable
	// regressions first, then in chain order; empty when the walks are not comparable
	Changes []Change `json:"changes"`
	// NotCompared is what only one of the two walks measured, so it is neither changed nor unchanged.
	NotCompared []NotCompared `json:"not_compared,omitempty"`
}

// Regressions counts the changes that are regressions, for which a gate fails.
func (d *Diff) Regressions() int {
	n := 0
	for i := range d.Changes {
		if d.Changes[i].Regression {
			n++
		}
	}
	return n
}

// LastGood names the baseline that the history chooses: the newest stored walk of the same subject that passed.
const LastGood = "last-good"

// Baseline is the walk to which this one is compared. Without a run id there was no baseline, and Diff.Because has
// the reason.
type Baseline struct {
	From    string  `json:"from"` // last-good, or the file that was given
	RunID   string  `json:"run_id,omitempty"`
	At      Time    `json:"at,omitzero"` // its start
	Outcome Outcome `json:"outcome,omitempty"`
	Runs    int     `json:"runs,omitempty"` // number of stored good walks from which the noise bound was computed
}

// Change is one value that differs between the two walks. A change that several facts saw is listed once.
type Change struct {
	Kind  ChangeKind `json:"kind"`
	Hop   HopID      `json:"hop,omitempty"`   // the first hop in the chain that saw the change
	Facts []string   `json:"facts,omitempty"` // ids of the facts that saw the change, equal in both walks
	// path in the first fact or in the report: tls.chain[0].issuer, plan.policy.KEY
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Known reports that an earlier good walk in the history already had the later value.
	Known      bool         `json:"known,omitempty"`
	Regression bool         `json:"regression"`
	Noise      *NoiseBounds `json:"noise,omitempty"` // for timing only
}

// NoiseBounds is the timing of the stored good walks: Before is their median, and a time up to Bound is noise.
type NoiseBounds struct {
	Runs    int    `json:"runs"`
	BoundMS Millis `json:"bound_ms"`
}

// NotCompared is a hop, a fact, or a part of a fact that only one of the walks has.
type NotCompared struct {
	Hop     HopID  `json:"hop,omitempty"`
	Fact    string `json:"fact,omitempty"`
	What    string `json:"what"` // hop, fact, timing, or sections of the fact: "tls, http"
	Because string `json:"because"`
}

// ChangeKind names what changed.
type ChangeKind string

const (
	ChangeStatus       ChangeKind = "status"
	ChangeTiming       ChangeKind = "timing"
	ChangeServerIssuer ChangeKind = "server_issuer"
	ChangeServerCert   ChangeKind = "server_certificate"
	ChangeTLSVersion   ChangeKind = "tls_version"
	ChangeTrustBundle  ChangeKind = "trust_bundle"
	ChangePlatformCA   ChangeKind = "platform_ca"
	ChangeIngressCAs   ChangeKind = "ingress_cas"
	ChangeNodeIssuer   ChangeKind = "node_issuer"
	ChangeNodeCert     ChangeKind = "node_certificate"
	ChangeHostKey      ChangeKind = "host_key"
	ChangeDNSAnswer    ChangeKind = "dns_answer"
	ChangeResolver     ChangeKind = "resolver"
	ChangeRoute        ChangeKind = "route"
	ChangeEndpoint     ChangeKind = "endpoint"
	ChangeInstance     ChangeKind = "instance"
	ChangeAgentBuild   ChangeKind = "agent_build"
	ChangeUnit         ChangeKind = "unit"
	ChangeUser         ChangeKind = "user"
	ChangeFile         ChangeKind = "file"
	ChangeServer       ChangeKind = "server_software"
	ChangeBoot         ChangeKind = "boot"
	ChangeProfile      ChangeKind = "profile"
	ChangePolicy       ChangeKind = "policy"
	ChangeBudget       ChangeKind = "budget"
	ChangeTool         ChangeKind = "tool"
	ChangeMachine      ChangeKind = "machine"      // its id, name or kernel
	ChangeLink         ChangeKind = "link"         // the interface to a target, and its settings
	ChangeGPU          ChangeKind = "gpu"          // driver, firmware or setting
	ChangeGPULess      ChangeKind = "gpu_count"    // the number of GPUs, links or lanes
	ChangeGPUIdentity  ChangeKind = "gpu_identity" // the GPUs' UUIDs, which never match between two nodes
)

// Gate reports when a change is a regression.
type Gate string

const (
	// GateWorse: a change is a regression if the later value is worse.
	GateWorse Gate = "worse"
	// GateUnseen: a change is a regression unless an earlier good walk already had the later value. Used for trust
	// anchors and for the targets of names and routes, which must not change unannounced.
	GateUnseen Gate = "unseen"
	// GateNever: a change is never a regression. Used for renewals, upgrades and settings, which are routine work.
	GateNever Gate = "never"
)

// ChangeRow is a kind of change, its text, and when it is a regression.
type ChangeRow struct {
	Kind  ChangeKind
	Label string
	Gate  Gate
}

// Changes is the closed table.
func Changes() []ChangeRow {
	return []ChangeRow{
		{ChangeStatus, "status", GateWorse},
		{ChangeTiming, "time", GateWorse},
		{ChangeServerIssuer, "issuer of the server's certificate", GateUnseen},
		{ChangeServerCert, "server certificate", GateNever},
		{ChangeTLSVersion, "TLS version", GateWorse},
		{ChangeTrustBundle, "trust bundle", GateUnseen},
		{ChangePlatformCA, "the platform's own CA", GateUnseen},
		{ChangeIngressCAs, "CAs that the listener takes clients of", GateUnseen},
		{ChangeNodeIssuer, "issuer of the node's certificate", GateUnseen},
		{ChangeNodeCert, "node certificate", GateNever},
		{ChangeHostKey, "SSH host key", GateUnseen},
		{ChangeDNSAnswer, "answer to the look-up", GateUnseen},
		{ChangeResolver, "resolver", GateUnseen},
		{ChangeRoute, "route", GateUnseen},
		{ChangeEndpoint, "endpoint", GateUnseen},
		{ChangeInstance, "machine behind the node's name", GateUnseen},
		{ChangeAgentBuild, "agent build", GateWorse}, // a different program with an unchanged version is a regression
		{ChangeUnit, "unit", GateNever},
		{ChangeUser, "user", GateNever},
		{ChangeFile, "file", GateNever},
		{ChangeServer, "server software", GateNever},
		{ChangeBoot, "boot", GateNever},
		{ChangeProfile, "profile", GateNever},
		{ChangePolicy, "policy", GateNever},
		{ChangeBudget, "budget", GateNever},
		{ChangeTool, "this tool", GateNever},
		{ChangeMachine, "machine", GateNever},
		{ChangeLink, "network link", GateNever},
		{ChangeGPU, "GPU configuration", GateNever},
		{ChangeGPULess, "GPUs, links or lanes", GateWorse},
		{ChangeGPUIdentity, "GPUs of the node", GateNever},
	}
}

// LookupChange returns the row of kind k, and whether there is one.
func LookupChange(k ChangeKind) (ChangeRow, bool) {
	for _, row := range Changes() {
		if row.Kind == k {
			return row, true
		}
	}
	return ChangeRow{}, false
}
