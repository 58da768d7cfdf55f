package diag

import "slices"

// Failure is a word for what the network or the host did. It is never policy: "tcp_refused" is the kernel's answer,
// not whose fault it is. The zero value means that nothing failed.
type Failure string

// OK is the word of what did not fail. The others are in catalogue/failures.yaml.
const OK Failure = ""

// Words is the failure as the end of a sentence that names what was tried: "connection refused".
func (f Failure) Words() string {
	if f == OK {
		return "no failure"
	}
	if i := slices.Index(Failures[:], f); i >= 0 {
		return failureWords[i]
	}
	return ""
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

// Local reports whether the word means that the measuring machine itself ended the attempt before anything left it:
// what was to be asked is neither well nor unwell by that.
func (f Failure) Local() bool { return f == HostExhausted || f == TCPDenied }

// Silent reports whether the word means that nothing answered, so that the cause is only a guess without a proof.
func (f Failure) Silent() bool {
	switch f {
	case DNSTimeout, TCPTimeout, HTTPTimeout, WSSilent, PTYSilent, Timeout, Cancelled, Unknown:
		return true
	}
	return false
}

// ExitRow is what an exit code means. The rows are in catalogue/exits.yaml.
type ExitRow struct {
	Code  int
	Means string // in Markdown
}

// Exits returns every row, in the order of the codes.
func Exits() []ExitRow { return slices.Clone(exitRows[:]) }

// Resource is something that a machine can be out of.
type Resource string

// The closed list of resources.
const (
	OpenFiles      Resource = "open_files"
	LocalPorts     Resource = "local_ports" // of outgoing connections
	Processes      Resource = "processes"   // and threads
	Memory         Resource = "memory"
	NetworkBuffers Resource = "network_buffers"
)

// Resources lists every resource once.
var Resources = [...]Resource{OpenFiles, LocalPorts, Processes, Memory, NetworkBuffers}

// Words is the resource's name in texts.
func (r Resource) Words() string {
	switch r {
	case OpenFiles:
		return "open files"
	case LocalPorts:
		return "local ports"
	case NetworkBuffers:
		return "network buffers"
	}
	return string(r)
}

// Scope reports whose limit was reached.
type Scope string

// The closed list of scopes. The first three limit what a probe runs in, which is a login of the operator's; only the
// others are shared with the agent.
const (
	ScopeProcess Scope = "process"
	ScopeUser    Scope = "user"
	ScopeCgroup  Scope = "cgroup"
	ScopeNetwork Scope = "network" // a network namespace
	ScopeMachine Scope = "machine"
)

// Shared reports whether the limit is also the agent's where a probe on the agent's machine reached it.
func (s Scope) Shared() bool { return s == ScopeNetwork || s == ScopeMachine }

// ShortageFacts is a limit that was reached, as it was read right after the refusal. Of what could not be read, nothing
// is there; Scope is empty where no limit was found to be reached.
type ShortageFacts struct {
	Resource Resource `json:"resource"`
	Scope    Scope    `json:"scope,omitempty"`
	Setting  string   `json:"setting,omitempty"` // where the limit is set: a sysctl, a ulimit or a cgroup file
	Limit    *int64   `json:"limit,omitempty"`   // in pieces; bytes of memory; pages of network buffers
	Used     *int64   `json:"used,omitempty"`
	Holders  []Holder `json:"holders,omitempty"` // at most MaxHolders, most first
}

// MaxHolders bounds ShortageFacts.Holders.
const MaxHolders = 5

// Holder is all processes of one name, and how much they hold. What no process holds has no name.
type Holder struct {
	Name string `json:"name,omitempty"` // as the kernel has it: never a command line
	Held int64  `json:"held"`
}

// DenialFacts lists everything that could deny a connection, read in its namespace right after it was denied. It does
// not identify which of them did.
type DenialFacts struct {
	// chains of what leaves, whose rules or policy may drop or reject
	PacketFilters []string `json:"packet_filters,omitempty"`
	CgroupFilters []string `json:"cgroup_filters,omitempty"` // kinds of BPF programs that hold for the process
	// of the process: off | strict | filter | machine (no other than process 1 has)
	Seccomp string   `json:"seccomp,omitempty"`
	Route   string   `json:"route,omitempty"`  // what the routing table answers: prohibit
	Unread  []string `json:"unread,omitempty"` // what could not be read, with why
}

// Confinement is how a unit's main process is cut off or held apart: by systemd's properties, and as the kernel shows
// it.
type Confinement struct {
	OwnNetwork     bool   `json:"own_network,omitempty"` // a network namespace that is not the machine's
	PrivateNetwork bool   `json:"private_network,omitempty"`
	NetworkPath    string `json:"network_path,omitempty"`     // NetworkNamespacePath
	JoinsNetworkOf string `json:"joins_network_of,omitempty"` // JoinsNamespaceOf
	// RestrictAddressFamilies; ~ before those that are refused
	AddressFamilies string `json:"address_families,omitempty"`
	// IPAddressDeny of it and its slices; in force only with a filter on egress
	IPDeny        []string `json:"ip_deny,omitempty"`
	IPAllow       []string `json:"ip_allow,omitempty"`
	CgroupFilters []string `json:"cgroup_filters,omitempty"` // kinds of BPF programs that really hold for its cgroup
	FiltersUnread string   `json:"filters_unread,omitempty"` // why these are not known
	Seccomp       string   `json:"seccomp,omitempty"`        // of the process, as in DenialFacts
	SystemCalls   bool     `json:"system_calls,omitempty"`   // a SystemCallFilter without connect or socket
	Proxies       []string `json:"proxies,omitempty"`        // names of proxy variables in its environment
}
