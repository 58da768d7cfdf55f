package diag

import (
	"slices"
	"strings"
)

// Failure names what the network or the host did, never whose fault it is: "tcp_refused" is the kernel's answer. The
// zero value means that nothing failed.
type Failure string

// OK is the zero Failure: nothing failed. The other values are in catalogue/failures.yaml.
const OK Failure = ""

// Words is the failure as the end of a sentence that names the attempt: "connection refused".
func (f Failure) Words() string {
	if f == OK {
		return "no failure"
	}
	if i := slices.Index(Failures[:], f); i >= 0 {
		return failureWords[i]
	}
	return ""
}

// Operator reports whether the operator's own setup ended a login before the node's answer could matter, so that the
// failure shows nothing about the node.
func (f Failure) Operator() bool {
	return slices.Contains([]Failure{SSHSetup, SSHJump, SSHNoKey, SSHHostKeyUnknown}, f)
}

// Local reports whether the measuring machine itself ended the attempt before anything was sent. Such a failure shows
// nothing about the target.
func (f Failure) Local() bool { return f == HostExhausted || f == TCPDenied }

// Silent reports whether nothing answered, so that without a proof the cause is only a guess.
func (f Failure) Silent() bool {
	return slices.Contains([]Failure{
		DNSTimeout, TCPTimeout, HTTPTimeout, WSSilent, PTYSilent, Timeout, Cancelled, Unknown,
	}, f)
}

// ExitRow describes an exit code. The rows are in catalogue/exits.yaml.
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
	LocalPorts     Resource = "local_ports" // for outgoing connections
	Processes      Resource = "processes"   // and threads
	Memory         Resource = "memory"
	NetworkBuffers Resource = "network_buffers"
)

// Resources lists every resource once.
var Resources = [...]Resource{OpenFiles, LocalPorts, Processes, Memory, NetworkBuffers}

// Words is the resource's name in texts.
func (r Resource) Words() string { return strings.ReplaceAll(string(r), "_", " ") }

// Scope is what a limit that was reached applies to.
type Scope string

// The closed list of scopes. The first three limit the environment of a probe, which is the operator's login; only the
// others are shared with the agent.
const (
	ScopeProcess Scope = "process"
	ScopeUser    Scope = "user"
	ScopeCgroup  Scope = "cgroup"
	ScopeNetwork Scope = "network" // a network namespace
	ScopeMachine Scope = "machine"
)

// Shared reports whether a limit that a probe on the agent's machine reached also applies to the agent.
func (s Scope) Shared() bool { return s == ScopeNetwork || s == ScopeMachine }

// ShortageFacts is a limit that was reached, as read right after the refusal. Values that could not be read are absent;
// Scope is empty if no exhausted limit was found.
type ShortageFacts struct {
	Resource Resource `json:"resource"`
	Scope    Scope    `json:"scope,omitempty"`
	Setting  string   `json:"setting,omitempty"` // where the limit is set: a sysctl, a ulimit or a cgroup file
	Limit    *int64   `json:"limit,omitempty"`   // unit: pieces; for memory bytes; for network buffers pages
	Used     *int64   `json:"used,omitempty"`
	Holders  []Holder `json:"holders,omitempty"` // at most MaxHolders, most first
}

// MaxHolders bounds ShortageFacts.Holders.
const MaxHolders = 5

// Holder is all processes with one name, and how much of the resource they use. What no process uses has no name.
type Holder struct {
	Name string `json:"name,omitempty"` // the kernel's name of the process, never a command line
	Held int64  `json:"held"`
}

// DenialFacts lists everything that could deny a connection, read in the same network namespace right after the denial.
// It does not identify which of them did.
type DenialFacts struct {
	// chains for outgoing traffic whose rules or policy may drop or reject
	PacketFilters []string `json:"packet_filters,omitempty"`
	CgroupFilters []string `json:"cgroup_filters,omitempty"` // kinds of BPF programs attached to the process's cgroups
	// of the process: off | strict | filter | machine (the same filter as process 1)
	Seccomp string   `json:"seccomp,omitempty"`
	Route   string   `json:"route,omitempty"`  // what the routing table answers: prohibit
	Unread  []string `json:"unread,omitempty"` // what could not be read, and why
}

// Confinement is how a unit's main process is restricted or isolated: by systemd's properties, and as the kernel shows
// it.
type Confinement struct {
	OwnNetwork     bool   `json:"own_network,omitempty"` // the process has a network namespace other than the machine's
	PrivateNetwork bool   `json:"private_network,omitempty"`
	NetworkPath    string `json:"network_path,omitempty"`     // NetworkNamespacePath
	JoinsNetworkOf string `json:"joins_network_of,omitempty"` // JoinsNamespaceOf
	// RestrictAddressFamilies; a list that begins with ~ names those that are refused
	AddressFamilies string `json:"address_families,omitempty"`
	// IPAddressDeny of the unit and its slices; effective only with an egress filter attached
	IPDeny  []string `json:"ip_deny,omitempty"`
	IPAllow []string `json:"ip_allow,omitempty"`
	// kinds of BPF programs that are in fact attached to its cgroup
	CgroupFilters []string `json:"cgroup_filters,omitempty"`
	FiltersUnread string   `json:"filters_unread,omitempty"` // why these are not known
	Seccomp       string   `json:"seccomp,omitempty"`        // of the process, as in DenialFacts
	SystemCalls   bool     `json:"system_calls,omitempty"`   // SystemCallFilter lacks connect or socket
	Proxies       []string `json:"proxies,omitempty"`        // names of proxy variables in its environment
}
