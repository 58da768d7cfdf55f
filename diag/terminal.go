package diag

import "slices"

// TerminalKind is how a tenant's terminal is reached.
type TerminalKind string

// The kinds of terminals.
const (
	TerminalNone TerminalKind = "none"
	TerminalWS   TerminalKind = "terminal-ws"     // a shell over a WebSocket
	TerminalExec TerminalKind = "kubernetes-exec" // exec in a pod, by the Kubernetes API
)

// Terminal is how a terminal is opened and what its messages mean, as data of an OpSession. A request without one is
// for a terminal of the reference platform.
type Terminal struct {
	Kind TerminalKind `json:"kind"`
	// Reference: the server is the reference platform's, with its sessions, reasons and words
	Reference bool `json:"reference,omitempty"`
	// Own: the token that opens it is the operator's own
	Own bool `json:"own,omitempty"`
	// where the token of a WebSocket is sent: subprotocol, query, header, cookie or message, which is a {token} in Hello
	TokenIn string `json:"token_in,omitempty"`
	// the prefix of the token's subprotocol, or the name of its parameter, header or cookie
	TokenName string `json:"token_name,omitempty"`
	// Hello are the messages that the client sends first, as text
	Hello []string `json:"hello,omitempty"`
	// AtOnce: the shell is typed to without waiting for a first message
	AtOnce bool `json:"at_once,omitempty"`
	// Frames are what the server's messages mean, in their order of precedence
	Frames []TerminalFrame `json:"frames,omitempty"`
	// Input is the message that types to the shell: {data} is the text as it is, {json} the text as a JSON string with
	// its quotes, {base64} the text in base64
	Input     string `json:"input,omitempty"`
	InputText bool   `json:"input_text,omitempty"` // Input is sent as a text message, else as a binary one
	// Closes has the meanings of close codes, each one of CloseMeanings
	Closes map[int]string `json:"closes,omitempty"`
}

// TerminalFrame is what one kind of message means: it is about a message that has all that the row names. The first
// row that matches a message decides; a message that no row matches is dropped.
type TerminalFrame struct {
	Is     string `json:"is" yaml:"is"`                             // data | ready | error | exit
	Opcode string `json:"opcode,omitempty" yaml:"opcode,omitempty"` // text | binary; "": either
	// the bytes that the message begins with; the rest is what the other keys are about
	Prefix string `json:"prefix,omitempty" yaml:"prefix,omitempty"`
	// the gjson path of a field of the rest as JSON
	Field string `json:"field,omitempty" yaml:"field,omitempty"`
	// the value of that field; without it, the field must only be there
	Equals   string `json:"equals,omitempty" yaml:"equals,omitempty"`
	Contains string `json:"contains,omitempty" yaml:"contains,omitempty"` // a text in the rest

	// of data: the gjson path of the field that has it, else it is the rest
	Data string `json:"data,omitempty" yaml:"data,omitempty"`
	// how data is written: base64, else text
	Encoding string `json:"encoding,omitempty" yaml:"encoding,omitempty"`
	// of an error and an exit: the gjson path of the code
	Code string `json:"code,omitempty" yaml:"code,omitempty"`
	// of an error and an exit: the gjson path of the text
	Message string `json:"message,omitempty" yaml:"message,omitempty"`
	// of an exit: the gjson path of the shell's exit code
	ExitCode string `json:"exit_code,omitempty" yaml:"exit_code,omitempty"`
}

// CloseMeaning is what a close code says, and how a verdict reads it.
type CloseMeaning struct{ ID, Text string }

// CloseMeanings are the meanings that a profile may give to a close code.
var CloseMeanings = [...]CloseMeaning{
	{"ended", "the session ended"},
	{"token_refused", "the token was refused"},
	{"not_allowed", "this user may not open this terminal"},
	{"not_found", "there is no such terminal, or its session is over"},
	{"node_unreachable", "the server does not reach the node"},
	{"shell_failed", "the shell did not start, or failed"},
	{"busy", "there are too many sessions"},
	{"timeout", "a time limit ended the session"},
	{"going_away", "the server is stopping or restarting"},
	{"protocol", "a message was not as the server expects it"},
	{"server_error", "the server met an error of its own"},
	{"broken", "the connection broke without a close"},
}

// standardCloses are the meanings of the codes of RFC 6455 and of the registry that it made.
var standardCloses = map[int]string{
	1000: "ended", 1001: "going_away", 1002: "protocol", 1003: "protocol", 1006: "broken", 1007: "protocol",
	1008: "not_allowed", 1009: "protocol", 1010: "protocol", 1011: "server_error", 1012: "going_away",
	1013: "busy", 1014: "node_unreachable", 1015: "broken",
}

// CloseMeans returns the meaning of a close code: the terminal's own, else the standard's; the zero meaning of a code
// that nothing lists.
func (t *Terminal) CloseMeans(code int) CloseMeaning {
	id := standardCloses[code]
	if t != nil && t.Closes[code] != "" {
		id = t.Closes[code]
	}
	at := slices.IndexFunc(CloseMeanings[:], func(m CloseMeaning) bool { return m.ID == id })
	if at < 0 {
		return CloseMeaning{}
	}
	return CloseMeanings[at]
}

// Server is what answers for a terminal of this kind, for a text.
func (t *Terminal) Server() string {
	if t.Kind == TerminalExec {
		return "the Kubernetes API"
	}
	return "the terminal's server"
}
