package profile

import (
	"fmt"
	"strconv"
)

// EnvPrefix is the prefix of every environment variable that is read.
const EnvPrefix = "GPUAASCTL_"

// EnvProfile is the variable that chooses a profile if no flag does.
const EnvProfile = EnvPrefix + "PROFILE"

// setting is one value of a profile that a flag or the environment may override.
type setting struct {
	key   string // dotted, as in the file
	env   string // without EnvPrefix
	check func(string) error
	text  func(*Profile) *string // the field of a text value; nil for a number
	num   func(*Profile) *int
}

// settings is the closed list of values that can be overridden. Maps (nodes, policy, budgets, mapping) come only from
// files.
var settings = [...]setting{
	{key: "api_base", env: "API_BASE", check: checkURL, text: func(p *Profile) *string { return &p.APIBase }},
	{key: "terminal_base", env: "TERMINAL_BASE", check: checkURL, text: func(p *Profile) *string {
		return &p.TerminalBase
	}},
	{key: "api_resolve_address", env: "API_RESOLVE_ADDRESS", check: checkIP, text: func(p *Profile) *string {
		return &p.APIResolveAddress
	}},
	{key: "terminal_resolve_address", env: "TERMINAL_RESOLVE_ADDRESS", check: checkIP, text: func(p *Profile) *string {
		return &p.TerminalResolveAddress
	}},
	{key: "app_resolve_address", env: "APP_RESOLVE_ADDRESS", check: checkIP, text: func(p *Profile) *string {
		return &p.AppResolveAddress
	}},
	{key: "node_runtime_api_url", env: "NODE_RUNTIME_API_URL", check: checkURL, text: func(p *Profile) *string {
		return &p.NodeRuntimeAPIURL
	}},
	{key: "node_runtime_resolve_address", env: "NODE_RUNTIME_RESOLVE_ADDRESS", check: checkIP,
		text: func(p *Profile) *string { return &p.NodeRuntimeResolveAddress }},
	{key: "node_terminal_url", env: "NODE_TERMINAL_URL", check: checkURL, text: func(p *Profile) *string {
		return &p.NodeTerminalURL
	}},
	{key: "node_terminal_resolve_address", env: "NODE_TERMINAL_RESOLVE_ADDRESS", check: checkIP,
		text: func(p *Profile) *string { return &p.NodeTerminalResolveAddress }},
	{key: "runbook_base", env: "RUNBOOK_BASE", check: checkURL, text: func(p *Profile) *string { return &p.RunbookBase }},
	{key: "ssh.user", env: "NODE_USER", check: checkLogin, text: func(p *Profile) *string { return &p.SSH.User }},
	{key: "ssh.port", env: "SSH_PORT", num: func(p *Profile) *int { return &p.SSH.Port }},
	{key: "ssh.identity", env: "SSH_IDENTITY", check: checkPlain, text: func(p *Profile) *string {
		return &p.SSH.Identity
	}},
	{key: "ssh.jump", env: "SSH_JUMP", check: checkPlain, text: func(p *Profile) *string { return &p.SSH.Jump }},
	{key: "ssh.known_hosts", env: "SSH_KNOWN_HOSTS", check: checkPlain, text: func(p *Profile) *string {
		return &p.SSH.KnownHosts
	}},
	{key: "auth.token_file", env: "TOKEN_FILE", check: checkPlain, text: func(p *Profile) *string {
		return &p.Auth.TokenFile
	}},
	{key: "auth.edge_cookie_file", env: "EDGE_COOKIE_FILE", check: checkPlain, text: func(p *Profile) *string {
		return &p.Auth.EdgeCookieFile
	}},
	{key: "trust.operator_ca", env: "OPERATOR_CA", check: checkPlain, text: func(p *Profile) *string {
		return &p.Trust.OperatorCA
	}},
	{key: "trust.node_ca", env: "NODE_CA", check: checkPlain, text: func(p *Profile) *string { return &p.Trust.NodeCA }},
}

// set checks v and stores it in p.
func (s setting) set(p *Profile, v string) error {
	if s.num != nil {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("want a whole number, not %q", v)
		}
		if err := checkPort(n); err != nil {
			return err
		}
		*s.num(p) = n
		return nil
	}
	if err := s.check(v); err != nil {
		return err
	}
	*s.text(p) = v
	return nil
}

// Env returns the names of the environment variables that are read, by profile key.
func Env() map[string]string {
	m := make(map[string]string, len(settings))
	for _, s := range settings {
		m[s.key] = EnvPrefix + s.env
	}
	return m
}
