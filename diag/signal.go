package diag

import (
	"cmp"
	"slices"
	"strings"
)

//go:generate go run ../tools/catalogen ..

// Signal is the name of a failure in the dashboard and the runbook's matrices.
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

// SignalRow is what a signal implies before the facts refine it. The rows are in catalogue/signals.yaml.
type SignalRow struct {
	Signal    Signal
	Title     string       // one line for people: what is wrong
	Owners    Owners       // who is called
	BySide    []SideOwners // whom to call instead if the fault is known to be on that side
	Failures  []Failure    // that a blame with this signal can have
	Recovery  []Step       // in order; see SignalRow.Steps
	Proof     RepairProof
	Dashboard string     // node_agent_status while this signal is the blame; "": not about the agent
	Reason    ReasonCode // the operator reason, unless the facts refine it (see ReasonFor)
}

// Owners are the teams to call, in order.
type Owners []string

// String joins the owners as documents print them.
func (o Owners) String() string { return strings.Join(o, ", ") }

// SideOwners are the owners for a fault on one side.
type SideOwners struct {
	Side   Side
	Owners Owners
}

// RepairProof is the part of the chain that must pass after a repair.
type RepairProof struct {
	Hops       []HopID // none: the whole chain
	Allocation bool    // the walk needs an allocation
}

// Command returns the template, for FillCommand, of the command that walks that part.
func (p RepairProof) Command() string {
	hops := make([]string, len(p.Hops))
	for i, h := range p.Hops {
		hops[i] = string(h)
	}
	words := []string{"{preflight}"}
	if p.Allocation {
		words = append(words, "--allocation-id {allocation_id}")
	}
	if len(hops) > 0 {
		words = append(words, "--only "+strings.Join(hops, ","))
	}
	return strings.Join(words, " ")
}

// Runbook returns where the signal is explained: a command of this tool, or, if base is a URL, its page there. A page
// such as docs/runbook.md has an anchor for every signal and every reason.
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

// Signals returns every row, in the order of the constants. Callers must not modify the rows, which are shared.
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

// ReasonFor returns the operator reason of a signal, refined by the failure. A rejection by a listener that never
// requested the certificate means profile drift, never a revoked identity.
func ReasonFor(sig Signal, f Failure) ReasonCode {
	row, ok := LookupSignal(sig)
	if !ok {
		return ReasonNone
	}
	if sig == SigOpsSSHFailed && f == SSHAuth {
		return ReasonNone // the key or user name of one operator was refused; others may be able to log in
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
