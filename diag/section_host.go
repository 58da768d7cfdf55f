package diag

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DiskFacts is the file system that holds Target.
type DiskFacts struct {
	FSType      string `json:"fs_type,omitempty"`
	TotalBytes  uint64 `json:"total_bytes"`
	FreeBytes   uint64 `json:"free_bytes"`   // to unprivileged users, as df shows it
	UsedPercent int    `json:"used_percent"` // rounded up, as df does
	TotalInodes uint64 `json:"total_inodes,omitempty"`
	FreeInodes  uint64 `json:"free_inodes,omitempty"`
	ReadOnly    bool   `json:"read_only,omitempty"`
	// Request.Beside, where that is on the same file system: nothing was written
	SameAs       string `json:"same_as,omitempty"`
	WrittenBytes *int   `json:"written_bytes,omitempty"` // of Request.Write
}

// Words reports how full the file system is, and whether it was written to.
func (d *DiskFacts) Words() []Line {
	written, ro := "", ""
	if d.WrittenBytes != nil {
		written = fmt.Sprintf("%d bytes written", *d.WrittenBytes)
	}
	if d.ReadOnly {
		ro = "read-only"
	}
	return []Line{line("disk", d.FSType, fmt.Sprintf("%d%% used", d.UsedPercent),
		fmt.Sprintf("%d MiB free of %d", d.FreeBytes>>20, d.TotalBytes>>20), ro, written,
		pair("same file system as ", d.SameAs))}
}

// Traits has none: disks fill and empty all the time.
func (d *DiskFacts) Traits(*Fact) []Trait { return nil }

// FileFacts describes a file without its text.
type FileFacts struct {
	Path     string `json:"path"`
	Resolved string `json:"resolved,omitempty"` // after symbolic links
	Size     int64  `json:"size"`
	Mode     string `json:"mode"` // octal
	UID      int    `json:"uid"`
	SHA256   string `json:"sha256,omitempty"`
	ModTime  Time   `json:"mod_time"`
	HostSHA  string `json:"host_sha256,omitempty"` // the plain view's digest, where it differs from the agent's
}

// Words reports which file it is.
func (d *FileFacts) Words() []Line {
	return []Line{line("file", d.Path, pair("is ", d.Resolved), fmt.Sprintf("%d bytes", d.Size), "mode "+d.Mode,
		pair("sha256 ", Digits(d.SHA256)), pair("on the plain host ", Digits(d.HostSHA)))}
}

// Traits has what makes it the same file.
func (d *FileFacts) Traits(*Fact) []Trait {
	return []Trait{
		{ChangeFile, "file.resolved", d.Resolved},
		{ChangeFile, "file.mode", d.Mode},
		{ChangeFile, "file.sha256", d.SHA256},
	}
}

// CertFacts is the node's credential pair.
type CertFacts struct {
	Leaf CertInfo `json:"leaf"`
	// what follows the leaf in its file, at most 15; of a bundle, its other roots
	Chain      []CertInfo `json:"chain,omitempty"`
	KeyMatches *bool      `json:"key_matches,omitempty"`
	NodeBound  *bool      `json:"node_bound,omitempty"` // the subject or a SAN names Request.NodeID
	BoundTo    string     `json:"bound_to,omitempty"`
	HostSerial string     `json:"host_serial,omitempty"` // the plain view's serial, where it differs from the agent's
}

// Words reports whose certificate it is, and whether it fits the key and the node.
func (d *CertFacts) Words() []Line {
	return []Line{line("cert", d.Leaf.Subject, pair("issued by ", d.Leaf.Issuer), pair("serial ", d.Leaf.Serial),
		d.Leaf.until(),
		yes(d.KeyMatches, "key matches", "key does not match"), yes(d.NodeBound, "bound to this node",
			"not bound to this node"),
		pair("bound to ", d.BoundTo))}
}

// Traits has issuer and serial.
func (d *CertFacts) Traits(*Fact) []Trait {
	return []Trait{
		{ChangeNodeIssuer, "cert.leaf.issuer", d.Leaf.Issuer},
		{ChangeNodeCert, "cert.leaf.serial", d.Leaf.Serial},
	}
}

// UnitFacts is systemd's word on a unit, and the kernel's on its process.
type UnitFacts struct {
	Load         string   `json:"load,omitempty"`
	Active       string   `json:"active,omitempty"`
	Sub          string   `json:"sub,omitempty"`
	Result       string   `json:"result,omitempty"`
	ExecStatus   *int     `json:"exec_status,omitempty"`
	Restarts     *int     `json:"restarts,omitempty"`
	PID          int      `json:"pid,omitempty"`
	ProcessState string   `json:"process_state,omitempty"` // R S D T Z, as in /proc/PID/stat; "frozen" by its cgroup
	UptimeS      *int64   `json:"uptime_s,omitempty"`
	Fragment     string   `json:"fragment,omitempty"`
	DropIns      []string `json:"drop_ins,omitempty"`
	Listening    []string `json:"listening,omitempty"` // local addresses that the unit's processes listen on
	RSSBytes     *int64   `json:"rss_bytes,omitempty"`
	MaxOpenFiles *int     `json:"max_open_files,omitempty"` // LimitNOFILE of the unit, for each of its processes

	// what keeps the unit's main process from the network, or apart from it
	Confined *Confinement   `json:"confined,omitempty"`
	Short    *ShortageFacts `json:"shortage,omitempty"` // a limit that the main process or its unit has used up

	// a second look, where the first one was soon after an automatic restart
	Later *UnitLook `json:"later,omitempty"`
	// automatic restarts by the journal, where the unit has any and the journal can be read
	Recent *UnitRestarts `json:"recent,omitempty"`
}

// Words is the unit's state, its process, and its automatic restarts.
func (u *UnitFacts) Words() []Line {
	return []Line{line("unit", u.Load, u.Active, u.Sub, u.Result, pair("process ", number(u.PID)),
		pair("state ", u.ProcessState),
		seconds("up ", u.UptimeS), pair("listens on ", strings.Join(u.Listening, " ")), strings.Join(u.DropIns, " "),
		u.restarts())}
}

// restarts is what was measured of a unit's automatic restarts.
func (u *UnitFacts) restarts() string {
	var parts []string
	if u.Restarts != nil && *u.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("%d automatic restarts since it was started by hand", *u.Restarts))
	}
	if r := u.Recent; r != nil {
		parts = append(parts, fmt.Sprintf("%d in the last %d s", r.Count, r.WithinS))
	}
	if l := u.Later; l != nil {
		parts = append(parts, fmt.Sprintf("%d ms later %s (%s), process %d", l.AfterMS, l.Active, l.Sub, l.PID))
	}
	return strings.Join(parts, ", ")
}

// Traits has where the unit is defined.
func (u *UnitFacts) Traits(*Fact) []Trait {
	return []Trait{
		{ChangeUnit, "unit.fragment", u.Fragment},
		{ChangeUnit, "unit.drop_ins", cmp.Or(strings.Join(u.DropIns, " "), "none")},
	}
}

// UnitLook is a second check of a unit, AfterMS after the first.
type UnitLook struct {
	AfterMS  int64  `json:"after_ms"`
	Active   string `json:"active,omitempty"`
	Sub      string `json:"sub,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Restarts *int   `json:"restarts,omitempty"`
}

// UnitRestarts counts a unit's automatic restarts in the last WithinS seconds.
type UnitRestarts struct {
	WithinS int64  `json:"within_s"`
	Count   int    `json:"count"`
	EveryS  *int64 `json:"every_s,omitempty"` // the mean time between them, in whole seconds; absent for fewer than two
}

// BinaryFacts is a program on disk, as it was read. Version is what the build left in the file, or what
// Request.VersionCommand printed.
type BinaryFacts struct {
	Path    string `json:"path"`
	Size    int64  `json:"size,omitempty"`
	Machine string `json:"machine,omitempty"` // ELF machine, e.g. EM_X86_64
	Host    string `json:"host,omitempty"`    // this machine's, in the same words
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Running string `json:"running_sha256,omitempty"` // digest of /proc/PID/exe, where the unit runs

	Kind   string `json:"kind,omitempty"`    // elf | script
	GoMain string `json:"go_main,omitempty"` // main package by the Go build info; absent without build info
	// the file, or the process that runs it, is gpuaas-agent; absent where that cannot be read
	OurAgent *bool `json:"our_agent,omitempty"`
}

// Words reports which program it is.
func (d *BinaryFacts) Words() []Line {
	return []Line{line("program", d.Path, d.Version, pair("Go program ", d.GoMain), yes(d.OurAgent, "",
		"not gpuaas-agent"),
		d.Machine, pair("machine ", d.Host), pair("sha256 ", Digits(d.SHA256)), pair("running ", Digits(d.Running)))}
}

// Traits has the build on disk, and the one that runs.
func (d *BinaryFacts) Traits(*Fact) []Trait {
	return []Trait{
		{ChangeAgentBuild, "binary.version", d.Version},
		{ChangeAgentBuild, "binary.sha256", d.SHA256},
		{ChangeAgentBuild, "binary.running_sha256", d.Running},
	}
}

// UserFacts is a passwd entry as getent gives it.
type UserFacts struct {
	Name    string `json:"name"`
	UID     int    `json:"uid"`
	Home    string `json:"home,omitempty"`
	Shell   string `json:"shell,omitempty"`
	ShellOK *bool  `json:"shell_ok,omitempty"` // exists and is executable
	HomeOK  *bool  `json:"home_ok,omitempty"`
}

// Words is the entry, and which of its paths are missing.
func (d *UserFacts) Words() []Line {
	return []Line{line("user", d.Name, fmt.Sprintf("uid %d", d.UID), d.Home, d.Shell, yes(d.ShellOK, "",
		"shell missing"), yes(d.HomeOK, "", "home missing"))}
}

// Traits has the entry.
func (d *UserFacts) Traits(*Fact) []Trait {
	return []Trait{
		{ChangeUser, "user.name", d.Name},
		{ChangeUser, "user.shell", d.Shell},
		{ChangeUser, "user.home", d.Home},
	}
}

// ClockFacts compares clocks.
type ClockFacts struct {
	Now          Time   `json:"now"`
	OffsetMS     *int64 `json:"offset_ms,omitempty"`    // this vantage minus the operator; set by the vantage
	ErrorMS      *int64 `json:"error_ms,omitempty"`     // half the round trip: the offset's uncertainty
	Synchronized *bool  `json:"synchronized,omitempty"` // the kernel's NTP state
	BootID       string `json:"boot_id,omitempty"`
	UptimeS      *int64 `json:"uptime_s,omitempty"`
}

// Words reports how far the clock is from the operator's.
func (d *ClockFacts) Words() []Line {
	off := ""
	if d.OffsetMS != nil {
		off = fmt.Sprintf("%+d ms to the operator", *d.OffsetMS)
	}
	return []Line{line("clock", off, yes(d.Synchronized, "synchronized", "not synchronized"),
		seconds("up ", d.UptimeS))}
}

// Traits has the boot.
func (d *ClockFacts) Traits(*Fact) []Trait { return []Trait{{ChangeBoot, "clock.boot_id", d.BootID}} }

// EnvFacts is what the agent's process was started with: only listed names, secrets as presence and age.
type EnvFacts struct {
	Source string            `json:"source"` // process | env_file
	Values map[string]string `json:"values,omitempty"`
	Secret map[string]string `json:"secrets,omitempty"` // name -> "present" or "present, issued 2h ago"
}

// Words has each requested name.
func (d *EnvFacts) Words() []Line {
	lines := []Line{line("env", "of the "+d.Source)}
	return append(append(lines, named(d.Values)...), named(d.Secret)...)
}

// Traits has the values, and no secret.
func (d *EnvFacts) Traits(*Fact) []Trait {
	var traits []Trait
	for _, name := range slices.Sorted(maps.Keys(d.Values)) {
		traits = append(traits, Trait{ChangeEndpoint, "env.values." + name, d.Values[name]})
	}
	return traits
}

// Words has none: pages of their own show a record and a journal.
func (r *RecordFacts) Words() []Line { return nil }

// Traits has none: a record grows.
func (r *RecordFacts) Traits(*Fact) []Trait { return nil }

// Words has none, as of a record.
func (j *JournalFacts) Words() []Line { return nil }

// Traits has none: a journal grows.
func (j *JournalFacts) Traits(*Fact) []Trait { return nil }
