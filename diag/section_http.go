package diag

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HTTPFacts is the last HTTP exchange of a probe. The body is not kept, only the requested fields.
type HTTPFacts struct {
	Status      int    `json:"status,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Server      string `json:"server,omitempty"`
	Location    string `json:"location,omitempty"` // host and path only
	RetryAfterS *int64 `json:"retry_after_s,omitempty"`
	Date        Time   `json:"date,omitzero"`
	Cached      string `json:"cached,omitempty"` // the header by which the answer says that it came from a cache
	BodyBytes   *int64 `json:"body_bytes,omitempty"`
	// Page is a known page: ssl_certificate_error, no_ssl_certificate, edge_login, edge_error, edge_rate_page or
	// edge_challenge.
	Page string `json:"page,omitempty"`
	// Edge is the product whose own page or login this is, as far as it is known; EdgeSays is what its page says.
	Edge         string            `json:"edge,omitempty"`
	EdgeSays     string            `json:"edge_says,omitempty"`     // what an edge's own page says, shortened
	ErrorCode    string            `json:"error_code,omitempty"`    // error.code of the envelope
	ErrorMessage string            `json:"error_message,omitempty"` // error.message, scrubbed
	Correlation  string            `json:"correlation_id,omitempty"`
	Fields       map[string]string `json:"fields,omitempty"` // Extract's names; absent if the answer lacks the path
	Kept         Secret            `json:"kept,omitzero"`
	// the complete URLs of Fields that were shortened (see BareURL), for the walk's next request
	Whole      map[string]Secret `json:"-"`
	Polls      int               `json:"polls,omitempty"`
	DurationMS Millis            `json:"duration_ms,omitempty"`
}

// Words returns the answer, and the fields that were read from it.
func (h *HTTPFacts) Words() []Line {
	retry := ""
	if h.RetryAfterS != nil {
		retry = fmt.Sprintf("retry after %d s", *h.RetryAfterS)
	}
	lines := []Line{line("http", number(h.Status), h.ContentType, pair("server ", h.Server), pair("to ", h.Location),
		pair("page ", h.Page), pair("of ", h.Edge), h.EdgeSays, h.ErrorCode,
		h.ErrorMessage, retry, h.Cached, took(h.DurationMS))}
	return append(lines, named(h.Fields)...)
}

// Properties returns the fields of platform answers that can be compared: no time, and nothing of a single run.
func (h *HTTPFacts) Properties(*Fact) []Property {
	properties := []Property{{ChangeServer, "http.server", h.Server}}
	kinds := map[string]ChangeKind{
		"node.instance_id": ChangeInstance, "node.private_ip": ChangeRoute,
		"node.environment_profile": ChangeEndpoint, "node.agent_api_url": ChangeEndpoint,
		"node.agent_terminal_url": ChangeEndpoint,
		"node.agent_version":      ChangeAgentBuild,
		"node.cert_serial":        ChangeNodeCert, "node.cert_generation": ChangeNodeCert,
		"node.cert_issuer": ChangeNodeIssuer,
		"trust.signing_ca": ChangePlatformCA, "trust.ingress_ca": ChangePlatformCA,
		"allocation.os_user": ChangeUser, "allocation.app_product_url": ChangeEndpoint,
	}
	for _, name := range slices.Sorted(maps.Keys(h.Fields)) {
		if kind, ok := kinds[name]; ok {
			properties = append(properties, Property{kind, "http.fields." + name, h.Fields[name]})
		}
	}
	return properties
}

// Codes of error frames and close reasons about the workload's user, shell or PTY, as in package wire; see ShellCode.
const (
	CodeUserMissing  = "user_missing"
	CodeShellMissing = "user_shell_missing"
	CodeUserRefused  = "user_refused"
	CodePTYFailed    = "pty_failed"
	CodePTYExited    = "pty_exited" // the shell started, and ended before the terminal was open
)

// ShellCode reports whether a code is about the workload's user, shell or PTY, also one of a newer agent.
func ShellCode(code string) bool {
	return strings.HasPrefix(code, "pty_") || strings.HasPrefix(code, "user_")
}

// WSFacts is one WebSocket connection and, for OpSession, what was received on it.
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

	Ended   WSEnd  `json:"ended,omitempty"`    // how the peer ended a session; absent if it did not
	EndedMS Millis `json:"ended_ms,omitempty"` // from the upgrade to the end of the session
	// from the peer's last frame, or from the upgrade, to the end of a session that failed
	QuietMS  Millis `json:"quiet_ms,omitempty"`
	PingMS   Millis `json:"ping_ms,omitempty"` // round trip of a ping sent after a long silence
	PingLost bool   `json:"ping_lost,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty" bounded:"signed"` // exit code of the shell, from an exit frame
}

// Words returns the upgrade, the first frame and the end.
func (w *WSFacts) Words() []Line {
	up := "not upgraded"
	if w.Upgraded {
		up = "upgraded"
	}
	return []Line{line("ws", up, number(w.Status), w.Subprotocol, pair("first frame ", w.FirstFrame), w.FrameCode,
		w.FrameMessage,
		pair("closed ", number(w.CloseCode)), w.CloseReason, took(w.DurationMS))}
}

// Properties returns none: all values belong to a single run.
func (w *WSFacts) Properties(*Fact) []Property { return nil }

// WSEnd is how the peer ended a WebSocket connection.
type WSEnd string

// How a peer can end a WebSocket connection.
const (
	WSEndClose WSEnd = "close" // a close frame
	WSEndEOF   WSEnd = "eof"   // the connection ended without a close frame
	WSEndReset WSEnd = "reset" // the connection was reset
	WSEndError WSEnd = "error" // the received bytes are not a WebSocket frame
)

// PTYFacts is the result of a computation with a nonce by a shell at the far end: a plain echo would not prove a shell.
type PTYFacts struct {
	NonceOK     bool   `json:"nonce_ok"`
	LastLines   string `json:"said,omitempty"` // the last lines of a failed terminal session, scrubbed
	FirstByteMS Millis `json:"first_byte_ms,omitempty"`
	DurationMS  Millis `json:"duration_ms,omitempty"`
}

// Words reports whether a shell computed the result.
func (t *PTYFacts) Words() []Line {
	nonce := "nonce not computed"
	if t.NonceOK {
		nonce = "nonce computed by the shell"
	}
	return []Line{line("pty", nonce, pair("first byte ", took(t.FirstByteMS)), took(t.DurationMS))}
}

// Properties returns none: all values belong to a single run.
func (t *PTYFacts) Properties(*Fact) []Property { return nil }

// SSHFacts is how the node vantage connected to the node.
type SSHFacts struct {
	Banner        string `json:"banner,omitempty"`
	HostKeyType   string `json:"host_key_type,omitempty"`
	HostKeySHA256 string `json:"host_key_sha256,omitempty"`
	User          string `json:"user,omitempty"`
	AuthMethod    string `json:"auth_method,omitempty"` // agent | key
	NotOffered    int    `json:"not_offered,omitempty"` // number of keys, or sources of keys, that could not be offered
	Jump          string `json:"jump,omitempty"`
	// what ssh_config and known_hosts say and the login did not use, with file and line: options that it does not
	// follow, lines that cannot be read
	NotUsed       []string `json:"not_used,omitempty"`
	Command       string   `json:"command,omitempty"` // the program that reaches the node in place of SSH
	Helper        string   `json:"helper,omitempty"`  // installed | pushed
	HelperVersion string   `json:"helper_version,omitempty"`
	HelperPath    string   `json:"helper_path,omitempty"`
	UID           *int     `json:"uid,omitempty"`          // uid of the helper on the node
	SudoRefused   bool     `json:"sudo_refused,omitempty"` // the helper was to run as root, but runs as the login user
	SudoMissing   bool     `json:"sudo_missing,omitempty"` // and that is because the node has no sudo
	TCPMS         Millis   `json:"tcp_ms,omitempty"`
	BannerMS      Millis   `json:"banner_ms,omitempty"`
	AuthMS        Millis   `json:"auth_ms,omitempty"`
	ExecMS        Millis   `json:"exec_ms,omitempty"`
}

// Words returns the login, and the duration of each part.
func (s *SSHFacts) Words() []Line {
	return []Line{
		line("ssh", s.User, s.Banner, pair("host key ", s.HostKeyType), s.HostKeySHA256, pair("by ", s.AuthMethod),
			pair("by the command ", s.Command),
			pair("through ", s.Jump), pair("helper ", s.Helper), s.HelperVersion),
		line("  took", pair("tcp ", took(s.TCPMS)), pair("banner ", took(s.BannerMS)), pair("auth ", took(s.AuthMS)),
			pair("exec ", took(s.ExecMS))),
		line("  not used here", strings.Join(s.NotUsed, "; ")),
	}
}

// Properties returns the host's identity, and the route to it.
func (s *SSHFacts) Properties(*Fact) []Property {
	return []Property{
		{ChangeHostKey, "ssh.host_key_sha256", s.HostKeySHA256},
		{ChangeServer, "ssh.banner", s.Banner},
		{ChangeRoute, "ssh.jump", s.Jump},
	}
}
