package diag

import (
	"cmp"
	"slices"
	"strings"
)

//go:generate go run ../internal/catalogen ..

// Signal is the dashboard name of a failure, as the runbook's matrices have it.
type Signal string

// Words of the dashboard's node_agent_status.
const (
	AgentHealthy          = "healthy"
	AgentStale            = "stale"
	AgentAuthFailed       = "auth_failed"
	AgentAPIUnreachable   = "api_unreachable"
	AgentTaskResultFailed = "task_result_failed"
	AgentUnknown          = "unknown"
)

// Words of the dashboard's terminal_readiness.
const (
	TerminalTokenReady      = "token_ready"
	TerminalBrowserReady    = "browser_ws_ready"
	TerminalOpenSent        = "terminal_open_sent"
	TerminalStreamConnected = "node_stream_connected"
	TerminalPTYReady        = "pty_ready"
	TerminalFailed          = "failed"
)

// SignalRow is what is known of a signal before any fact. The rows are in catalogue/signals.yaml.
type SignalRow struct {
	Signal    Signal
	Title     string       // what is wrong, as one line for people
	Owners    Owners       // who is called
	BySide    []SideOwners // who is called instead where the fault is known to be on that side
	Recovery  []Step       // in order; see SignalRow.Steps
	Proof     RepairProof
	Dashboard string     // node_agent_status while this is the blame; "": not about the agent
	Terminal  string     // terminal_readiness while this is the blame; "": not about the terminal
	Reason    ReasonCode // the operator reason, where nothing in the facts refines it (see ReasonFor)
}

// Owners are who is called, the first one first.
type Owners []string

// String is how documents print owners.
func (o Owners) String() string { return strings.Join(o, ", ") }

// SideOwners are who is called for a fault on one side.
type SideOwners struct {
	Side   Side
	Owners Owners
}

// RepairProof is the part of the chain whose pass proves a repair.
type RepairProof struct {
	Hops       []HopID
	Allocation bool // the walk needs an allocation
}

// Command is the template of the command that walks it, for Fill.
func (p RepairProof) Command() string {
	hops := make([]string, len(p.Hops))
	for i, h := range p.Hops {
		hops[i] = string(h)
	}
	only := "--only " + strings.Join(hops, ",")
	if p.Allocation {
		return "{preflight} --allocation-id {allocation_id} " + only
	}
	return "{preflight} " + only
}

// Runbook is where the signal is explained: by this tool, or, where base is a URL, on a page such as docs/runbook.md,
// which has an anchor for every signal and every reason.
func (r *SignalRow) Runbook(base string) string {
	return runbook(base, string(r.Signal), string(r.Signal))
}

func runbook(base, words, anchor string) string {
	switch {
	case !strings.HasPrefix(base, "https://") && !strings.HasPrefix(base, "http://"):
		return "gpuaasctl explain " + words
	case strings.HasSuffix(base, "/"), strings.HasSuffix(base, "#"):
		return base + anchor
	}
	return base + "#" + anchor
}

// Signals returns every row, in the order of the constants. The rows are shared: they are read, never written.
func Signals() []SignalRow { return slices.Clone(signalRows[:]) }

// LookupSignal returns the row of sig, and whether there is one.
func LookupSignal(sig Signal) (SignalRow, bool) {
	for i := range signalRows {
		if signalRows[i].Signal == sig {
			return signalRows[i], true
		}
	}
	return SignalRow{}, false
}

// ReasonFor is the operator reason of a signal, refined by the failure. A rejection by a listener that never
// requested the certificate is drift of the profile, never a revoked identity.
func ReasonFor(sig Signal, f Failure) ReasonCode {
	row, ok := LookupSignal(sig)
	if !ok {
		return ReasonNone
	}
	if sig == SigOpsSSHFailed && f == SSHAuth {
		return ReasonNone // one operator's key or user name was refused: others may well get in
	}
	if sig != SigAuthFailed {
		return row.Reason
	}
	return cmp.Or(map[Failure]ReasonCode{
		MTLSCertExpired:     ReasonCertExpired,
		TLSExpired:          ReasonCertExpired,
		MTLSCertNotYetValid: ReasonClockSkew,
		TLSNotYetValid:      ReasonClockSkew,
		ClockSkew:           ReasonClockSkew,
		MTLSNotRequested:    ReasonEndpointProfileDrift,
		HTTPEdgePage:        ReasonEndpointProfileDrift,
		HTTPEdgeAuth:        ReasonEndpointProfileDrift,
		MTLSUnknownCA:       ReasonCertUntrustedByIngress,
	}[f], row.Reason)
}
