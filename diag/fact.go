package diag

// Fact is what one probe measured: immutable, self-contained, no verdict. A section is present when that phase was
// begun; an attribute that was not measured is absent, never zero.
type Fact struct {
	ID         string  `json:"id"` // the request's id
	Vantage    string  `json:"vantage"`
	Request    Request `json:"request"`
	Target     string  `json:"target,omitempty"` // Request.Target with ${NAME} expanded, where that differs
	At         Time    `json:"at,omitzero"`      // the probing host's wall clock when the probe began
	OffsetMS   int64   `json:"offset_ms"`        // since the start of the walk
	DurationMS Millis  `json:"duration_ms"`

	Failure Failure `json:"failure,omitempty"`
	Phase   string  `json:"phase,omitempty"`  // the phase in which it failed: dns, tcp, tls, http, ws, pty, ...
	Errno   string  `json:"errno,omitempty"`  // symbolic, e.g. ECONNREFUSED
	Detail  string  `json:"detail,omitempty"` // the error's own words, scrubbed of secrets and URL queries

	// AgentView says how ViewAgent was honoured: "" not asked or plain host, "namespace" entered, or why not
	// ("no process", "not permitted").
	AgentView string `json:"agent_view,omitempty"`

	DNS    *DNSFacts    `json:"dns,omitempty"`
	TCP    *TCPFacts    `json:"tcp,omitempty"`
	TLS    *TLSFacts    `json:"tls,omitempty"`
	HTTP   *HTTPFacts   `json:"http,omitempty"`
	WS     *WSFacts     `json:"ws,omitempty"`
	PTY    *PTYFacts    `json:"pty,omitempty"`
	SSH    *SSHFacts    `json:"ssh,omitempty"`
	Disk   *DiskFacts   `json:"disk,omitempty"`
	File   *FileFacts   `json:"file,omitempty"`
	Cert   *CertFacts   `json:"cert,omitempty"`
	Unit   *UnitFacts   `json:"unit,omitempty"`
	Binary *BinaryFacts `json:"binary,omitempty"`
	User   *UserFacts   `json:"user,omitempty"`
	Clock  *ClockFacts  `json:"clock,omitempty"`
	Env    *EnvFacts    `json:"env,omitempty"`

	Record  *RecordFacts  `json:"record,omitempty"`
	Journal *JournalFacts `json:"journal,omitempty"`
}

// Passed reports whether the probe finished and nothing failed.
func (f *Fact) Passed() bool { return f != nil && f.Failure == OK }

// Hollow reports whether the probe finished and measured nothing: such a fact says nothing, least of all that all is
// well.
func (f *Fact) Hollow() bool {
	return f.Failure == OK && f.DNS == nil && f.TCP == nil && f.TLS == nil && f.HTTP == nil && f.WS == nil && f.PTY == nil &&
		f.SSH == nil && f.Disk == nil && f.File == nil && f.Cert == nil && f.Unit == nil && f.Binary == nil && f.User == nil &&
		f.Clock == nil && f.Env == nil && f.Record == nil && f.Journal == nil
}

// DNSFacts is one look-up.
type DNSFacts struct {
	Name       string   `json:"name"`
	Addresses  []string `json:"addresses,omitempty"`
	Source     string   `json:"source,omitempty"`      // pinned | literal | hosts_managed | hosts_manual | nss | dns
	Server     string   `json:"server,omitempty"`      // host:port of the DNS server that answered or was asked
	SourceLine string   `json:"source_line,omitempty"` // hosts file line, as path:number
	RCode      string   `json:"rcode,omitempty"`
	DurationMS Millis   `json:"duration_ms,omitempty"`
}

// TCPFacts is one connection attempt (the last address tried, where several failed).
type TCPFacts struct {
	Remote     string `json:"remote"`
	Local      string `json:"local,omitempty"`
	Reused     bool   `json:"reused,omitempty"` // an earlier request's connection: dns, tcp and tls were not measured now
	DurationMS Millis `json:"duration_ms,omitempty"`

	// Attempts are the addresses that were dialled, in order, at most MaxAttempts; none where the name has but one.
	Attempts []TCPAttempt `json:"attempts,omitempty"`
}

// MaxAttempts bounds TCPFacts.Attempts.
const MaxAttempts = 8

// TCPAttempt is one address of a name. One that is neither connected nor failed had not answered when another one did.
type TCPAttempt struct {
	Remote     string  `json:"remote"`
	Connected  bool    `json:"connected,omitempty"`
	Failure    Failure `json:"failure,omitempty"`
	AfterMS    Millis  `json:"after_ms,omitempty"`    // when it was begun, after the first one
	DurationMS Millis  `json:"duration_ms,omitempty"` // until its outcome, or until another address was connected
}

// CertInfo describes one certificate.
type CertInfo struct {
	Subject     string   `json:"subject"`
	Issuer      string   `json:"issuer"`
	Serial      string   `json:"serial"`
	DNSNames    []string `json:"dns_names,omitempty"`
	NotBefore   Time     `json:"not_before"`
	NotAfter    Time     `json:"not_after"`
	Fingerprint string   `json:"fingerprint"` // sha256 of the DER, lower-case hex
}

// TLSFacts is one handshake. Chain is captured also when verification failed.
type TLSFacts struct {
	Version       string     `json:"version,omitempty"` // e.g. "TLS 1.3"
	ServerName    string     `json:"server_name,omitempty"`
	Chain         []CertInfo `json:"chain,omitempty"`
	Verified      bool       `json:"verified"`
	TrustSource   string     `json:"trust_source,omitempty"` // path of the bundle, "system" or "inline"
	TrustRoots    []CertInfo `json:"trust_roots,omitempty"`  // what that bundle holds, at most 16
	CertRequested *bool      `json:"cert_requested,omitempty"`
	AcceptableCAs []string   `json:"acceptable_cas,omitempty"` // subject names; empty when the server lists none
	CertSent      string     `json:"cert_sent,omitempty"`      // serial of the client certificate really sent
	DurationMS    Millis     `json:"duration_ms,omitempty"`
}

// HTTPFacts is the last HTTP exchange of a probe. No body is kept, only the fields that were asked for.
type HTTPFacts struct {
	Status      int    `json:"status,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Server      string `json:"server,omitempty"`
	Location    string `json:"location,omitempty"` // host and path only
	RetryAfterS *int64 `json:"retry_after_s,omitempty"`
	Date        Time   `json:"date,omitzero"`
	BodyBytes   *int64 `json:"body_bytes,omitempty"`
	// Page is a known page: ssl_certificate_error, no_ssl_certificate, edge_login, edge_error, edge_rate_page or
	// edge_challenge.
	Page         string            `json:"page,omitempty"`
	ErrorCode    string            `json:"error_code,omitempty"`    // error.code of the envelope
	ErrorMessage string            `json:"error_message,omitempty"` // error.message, scrubbed
	Correlation  string            `json:"correlation_id,omitempty"`
	Fields       map[string]string `json:"fields,omitempty"` // Extract's names; absent when the answer lacks the path
	Kept         Secret            `json:"kept,omitzero"`
	Whole        map[string]Secret `json:"-"` // the URLs of Fields as they came, where Fields has them cut (see BareURL); for the walk's next request
	Polls        int               `json:"polls,omitempty"`
	DurationMS   Millis            `json:"duration_ms,omitempty"`
}

// WSFacts is one WebSocket, and for OpSession what came over it.
type WSFacts struct {
	Upgraded     bool   `json:"upgraded"`
	Status       int    `json:"status,omitempty"`
	Subprotocol  string `json:"subprotocol,omitempty"`
	FirstFrame   string `json:"first_frame,omitempty"`   // ready | error | exit | data
	FrameCode    string `json:"frame_code,omitempty"`    // code of an error frame
	FrameMessage string `json:"frame_message,omitempty"` // scrubbed
	FirstFrameMS Millis `json:"first_frame_ms,omitempty"`
	CloseCode    int    `json:"close_code,omitempty"`
	CloseReason  string `json:"close_reason,omitempty"`
	DurationMS   Millis `json:"duration_ms,omitempty"`
}

// PTYFacts is a nonce computed by a shell on the far side: an echo is not a shell.
type PTYFacts struct {
	NonceOK     bool   `json:"nonce_ok"`
	FirstByteMS Millis `json:"first_byte_ms,omitempty"`
	DurationMS  Millis `json:"duration_ms,omitempty"`
}

// SSHFacts is how the node vantage got to the node.
type SSHFacts struct {
	Banner        string `json:"banner,omitempty"`
	HostKeyType   string `json:"host_key_type,omitempty"`
	HostKeySHA256 string `json:"host_key_sha256,omitempty"`
	User          string `json:"user,omitempty"`
	AuthMethod    string `json:"auth_method,omitempty"` // agent | key
	NotOffered    int    `json:"not_offered,omitempty"` // keys, or sources of keys, that the operator could not offer
	Jump          string `json:"jump,omitempty"`
	Helper        string `json:"helper,omitempty"` // installed | pushed
	HelperVersion string `json:"helper_version,omitempty"`
	HelperPath    string `json:"helper_path,omitempty"`
	UID           *int   `json:"uid,omitempty"`          // of the helper on the node
	SudoRefused   bool   `json:"sudo_refused,omitempty"` // the helper should have been root's, and runs as the login
	TCPMS         Millis `json:"tcp_ms,omitempty"`
	BannerMS      Millis `json:"banner_ms,omitempty"`
	AuthMS        Millis `json:"auth_ms,omitempty"`
	ExecMS        Millis `json:"exec_ms,omitempty"`
}

// DiskFacts is the file system that holds Target.
type DiskFacts struct {
	FSType       string `json:"fs_type,omitempty"`
	TotalBytes   uint64 `json:"total_bytes"`
	FreeBytes    uint64 `json:"free_bytes"`   // to unprivileged users, as df shows it
	UsedPercent  int    `json:"used_percent"` // rounded up, as df does
	TotalInodes  uint64 `json:"total_inodes,omitempty"`
	FreeInodes   uint64 `json:"free_inodes,omitempty"`
	ReadOnly     bool   `json:"read_only,omitempty"`
	SameAs       string `json:"same_as,omitempty"`       // Request.Beside, where that is on the same file system: nothing was written
	WrittenBytes *int   `json:"written_bytes,omitempty"` // of Request.Write
}

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

// CertFacts is the node's credential pair.
type CertFacts struct {
	Leaf       CertInfo   `json:"leaf"`
	Chain      []CertInfo `json:"chain,omitempty"` // what follows the leaf in its file, at most 15; of a bundle, its other roots
	KeyMatches *bool      `json:"key_matches,omitempty"`
	NodeBound  *bool      `json:"node_bound,omitempty"` // the subject or a SAN names Request.NodeID
	BoundTo    string     `json:"bound_to,omitempty"`
	HostSerial string     `json:"host_serial,omitempty"` // the plain view's serial, where it differs from the agent's
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

	Later  *UnitLook     `json:"later,omitempty"`  // a second look, where the first one was soon after an automatic restart
	Recent *UnitRestarts `json:"recent,omitempty"` // automatic restarts by the journal, where the unit has any and the journal can be read
}

// UnitLook is a second look at a unit, AfterMS after the first.
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

	Kind     string `json:"kind,omitempty"`      // elf | script
	GoMain   string `json:"go_main,omitempty"`   // main package by the Go build info; absent where there is none
	OurAgent *bool  `json:"our_agent,omitempty"` // the file, or what runs of it, is gpuaas-agent; absent where that cannot be read
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

// ClockFacts compares clocks.
type ClockFacts struct {
	Now          Time   `json:"now"`
	OffsetMS     *int64 `json:"offset_ms,omitempty"`    // this vantage minus the operator; set by the vantage
	ErrorMS      *int64 `json:"error_ms,omitempty"`     // half the round trip: the offset's uncertainty
	Synchronized *bool  `json:"synchronized,omitempty"` // the kernel's NTP state
	BootID       string `json:"boot_id,omitempty"`
	UptimeS      *int64 `json:"uptime_s,omitempty"`
}

// EnvFacts is what the agent's process was started with: only listed names, secrets as presence and age.
type EnvFacts struct {
	Source string            `json:"source"` // process | env_file
	Values map[string]string `json:"values,omitempty"`
	Secret map[string]string `json:"secrets,omitempty"` // name -> "present" or "present, issued 2h ago"
}
