// Package v1 is a reader of gpuaasctl/v1 documents as it was when their promise was written (docs/contract.md): its types
// and its schemas are frozen. A test reads with it what today's version writes. It is never changed: a document that it
// cannot read breaks readers that exist.
package v1

import "encoding/json"

// Longer than 300 lines: a copy of every type of two documents.

type PreflightReport struct {
	APIVersion     string          `json:"apiVersion"`
	Kind           string          `json:"kind"`
	Run            Run             `json:"run"`
	Subject        Subject         `json:"subject"`
	Plan           Plan            `json:"plan"`
	Vantages       []VantageInfo   `json:"vantages"`
	Hops           []HopResult     `json:"hops"`
	Facts          []Fact          `json:"facts"`
	Evidence       []EvidenceLine  `json:"evidence,omitempty"`
	EvidenceCut    bool            `json:"evidence_cut,omitempty"`
	Verdict        Verdict         `json:"verdict"`
	Classification *Classification `json:"classification,omitempty"`
	Dashboard      Dashboard       `json:"dashboard"`
	Diff           *Diff           `json:"diff,omitempty"`
	Replayed       *Replayed       `json:"replayed,omitempty"`
	Redaction      Redaction       `json:"redaction"`
}

type DrillReport struct {
	APIVersion  string       `json:"apiVersion"`
	Kind        string       `json:"kind"`
	ToolVersion string       `json:"tool_version,omitempty"`
	RenderedBy  string       `json:"rendered_by,omitempty"`
	Profile     string       `json:"profile,omitempty"`
	Book        *Game        `json:"book,omitempty"`
	StartedAt   string       `json:"started_at"`
	EndedAt     string       `json:"ended_at,omitzero"`
	EndedBy     string       `json:"ended_by"`
	Verdict     DrillVerdict `json:"verdict"`
	Drills      []Drill      `json:"drills"`
	NotRun      []string     `json:"not_run,omitempty"`
}

type Run struct {
	ID            string `json:"id"`
	CorrelationID string `json:"correlation_id"`
	StartedAt     string `json:"started_at"`
	EndedAt       string `json:"ended_at,omitzero"`
	DurationMS    int64  `json:"duration_ms"`
	EndedBy       string `json:"ended_by"`
	ToolVersion   string `json:"tool_version"`
	RulesVersion  string `json:"rules_version"`
	LastGoodAt    string `json:"last_good_at,omitzero"`
}

type Subject struct {
	NodeID             string            `json:"node_id,omitempty"`
	NodeHost           string            `json:"node_host,omitempty"`
	NodeInstanceID     string            `json:"node_instance_id,omitempty"`
	AllocationID       string            `json:"allocation_id,omitempty"`
	SessionID          string            `json:"session_id,omitempty"`
	CorrelationID      string            `json:"correlation_id,omitempty"`
	WorkflowID         string            `json:"workflow_id,omitempty"`
	EnvironmentProfile string            `json:"environment_profile,omitempty"`
	Provider           string            `json:"provider,omitempty"`
	PrivateIP          string            `json:"private_ip,omitempty"`
	Expected           map[string]string `json:"expected,omitempty"`
}

type Plan struct {
	Profile string           `json:"profile,omitempty"`
	Command string           `json:"command,omitempty"`
	Policy  map[string]int64 `json:"policy"`
	Hops    []PlannedHop     `json:"hops"`
}

type VantageInfo struct {
	ID            string `json:"id"`
	How           string `json:"how"`
	Host          string `json:"host,omitempty"`
	Resolver      string `json:"resolver,omitempty"`
	ClockOffsetMS *int64 `json:"clock_offset_ms,omitempty"`
	Missing       string `json:"missing,omitempty"`
}

type HopResult struct {
	ID         string       `json:"id"`
	Title      string       `json:"title"`
	Layer      string       `json:"layer"`
	Vantage    string       `json:"vantage"`
	Status     string       `json:"status"`
	Signal     string       `json:"signal,omitempty"`
	Failure    string       `json:"failure,omitempty"`
	Text       string       `json:"text,omitempty"`
	Because    string       `json:"because,omitempty"`
	Evidence   []string     `json:"evidence,omitempty"`
	Culprit    string       `json:"culprit,omitempty"`
	Direct     bool         `json:"direct,omitempty"`
	Reason     string       `json:"reason,omitempty"`
	Side       string       `json:"side,omitempty"`
	Cause      string       `json:"cause,omitempty"`
	Lack       string       `json:"lack,omitempty"`
	Also       []Finding    `json:"also,omitempty"`
	DurationMS int64        `json:"duration_ms,omitempty"`
	BudgetMS   int64        `json:"budget_ms"`
	Steps      []StepResult `json:"steps,omitempty"`
}

type Fact struct {
	ID         string         `json:"id"`
	Vantage    string         `json:"vantage"`
	Request    Request        `json:"request"`
	Target     string         `json:"target,omitempty"`
	At         string         `json:"at,omitzero"`
	OffsetMS   int64          `json:"offset_ms"`
	DurationMS int64          `json:"duration_ms"`
	Failure    string         `json:"failure,omitempty"`
	Phase      string         `json:"phase,omitempty"`
	Errno      string         `json:"errno,omitempty"`
	Detail     string         `json:"detail,omitempty"`
	AgentView  string         `json:"agent_view,omitempty"`
	OwnNetwork bool           `json:"own_network,omitempty"`
	Shortage   *ShortageFacts `json:"shortage,omitempty"`
	Denial     *DenialFacts   `json:"denial,omitempty"`
	DNS        *DNSFacts      `json:"dns,omitempty"`
	TCP        *TCPFacts      `json:"tcp,omitempty"`
	TLS        *TLSFacts      `json:"tls,omitempty"`
	HTTP       *HTTPFacts     `json:"http,omitempty"`
	WS         *WSFacts       `json:"ws,omitempty"`
	PTY        *PTYFacts      `json:"pty,omitempty"`
	SSH        *SSHFacts      `json:"ssh,omitempty"`
	Disk       *DiskFacts     `json:"disk,omitempty"`
	File       *FileFacts     `json:"file,omitempty"`
	Cert       *CertFacts     `json:"cert,omitempty"`
	Unit       *UnitFacts     `json:"unit,omitempty"`
	Binary     *BinaryFacts   `json:"binary,omitempty"`
	User       *UserFacts     `json:"user,omitempty"`
	Clock      *ClockFacts    `json:"clock,omitempty"`
	Env        *EnvFacts      `json:"env,omitempty"`
	Record     *RecordFacts   `json:"record,omitempty"`
	Journal    *JournalFacts  `json:"journal,omitempty"`
}

type EvidenceLine struct {
	At            string `json:"at"`
	Kind          string `json:"kind"`
	CorrelationID string `json:"correlation_id,omitempty"`
	NodeID        string `json:"node_id,omitempty"`
	InstanceID    string `json:"node_instance_id,omitempty"`
	AllocationID  string `json:"allocation_id,omitempty"`
	WorkflowID    string `json:"workflow_id,omitempty"`
	SessionID     string `json:"session_id,omitempty"`
	TaskID        string `json:"task_id,omitempty"`
	Code          string `json:"code,omitempty"`
	Error         string `json:"error,omitempty"`
}

type Verdict struct {
	Outcome        string       `json:"outcome"`
	FirstFailedHop string       `json:"first_failed_hop,omitempty"`
	Blame          *Blame       `json:"blame,omitempty"`
	Symptoms       []string     `json:"symptoms,omitempty"`
	Reason         string       `json:"reason"`
	UserState      string       `json:"user_state"`
	Owner          string       `json:"owner,omitempty"`
	Recovery       []string     `json:"recovery,omitempty"`
	RepairProof    string       `json:"repair_proof,omitempty"`
	Runbook        string       `json:"runbook,omitempty"`
	Layer          string       `json:"layer,omitempty"`
	Confidence     string       `json:"confidence,omitempty"`
	Proof          *Proof       `json:"proof,omitempty"`
	Unproven       string       `json:"unproven,omitempty"`
	Observation    *Observation `json:"observation,omitempty"`
	RuledOut       []string     `json:"ruled_out,omitempty"`
	Severity       string       `json:"severity,omitempty"`
	OtherFindings  []Blame      `json:"other_findings,omitempty"`
	Because        string       `json:"because,omitempty"`
}

type Classification struct {
	Reason      string       `json:"reason"`
	Title       string       `json:"title"`
	Scenario    string       `json:"scenario,omitempty"`
	State       string       `json:"state"`
	UserState   string       `json:"user_state"`
	UserText    string       `json:"user_text,omitempty"`
	UserActions []string     `json:"user_actions,omitempty"`
	Severity    string       `json:"severity,omitempty"`
	DetectMS    int64        `json:"detect_within_ms,omitempty"`
	RepairMS    int64        `json:"repair_within_ms,omitempty"`
	Owner       string       `json:"owner"`
	Component   string       `json:"component,omitempty"`
	Next        string       `json:"next_action"`
	Layer       string       `json:"layer"`
	Runbook     string       `json:"runbook"`
	Healthy     bool         `json:"healthy"`
	Warning     bool         `json:"warning,omitempty"`
	Minor       bool         `json:"minor,omitempty"`
	Beside      string       `json:"beside,omitempty"`
	Checklist   []CheckPoint `json:"checklist"`
	Because     []string     `json:"because,omitempty"`
	Losers      []Candidate  `json:"losers,omitempty"`
}

type Dashboard struct {
	NodeAgentStatus           string `json:"node_agent_status"`
	TerminalReadiness         string `json:"terminal_readiness,omitempty"`
	LastFailureReason         string `json:"last_failure_reason,omitempty"`
	CorrelationID             string `json:"correlation_id"`
	ExpectedTerminalEndpoint  string `json:"expected_terminal_endpoint,omitempty"`
	LastSuccessfulPreflightAt string `json:"last_successful_preflight_at,omitzero"`
}

type Diff struct {
	Baseline    Baseline      `json:"baseline"`
	Comparable  bool          `json:"comparable"`
	Because     string        `json:"because,omitempty"`
	Changes     []Change      `json:"changes"`
	NotCompared []NotCompared `json:"not_compared,omitempty"`
}

type Replayed struct {
	Stated StatedVerdict `json:"stated"`
}

type Redaction struct {
	Rules  []string       `json:"rules"`
	Counts map[string]int `json:"counts"`
}

type Game struct {
	ID    string   `json:"id"`
	Title string   `json:"title,omitempty"`
	Seed  uint64   `json:"seed"`
	Order []string `json:"order"`
}

type DrillVerdict struct {
	Word string `json:"word"`
	Text string `json:"text"`
}

type Drill struct {
	Run        string          `json:"run"`
	Tool       string          `json:"tool_version,omitempty"`
	Rules      string          `json:"rules_version,omitempty"`
	Scenario   string          `json:"scenario"`
	Title      string          `json:"title"`
	Severity   string          `json:"severity"`
	Owner      string          `json:"owner"`
	Runbook    string          `json:"runbook"`
	Node       string          `json:"node"`
	Allocation string          `json:"allocation_id,omitempty"`
	PlanHash   string          `json:"plan_hash"`
	StartedAt  string          `json:"started_at"`
	EndedAt    string          `json:"ended_at,omitzero"`
	DurationMS int64           `json:"duration_ms"`
	Log        string          `json:"log,omitempty"`
	Verdict    DrillVerdict    `json:"verdict"`
	Claims     []Claim         `json:"claims"`
	Expected   Expected        `json:"expected"`
	Observed   *Sight          `json:"observed,omitempty"`
	Inject     Timing          `json:"inject"`
	Detect     Timing          `json:"detect"`
	Recover    Timing          `json:"recover"`
	Machines   []MachineResult `json:"machines"`
	Looks      []Seen          `json:"looks,omitempty"`
	Walks      []Sight         `json:"walks,omitempty"`
	Evidence   []string        `json:"evidence,omitempty"`
	Trouble    []string        `json:"trouble,omitempty"`
}

type PlannedHop struct {
	ID       string            `json:"id"`
	Vantages []string          `json:"vantages"`
	BudgetMS int64             `json:"budget_ms"`
	Skip     string            `json:"skip,omitempty"`
	Steps    []string          `json:"steps"`
	Left     map[string]string `json:"left,omitempty"`
	Absent   string            `json:"absent,omitempty"`
}

type Finding struct {
	Status   string   `json:"status"`
	Signal   string   `json:"signal,omitempty"`
	Failure  string   `json:"failure,omitempty"`
	Text     string   `json:"text,omitempty"`
	Because  string   `json:"because,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
	Culprit  string   `json:"culprit,omitempty"`
	Direct   bool     `json:"direct,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Side     string   `json:"side,omitempty"`
	Cause    string   `json:"cause,omitempty"`
	Lack     string   `json:"lack,omitempty"`
}

type StepResult struct {
	Name       string `json:"name"`
	Vantage    string `json:"vantage"`
	Status     string `json:"status"`
	Failure    string `json:"failure,omitempty"`
	Because    string `json:"because,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
	Fact       string `json:"fact,omitempty"`
}

type Request struct {
	ID             string            `json:"id"`
	Op             string            `json:"op"`
	Target         string            `json:"target,omitempty"`
	View           string            `json:"view,omitempty"`
	Network        string            `json:"network,omitempty"`
	Resolve        string            `json:"resolve,omitempty"`
	Resolver       string            `json:"resolver,omitempty"`
	ServerName     string            `json:"server_name,omitempty"`
	CABundle       string            `json:"ca_bundle,omitempty"`
	CAInline       string            `json:"ca_inline,omitempty"`
	TLSLook        bool              `json:"tls_look,omitempty"`
	Cert           string            `json:"cert,omitempty"`
	Key            string            `json:"key,omitempty"`
	Method         string            `json:"method,omitempty"`
	Header         map[string]string `json:"header,omitempty"`
	Body           string            `json:"body,omitempty"`
	Query          string            `json:"query,omitzero"`
	Token          string            `json:"token,omitzero"`
	Cookie         string            `json:"cookie,omitzero"`
	Extract        map[string]string `json:"extract,omitempty"`
	Keep           string            `json:"keep,omitempty"`
	Poll           *Poll             `json:"poll,omitempty"`
	Subprotocols   []string          `json:"subprotocols,omitempty"`
	Unit           string            `json:"unit,omitempty"`
	NodeID         string            `json:"node_id,omitempty"`
	Env            []string          `json:"env,omitempty"`
	Write          int               `json:"write_bytes,omitempty"`
	Beside         string            `json:"beside,omitempty"`
	Limit          int               `json:"limit,omitempty"`
	Since          string            `json:"since,omitzero"`
	Match          []string          `json:"match,omitempty"`
	TimeoutMS      int64             `json:"timeout_ms,omitempty"`
	Fresh          bool              `json:"fresh,omitempty"`
	VersionCommand []string          `json:"version_command,omitempty"`
}

type ShortageFacts struct {
	Resource string   `json:"resource"`
	Scope    string   `json:"scope,omitempty"`
	Setting  string   `json:"setting,omitempty"`
	Limit    *int64   `json:"limit,omitempty"`
	Used     *int64   `json:"used,omitempty"`
	Holders  []Holder `json:"holders,omitempty"`
}

type DenialFacts struct {
	PacketFilters []string `json:"packet_filters,omitempty"`
	CgroupFilters []string `json:"cgroup_filters,omitempty"`
	Seccomp       string   `json:"seccomp,omitempty"`
	Route         string   `json:"route,omitempty"`
	Unread        []string `json:"unread,omitempty"`
}

type DNSFacts struct {
	Name       string      `json:"name"`
	Addresses  []string    `json:"addresses,omitempty"`
	Source     string      `json:"source,omitempty"`
	Server     string      `json:"server,omitempty"`
	SourceLine string      `json:"source_line,omitempty"`
	RCode      string      `json:"rcode,omitempty"`
	DurationMS int64       `json:"duration_ms,omitempty"`
	Servers    []DNSAnswer `json:"servers,omitempty"`
}

type TCPFacts struct {
	Remote     string       `json:"remote"`
	Local      string       `json:"local,omitempty"`
	Reused     bool         `json:"reused,omitempty"`
	DurationMS int64        `json:"duration_ms,omitempty"`
	Resent     *int64       `json:"resent,omitempty"`
	Attempts   []TCPAttempt `json:"attempts,omitempty"`
}

type TLSFacts struct {
	Version       string     `json:"version,omitempty"`
	ServerName    string     `json:"server_name,omitempty"`
	Chain         []CertInfo `json:"chain,omitempty"`
	Verified      bool       `json:"verified"`
	TrustSource   string     `json:"trust_source,omitempty"`
	TrustRoots    []CertInfo `json:"trust_roots,omitempty"`
	CertRequested *bool      `json:"cert_requested,omitempty"`
	AcceptableCAs []string   `json:"acceptable_cas,omitempty"`
	CertSent      string     `json:"cert_sent,omitempty"`
	DurationMS    int64      `json:"duration_ms,omitempty"`
}

type HTTPFacts struct {
	Status       int               `json:"status,omitempty"`
	ContentType  string            `json:"content_type,omitempty"`
	Server       string            `json:"server,omitempty"`
	Location     string            `json:"location,omitempty"`
	RetryAfterS  *int64            `json:"retry_after_s,omitempty"`
	Date         string            `json:"date,omitzero"`
	BodyBytes    *int64            `json:"body_bytes,omitempty"`
	Page         string            `json:"page,omitempty"`
	ErrorCode    string            `json:"error_code,omitempty"`
	ErrorMessage string            `json:"error_message,omitempty"`
	Correlation  string            `json:"correlation_id,omitempty"`
	Fields       map[string]string `json:"fields,omitempty"`
	Kept         string            `json:"kept,omitzero"`
	Polls        int               `json:"polls,omitempty"`
	DurationMS   int64             `json:"duration_ms,omitempty"`
}

type WSFacts struct {
	Upgraded     bool   `json:"upgraded"`
	Status       int    `json:"status,omitempty"`
	Subprotocol  string `json:"subprotocol,omitempty"`
	FirstFrame   string `json:"first_frame,omitempty"`
	FrameCode    string `json:"frame_code,omitempty"`
	FrameMessage string `json:"frame_message,omitempty"`
	FirstFrameMS int64  `json:"first_frame_ms,omitempty"`
	CloseCode    int    `json:"close_code,omitempty"`
	CloseReason  string `json:"close_reason,omitempty"`
	DurationMS   int64  `json:"duration_ms,omitempty"`
	Ended        string `json:"ended,omitempty"`
	EndedMS      int64  `json:"ended_ms,omitempty"`
	QuietMS      int64  `json:"quiet_ms,omitempty"`
	PingMS       int64  `json:"ping_ms,omitempty"`
	PingLost     bool   `json:"ping_lost,omitempty"`
	ExitCode     *int   `json:"exit_code,omitempty"`
}

type PTYFacts struct {
	NonceOK     bool   `json:"nonce_ok"`
	Said        string `json:"said,omitempty"`
	FirstByteMS int64  `json:"first_byte_ms,omitempty"`
	DurationMS  int64  `json:"duration_ms,omitempty"`
}

type SSHFacts struct {
	Banner        string `json:"banner,omitempty"`
	HostKeyType   string `json:"host_key_type,omitempty"`
	HostKeySHA256 string `json:"host_key_sha256,omitempty"`
	User          string `json:"user,omitempty"`
	AuthMethod    string `json:"auth_method,omitempty"`
	NotOffered    int    `json:"not_offered,omitempty"`
	Jump          string `json:"jump,omitempty"`
	Helper        string `json:"helper,omitempty"`
	HelperVersion string `json:"helper_version,omitempty"`
	HelperPath    string `json:"helper_path,omitempty"`
	UID           *int   `json:"uid,omitempty"`
	SudoRefused   bool   `json:"sudo_refused,omitempty"`
	TCPMS         int64  `json:"tcp_ms,omitempty"`
	BannerMS      int64  `json:"banner_ms,omitempty"`
	AuthMS        int64  `json:"auth_ms,omitempty"`
	ExecMS        int64  `json:"exec_ms,omitempty"`
}

type DiskFacts struct {
	FSType       string `json:"fs_type,omitempty"`
	TotalBytes   uint64 `json:"total_bytes"`
	FreeBytes    uint64 `json:"free_bytes"`
	UsedPercent  int    `json:"used_percent"`
	TotalInodes  uint64 `json:"total_inodes,omitempty"`
	FreeInodes   uint64 `json:"free_inodes,omitempty"`
	ReadOnly     bool   `json:"read_only,omitempty"`
	SameAs       string `json:"same_as,omitempty"`
	WrittenBytes *int   `json:"written_bytes,omitempty"`
}

type FileFacts struct {
	Path     string `json:"path"`
	Resolved string `json:"resolved,omitempty"`
	Size     int64  `json:"size"`
	Mode     string `json:"mode"`
	UID      int    `json:"uid"`
	SHA256   string `json:"sha256,omitempty"`
	ModTime  string `json:"mod_time"`
	HostSHA  string `json:"host_sha256,omitempty"`
}

type CertFacts struct {
	Leaf       CertInfo   `json:"leaf"`
	Chain      []CertInfo `json:"chain,omitempty"`
	KeyMatches *bool      `json:"key_matches,omitempty"`
	NodeBound  *bool      `json:"node_bound,omitempty"`
	BoundTo    string     `json:"bound_to,omitempty"`
	HostSerial string     `json:"host_serial,omitempty"`
}

type UnitFacts struct {
	Load         string         `json:"load,omitempty"`
	Active       string         `json:"active,omitempty"`
	Sub          string         `json:"sub,omitempty"`
	Result       string         `json:"result,omitempty"`
	ExecStatus   *int           `json:"exec_status,omitempty"`
	Restarts     *int           `json:"restarts,omitempty"`
	PID          int            `json:"pid,omitempty"`
	ProcessState string         `json:"process_state,omitempty"`
	UptimeS      *int64         `json:"uptime_s,omitempty"`
	Fragment     string         `json:"fragment,omitempty"`
	DropIns      []string       `json:"drop_ins,omitempty"`
	Listening    []string       `json:"listening,omitempty"`
	RSSBytes     *int64         `json:"rss_bytes,omitempty"`
	Confined     *Confinement   `json:"confined,omitempty"`
	Short        *ShortageFacts `json:"shortage,omitempty"`
	Later        *UnitLook      `json:"later,omitempty"`
	Recent       *UnitRestarts  `json:"recent,omitempty"`
}

type BinaryFacts struct {
	Path     string `json:"path"`
	Size     int64  `json:"size,omitempty"`
	Machine  string `json:"machine,omitempty"`
	Host     string `json:"host,omitempty"`
	Version  string `json:"version,omitempty"`
	SHA256   string `json:"sha256,omitempty"`
	Running  string `json:"running_sha256,omitempty"`
	Kind     string `json:"kind,omitempty"`
	GoMain   string `json:"go_main,omitempty"`
	OurAgent *bool  `json:"our_agent,omitempty"`
}

type UserFacts struct {
	Name    string `json:"name"`
	UID     int    `json:"uid"`
	Home    string `json:"home,omitempty"`
	Shell   string `json:"shell,omitempty"`
	ShellOK *bool  `json:"shell_ok,omitempty"`
	HomeOK  *bool  `json:"home_ok,omitempty"`
}

type ClockFacts struct {
	Now          string `json:"now"`
	OffsetMS     *int64 `json:"offset_ms,omitempty"`
	ErrorMS      *int64 `json:"error_ms,omitempty"`
	Synchronized *bool  `json:"synchronized,omitempty"`
	BootID       string `json:"boot_id,omitempty"`
	UptimeS      *int64 `json:"uptime_s,omitempty"`
}

type EnvFacts struct {
	Source string            `json:"source"`
	Values map[string]string `json:"values,omitempty"`
	Secret map[string]string `json:"secrets,omitempty"`
}

type RecordFacts struct {
	Source   string        `json:"source"`
	Path     string        `json:"path"`
	Slots    int           `json:"slots"`
	Valid    int           `json:"valid"`
	Damaged  []DamagedSlot `json:"damaged,omitempty"`
	Degraded string        `json:"degraded,omitempty"`
	Promise  string        `json:"promise,omitempty"`
	Newest   uint64        `json:"newest_seq,omitempty"`
	Missing  int           `json:"missing,omitempty"`
	Entries  []RecordEntry `json:"entries,omitempty"`
	Pinned   []RecordEntry `json:"pinned,omitempty"`
}

type JournalFacts struct {
	Unit      string         `json:"unit"`
	Lines     []JournalLine  `json:"lines,omitempty"`
	Truncated bool           `json:"truncated,omitempty"`
	Foreign   int            `json:"foreign,omitempty"`
	Redacted  map[string]int `json:"redacted,omitempty"`
}

type Blame struct {
	Hop         string       `json:"hop"`
	Status      string       `json:"status,omitempty"`
	Signal      string       `json:"signal"`
	Failure     string       `json:"failure,omitempty"`
	Text        string       `json:"text,omitempty"`
	Owner       string       `json:"owner,omitempty"`
	Symptoms    []string     `json:"symptoms,omitempty"`
	Confidence  string       `json:"confidence,omitempty"`
	Proof       *Proof       `json:"proof,omitempty"`
	Unproven    string       `json:"unproven,omitempty"`
	Observation *Observation `json:"observation,omitempty"`
}

type Proof struct {
	Failing string `json:"failing"`
	Passing string `json:"passing"`
	Changed string `json:"changed"`
	Text    string `json:"text,omitempty"`
	Failed  int    `json:"failed,omitempty"`
	Passed  int    `json:"passed,omitempty"`
}

type Observation struct {
	Fact  string `json:"fact"`
	Field string `json:"field"`
	Text  string `json:"text"`
}

type CheckPoint struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Text   string `json:"text,omitempty"`
}

type Candidate struct {
	Reason   string   `json:"reason"`
	Why      string   `json:"why"`
	Evidence []string `json:"evidence,omitempty"`
}

type Baseline struct {
	From    string `json:"from"`
	RunID   string `json:"run_id,omitempty"`
	At      string `json:"at,omitzero"`
	Outcome string `json:"outcome,omitempty"`
	Runs    int    `json:"runs,omitempty"`
}

type Change struct {
	Kind       string       `json:"kind"`
	Hop        string       `json:"hop,omitempty"`
	Facts      []string     `json:"facts,omitempty"`
	Field      string       `json:"field"`
	Before     string       `json:"before,omitempty"`
	After      string       `json:"after,omitempty"`
	Known      bool         `json:"known,omitempty"`
	Regression bool         `json:"regression"`
	Noise      *NoiseBounds `json:"noise,omitempty"`
}

type NotCompared struct {
	Hop     string `json:"hop,omitempty"`
	Fact    string `json:"fact,omitempty"`
	What    string `json:"what"`
	Because string `json:"because"`
}

type StatedVerdict struct {
	Outcome        string `json:"outcome"`
	FirstFailedHop string `json:"first_failed_hop,omitempty"`
	Hop            string `json:"hop,omitempty"`
	Signal         string `json:"signal,omitempty"`
	Failure        string `json:"failure,omitempty"`
	Confidence     string `json:"confidence,omitempty"`
	Reason         string `json:"reason"`
	RulesVersion   string `json:"rules_version"`
}

type Claim struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State string `json:"state"`
	Word  string `json:"word,omitempty"`
	Text  string `json:"text,omitempty"`
}

type Expected struct {
	Blame          string   `json:"blame"`
	Others         []string `json:"others,omitempty"`
	Reason         []string `json:"reason,omitempty"`
	FirstFailedHop []string `json:"first_failed_hop,omitempty"`
	MustStayGreen  []string `json:"must_stay_green,omitempty"`
}

type Sight struct {
	N             int               `json:"n"`
	Stage         string            `json:"stage"`
	Walk          string            `json:"walk"`
	CorrelationID string            `json:"correlation_id"`
	BeganMS       int64             `json:"began_ms"`
	EndedMS       int64             `json:"ended_ms"`
	EndedBy       string            `json:"ended_by"`
	Outcome       string            `json:"outcome"`
	Blame         *Blame            `json:"blame,omitempty"`
	Others        []Blame           `json:"others,omitempty"`
	FirstFailed   string            `json:"first_failed_hop,omitempty"`
	Hops          map[string]string `json:"hops"`
	Reason        string            `json:"reason,omitempty"`
	UserState     string            `json:"user_state,omitempty"`
	UserSaw       string            `json:"user_saw,omitempty"`
	Spinner       bool              `json:"spinner,omitempty"`
	Untold        []string          `json:"untold,omitempty"`
	Unnamed       []string          `json:"unnamed,omitempty"`
	Unlinked      []string          `json:"unlinked,omitempty"`
	AgentSays     map[string]string `json:"agent_says,omitempty"`
	ReadModel     map[string]string `json:"read_model,omitempty"`
	Evidence      []EvidenceLine    `json:"evidence,omitempty"`
}

type Timing struct {
	Seen     bool   `json:"seen"`
	AfterMS  int64  `json:"after_ms"`
	WithinMS int64  `json:"within_ms,omitempty"`
	Budget   string `json:"budget"`
}

type MachineResult struct {
	ID       string       `json:"id"`
	Role     string       `json:"role"`
	Tier     string       `json:"tier"`
	Armed    bool         `json:"armed"`
	State    string       `json:"state,omitempty"`
	Why      string       `json:"why,omitempty"`
	Reverter string       `json:"reverter,omitempty"`
	UndoUS   int64        `json:"undo_us,omitempty"`
	Steps    []StepStatus `json:"steps,omitempty"`
	Residue  []Residue    `json:"residue,omitempty"`
	Clean    *bool        `json:"clean,omitempty"`
	Closed   bool         `json:"closed"`
	Journal  []Entry      `json:"journal,omitempty"`
}

type Seen struct {
	Name   string `json:"name"`
	Stage  string `json:"stage"`
	Held   bool   `json:"held"`
	NotRun bool   `json:"not_run,omitempty"`
	Why    string `json:"why,omitempty"`
	TookMS int64  `json:"took_ms"`
}

type Poll struct {
	Field   string   `json:"field"`
	Until   []string `json:"until"`
	EveryMS int64    `json:"every_ms"`
}

type Holder struct {
	Name string `json:"name,omitempty"`
	Held int64  `json:"held"`
}

type DNSAnswer struct {
	Server     string   `json:"server"`
	Name       string   `json:"name"`
	RCode      string   `json:"rcode,omitempty"`
	Addresses  []string `json:"addresses,omitempty"`
	Aliases    []string `json:"aliases,omitempty"`
	TTL        *int64   `json:"ttl_s,omitempty"`
	Extended   []string `json:"extended,omitempty"`
	Failure    string   `json:"failure,omitempty"`
	DurationMS int64    `json:"duration_ms,omitempty"`
}

type TCPAttempt struct {
	Remote     string `json:"remote"`
	Connected  bool   `json:"connected,omitempty"`
	Failure    string `json:"failure,omitempty"`
	AfterMS    int64  `json:"after_ms,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
}

type CertInfo struct {
	Subject     string   `json:"subject"`
	Issuer      string   `json:"issuer"`
	Serial      string   `json:"serial"`
	DNSNames    []string `json:"dns_names,omitempty"`
	NotBefore   string   `json:"not_before"`
	NotAfter    string   `json:"not_after"`
	Fingerprint string   `json:"fingerprint"`
}

type Confinement struct {
	OwnNetwork      bool     `json:"own_network,omitempty"`
	PrivateNetwork  bool     `json:"private_network,omitempty"`
	NetworkPath     string   `json:"network_path,omitempty"`
	JoinsNetworkOf  string   `json:"joins_network_of,omitempty"`
	AddressFamilies string   `json:"address_families,omitempty"`
	IPDeny          []string `json:"ip_deny,omitempty"`
	IPAllow         []string `json:"ip_allow,omitempty"`
	CgroupFilters   []string `json:"cgroup_filters,omitempty"`
	FiltersUnread   string   `json:"filters_unread,omitempty"`
	Seccomp         string   `json:"seccomp,omitempty"`
	SystemCalls     bool     `json:"system_calls,omitempty"`
	Proxies         []string `json:"proxies,omitempty"`
}

type UnitLook struct {
	AfterMS  int64  `json:"after_ms"`
	Active   string `json:"active,omitempty"`
	Sub      string `json:"sub,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Restarts *int   `json:"restarts,omitempty"`
}

type UnitRestarts struct {
	WithinS int64  `json:"within_s"`
	Count   int    `json:"count"`
	EveryS  *int64 `json:"every_s,omitempty"`
}

type DamagedSlot struct {
	File string `json:"file"`
	Slot int    `json:"slot"`
	Why  string `json:"why"`
}

type RecordEntry struct {
	Seq           uint64            `json:"seq"`
	BootID        string            `json:"boot_id"`
	MonoNS        int64             `json:"mono_ns"`
	At            string            `json:"at"`
	Reason        string            `json:"reason"`
	About         string            `json:"about"`
	Decision      string            `json:"decision"`
	Attempt       int               `json:"attempt,omitempty"`
	DelayMS       int64             `json:"delay_ms,omitempty"`
	CeilingMS     int64             `json:"ceiling_ms,omitempty"`
	Failure       string            `json:"failure,omitempty"`
	Status        int               `json:"status,omitempty"`
	Code          string            `json:"code,omitempty"`
	Detail        string            `json:"detail,omitempty"`
	CorrelationID string            `json:"correlation_id,omitempty"`
	TaskID        string            `json:"task_id,omitempty"`
	NodeID        string            `json:"node_id,omitempty"`
	InstanceID    string            `json:"node_instance_id,omitempty"`
	Agent         string            `json:"agent,omitempty"`
	Generation    int64             `json:"generation,omitempty"`
	Facts         map[string]string `json:"facts,omitempty"`
	Count         int64             `json:"count,omitempty"`
	First         string            `json:"first,omitzero"`
	Last          string            `json:"last,omitzero"`
	Pin           string            `json:"pin,omitempty"`
}

type JournalLine struct {
	At       string `json:"at"`
	Boot     string `json:"boot_id,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Text     string `json:"text"`
}

type NoiseBounds struct {
	Runs    int   `json:"runs"`
	BoundMS int64 `json:"bound_ms"`
}

type StepStatus struct {
	ID      string         `json:"id"`
	Fault   string         `json:"fault"`
	Tier    string         `json:"tier"`
	State   string         `json:"state"`
	Text    string         `json:"text,omitempty"`
	Wanted  bool           `json:"wanted,omitempty"`
	DoneAt  *string        `json:"done_at,omitempty"`
	OverAt  *string        `json:"over_at,omitempty"`
	Changes []ChangeStatus `json:"changes"`
}

type Residue struct {
	Class   string `json:"class"`
	Key     string `json:"key"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	Allowed string `json:"allowed,omitempty"`
}

type Entry struct {
	Seq    int             `json:"seq"`
	At     string          `json:"at"`
	Boot   string          `json:"boot"`
	BootNS int64           `json:"boot_ns"`
	By     string          `json:"by"`
	PID    int             `json:"pid"`
	Event  string          `json:"event"`
	Step   string          `json:"step,omitempty"`
	Change *int            `json:"change,omitempty"`
	State  string          `json:"state,omitempty"`
	Text   string          `json:"text,omitempty"`
	Note   json.RawMessage `json:"note,omitempty"`
}

type ChangeStatus struct {
	Place string `json:"place"`
	State string `json:"state"`
	Text  string `json:"text,omitempty"`
	By    string `json:"by,omitempty"`
}
