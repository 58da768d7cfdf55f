package diag

// Diff lists what changed in a walk since an earlier one of the same subject. It is computed once, when the baseline
// is loaded, and does not affect the verdict: a replay copies it unchanged.
type Diff struct {
	Baseline   Baseline `json:"baseline"`
	Comparable bool     `json:"comparable"`
	Because    string   `json:"because,omitempty"` // why it is not comparable
	Changes    []Change `json:"changes"`           // regressions first, then in chain order; none when not comparable
	// NotCompared is what one of the two walks has not measured: neither changed nor unchanged.
	NotCompared []NotCompared `json:"not_compared,omitempty"`
}

// Regressions counts the changes that a gate stops at.
func (d *Diff) Regressions() int {
	n := 0
	for i := range d.Changes {
		if d.Changes[i].Regression {
			n++
		}
	}
	return n
}

// LastGood is the baseline that history chooses: the newest kept walk of the same thing that ended well.
const LastGood = "last-good"

// Baseline is the walk to which this one is compared. Without a run id there was no baseline, and Diff.Because has
// the reason.
type Baseline struct {
	From    string  `json:"from"` // last-good, or the file that was given
	RunID   string  `json:"run_id,omitempty"`
	At      Time    `json:"at,omitzero"` // its start
	Outcome Outcome `json:"outcome,omitempty"`
	Runs    int     `json:"runs,omitempty"` // kept good walks, by which noise was set apart from news
}

// Change is one thing that is otherwise. Where several facts saw the same, it is listed once.
type Change struct {
	Kind   ChangeKind `json:"kind"`
	Hop    HopID      `json:"hop,omitempty"`   // the first in the chain that saw it
	Facts  []string   `json:"facts,omitempty"` // fact ids, the same in both walks
	Field  string     `json:"field"`           // of the first fact, or of the report: tls.chain[0].issuer, plan.policy.KEY
	Before string     `json:"before,omitempty"`
	After  string     `json:"after,omitempty"`
	// Known reports that a kept good walk had the later value already.
	Known      bool         `json:"known,omitempty"`
	Regression bool         `json:"regression"`
	Noise      *NoiseBounds `json:"noise,omitempty"` // of timing
}

// NoiseBounds is what kept good walks took: Before is their median, and up to Bound is noise.
type NoiseBounds struct {
	Runs    int    `json:"runs"`
	BoundMS Millis `json:"bound_ms"`
}

// NotCompared is a hop or a fact that only one of the walks has, or the part of a fact.
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
	ChangeGPU          ChangeKind = "gpu"          // driver, firmware or setting
	ChangeGPULess      ChangeKind = "gpu_count"    // how many GPUs, links or lanes there are
	ChangeGPUIdentity  ChangeKind = "gpu_identity" // which GPUs they are: never the same on two nodes
)

// Gate reports when a change is a regression.
type Gate string

const (
	// GateWorse: when the later value is the worse one.
	GateWorse Gate = "worse"
	// GateUnseen: trust anchors and the targets of names and routes must not change unannounced. A value of a kept
	// good walk does not count.
	GateUnseen Gate = "unseen"
	// GateNever: renewals, upgrades and settings are routine work.
	GateNever Gate = "never"
)

// ChangeRow is a kind of change, what it reads as, and when it is a regression.
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
		{ChangeAgentBuild, "agent build", GateWorse}, // another program under the same version is worse
		{ChangeUnit, "unit", GateNever},
		{ChangeUser, "user", GateNever},
		{ChangeFile, "file", GateNever},
		{ChangeServer, "server software", GateNever},
		{ChangeBoot, "boot", GateNever},
		{ChangeProfile, "profile", GateNever},
		{ChangePolicy, "policy", GateNever},
		{ChangeBudget, "budget", GateNever},
		{ChangeTool, "this tool", GateNever},
		{ChangeGPU, "GPU configuration", GateNever},
		{ChangeGPULess, "GPUs, links or lanes", GateWorse},
		{ChangeGPUIdentity, "GPUs of the node", GateNever},
	}
}

// LookupChange is the row of a kind.
func LookupChange(k ChangeKind) (ChangeRow, bool) {
	for _, row := range Changes() {
		if row.Kind == k {
			return row, true
		}
	}
	return ChangeRow{}, false
}
