// Package profile has what an operator knows about an environment before it is measured: endpoints, trust, logins,
// policy, and the paths and fields of the platform's API. A profile is a strict YAML file; flags override GPUAASCTL_*
// environment variables, and these override the file. It contains no secrets, only paths of files with secrets, or
// commands that print one.
//
// More than 25 files: each block of a profile has its own, and its checks another.
package profile

import (
	"cmp"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Profile is one environment. The zero value is usable: each unset field has the default given in its comment.
type Profile struct {
	Name string `yaml:"-"`

	// Kind says which platform the profile describes, one of Kinds; "" if it does not say.
	Kind string `yaml:"kind,omitempty"`

	APIBase      string `yaml:"api_base,omitempty"`
	TerminalBase string `yaml:"terminal_base,omitempty"`
	// for the operator's side; the operator's hosts file is never edited
	APIResolveAddress          string `yaml:"api_resolve_address,omitempty"`
	TerminalResolveAddress     string `yaml:"terminal_resolve_address,omitempty"` // operator side
	AppResolveAddress          string `yaml:"app_resolve_address,omitempty"`      // operator side; for product URLs
	NodeRuntimeAPIURL          string `yaml:"node_runtime_api_url,omitempty"`
	NodeRuntimeResolveAddress  string `yaml:"node_runtime_resolve_address,omitempty"`
	NodeTerminalURL            string `yaml:"node_terminal_url,omitempty"`
	NodeTerminalResolveAddress string `yaml:"node_terminal_resolve_address,omitempty"`

	// InsecureHTTP sends the token and the edge cookie over http:// to other machines, where anybody on the way can read
	// them. Without it that is an error.
	InsecureHTTP bool `yaml:"insecure_http,omitempty"`

	RunbookBase string `yaml:"runbook_base,omitempty"` // URL of a page with an anchor for every signal and reason

	// IP[:port]; each is queried if a node's look-up fails
	NodeNameServers []string `yaml:"node_name_servers,omitempty,flow"`

	Nodes map[string]Node `yaml:"nodes,omitempty"` // by node id
	SSH   SSH             `yaml:"ssh,omitempty"`
	// for drills, bundles, and a workload's endpoint
	PlatformSSH SSH                          `yaml:"platform_ssh,omitempty"`
	Auth        Auth                         `yaml:"auth,omitempty"`
	Trust       Trust                        `yaml:"trust,omitempty"`
	Agent       Agent                        `yaml:"agent,omitempty"`
	Allocation  Allocation                   `yaml:"allocation,omitempty"`
	Policy      map[string]int64             `yaml:"policy,omitempty"`  // catalogue keys; may tighten
	Budgets     map[diag.HopID]time.Duration `yaml:"budgets,omitempty"` // per hop, e.g. 5s
	Mapping     Mapping                      `yaml:"mapping,omitempty"`
	Task        Task                         `yaml:"task,omitempty"`
	Terminal    Terminal                     `yaml:"terminal,omitempty"`
	// Hops adds optional hops to this environment's walks, or leaves them out; see OptionalHops
	Hops  map[diag.HopID]bool `yaml:"hops,omitempty"`
	App   App                 `yaml:"app,omitempty"`
	GPU   GPU                 `yaml:"gpu,omitempty"`
	Chaos Chaos               `yaml:"chaos,omitempty"`

	// Checks are measured beside the chain, as the hops x.NAME. ChecksBudget is the time that they share; default 10s.
	Checks       map[string]Check `yaml:"checks,omitempty"`
	ChecksBudget time.Duration    `yaml:"checks_budget,omitempty"`
}

// Node is the login and address of one node.
type Node struct {
	Host string `yaml:"host"`           // name or address for SSH
	User string `yaml:"user,omitempty"` // overrides ssh.user
	Port int    `yaml:"port,omitempty"` // overrides ssh.port
	// Command reaches the node in place of SSH: a program and its arguments, to which `sh -c SCRIPT` is added
	Command []string          `yaml:"command,omitempty,flow"`
	Labels  map[string]string `yaml:"labels,omitempty"`
}

// SSH is how to log in. Unset values come from the operator's ssh_config.
type SSH struct {
	Host       string `yaml:"host,omitempty"` // platform_ssh only
	User       string `yaml:"user,omitempty"`
	Port       int    `yaml:"port,omitempty"`
	Identity   string `yaml:"identity,omitempty"`
	Jump       string `yaml:"jump,omitempty"`
	KnownHosts string `yaml:"known_hosts,omitempty"`
	Sudo       *bool  `yaml:"sudo,omitempty"` // default: sudo -n unless the login is root
}

// SSHOf returns the login for a node: SSH with the node's own user and port if set.
func (p *Profile) SSHOf(node string) SSH {
	s, own := p.SSH, p.Nodes[node]
	s.User = cmp.Or(own.User, s.User)
	s.Port = cmp.Or(own.Port, s.Port)
	return s
}

// Auth has the sources of secrets: each is a file, whose mode is checked (others must not read it), or the output of a
// command, run without a shell.
type Auth struct {
	TokenFile         string   `yaml:"token_file,omitempty"`
	TokenCommand      []string `yaml:"token_command,omitempty,flow"`
	EdgeCookieFile    string   `yaml:"edge_cookie_file,omitempty"`
	EdgeCookieCommand []string `yaml:"edge_cookie_command,omitempty,flow"`
}

// Trust is what the operator expects to be trusted.
type Trust struct {
	// PEM bundle for the public edge; default: the system's roots
	OperatorCA string `yaml:"operator_ca,omitempty"`
	// PEM bundle that nodes should have: the reference for a node's own
	NodeCA                   string `yaml:"node_ca,omitempty"`
	SigningCAFingerprint     string `yaml:"signing_ca_fingerprint,omitempty"`
	IngressCAFingerprint     string `yaml:"ingress_ca_fingerprint,omitempty"`
	NodeAPIServerFingerprint string `yaml:"node_api_server_fingerprint,omitempty"`
}

// Allocation says whether nodes are given to tenants by allocations.
type Allocation struct {
	Present *bool `yaml:"present,omitempty"` // default true
}

// Absent reports whether the profile declares that this environment has no allocations.
func (a Allocation) Absent() bool { return a.Present != nil && !*a.Present }

// Mapping maps the platform's API: path templates by name, gjson field paths by name, and optional features.
type Mapping struct {
	Paths  map[string]string `yaml:"paths,omitempty"`
	Fields map[string]string `yaml:"fields,omitempty"`
	Peek   *bool             `yaml:"peek,omitempty"`   // the task wait supports a peek that claims nothing; default true
	Record *bool             `yaml:"record,omitempty"` // agents keep a diagnostic record; default true

	guessed []string // names of the paths that are only defaults, see Profile.GuessedPaths
}

// App has what a browser's path to a workload needs besides a simple request. Checks for unset fields are skipped.
type App struct {
	// path under the product URL that is upgraded to a WebSocket
	Websocket string `yaml:"websocket,omitempty"`
	// path under the product URL that lists the names of the request's headers
	HeadersPath string `yaml:"headers_path,omitempty"`
	// names of the headers that the edge must add to a request
	InjectedHeaders []string `yaml:"injected_headers,omitempty,flow"`
}

// GPU configures how GPUs are judged if the platform does not.
type GPU struct {
	// Policy is how this tool judges a node's GPUs: the name of a built-in policy (GPUPolicies), or a file. Default:
	// only the platform judges, if it can.
	Policy string `yaml:"policy,omitempty"`
}

// GPUPolicies are the built-in policies of gpuaas-gpu-policy.
func GPUPolicies() []string { return []string{"default", "strict", "permissive"} }

// IsFile reports whether the policy is a file.
func (g GPU) IsFile() bool { return strings.ContainsAny(g.Policy, "/.") }

// Chaos limits drills in this environment.
type Chaos struct {
	Allow   bool              `yaml:"allow,omitempty"`
	Labels  map[string]string `yaml:"labels,omitempty"`
	Windows []string          `yaml:"windows,omitempty"` // when drills may begin: "Mon-Fri 08:00-17:00 UTC"
	CACert  string            `yaml:"ca_cert,omitempty"` // PEM of the CA that signs nodes, for drills about certificates
	CAKey   string            `yaml:"ca_key,omitempty"`  // its key: only if nothing important trusts the CA
}

// Files returns the paths of the files that the profile names, "" for those that are not set.
func (p Profile) Files() []string {
	files := []string{p.Auth.TokenFile, p.Auth.EdgeCookieFile, p.Trust.OperatorCA, p.Trust.NodeCA, p.SSH.Identity,
		p.SSH.KnownHosts, p.PlatformSSH.Identity, p.PlatformSSH.KnownHosts}
	if p.GPU.IsFile() {
		files = append(files, p.GPU.Policy)
	}
	for id := range p.Nodes {
		login := p.SSHOf(id)
		files = append(files, login.Identity, login.KnownHosts)
	}
	return files
}
