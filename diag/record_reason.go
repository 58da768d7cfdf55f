package diag

// RecordReason is why the agent decided what it wrote to the host's diagnostic record: low cardinality, readable
// without the platform. The zero value means that nothing was wrong.
type RecordReason string

// The closed list of record reasons. Rows are only added; names never change.
const (
	RecProcessAlive              RecordReason = "process_alive"
	RecServerTLSUntrusted        RecordReason = "server_tls_untrusted"
	RecEndpointProfileDrift      RecordReason = "endpoint_profile_drift"
	RecRecoveryEnrollmentBlocked RecordReason = "recovery_enrollment_blocked"
	RecIdentityRevoked           RecordReason = "identity_revoked"
	RecIdentityRejected          RecordReason = "identity_rejected" // refused without a typed word, e.g. an ingress's own 400
	RecEdgeRateLimited           RecordReason = "edge_rate_limited"
	RecTaskPollFailed            RecordReason = "task_poll_failed"

	RecAPIUnreachable       RecordReason = "api_unreachable"
	RecDNSFailed            RecordReason = "dns_failed"
	RecCertExpired          RecordReason = "cert_expired"
	RecCertNotYetValid      RecordReason = "cert_not_yet_valid"
	RecCertKeyMismatch      RecordReason = "cert_key_mismatch"
	RecCertMissing          RecordReason = "cert_missing"
	RecRecoveryTokenMissing RecordReason = "recovery_token_missing"
	RecRecoveryTokenExpired RecordReason = "recovery_token_expired"
	RecRecoveryEnrolled     RecordReason = "recovery_enrolled"
	RecRecoverySuppressed   RecordReason = "recovery_suppressed"
	RecCertExpiring         RecordReason = "cert_expiring"           // the last third of its life, and what is done about it
	RecRecoveryTokenRotated RecordReason = "recovery_token_rotated"  // by a task
	RecRecoveryBundle       RecordReason = "recovery_bundle_applied" // by an operator
	RecNodeCordoned         RecordReason = "node_cordoned"           // or uncordoned, by a task

	RecTaskResultPostFailed RecordReason = "task_result_post_failed"
	RecTaskClaimFailed      RecordReason = "task_claim_failed"
	RecTerminalStreamFailed RecordReason = "terminal_stream_failed"
	RecTerminalPTYFailed    RecordReason = "terminal_pty_failed"

	RecDiskFull            RecordReason = "disk_full"
	RecClockSkew           RecordReason = "clock_skew"
	RecClonedIdentity      RecordReason = "cloned_identity_detected"
	RecSelfUpdateStarted   RecordReason = "self_update_started"
	RecSelfUpdateCommitted RecordReason = "self_update_committed"
	RecSelfUpdateReverted  RecordReason = "self_update_reverted"
	RecBootRecovery        RecordReason = "boot_recovery"
	RecRecordDegraded      RecordReason = "record_degraded"
	RecShutdown            RecordReason = "shutdown"
)

// RecordReasons lists every reason once, in the order of the catalogue.
var RecordReasons = [...]RecordReason{
	RecProcessAlive, RecServerTLSUntrusted, RecEndpointProfileDrift, RecRecoveryEnrollmentBlocked, RecIdentityRevoked,
	RecIdentityRejected, RecEdgeRateLimited, RecTaskPollFailed,
	RecAPIUnreachable, RecDNSFailed, RecCertExpired, RecCertNotYetValid, RecCertKeyMismatch, RecCertMissing,
	RecRecoveryTokenMissing, RecRecoveryTokenExpired, RecRecoveryEnrolled, RecRecoverySuppressed,
	RecCertExpiring, RecRecoveryTokenRotated, RecRecoveryBundle, RecNodeCordoned,
	RecTaskResultPostFailed, RecTaskClaimFailed, RecTerminalStreamFailed, RecTerminalPTYFailed,
	RecDiskFull, RecClockSkew, RecClonedIdentity, RecSelfUpdateStarted, RecSelfUpdateCommitted, RecSelfUpdateReverted,
	RecBootRecovery, RecRecordDegraded, RecShutdown,
}
