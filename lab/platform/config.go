package platform

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// Config is the platform's configuration file. Unknown keys are rejected.
type Config struct {
	Listen    Listen `yaml:"listen"`
	Redis     string `yaml:"redis"` // host:port
	RedisUser string `yaml:"redis_user,omitempty"`
	// must not be readable by others; empty: no password
	RedisPasswordFile string `yaml:"redis_password_file,omitempty"`
	// the secret that the node ingress sends as X-GPUaaS-Ingress; must not be readable by others
	IngressSecretFile string    `yaml:"ingress_secret_file"`
	Database          string    `yaml:"database"` // path, or :memory:
	PKI               PKIFiles  `yaml:"pki"`
	TaskSigningKey    string    `yaml:"task_signing_key"`    // ed25519, PKCS8 PEM
	OperatorTokenFile string    `yaml:"operator_token_file"` // must not be readable by others
	Endpoints         Endpoints `yaml:"endpoints"`
	Policy            Policy    `yaml:"policy"`
	Seed              string    `yaml:"seed"` // optional
	GPU               GPU       `yaml:"gpu,omitempty"`

	// Artifacts is a folder of agent packages, each named by the lower-case hex of its sha256. Empty: none are served.
	Artifacts string `yaml:"artifacts,omitempty"`

	// EnvironmentProfile is the active one; a node's own profile in the seed takes precedence. Empty: any is
	// accepted.
	EnvironmentProfile string `yaml:"environment_profile,omitempty"`
}

// Listen holds host:port of each listener. All but NodeTerminal speak plain HTTP, and must be on loopback, behind
// the edge and the node ingress.
type Listen struct {
	API          string `yaml:"api"`
	NodeAPI      string `yaml:"node_api"`
	Gateway      string `yaml:"gateway"`
	NodeTerminal string `yaml:"node_terminal"` // terminates TLS with client certificates
}

// PKIFiles names PEM files.
type PKIFiles struct {
	SigningCACert string `yaml:"signing_ca_cert"` // signs node certificates
	SigningCAKey  string `yaml:"signing_ca_key"`
	// client CAs of the node ingress; read at each use
	IngressCA         string `yaml:"ingress_ca"`
	NodeAPIServerCert string `yaml:"node_api_server_cert"` // for its fingerprint
	TerminalCert      string `yaml:"terminal_cert"`
	TerminalKey       string `yaml:"terminal_key"`
	// client CAs of the node terminal; default: the signing CA
	TerminalClientCA string `yaml:"terminal_client_ca,omitempty"`
	NodeCABundle     string `yaml:"node_ca_bundle"` // handed out at enrollment
	// what a node trusts only for enrollment; part of a recovery bundle
	RecoveryCABundle string `yaml:"recovery_ca_bundle,omitempty"`
}

// Endpoints are the URLs at which nodes and browsers reach this platform.
type Endpoints struct {
	APIURL              string `yaml:"api_url"`
	TerminalURL         string `yaml:"terminal_url"`
	BrowserTerminalBase string `yaml:"browser_terminal_base"`
	RecoveryAPIURL      string `yaml:"recovery_api_url,omitempty"` // where a node enrolls if api_url does not work
	// host names of web UIs in addition to the terminal's own
	AllowedOrigins []string `yaml:"allowed_origins,omitempty"`
}

// Policy holds the catalogue's keys, in seconds. Absent keys have the catalogue's defaults.
type Policy struct {
	HeartbeatStaleAfter    int64 `yaml:"node.heartbeat_stale_after_seconds"`
	TaskWait               int64 `yaml:"node.task_wait_seconds"`
	TaskStaleSweepInterval int64 `yaml:"node.task_stale_sweep_interval_seconds"`
	RecoveryTokenMaxAge    int64 `yaml:"node.recovery_token_max_age_seconds"`
	CertTTL                int64 `yaml:"node.cert_ttl_seconds"`
	NodeStreamTimeout      int64 `yaml:"terminal.node_stream_timeout_seconds"`
	TerminalTokenTTL       int64 `yaml:"terminal.token_ttl_seconds"`
	SessionLimit           int64 `yaml:"terminal.session_limit_seconds"`    // time limit of a terminal session
	SessionIdle            int64 `yaml:"terminal.session_idle_seconds"`     // time limit without input and output
	AppStatusProbeInterval int64 `yaml:"app.status_probe_interval_seconds"` // 0: none
	// how long a task may be without a result after it was handed out, before it returns to the queue if that is
	// safe
	TaskLease         int64 `yaml:"node.task_lease_seconds"`
	AuditDedupeWindow int64 `yaml:"audit.dedupe_window_seconds"`

	// CredentialOverlap is how long an older certificate stays valid after a newer one was used in a heartbeat.
	CredentialOverlap int64 `yaml:"node.credential_overlap_seconds"`

	DesiredAgentVersion string `yaml:"agent.desired_version,omitempty"` // empty: any
}

// DefaultPolicy returns the catalogue's defaults.
func DefaultPolicy() Policy {
	return Policy{
		HeartbeatStaleAfter: 120, TaskWait: 25, TaskStaleSweepInterval: 60, RecoveryTokenMaxAge: 86400, CertTTL: 86400,
		NodeStreamTimeout: 20, TerminalTokenTTL: 60, SessionLimit: 12 * 3600, SessionIdle: 3600, AppStatusProbeInterval: 10,
		TaskLease: 30, AuditDedupeWindow: 300, CredentialOverlap: 300,
	}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// LoadConfig reads and checks a configuration file.
func LoadConfig(path string) (Config, error) {
	c := Config{Policy: DefaultPolicy()}
	if err := readYAML(path, &c); err != nil {
		return Config{}, err
	}
	if err := c.Check(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Check returns every missing or invalid setting.
func (c Config) Check() error {
	var errs []error
	for _, f := range []struct{ key, value string }{
		{"listen.api", c.Listen.API}, {"listen.node_api", c.Listen.NodeAPI}, {"listen.gateway", c.Listen.Gateway},
		{"listen.node_terminal", c.Listen.NodeTerminal}, {"redis", c.Redis}, {"database", c.Database},
		{"pki.signing_ca_cert", c.PKI.SigningCACert}, {"pki.signing_ca_key", c.PKI.SigningCAKey},
		{"pki.ingress_ca", c.PKI.IngressCA}, {"pki.node_api_server_cert", c.PKI.NodeAPIServerCert},
		{"pki.terminal_cert", c.PKI.TerminalCert}, {"pki.terminal_key", c.PKI.TerminalKey},
		{"pki.node_ca_bundle", c.PKI.NodeCABundle}, {"task_signing_key", c.TaskSigningKey},
		{"operator_token_file", c.OperatorTokenFile}, {"ingress_secret_file", c.IngressSecretFile},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("%s is required", f.key))
		}
	}
	for _, f := range []struct{ key, value string }{
		{"listen.api", c.Listen.API}, {"listen.node_api", c.Listen.NodeAPI}, {"listen.gateway", c.Listen.Gateway},
	} {
		if f.value != "" && !onLoopback(f.value) {
			errs = append(errs, fmt.Errorf(
				"%s %s speaks plain HTTP and trusts its proxy: want a loopback address, like 127.0.0.1:8080", f.key, f.value))
		}
	}
	for _, f := range []struct{ key, value string }{
		{"endpoints.api_url", c.Endpoints.APIURL}, {"endpoints.terminal_url", c.Endpoints.TerminalURL},
		{"endpoints.browser_terminal_base", c.Endpoints.BrowserTerminalBase},
		{"endpoints.recovery_api_url", c.Endpoints.RecoveryAPIURL},
	} {
		if f.value == "" && f.key == "endpoints.recovery_api_url" {
			continue
		}
		if u, err := url.Parse(f.value); err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
			errs = append(errs, fmt.Errorf("%s must be an http or https URL", f.key))
		}
	}
	for _, f := range []struct {
		key   string
		value int64
	}{
		{"node.heartbeat_stale_after_seconds", c.Policy.HeartbeatStaleAfter}, {"node.task_wait_seconds", c.Policy.TaskWait},
		{"node.task_stale_sweep_interval_seconds", c.Policy.TaskStaleSweepInterval},
		{"node.recovery_token_max_age_seconds", c.Policy.RecoveryTokenMaxAge}, {"node.cert_ttl_seconds", c.Policy.CertTTL},
		{"terminal.node_stream_timeout_seconds", c.Policy.NodeStreamTimeout},
		{"terminal.token_ttl_seconds", c.Policy.TerminalTokenTTL}, {"node.task_lease_seconds", c.Policy.TaskLease},
		{"audit.dedupe_window_seconds", c.Policy.AuditDedupeWindow},
		{"node.credential_overlap_seconds", c.Policy.CredentialOverlap},
		{"terminal.session_limit_seconds", c.Policy.SessionLimit}, {"terminal.session_idle_seconds", c.Policy.SessionIdle},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("policy %s must be positive", f.key))
		}
	}
	if c.Policy.AppStatusProbeInterval < 0 {
		errs = append(errs, errors.New("policy app.status_probe_interval_seconds must not be negative"))
	}
	return errors.Join(append(errs, c.GPU.check()...)...)
}

// onLoopback reports whether address is a numeric loopback address with a port; a name could resolve to any host.
func onLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// Seed is the file of nodes and allocations to create if they do not exist.
type Seed struct {
	Nodes       []SeedNode       `yaml:"nodes"`
	Allocations []SeedAllocation `yaml:"allocations"`
}

// SeedNode is one node; the optional token in EnrollmentTokenFile enrolls it once.
type SeedNode struct {
	ID                  string `yaml:"id"`
	Hostname            string `yaml:"hostname"`
	PrivateIP           string `yaml:"private_ip"`
	ProviderClass       string `yaml:"provider_class"`
	GuestAgentStatus    string `yaml:"guest_agent_status,omitempty"`
	EnvironmentProfile  string `yaml:"environment_profile,omitempty"`
	EnrollmentTokenFile string `yaml:"enrollment_token_file,omitempty"`
	GPUs                *int   `yaml:"gpus,omitempty"` // expected number; absent: unknown
}

// SeedAllocation is one allocation.
type SeedAllocation struct {
	ID         string  `yaml:"id"`
	NodeID     string  `yaml:"node_id"`
	State      string  `yaml:"state"`
	OSUser     string  `yaml:"os_user"`
	WorkflowID string  `yaml:"workflow_id,omitempty"`
	App        SeedApp `yaml:"app,omitempty"`
}

// SeedApp is an allocation's workload.
type SeedApp struct {
	Kind       string `yaml:"kind,omitempty"`
	Unit       string `yaml:"unit,omitempty"`
	Port       int    `yaml:"port,omitempty"`
	ProductURL string `yaml:"product_url,omitempty"`
}

// LoadSeed reads and checks a seed file.
func LoadSeed(path string) (Seed, error) {
	var s Seed
	if err := readYAML(path, &s); err != nil {
		return Seed{}, err
	}
	if err := s.check(); err != nil {
		return Seed{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (s Seed) check() error {
	var errs []error
	for i, n := range s.Nodes {
		if n.GPUs != nil && *n.GPUs < 0 {
			errs = append(errs, fmt.Errorf("nodes[%d].gpus must not be negative", i))
		}
		if n.ID == "" || strings.ContainsAny(n.ID, "/ \t") {
			errs = append(errs, fmt.Errorf("nodes[%d].id must be a word", i))
		}
	}
	for i, a := range s.Allocations {
		if a.ID == "" || a.NodeID == "" || a.OSUser == "" {
			errs = append(errs, fmt.Errorf("allocations[%d] needs id, node_id and os_user", i))
		}
		if !slices.Contains(store.AllocationStates[:], a.State) {
			errs = append(errs, fmt.Errorf("allocations[%d].state %q is not one of %s", i, a.State,
				strings.Join(store.AllocationStates[:], ", ")))
		}
	}
	return errors.Join(errs...)
}

// readYAML reads one strict YAML document; every error names the file and, if known, the line.
func readYAML(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	doc, err := strictyaml.Parse(path, b)
	if err != nil {
		return err
	}
	return doc.Error(doc.Decode(v))
}
