package diag

// Failure is a word for what the network or the host did. It is never policy: "tcp_refused" says what the kernel
// answered, not whose fault it is. The zero value means that nothing failed.
type Failure string

// The closed list of failure words. Rows are only added; names never change.
const (
	OK Failure = ""

	DNSNXDomain Failure = "dns_nxdomain"
	DNSNoAnswer Failure = "dns_no_answer"
	DNSServFail Failure = "dns_servfail"
	DNSTimeout  Failure = "dns_timeout"
	DNSRefused  Failure = "dns_refused"
	DNSMismatch Failure = "dns_mismatch" // two sources disagree

	TCPRefused        Failure = "tcp_refused"
	TCPTimeout        Failure = "tcp_timeout"
	TCPReset          Failure = "tcp_reset"
	TCPNoRoute        Failure = "tcp_no_route"
	TCPNetUnreachable Failure = "tcp_net_unreachable"
	TCPDenied         Failure = "tcp_denied" // local policy: EPERM or EACCES

	TLSUnknownCA    Failure = "tls_unknown_ca"
	TLSExpired      Failure = "tls_expired"
	TLSNotYetValid  Failure = "tls_not_yet_valid"
	TLSNameMismatch Failure = "tls_name_mismatch"
	TLSProtocol     Failure = "tls_protocol"
	TLSNotTLS       Failure = "tls_not_tls"
	TLSClosed       Failure = "tls_closed"

	MTLSCertRequired    Failure = "mtls_cert_required"
	MTLSUnknownCA       Failure = "mtls_unknown_ca"
	MTLSCertExpired     Failure = "mtls_cert_expired"
	MTLSCertNotYetValid Failure = "mtls_cert_not_yet_valid"
	MTLSCertRejected    Failure = "mtls_cert_rejected"
	MTLSNotRequested    Failure = "mtls_not_requested" // the listener never asked: a public edge
	MTLSIngress400      Failure = "mtls_ingress_400"   // nginx answers above TLS; the cause is in local facts

	HTTPStatus      Failure = "http_status"
	HTTPRateLimited Failure = "http_rate_limited"
	HTTPTimeout     Failure = "http_timeout"
	HTTPNotHTTP     Failure = "http_not_http"
	HTTPEdgePage    Failure = "http_edge_page" // an edge's own page, not the API
	HTTPEdgeAuth    Failure = "http_edge_auth" // the edge asks for a login

	WSUpgradeRejected Failure = "ws_upgrade_rejected"
	WSSubprotocol     Failure = "ws_subprotocol"
	WSClosed          Failure = "ws_closed"
	WSSilent          Failure = "ws_silent"

	SSHHostKey   Failure = "ssh_host_key"
	SSHAuth      Failure = "ssh_auth"
	SSHExec      Failure = "ssh_exec"
	SSHTransport Failure = "ssh_transport"
	SSHPenalty   Failure = "ssh_penalty"

	// What keeps an operator from logging in before the node's answer could differ, see Operator.
	SSHSetup          Failure = "ssh_setup"            // ssh_config, known_hosts or the host to dial cannot be used
	SSHJump           Failure = "ssh_jump"             // a jump host on the way; the node was not asked
	SSHNoKey          Failure = "ssh_no_key"           // no key could be offered
	SSHHostKeyUnknown Failure = "ssh_host_key_unknown" // no host key of the node was accepted yet

	FileMissing     Failure = "file_missing"
	FileUnreadable  Failure = "file_unreadable"
	FileUnparseable Failure = "file_unparseable"
	FileMismatch    Failure = "file_mismatch"

	DiskFull     Failure = "disk_full"
	DiskInodes   Failure = "disk_inodes"
	DiskReadOnly Failure = "disk_read_only"

	UnitInactive     Failure = "unit_inactive"
	UnitFailed       Failure = "unit_failed"
	UnitMissing      Failure = "unit_missing"
	ProcessStopped   Failure = "process_stopped"
	BinaryExecFormat Failure = "binary_exec_format"
	BinaryMissing    Failure = "binary_missing"
	BinaryVersion    Failure = "binary_version"

	UserMissing  Failure = "user_missing"
	ShellMissing Failure = "shell_missing"
	PTYFailed    Failure = "pty_failed"
	PTYSilent    Failure = "pty_silent"

	ClockSkew Failure = "clock_skew"

	Timeout      Failure = "timeout"
	Cancelled    Failure = "cancelled"
	NotPermitted Failure = "not_permitted"
	Unsupported  Failure = "unsupported"
	Unknown      Failure = "unknown_failure" // scrubbed
)

// Failures lists every word once, in the order of the catalogue; schema and docs are made from it.
var Failures = [...]Failure{
	DNSNXDomain, DNSNoAnswer, DNSServFail, DNSTimeout, DNSRefused, DNSMismatch,
	TCPRefused, TCPTimeout, TCPReset, TCPNoRoute, TCPNetUnreachable, TCPDenied,
	TLSUnknownCA, TLSExpired, TLSNotYetValid, TLSNameMismatch, TLSProtocol, TLSNotTLS, TLSClosed,
	MTLSCertRequired, MTLSUnknownCA, MTLSCertExpired, MTLSCertNotYetValid, MTLSCertRejected, MTLSNotRequested, MTLSIngress400,
	HTTPStatus, HTTPRateLimited, HTTPTimeout, HTTPNotHTTP, HTTPEdgePage, HTTPEdgeAuth,
	WSUpgradeRejected, WSSubprotocol, WSClosed, WSSilent,
	SSHHostKey, SSHAuth, SSHExec, SSHTransport, SSHPenalty,
	SSHSetup, SSHJump, SSHNoKey, SSHHostKeyUnknown,
	FileMissing, FileUnreadable, FileUnparseable, FileMismatch,
	DiskFull, DiskInodes, DiskReadOnly,
	UnitInactive, UnitFailed, UnitMissing, ProcessStopped, BinaryExecFormat, BinaryMissing, BinaryVersion,
	UserMissing, ShellMissing, PTYFailed, PTYSilent,
	ClockSkew,
	Timeout, Cancelled, NotPermitted, Unsupported, Unknown,
}

// Operator reports whether the word means that an operator's own set-up ended a login before the node's answer could
// differ, so that nothing follows from it about the node.
func (f Failure) Operator() bool {
	switch f {
	case SSHSetup, SSHJump, SSHNoKey, SSHHostKeyUnknown:
		return true
	}
	return false
}

// Silent reports whether the word means that nothing answered, so that the cause is only a guess without a proof.
func (f Failure) Silent() bool {
	switch f {
	case DNSTimeout, TCPTimeout, HTTPTimeout, WSSilent, PTYSilent, Timeout, Cancelled, Unknown:
		return true
	}
	return false
}
