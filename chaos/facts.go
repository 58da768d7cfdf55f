package chaos

import (
	"net/netip"
	"time"
)

// Facts are what a plan is made from, beside the scenario and the profile. Nothing was written to learn them.
type Facts struct {
	Now        time.Time           `json:"now"` // the operator's clock
	Operator   string              `json:"operator"`
	Tools      map[string]string   `json:"tools,omitempty"` // of the operator's machine, by name
	Allocation *Allocation         `json:"allocation,omitempty"`
	Machines   []Machine           `json:"machines"`
	Material   map[string]Material `json:"-"` // what was made already, by Mint.Key
}

// Allocation is the platform's row of the allocation that is walked.
type Allocation struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	NodeID  string `json:"node_id"`
	OSUser  string `json:"os_user"`
	AppUnit string `json:"app_unit"`
	AppPort string `json:"app_port"`
	AppURL  string `json:"app_url"`
}

// Machine is what was read on one machine. Something that was not asked is absent; something that was asked and is not
// there has a row that records it.
type Machine struct {
	Role   Role              `json:"role"`
	ID     string            `json:"id"`
	Host   string            `json:"host"`
	Labels map[string]string `json:"labels,omitempty"`
	Error  string            `json:"error,omitempty"` // it could not be asked at all

	Now     time.Time       `json:"now"` // its clock
	Root    bool            `json:"root"`
	SSH     netip.AddrPort  `json:"ssh"` // the operator's end of the connection, as the machine sees it
	Consent Consent         `json:"consent"`
	Locked  string          `json:"locked,omitempty"` // run ids of drills that keep others off it
	Cgroup2 bool            `json:"cgroup2"`
	Nft     bool            `json:"nft"` // the packet filter can be listed
	Tools   map[string]Tool `json:"tools,omitempty"`
	Names   map[string]Name `json:"names,omitempty"`
	Units   map[string]Unit `json:"units,omitempty"`
	Files   map[string]File `json:"files,omitempty"`
	Users   map[string]User `json:"users,omitempty"`
}

// Consent is the machine owner's word that it may be broken.
type Consent struct {
	Present    bool      `json:"present"`
	Node       string    `json:"node,omitempty"`
	Until      time.Time `json:"until"`
	Disposable bool      `json:"disposable,omitempty"`
	Problem    string    `json:"problem,omitempty"` // why it does not count
}

// Tool is where a program lies; "" where it does not.
type Tool string

// Name is what a name leads to on the machine, of either family; empty where it leads nowhere.
type Name []netip.Addr

// Unit is a service as systemd has it.
type Unit struct {
	ID      string `json:"id,omitempty"` // its own name, where it was asked for by an alias
	Loaded  bool   `json:"loaded"`
	Active  string `json:"active"`
	Masked  bool   `json:"masked,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Private bool   `json:"private,omitempty"` // has a mount namespace of its own
	User    string `json:"user,omitempty"`
}

// File is one path.
type File struct {
	Kind   string `json:"kind"`             // file, dir, other; "" = there is nothing
	Path   string `json:"path,omitempty"`   // where links lead
	SHA256 string `json:"sha256,omitempty"` // of a file
	Mode   uint32 `json:"mode,omitempty"`
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Text   string `json:"text,omitempty"` // only where it was asked for
}

// private means that not every user of the machine may read the file, so its text is never shown.
func (f File) private() bool { return f.Mode&0o004 == 0 }

// User is a line of passwd, as the machine's own look-up gives it.
type User struct {
	UID   int    `json:"uid"` // -1 = unknown user
	GID   int    `json:"gid"`
	Home  string `json:"home,omitempty"`
	Shell string `json:"shell,omitempty"`
}
