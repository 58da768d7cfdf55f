package profile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Terminal is how a tenant's terminal is opened. The zero value is the reference platform's.
type Terminal struct {
	Kind diag.TerminalKind `yaml:"kind,omitempty"` // default terminal-ws
	// what the server of a WebSocket speaks, one of TerminalDialects, default gpuaas; the keys below override it
	Like string `yaml:"like,omitempty"`
	// path under terminal_base, where the answer to the mint has no URL there; the same as mapping.paths.terminal_ws
	Path string `yaml:"path,omitempty"`

	// which token opens it: minted (by mapping.paths.terminal_token), auth (the operator's own), none
	Token        string               `yaml:"token,omitempty"`
	TokenIn      string               `yaml:"token_in,omitempty"` // one of tokenPlaces
	TokenName    string               `yaml:"token_name,omitempty"`
	Subprotocols []string             `yaml:"subprotocols,omitempty,flow"`
	Hello        []string             `yaml:"hello,omitempty"` // the client's first messages
	Ready        string               `yaml:"ready,omitempty"` // frame | none: type without waiting for a first message
	Frames       []diag.TerminalFrame `yaml:"frames,omitempty"`
	Input        string               `yaml:"input,omitempty"`    // diag.Terminal's
	InputAs      string               `yaml:"input_as,omitempty"` // binary | text
	Closes       map[int]string       `yaml:"closes,omitempty"`   // code -> one of diag.CloseMeanings

	// of an exec in a pod; with the placeholders node_id, allocation_id and os_user
	Namespace string   `yaml:"namespace,omitempty"`
	Pod       string   `yaml:"pod,omitempty"`
	Container string   `yaml:"container,omitempty"`
	Command   []string `yaml:"command,omitempty,flow"` // default [/bin/sh]
}

// The sources of a terminal's token, and its places in a handshake.
const (
	TokenMinted = "minted"
	TokenAuth   = "auth"
	TokenNone   = "none"
)

var (
	tokenSources = []string{TokenMinted, TokenAuth, TokenNone}
	tokenPlaces  = []string{"subprotocol", "query", "header", "cookie", "message"}
)

// likeReference is the dialect of the reference platform.
const likeReference = "gpuaas"

// IsReference reports whether the terminal is opened as on the reference platform, with nothing overridden.
func (t Terminal) IsReference() bool {
	return (t.Kind == "" || t.Kind == diag.TerminalWS) && cmp.Or(t.Like, likeReference) == likeReference &&
		cmp.Or(t.Token, TokenMinted) == TokenMinted && t.TokenIn == "" && t.TokenName == "" && t.Subprotocols == nil &&
		t.Hello == nil && t.Ready == "" && t.Frames == nil && t.Input == "" && t.InputAs == "" && t.Closes == nil
}

// foreign reports whether the profile declares a terminal of another platform: then no default path of a terminal is
// known.
func (t Terminal) foreign() bool {
	return (t.Kind != "" && t.Kind != diag.TerminalWS) || cmp.Or(t.Like, likeReference) != likeReference
}

// withDefaults returns every value of the terminal, as set or else as its dialect has it. The reference platform's
// stays as it is.
func (t Terminal) withDefaults() Terminal {
	if t.IsReference() || t.Kind == diag.TerminalNone {
		return t
	}
	d := dialects[cmp.Or(t.Like, likeReference)]
	if t.Kind == diag.TerminalExec {
		d = kubernetes
		if t.Command == nil {
			t.Command = []string{"/bin/sh"}
		}
	}
	t.Kind, t.Like = cmp.Or(t.Kind, diag.TerminalWS), cmp.Or(t.Like, d.Like)
	t.Token = cmp.Or(t.Token, d.Token)
	t.TokenIn, t.TokenName = cmp.Or(t.TokenIn, d.TokenIn), cmp.Or(t.TokenName, d.TokenName)
	t.Input, t.InputAs, t.Ready = cmp.Or(t.Input, d.Input), cmp.Or(t.InputAs, d.InputAs), cmp.Or(t.Ready, d.Ready)
	if t.Subprotocols == nil {
		t.Subprotocols = d.Subprotocols
	}
	if t.Hello == nil {
		t.Hello = d.Hello
	}
	if t.Frames == nil {
		t.Frames = d.Frames
	}
	closes := maps.Clone(d.Closes)
	if closes == nil {
		closes = map[int]string{}
	}
	maps.Copy(closes, t.Closes)
	if t.Closes = closes; len(closes) == 0 {
		t.Closes = nil
	}
	return t
}

// Speaks returns the terminal as a request has it; nil for the reference platform's. Call it on a profile with
// defaults.
func (t Terminal) Speaks() *diag.Terminal {
	if t.IsReference() {
		return nil
	}
	return &diag.Terminal{
		Kind: t.Kind, Reference: t.OfReference(), Own: t.Token == TokenAuth, TokenIn: t.TokenIn, TokenName: t.TokenName,
		Hello: t.Hello, AtOnce: t.Ready == "none",
		Frames: t.Frames, Input: t.Input, InputText: t.InputAs == "text", Closes: t.Closes,
	}
}

// OfReference reports whether verdicts about the terminal may use what only the reference platform has: its rows of
// sessions, its reasons, its gateway. Call it on a profile with defaults.
func (t Terminal) OfReference() bool { return !t.foreign() }

// terminalPaths are the paths that only a terminal of the reference platform is known to have.
var terminalPaths = [...]string{PathTerminalToken, PathTerminalSession, PathTerminalWS, PathTerminalHealthz,
	PathNodeTerminal}

// paths returns the terminal's own entries of mapping.paths, given the profile's.
func (t Terminal) paths(mapped map[string]string) map[string]string {
	own := map[string]string{}
	for _, name := range terminalPaths {
		if _, set := mapped[name]; !set && t.foreign() {
			own[name] = Absent
		}
	}
	if t.Path != "" {
		own[PathTerminalWS] = t.Path
	}
	return own
}

// AllocationFree reports whether the terminal can be opened without an allocation: nothing of it has a placeholder
// that only an allocation fills, and its token is not minted for one.
func (p *Profile) AllocationFree() bool {
	t := p.Terminal
	if !t.foreign() || t.Kind == diag.TerminalNone || !p.Mapping.Lacks(PathTerminalToken) {
		return false
	}
	for _, template := range append([]string{p.Mapping.template(PathTerminalWS), t.Namespace, t.Pod,
		t.Container}, t.Command...) {
		if slices.ContainsFunc(placeholdersOf(template), func(name string) bool {
			return name == "allocation_id" || name == "os_user"
		}) {
			return false
		}
	}
	return true
}

// Fill replaces the placeholders of one of the terminal's templates.
func Fill(template string, vars map[string]string) string {
	return expand(template, vars, func(v string) string { return v })
}
