package update

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Path is a procedure for changing a node.
type Path string

// The paths, from what a node may do alone to what only people may do.
const (
	PathSelfUpdate   Path = "node.self_update"
	PathEnrollment   Path = "automatic recovery enrollment"
	PathRebootstrap  Path = "operator rebootstrap or repair bundle"
	PathControlPlane Path = "control-plane trust repair, then re-enrollment if it is still needed"
	PathBundle       Path = "operator rebootstrap by an audited node-bound bundle"
	PathReimage      Path = "quarantine, then full reimage and a new identity"
	PathProvider     Path = "repair if proven safe, otherwise full reimage"
)

// Boundary is one row of the table of what a self-update may and may not change.
type Boundary struct {
	Trigger string
	Path    Path
	Owner   string
	Agent   string // what the node itself may do
	Back    string // how it is reverted

	Reasons []diag.RecordReason // decisions of the agent that this row is about
	Fields  []string            // payload fields that would belong to this row
}

// boundaries lists every row. A payload field of another path's row is refused with that row; a field in no row is
// refused as unknown. In both cases nothing of the task is executed.
var boundaries = [...]Boundary{
	{
		Trigger: "another build, with unchanged endpoints, CA, task protocol and unit", Path: PathSelfUpdate,
		Owner: "release owner", Agent: "verify the digest, keep both builds, restart its own unit",
		Back:   "restart the prior build while its digest and verifier set are trusted, otherwise rebootstrap",
		Fields: []string{"version", "sha256", "soak_seconds"},
	}, {
		Trigger: "task verifier keys rotate", Path: PathSelfUpdate, Owner: "control plane: old and new keys overlap",
		Agent: "replace the verifier set by the one in the signed payload",
		Back:  "a signed task with the prior set, during the overlap", Fields: []string{"task_signing_pubkeys"},
	}, {
		Trigger: "the recovery token of a healthy node is refreshed", Path: PathSelfUpdate,
		Owner: "IAM and PKI: issue and expiry are audited",
		Agent: "replace the token by the one that the control plane issued", Back: "the old token is revoked or expires",
		Fields: []string{"recovery_token"},
	}, {
		Trigger: "the certificate expired, and a current token and a recovery trust path exist", Path: PathEnrollment,
		Owner: "API: it may refuse", Agent: "ask for one re-enrollment, bounded",
		Back:    "none for the program; what fails needs an operator",
		Reasons: []diag.RecordReason{diag.RecCertExpired, diag.RecRecoveryEnrolled},
		Fields:  []string{"certificate", "private_key", "csr", "enroll"},
	}, {
		Trigger: "API URL, terminal URL, CA bundle, install root, unit or registry trust drifted", Path: PathRebootstrap,
		Owner: "operator and control plane", Agent: "stop retrying hard, leave evidence",
		Back:    "another audited bundle; never a half-edited host",
		Reasons: []diag.RecordReason{diag.RecEndpointProfileDrift, diag.RecServerTLSUntrusted},
		Fields: []string{"api_url", "terminal_url", "terminal_api_url", "recovery_api_url", "ca_bundle", "recovery_ca_bundle",
			"environment_profile", "install_root", "systemd_unit", "unit", "registry", "env"},
	}, {
		Trigger: "the API's signing CA is not the one that the ingress trusts", Path: PathControlPlane,
		Owner: "control plane: profile and secret rendering", Agent: "suppress re-enrollment after repeated rejections",
		Back:    "roll the control plane's trust back before any bundle is issued",
		Reasons: []diag.RecordReason{diag.RecIdentityRejected, diag.RecRecoverySuppressed},
		Fields:  []string{"signing_ca", "ingress_ca"},
	}, {
		Trigger: "certificate or key lost, and no valid token", Path: PathBundle, Owner: "operator",
		Agent: "say why, and wait", Back: "invalidate the bundle, put trusted material back if it is still valid",
		Reasons: []diag.RecordReason{diag.RecCertMissing, diag.RecCertKeyMismatch, diag.RecRecoveryTokenMissing,
			diag.RecRecoveryTokenExpired, diag.RecRecoveryEnrollmentBlocked},
		Fields: []string{"enrollment_bundle", "bundle"},
	}, {
		Trigger: "cloned identity, suspected compromise, tenant isolation violated, or another trust domain",
		Path:    PathReimage, Owner: "security and operator", Agent: "take no work, say why",
		Back:    "none in place: reimage or decommission",
		Reasons: []diag.RecordReason{diag.RecClonedIdentity, diag.RecIdentityRevoked},
		Fields: []string{"node_id", "identity", "tenant", "tenant_isolation", "owner", "ownership", "sudoers",
			"reuse_approved"},
	}, {
		Trigger: "GPU, runtime, kernel or container drift", Path: PathProvider, Owner: "provider lifecycle owner",
		Agent: "run approved diagnostics only", Back: "admission stays closed until the evidence clears",
		Fields: []string{"kernel", "driver", "cuda", "container_runtime", "reimage", "exec", "script"},
	},
}

// BoundaryOf returns the row for a decision's reason; ok is false for a reason that does not concern self-updates.
func BoundaryOf(reason diag.RecordReason) (Boundary, bool) {
	return find(func(b Boundary) bool { return slices.Contains(b.Reasons, reason) })
}

func boundaryOfField(field string) (Boundary, bool) {
	return find(func(b Boundary) bool { return slices.Contains(b.Fields, field) })
}

func find(is func(Boundary) bool) (Boundary, bool) {
	i := slices.IndexFunc(boundaries[:], is)
	if i < 0 {
		return Boundary{}, false
	}
	return boundaries[i], true
}
