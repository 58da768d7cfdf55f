package diag

import (
	"iter"
	"slices"
	"strings"
)

// HopID is the name of a hop in the runbook.
type HopID string

// HopRow describes a hop; package preflight has its implementation. The rows are in catalogue/hops.yaml. Hops that a
// profile defines have no row here: the caller provides the default.
type HopRow struct {
	ID          HopID
	Title       string   // one line for people: what holds when the hop passes
	Layer       Layer    // the layer that a failure affects
	Allocation  bool     // the hop is about one allocation, and is skipped without one
	Optional    bool     // in walks only where the profile wants it; see profile.LeavesOut
	Tenants     string   // where a tenant notices a failure: the terminal, the product URL; "" if no tenant does
	EndsSession bool     // a failure ends the terminal session: the platform must have recorded it
	About       string   // what a pass means, in Markdown
	Signals     []Signal // the signals that its judge may return
}

// Hops returns every row, in the order of the runbook. Callers must not modify the rows, which are shared.
func Hops() []HopRow { return append([]HopRow{}, hopRows[:]...) }

// HopIDs lists the hops of the catalogue in the order of the runbook.
func HopIDs() []HopID {
	ids := make([]HopID, len(hopRows))
	for i := range hopRows {
		ids[i] = hopRows[i].ID
	}
	return ids
}

// HopsAnd returns the hops of the catalogue, of the optional ones those of more, and behind them those of more that it
// lacks, by name: hops of another tool's profile.
func HopsAnd(more iter.Seq[HopID]) []HopID {
	walked := slices.Sorted(more)
	ids := slices.DeleteFunc(HopIDs(), func(id HopID) bool {
		row, _ := LookupHop(id)
		return row.Optional && !slices.Contains(walked, id)
	})
	for _, id := range walked {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// LookupHop returns the row of id, and whether there is one.
func LookupHop(id HopID) (HopRow, bool) {
	if i := id.Rank(); i < len(hopRows) {
		return hopRows[i], true
	}
	return HopRow{}, false
}

// OwnHopPattern is the pattern for the ids of hops that a profile defines.
const OwnHopPattern = `^x\.[a-z0-9][a-z0-9_]*$`

// Valid reports whether id can name a hop: one of the catalogue, or one that a profile defines.
func (h HopID) Valid() bool {
	if _, known := LookupHop(h); known {
		return true
	}
	name, own := strings.CutPrefix(string(h), "x.")
	return own && name != "" && name[0] != '_' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Own reports whether the id is one of a hop that a profile defines.
func (h HopID) Own() bool { return strings.HasPrefix(string(h), "x.") }

// Rank returns the hop's position in the order of the runbook. Hops that are not in the catalogue come last.
func (h HopID) Rank() int {
	for i := range hopRows {
		if hopRows[i].ID == h {
			return i
		}
	}
	return len(hopRows)
}

// NeedsAllocation reports whether the hop is about one allocation: it cannot be walked without one.
func (h HopID) NeedsAllocation() bool {
	row, _ := LookupHop(h)
	return row.Allocation
}

// Op names an operation of the prober: one measurement. Its row in the table below lists inputs and sections, its
// function is in package probe, and each section's type defines its text and its comparable properties.
type Op string

// The operations.
const (
	OpDNS     Op = "dns"
	OpGetent  Op = "getent"
	OpTCP     Op = "tcp"
	OpTLS     Op = "tls"
	OpHTTP    Op = "http"
	OpWS      Op = "ws"
	OpSession Op = "session"
	OpSSH     Op = "ssh"
	OpDisk    Op = "disk"
	OpFile    Op = "file"
	OpCert    Op = "cert"
	OpUnit    Op = "unit"
	OpBinary  Op = "binary"
	OpUser    Op = "user"
	OpClock   Op = "clock"
	OpEnv     Op = "env"
	OpRecord  Op = "record"
	OpJournal Op = "journal"
	OpGPU     Op = "gpu"
	OpMachine Op = "machine"
	OpMounts  Op = "mounts"
	OpKernel  Op = "kernel"
	OpPath    Op = "path"

	OpGPUJudge Op = "gpu_judge"

	OpProcess   Op = "process"
	OpContainer Op = "container"
	OpCommand   Op = "command"
)

// OpRow is one operation.
type OpRow struct {
	Op    Op
	Does  string
	Asks  string // wire names of the request fields that it reads, besides view
	Fills string // wire names of the sections of a fact that it may fill

	Ladder bool // it connects to a remote host in the phases dns, tcp, tls, http, ...
	Once   bool // it has a side effect, so it is never repeated
	Plain  bool // the result is the same for every process, whatever the agent's namespaces
	Both   bool // measured twice: as a login sees it, and as the agent sees it
}

// Connects reports whether the operation connects to a remote host, and does not only look up a name.
func (r OpRow) Connects() bool { return r.Ladder && strings.Contains(r.Fills, "tcp") }

// Inputs of the phases, each including those of the phases before it.
const (
	asksDNS  = "target network resolve resolver"
	asksTLS  = asksDNS + " server_name ca_bundle ca_inline tls_look cert key"
	asksHTTP = asksTLS + " method header body query token cookie extract keep poll"
	asksWS   = asksHTTP + " subprotocols"
)

// opRows is the closed table.
var opRows = [...]OpRow{
	{Op: OpDNS, Does: "looks up target (a name), by the host's own rules or by resolver", Asks: asksDNS,
		Fills: "dns", Ladder: true},
	{Op: OpGetent, Does: "looks up the host of target as the programs of the machine do, by one getent; it is bounded, " +
		"and only root's is run", Asks: "target network", Fills: "dns"},
	{Op: OpTCP, Does: "dns, then connects to target (host:port)", Asks: asksDNS, Fills: "dns tcp", Ladder: true},
	{Op: OpTLS, Does: "dns, tcp, then a TLS handshake", Asks: asksTLS, Fills: "dns tcp tls", Ladder: true},
	{Op: OpHTTP, Does: "dns, tcp, tls, then one HTTP exchange (or a poll) with target (a URL); cert makes it mTLS",
		Asks: asksHTTP, Fills: "dns tcp tls http", Ladder: true},
	{Op: OpWS, Does: "as http, then a WebSocket upgrade only; closed at once", Asks: asksWS,
		Fills: "dns tcp tls http ws", Ladder: true},
	{Op: OpSession, Does: "as ws, then a whole terminal session: first frame, a computed nonce through the PTY, close",
		Asks: asksWS, Fills: "dns tcp tls http ws pty", Ladder: true, Once: true},
	{Op: OpSSH, Does: "tcp, banner, host key, auth, exec: how a node vantage got where it is", Asks: "target",
		Fills: "dns tcp ssh", Once: true},
	{Op: OpDisk, Does: "space, inodes and a real write at target (a folder)", Asks: "target write_bytes beside",
		Fills: "disk"},
	{Op: OpFile, Does: "existence, mode, digest of target (a path); its text is never returned", Asks: "target",
		Fills: "file", Both: true},
	{Op: OpCert, Does: "cert and key as a pair: dates, subject, issuer, whether they match",
		Asks: "target cert key node_id", Fills: "cert", Both: true},
	{Op: OpUnit, Does: "systemd's word on target (a unit) and the state of its main process", Asks: "target",
		Fills: "unit", Plain: true},
	{Op: OpBinary,
		Does: "target (a program) as far as it can be read: is it whole, for this machine, ours; it is never run",
		Asks: "target unit version_command", Fills: "binary"},
	{Op: OpUser, Does: "target (a login name) by getent, and its shell", Asks: "target", Fills: "user"},
	{Op: OpClock, Does: "this host's wall clock (the vantage adds the offset to the operator's)", Fills: "clock",
		Plain: true},
	{Op: OpEnv, Does: "the names in env, of the agent's process; values of secrets as presence and age",
		Asks: "env unit", Fills: "env", Plain: true},
	{Op: OpRecord, Does: "the diagnostic record in target (a folder): its newest limit entries and the pinned ones",
		Asks: "target limit", Fills: "record", Both: true},
	{Op: OpJournal, Does: "the newest limit lines of target (a unit, or an absolute path of a log file) since since",
		Asks: "target limit since match", Fills: "journal", Plain: true},
	{Op: OpGPU, Does: "the GPUs of this node as its agent keeps them in target (a file), the kernel's module; with " +
		"evidence the raw events, too, and the kernel log where the agent does not read it", Asks: "target evidence",
		Fills: "gpu"},
	{Op: OpMachine, Does: "memory, processes, units, hardware, container runtimes and clock of this machine; match has " +
		"more folders and files of certificates", Asks: "match", Fills: "machine", Plain: true},
	{Op: OpMounts, Does: "the file systems of this machine, each asked in a process of its own", Fills: "mounts",
		Plain: true},
	{Op: OpKernel, Does: "what the kernel log of this boot says that may be a fault, by kind", Fills: "kernel",
		Plain: true},
	{Op: OpPath, Does: "as tls (as tcp for a target without), then the interface towards target, and its other addresses",
		Asks: asksTLS + " mss", Fills: "dns tcp tls path", Ladder: true},
	{Op: OpGPUJudge, Does: "has gpuaas-gpu-policy judge a node's GPUs by target (a policy), from the raw events of a " +
		"gpu fact, as of since (the node's time); only on the operator's side", Asks: "target since", Fills: "gpu_judged",
		Plain: true},
	{Op: OpProcess, Does: "the processes whose name, or whose program's, is target, and whose arguments have a text " +
		"of match", Asks: "target match", Fills: "process", Plain: true},
	{Op: OpContainer, Does: "the container target (a name or an id), as its runtime's socket describes it",
		Asks: "target socket", Fills: "container", Plain: true},
	{Op: OpCommand, Does: "runs the command of a check that a profile declares, and ends everything that it leaves; " +
		"only for an operator", Asks: "command", Fills: "command", Once: true, Plain: true},
}

// Ops lists every operation, in the order of the table.
func Ops() []Op {
	ops := make([]Op, len(opRows))
	for i := range opRows {
		ops[i] = opRows[i].Op
	}
	return ops
}

// Row is the operation's row. For an unknown operation it has the name alone.
func (op Op) Row() OpRow {
	for i := range opRows {
		if opRows[i].Op == op {
			return opRows[i]
		}
	}
	return OpRow{Op: op}
}
