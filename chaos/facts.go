package chaos

import (
	"net/netip"
	"time"
)

// Facts are the input of a plan, in addition to the scenario and the profile. They were collected without writing
// anything.
type Facts struct {
	Now        time.Time           `json:"now"` // the operator's clock
	Operator   string              `json:"operator"`
	Tools      map[string]string   `json:"tools,omitempty"` // of the operator's machine, by name
	Allocation *Allocation         `json:"allocation,omitempty"`
	Machines   []Machine           `json:"machines"`
	Material   map[string]Material `json:"-"` // existing material, by Mint.Key
}

// Allocation is the platform's record of the allocation that is walked.
type Allocation struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	NodeID  string `json:"node_id"`
	OSUser  string `json:"os_user"`
	AppUnit string `json:"app_unit"`
	AppPort string `json:"app_port"`
	AppURL  string `json:"app_url"`
}

// Machine holds the facts about one machine. A fact that was not asked for is absent; something that was asked for
// and does not exist has an entry that says so.
type Machine struct {
	Role   Role              `json:"role"`
	ID     string            `json:"id"`
	Host   string            `json:"host"`
	Labels map[string]string `json:"labels,omitempty"`
	Error  string            `json:"error,omitempty"` // why no fact could be read

	Now     time.Time       `json:"now"` // its clock
	Root    bool            `json:"root"`
	SSH     netip.AddrPort  `json:"ssh"` // the operator's end of the connection, as the machine sees it
	Consent Consent         `json:"consent"`
	Locked  string          `json:"locked,omitempty"` // ids of runs that lock the machine
	Cgroup2 bool            `json:"cgroup2"`
	Nft     bool            `json:"nft"` // the packet filter can be listed
	Tools   map[string]Tool `json:"tools,omitempty"`
	Names   map[string]Name `json:"names,omitempty"`
	Units   map[string]Unit `json:"units,omitempty"`
	Files   map[string]File `json:"files,omitempty"`
	Users   map[string]User `json:"users,omitempty"`
}

// Consent is the permission of the machine's owner to break it.
type Consent struct {
	Present    bool      `json:"present"`
	Node       string    `json:"node,omitempty"`
	Until      time.Time `json:"until"`
	Disposable bool      `json:"disposable,omitempty"`
	Problem    string    `json:"problem,omitempty"` // why it does not count
}

// Tool is the path of a program; "" if it is not installed.
type Tool string

// Name holds the addresses that a name resolves to on the machine, of both families; empty if none.
type Name []netip.Addr

// Unit is a service's state in systemd.
type Unit struct {
	ID      string `json:"id,omitempty"` // its canonical name, if it was asked for by an alias
	Loaded  bool   `json:"loaded"`
	Active  string `json:"active"`
	Masked  bool   `json:"masked,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Private bool   `json:"private,omitempty"` // has its own mount namespace
	User    string `json:"user,omitempty"`
}

// File describes one path.
type File struct {
	Kind   string `json:"kind"`             // file, dir, other; "" = does not exist
	Path   string `json:"path,omitempty"`   // where links lead
	SHA256 string `json:"sha256,omitempty"` // of a file
	Mode   uint32 `json:"mode,omitempty"`
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Text   string `json:"text,omitempty"` // only where it was asked for
}

// private reports whether the file is not world-readable, in which case its text is never shown.
func (f File) private() bool { return f.Mode&0o004 == 0 }

// User is a passwd entry, as the machine's name service returns it.
type User struct {
	UID   int    `json:"uid"` // -1 = unknown user
	GID   int    `json:"gid"`
	Home  string `json:"home,omitempty"`
	Shell string `json:"shell,omitempty"`
}
