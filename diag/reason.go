package diag

import (
	"slices"
	"time"
)

// ReasonCode is an operator reason of the drift model: what is behind a clicked-on resource, never the text that a
// user sees.
type ReasonCode string

// The closed list of reasons. Rows are only added; names never change.
const (
	ReasonNone                        ReasonCode = "none"
	ReasonClonedIdentity              ReasonCode = "cloned_identity_detected"
	ReasonIdentityRevokedOrFenced     ReasonCode = "identity_revoked_or_fenced"
	ReasonCertUntrustedByIngress      ReasonCode = "cert_untrusted_by_ingress"
	ReasonEndpointProfileDrift        ReasonCode = "endpoint_profile_drift"
	ReasonRecoveryTokenMissing        ReasonCode = "recovery_token_missing"
	ReasonCertExpired                 ReasonCode = "cert_expired"
	ReasonTaskBacklogStale            ReasonCode = "task_backlog_stale"
	ReasonAgentDown                   ReasonCode = "agent_down"
	ReasonNodeAgentUnreachable        ReasonCode = "node_agent_unreachable"
	ReasonIdentityRejectedRecoverable ReasonCode = "identity_rejected_recoverable"
	ReasonRecoveryEnrollmentBlocked   ReasonCode = "recovery_enrollment_blocked"
	ReasonServerTLSUntrusted          ReasonCode = "server_tls_untrusted"
	ReasonControlPlaneUnreachable     ReasonCode = "control_plane_unreachable"
	ReasonDiskFull                    ReasonCode = "disk_full"
	ReasonClockSkew                   ReasonCode = "clock_skew"
	ReasonEdgeRateLimited             ReasonCode = "edge_rate_limited"
	ReasonTaskResultPostFailed        ReasonCode = "task_result_post_failed"
	ReasonDispatchedResultLost        ReasonCode = "dispatched_result_lost"
	ReasonAgentVersionDrift           ReasonCode = "agent_version_drift"
	ReasonIPRouteDrift                ReasonCode = "ip_route_drift"
	ReasonOpsAccessUnhealthy          ReasonCode = "ops_access_unhealthy"
	ReasonAppObservationStale         ReasonCode = "app_observation_stale"
	ReasonAppRuntimeFailed            ReasonCode = "app_runtime_failed"
	ReasonAppRouteFailed              ReasonCode = "app_route_failed"
	ReasonAppCredentialFailing        ReasonCode = "app_credential_failing"
	ReasonTerminalGatewayDown         ReasonCode = "terminal_gateway_down"
	ReasonTerminalEndpointDrift       ReasonCode = "terminal_endpoint_drift"
	ReasonTerminalStartupFailed       ReasonCode = "terminal_startup_failed"
	ReasonReleaseCleanupStuck         ReasonCode = "release_failed_cleanup_stuck"
	ReasonGPUUnhealthy                ReasonCode = "gpu_unhealthy"
)

// Severity is the drift model's: P0 a security boundary or a control plane that tenants feel, P1 active impact with a
// known repair, P2 stale observation or routine recovery. The empty severity belongs to ReasonNone alone.
type Severity string

const (
	P0 Severity = "P0"
	P1 Severity = "P1"
	P2 Severity = "P2"
)

// Detect is how long a failure of this severity may stay unnoticed. 0: no limit.
func (s Severity) Detect() time.Duration {
	switch s {
	case P0:
		return time.Minute
	case P1:
		return 5 * time.Minute
	case P2:
		return 30 * time.Minute
	}
	return 0
}

// Repair is how long the repair may take. 0: by itself, or on the next business day.
func (s Severity) Repair() time.Duration {
	switch s {
	case P0:
		return 15 * time.Minute
	case P1:
		return time.Hour
	}
	return 0
}

// Reason is what follows from an operator reason, for the operator and for the user.
type Reason struct {
	Code       ReasonCode
	Title      Text
	Severity   Severity
	State      UserState // without refinement by facts; cert_expired without a current token is operator_action_required
	UserText   Text      // what a user is shown; empty shows nothing
	Layer      Layer
	Owner      string
	NextAction Text
	Runbook    string
	// With are the hops that the reason is about: a walk that blames another one names the reason as a fault beside the
	// blame.
	With   []HopID
	Hides  []ReasonCode // reasons that are not shown beside this one: it causes them, or forbids their repair
	Detect time.Duration
	Repair time.Duration // 0: by itself, or on the next business day
}

// Reasons returns every row, most pressing first. The rows are shared: they are read, never written.
func Reasons() []Reason { return slices.Clone(reasonRows[:]) }

// Shown is what a user is shown where facts refined the reason's state to s, as far as m bears it; "" shows nothing.
func (r Reason) Shown(s UserState, m Seen) string {
	if r.State == UserRecovery && s == UserOperator { // nothing reconnects by itself
		return userMaintenance
	}
	return r.UserText.Say(m)
}

// LookupReason returns the row of code, and whether there is one.
func LookupReason(code ReasonCode) (Reason, bool) {
	for i := range reasonRows {
		if reasonRows[i].Code == code {
			return reasonRows[i], true
		}
	}
	return Reason{}, false
}
