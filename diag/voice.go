package diag

import (
	"fmt"
	"time"
)

// This file owns the voice: how words of the vocabularies read in a sentence. Names for machines stay as they are.

// Words is the failure as the end of a sentence that names what was tried: "connection refused".
func (f Failure) Words() string {
	if f == OK {
		return "no failure"
	}
	return failureWords[f]
}

// failureWords has a row for every failure word; a test says so.
var failureWords = map[Failure]string{
	DNSNXDomain: "the name does not exist",
	DNSNoAnswer: "the name has no address",
	DNSServFail: "the DNS server failed",
	DNSTimeout:  "the DNS server did not answer",
	DNSRefused:  "the DNS server refused the question",
	DNSMismatch: "two sources give different addresses",

	TCPRefused:        "connection refused",
	TCPTimeout:        "no answer to the connection attempt",
	TCPReset:          "connection reset",
	TCPNoRoute:        "no route to the host",
	TCPNetUnreachable: "network unreachable",
	TCPDenied:         "connection denied by this host's own policy",

	TLSUnknownCA:    "certificate signed by an unknown authority",
	TLSExpired:      "server certificate expired",
	TLSNotYetValid:  "server certificate not yet valid",
	TLSNameMismatch: "server certificate is for another name",
	TLSProtocol:     "no common TLS version or cipher",
	TLSNotTLS:       "the listener does not speak TLS",
	TLSClosed:       "connection closed during the TLS handshake",

	MTLSCertRequired:    "client certificate required",
	MTLSUnknownCA:       "client certificate's authority not trusted",
	MTLSCertExpired:     "client certificate expired",
	MTLSCertNotYetValid: "client certificate not yet valid",
	MTLSCertRejected:    "client certificate rejected",
	MTLSNotRequested:    "the listener did not ask for a client certificate",
	MTLSIngress400:      "the node ingress refused the client certificate (HTTP 400)",

	HTTPStatus:      "unexpected HTTP status",
	HTTPRateLimited: "rate limited",
	HTTPTimeout:     "no HTTP answer in time",
	HTTPNotHTTP:     "the answer is not HTTP",
	HTTPEdgePage:    "an edge's own page in place of the API",
	HTTPEdgeAuth:    "the edge asks for a login",

	WSUpgradeRejected: "WebSocket upgrade rejected",
	WSSubprotocol:     "WebSocket subprotocol not accepted",
	WSClosed:          "WebSocket closed by the far side",
	WSSilent:          "WebSocket open, but silent",

	SSHHostKey:   "SSH host key is not the known one",
	SSHAuth:      "SSH login refused",
	SSHExec:      "SSH login works, but the command does not run",
	SSHTransport: "SSH connection failed",
	SSHPenalty:   "SSH server turns this address away for now",

	SSHSetup:          "the operator's SSH settings cannot be used",
	SSHJump:           "the jump host cannot be used",
	SSHNoKey:          "no SSH key to offer",
	SSHHostKeyUnknown: "SSH host key not accepted yet",

	FileMissing:     "file missing",
	FileUnreadable:  "file not readable",
	FileUnparseable: "file not understood",
	FileMismatch:    "file differs from what it should be",

	DiskFull:     "no space left",
	DiskInodes:   "no inodes left",
	DiskReadOnly: "file system is read-only",

	UnitInactive:     "unit not running",
	UnitFailed:       "unit failed",
	UnitMissing:      "unit does not exist",
	ProcessStopped:   "process stopped, it does not run on",
	BinaryExecFormat: "program is not for this machine",
	BinaryMissing:    "program missing",
	BinaryVersion:    "program of another version",

	UserMissing:  "user does not exist",
	ShellMissing: "login shell missing",
	PTYFailed:    "no PTY or shell",
	PTYSilent:    "the shell says nothing",

	ClockSkew: "clock is off",

	Timeout:      "not done in time",
	Cancelled:    "cancelled",
	NotPermitted: "not permitted",
	Unsupported:  "not supported here",
	Unknown:      "failed in an unknown way",
}

// Words is the status for people.
func (s Status) Words() string {
	if s == StatusNotReached {
		return "not reached"
	}
	return string(s)
}

// Words is the state as users' support reads it.
func (u UserState) Words() string {
	switch u {
	case UserNormal:
		return "normal"
	case UserTemporary:
		return "temporary trouble"
	case UserRecovery:
		return "recovering by itself"
	case UserOperator:
		return "operator has to act"
	case UserSecurity:
		return "security has to act"
	case UserUnknown:
		return "unknown, for too little of it was measured"
	}
	return string(u)
}

// Words is how an end of a walk reads, "" for the ordinary one.
func (e EndedBy) Words() string {
	switch e {
	case EndedDeadline:
		return "the walk's deadline ended it: this report is partial"
	case EndedInterrupted:
		return "interrupted: this report is partial"
	case EndedError:
		return "ended by an error of the tool: this report is partial"
	}
	return ""
}

// Words is a duration in at most six columns: "3 ms", "820 ms", "1.2 s", "12 s", "2m05s".
func (m Millis) Words() string {
	d := time.Duration(m) * time.Millisecond
	switch {
	case m < 1000:
		return fmt.Sprintf("%d ms", m)
	case m < 9950:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}
