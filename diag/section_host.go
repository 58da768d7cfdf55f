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
	FreeBytes   uint64 `json:"free_bytes"`   // available to unprivileged users, as df shows it
	UsedPercent int    `json:"used_percent"` // rounded up, as df does
	TotalInodes uint64 `json:"total_inodes,omitempty"`
	FreeInodes  uint64 `json:"free_inodes,omitempty"`
	ReadOnly    bool   `json:"read_only,omitempty"`
	// Request.Beside, if it is on the same file system; nothing was written then
	SameAs       string `json:"same_as,omitempty"`
	WrittenBytes *int   `json:"written_bytes,omitempty"` // bytes of Request.Write that were written
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

// Properties returns none: disk usage changes all the time.
func (d *DiskFacts) Properties(*Fact) []Property { return nil }

// FileFacts describes a file, without its content.
type FileFacts struct {
	Path     string `json:"path"`
	Resolved string `json:"resolved,omitempty"` // after symbolic links
	Size     int64  `json:"size"`
	Mode     string `json:"mode"` // octal
	UID      int    `json:"uid"`
	SHA256   string `json:"sha256,omitempty"`
	ModTime  Time   `json:"mod_time"`
	HostSHA  string `json:"host_sha256,omitempty"` // digest outside the agent's namespace, if it differs
}

// Words reports which file it is.
func (d *FileFacts) Words() []Line {
	return []Line{line("file", d.Path, pair("is ", d.Resolved), fmt.Sprintf("%d bytes", d.Size), "mode "+d.Mode,
		pair("sha256 ", Digits(d.SHA256)), pair("on the plain host ", Digits(d.HostSHA)))}
}

// Properties returns what identifies the file.
func (d *FileFacts) Properties(*Fact) []Property {
	return []Property{
		{ChangeFile, "file.resolved", d.Resolved},
		{ChangeFile, "file.mode", d.Mode},
		{ChangeFile, "file.sha256", d.SHA256},
	}
}

// CertFacts is the node's credential pair.
type CertFacts struct {
	Leaf CertInfo `json:"leaf"`
	// the certificates after the leaf in its file, at most 15; for a bundle, its other roots
	Chain      []CertInfo `json:"chain,omitempty"`
	KeyMatches *bool      `json:"key_matches,omitempty"`
	NodeBound  *bool      `json:"node_bound,omitempty"` // the subject or a SAN contains Request.NodeID
	BoundTo    string     `json:"bound_to,omitempty"`
	HostSerial string     `json:"host_serial,omitempty"` // serial outside the agent's namespace, if it differs
	// the certificate or key that the user of the agent's process may not read
	DeniedFile string `json:"denied_file,omitempty"`
	DeniedUID  uint32 `json:"denied_uid,omitempty"` // that user
}

// Words reports the certificate's subject, and whether it matches the key and the node.
func (d *CertFacts) Words() []Line {
	return []Line{line("cert", d.Leaf.Subject, pair("issued by ", d.Leaf.Issuer), pair("serial ", d.Leaf.Serial),
		d.Leaf.until(),
		yes(d.KeyMatches, "key matches", "key does not match"), yes(d.NodeBound, "bound to this node",
			"not bound to this node"),
		pair("bound to ", d.BoundTo), d.denied())}
}

// denied describes the file that the agent may not read; "" for none.
func (d *CertFacts) denied() string {
	if d.DeniedFile == "" {
		return ""
	}
	return fmt.Sprintf("the agent's user %d may not read %s", d.DeniedUID, d.DeniedFile)
}

// Properties has issuer and serial.
func (d *CertFacts) Properties(*Fact) []Property {
	return []Property{
		{ChangeNodeIssuer, "cert.leaf.issuer", d.Leaf.Issuer},
		{ChangeNodeCert, "cert.leaf.serial", d.Leaf.Serial},
	}
}

// UnitFacts is the state of a unit by systemd, and of its process by the kernel.
type UnitFacts struct {
	Load         string   `json:"load,omitempty"`
	Active       string   `json:"active,omitempty"`
	Sub          string   `json:"sub,omitempty"`
	Result       string   `json:"result,omitempty"`
	ExecStatus   *int     `json:"exec_status,omitempty" bounded:"signed"`
	Restarts     *int     `json:"restarts,omitempty"`
	PID          int      `json:"pid,omitempty"`
	ProcessState string   `json:"process_state,omitempty"` // R S D T Z, as in /proc/PID/stat; "frozen" if its cgroup is
	UptimeS      *int64   `json:"uptime_s,omitempty"`
	Fragment     string   `json:"fragment,omitempty"`
	DropIns      []string `json:"drop_ins,omitempty"`
	Listening    []string `json:"listening,omitempty"` // local addresses on which the unit's processes listen
	RSSBytes     *int64   `json:"rss_bytes,omitempty"`
	MaxOpenFiles *int     `json:"max_open_files,omitempty"` // the unit's LimitNOFILE, per process

	// restrictions that keep the unit's main process from the network, or isolate it
	Confined *Confinement   `json:"confined,omitempty"`
	Short    *ShortageFacts `json:"shortage,omitempty"` // a limit that the main process or its unit has exhausted

	// a second check, if the first was soon after an automatic restart
	Later *UnitLook `json:"later,omitempty"`
	// automatic restarts by the journal; absent if there were none or the journal cannot be read
	Recent *UnitRestarts `json:"recent,omitempty"`
}

// Words is the unit's state, its process, and its automatic restarts.
func (u *UnitFacts) Words() []Line {
	return []Line{line("unit", u.Load, u.Active, u.Sub, u.Result, pair("process ", number(u.PID)),
		pair("state ", u.ProcessState),
		seconds("up ", u.UptimeS), pair("listens on ", strings.Join(u.Listening, " ")), strings.Join(u.DropIns, " "),
		u.restarts())}
}

// restarts describes the unit's automatic restarts.
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

// Properties returns where the unit is defined.
func (u *UnitFacts) Properties(*Fact) []Property {
	return []Property{
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
	EveryS  *int64 `json:"every_s,omitempty"` // mean time between them, in whole seconds; absent for fewer than two
}

// BinaryFacts is a program on disk. Version is embedded in the file by its build, or printed by Request.VersionCommand.
type BinaryFacts struct {
	Path    string `json:"path"`
	Size    int64  `json:"size,omitempty"`
	Machine string `json:"machine,omitempty"` // ELF machine, e.g. EM_X86_64
	Host    string `json:"host,omitempty"`    // this machine's platform, in the same format
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Running string `json:"running_sha256,omitempty"` // digest of /proc/PID/exe, if the unit runs

	Kind   string `json:"kind,omitempty"`    // elf | script
	GoMain string `json:"go_main,omitempty"` // main package from the Go build info; absent without build info
	// the file, or the process that runs it, is gpuaas-agent; absent if neither can be read
	OurAgent *bool `json:"our_agent,omitempty"`
}

// Words reports which program it is.
func (d *BinaryFacts) Words() []Line {
	return []Line{line("program", d.Path, d.Version, pair("Go program ", d.GoMain), yes(d.OurAgent, "",
		"not gpuaas-agent"),
		d.Machine, pair("machine ", d.Host), pair("sha256 ", Digits(d.SHA256)), pair("running ", Digits(d.Running)))}
}

// Properties returns the build on disk, and the running one.
func (d *BinaryFacts) Properties(*Fact) []Property {
	return []Property{
		{ChangeAgentBuild, "binary.version", d.Version},
		{ChangeAgentBuild, "binary.sha256", d.SHA256},
		{ChangeAgentBuild, "binary.running_sha256", d.Running},
	}
}

// UserFacts is a passwd entry as getent prints it.
type UserFacts struct {
	Name    string `json:"name"`
	UID     int    `json:"uid"`
	Home    string `json:"home,omitempty"`
	Shell   string `json:"shell,omitempty"`
	ShellOK *bool  `json:"shell_ok,omitempty"` // exists and is executable
	HomeOK  *bool  `json:"home_ok,omitempty"`
}

// Words returns the entry, and which of its paths are missing.
func (d *UserFacts) Words() []Line {
	return []Line{line("user", d.Name, fmt.Sprintf("uid %d", d.UID), d.Home, d.Shell, yes(d.ShellOK, "",
		"shell missing"), yes(d.HomeOK, "", "home missing"))}
}

// Properties has the entry.
func (d *UserFacts) Properties(*Fact) []Property {
	return []Property{
		{ChangeUser, "user.name", d.Name},
		{ChangeUser, "user.shell", d.Shell},
		{ChangeUser, "user.home", d.Home},
	}
}

// ClockFacts compares clocks.
type ClockFacts struct {
	Now Time `json:"now"`
	// this vantage's clock minus the operator's; set by the vantage
	OffsetMS     *int64 `json:"offset_ms,omitempty" bounded:"signed"`
	ErrorMS      *int64 `json:"error_ms,omitempty"`     // half the round trip: the offset's uncertainty
	Synchronized *bool  `json:"synchronized,omitempty"` // the kernel's NTP state
	BootID       string `json:"boot_id,omitempty"`
	UptimeS      *int64 `json:"uptime_s,omitempty"`
}

// Words reports the difference from the operator's clock.
func (d *ClockFacts) Words() []Line {
	off := ""
	if d.OffsetMS != nil {
		off = fmt.Sprintf("%+d ms to the operator", *d.OffsetMS)
	}
	return []Line{line("clock", off, yes(d.Synchronized, "synchronized", "not synchronized"),
		seconds("up ", d.UptimeS))}
}

// Properties has the boot.
func (d *ClockFacts) Properties(*Fact) []Property {
	return []Property{{ChangeBoot, "clock.boot_id", d.BootID}}
}

// EnvFacts is the environment with which the agent's process was started: only listed names, and secrets only as
// presence and age.
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

// Properties returns the values, without secrets.
func (d *EnvFacts) Properties(*Fact) []Property {
	var properties []Property
	for _, name := range slices.Sorted(maps.Keys(d.Values)) {
		properties = append(properties, Property{ChangeEndpoint, "env.values." + name, d.Values[name]})
	}
	return properties
}

// Words returns none: records and journals have their own pages.
func (r *RecordFacts) Words() []Line { return nil }

// Properties returns none: a record grows.
func (r *RecordFacts) Properties(*Fact) []Property { return nil }

// Words returns none, as for a record.
func (j *JournalFacts) Words() []Line { return nil }

// Properties returns none: a journal grows.
func (j *JournalFacts) Properties(*Fact) []Property { return nil }
