package profile

import (
	"maps"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// dialects are what the servers of terminals speak over a WebSocket, by the value of terminal.like.
var dialects = map[string]Terminal{
	likeReference: {
		Like: likeReference, Token: TokenMinted, TokenIn: "subprotocol", TokenName: "bearer.",
		Subprotocols: []string{"gpuaas.terminal.v1"}, Input: "{data}", InputAs: "binary", Ready: "frame",
		Frames: []diag.TerminalFrame{
			{Is: "data", Opcode: "binary"},
			{Is: "ready", Field: "type", Equals: "ready"},
			{Is: "error", Field: "type", Equals: "error", Code: "code", Message: "message"},
			{Is: "exit", Field: "type", Equals: "exit", Code: "code", Message: "message", ExitCode: "exit_code"},
		},
	},
	"raw": { // the bytes of the terminal, and nothing else
		Like: "raw", Token: TokenNone, TokenIn: "header", TokenName: "Authorization", Ready: "none",
		Input: "{data}", InputAs: "binary", Frames: []diag.TerminalFrame{{Is: "data"}},
	},
	"json": { // {"type":"data","data":"..."}
		Like: "json", Token: TokenNone, TokenIn: "header", TokenName: "Authorization", Ready: "none",
		Input: `{"type":"data","data":{json}}`, InputAs: "text",
		Frames: []diag.TerminalFrame{
			{Is: "data", Field: "type", Equals: "data", Data: "data"},
			{Is: "ready", Field: "type", Equals: "ready"},
			{Is: "error", Field: "type", Equals: "error", Code: "code", Message: "message"},
			{Is: "exit", Field: "type", Equals: "exit", Code: "code", Message: "message", ExitCode: "exit_code"},
		},
	},
	"ttyd": {
		Like: "ttyd", Token: TokenNone, TokenIn: "message", Subprotocols: []string{"tty"}, Ready: "none",
		Hello: []string{`{"AuthToken":"{token}","columns":80,"rows":24}`}, Input: "0{data}", InputAs: "binary",
		Frames: []diag.TerminalFrame{{Is: "data", Prefix: "0"}},
	},
	"gotty": {
		Like: "gotty", Token: TokenNone, TokenIn: "message", Subprotocols: []string{"webtty"}, Ready: "none",
		Hello: []string{`{"Arguments":"","AuthToken":"{token}"}`}, Input: "1{data}", InputAs: "text",
		Frames: []diag.TerminalFrame{{Is: "data", Prefix: "1", Encoding: "base64"}},
	},
	"wetty": { // Socket.IO: its client asks for ?EIO=4&transport=websocket
		Like: "wetty", Token: TokenNone, TokenIn: "query", TokenName: "token", Ready: "none",
		Hello: []string{"40"}, Input: `42["input",{json}]`, InputAs: "text",
		Frames: []diag.TerminalFrame{
			{Is: "data", Prefix: "42", Field: "0", Equals: "data", Data: "1"},
			{Is: "exit", Prefix: "42", Field: "0", Equals: "logout"},
			{Is: "error", Prefix: "44", Message: "message"},
		},
	},
	"jupyter": {
		Like: "jupyter", Token: TokenAuth, TokenIn: "query", TokenName: "token", Ready: "none",
		Input: `["stdin",{json}]`, InputAs: "text",
		Frames: []diag.TerminalFrame{
			{Is: "data", Field: "0", Equals: "stdout", Data: "1"},
			{Is: "exit", Field: "0", Equals: "disconnect"},
		},
	},
}

// kubernetes is exec by the Kubernetes API: the first byte of a message is its channel, and channel 3 has a Status at
// the end.
var kubernetes = Terminal{
	Token: TokenAuth, TokenIn: "header", TokenName: "Authorization",
	Subprotocols: []string{"v5.channel.k8s.io", "v4.channel.k8s.io"}, Ready: "none",
	Input: "\x00{data}", InputAs: "binary",
	Frames: []diag.TerminalFrame{
		{Is: "data", Prefix: "\x01"},
		{Is: "data", Prefix: "\x02"},
		{Is: "exit", Prefix: "\x03", Field: "reason", Equals: "NonZeroExitCode", Code: "reason", Message: "message",
			ExitCode: `details.causes.#(reason=="ExitCode").message`},
		{Is: "error", Prefix: "\x03", Field: "status", Equals: "Failure", Code: "reason", Message: "message"},
		{Is: "exit", Prefix: "\x03", Field: "status", Equals: "Success", Code: "status"},
	},
}

// TerminalDialects returns the values of terminal.like, sorted.
func TerminalDialects() []string { return slices.Sorted(maps.Keys(dialects)) }
