package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/tenant"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// Keys of the agent's environment.
const (
	KeyAPIURL            = "GPUAAS_API_URL"
	KeyTerminalURL       = "GPUAAS_TERMINAL_API_URL"
	KeyNodeID            = "GPUAAS_NODE_ID"
	KeyToken             = "GPUAAS_ENROLLMENT_TOKEN"
	KeyTaskPubkeys       = "GPUAAS_TASK_SIGNING_PUBKEYS"
	KeyHeartbeatInterval = "GPUAAS_HEARTBEAT_INTERVAL"
	KeyTaskWait          = "GPUAAS_TASK_WAIT"
	KeyRecoveryURL       = "GPUAAS_RECOVERY_API_URL"
	KeyRecoveryCA        = "GPUAAS_RECOVERY_CA_BUNDLE_PATH"
	KeyProfile           = "GPUAAS_ENVIRONMENT_PROFILE"
	KeyMetricsFile       = "GPUAAS_METRICS_FILE"
	KeyTenantUIDMin      = "GPUAAS_TENANT_UID_MIN"
	KeyTerminalMinUID    = "GPUAAS_TERMINAL_MIN_UID"
)

// Defaults are the catalogue's policy.
const (
	DefaultHeartbeatInterval = 15 * time.Second
	DefaultTaskWait          = 25 * time.Second
	DefaultTerminalMinUID    = 1000 // below are the system's own logins
	DefaultDir               = "/etc/gpuaas"
	DefaultStateDir          = "/var/lib/gpuaas"
	DefaultMirrorDir         = "/run/gpuaas"
)

// Config is what an agent needs to know. The zero value of an optional field has the default of its comment.
type Config struct {
	NodeID      string
	APIURL      *url.URL // https
	TerminalURL *url.URL // https; nil: terminal.open fails
	Token       diag.Secret
	Verifiers   wire.Verifiers // none: every task is refused

	// TerminalMinUID is the lowest user id that gets a terminal, DefaultTerminalMinUID in production; 0 lets root have one.
	TerminalMinUID uint32

	// The recovery trust path: where enrollment is asked for when the runtime's own endpoint or trust has drifted.
	RecoveryURL *url.URL // default: APIURL
	RecoveryCA  string   // PEM file; default: the runtime's trust bundle
	Profile     string   // environment profile; "": what the last enrollment said

	Dir         string  // credentials; default /etc/gpuaas
	EnvFile     string  // where the token is read again when it changed; default agent.env in Dir
	StateDir    string  // what must survive a restart; default /var/lib/gpuaas, beside another Dir its folder state
	MirrorDir   string  // where that is kept when the disk takes nothing; default /run/gpuaas, none beside another Dir
	MetricsFile string  // Prometheus text for node_exporter's textfile collector; "": none
	Reserve     Reserve // disk space for a certificate on a full disk; default: the recorder's, if it has one

	TenantUIDMin uint32 // lowest user id whose processes a clean-up ends; default and least 1000

	HeartbeatInterval time.Duration // default 15 s
	TaskWait          time.Duration // default 25 s

	Version  string
	Log      *slog.Logger // default: nothing is logged
	Recorder Recorder     // default: the log
	Boot     *Boot        // journal of builds and outbox; nil: no self-update, and no events

	// Dial replaces the network dialer, for tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// FromEnv reads the agent's configuration. An error names every key that is wrong, and never a value that is secret.
func FromEnv(get func(string) string) (Config, error) {
	var errs []error
	c := Config{NodeID: get(KeyNodeID), Token: diag.NewSecret(get(KeyToken))}
	if c.NodeID == "" {
		errs = append(errs, fmt.Errorf("%s is not set", KeyNodeID))
	}
	c.APIURL = httpsURL(get, KeyAPIURL, true, &errs)
	c.TerminalURL = httpsURL(get, KeyTerminalURL, false, &errs)
	c.RecoveryURL = httpsURL(get, KeyRecoveryURL, false, &errs)
	c.RecoveryCA, c.Profile, c.MetricsFile = get(KeyRecoveryCA), get(KeyProfile), get(KeyMetricsFile)
	c.HeartbeatInterval = duration(get, KeyHeartbeatInterval, &errs)
	c.TaskWait = duration(get, KeyTaskWait, &errs)
	c.TenantUIDMin = userID(get, KeyTenantUIDMin, &errs)
	c.TerminalMinUID = minUID(get, &errs)
	verifiers, err := wire.ParseVerifiers(get(KeyTaskPubkeys))
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", KeyTaskPubkeys, err))
	}
	c.Verifiers = verifiers
	return c, errors.Join(errs...)
}

func httpsURL(get func(string) string, key string, required bool, errs *[]error) *url.URL {
	v := strings.TrimRight(get(key), "/")
	if v == "" {
		if required {
			*errs = append(*errs, fmt.Errorf("%s is not set", key))
		}
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		*errs = append(*errs, fmt.Errorf("%s: want an https URL", key))
		return nil
	}
	return u
}

func minUID(get func(string) string, errs *[]error) uint32 {
	v := get(KeyTerminalMinUID)
	if v == "" {
		return DefaultTerminalMinUID
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		*errs = append(*errs, fmt.Errorf("%s: want a user id, like 1000, not %q", KeyTerminalMinUID, v))
	}
	return uint32(n)
}

func duration(get func(string) string, key string, errs *[]error) time.Duration {
	v := get(key)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 100*time.Millisecond || d > time.Hour {
		*errs = append(*errs, fmt.Errorf("%s: want a duration from 100ms to 1h, like 15s, not %q", key, v))
		return 0
	}
	return d
}

// userID reads the lowest user id of a tenant. One below the system users' bound is refused.
func userID(get func(string) string, key string, errs *[]error) uint32 {
	v := get(key)
	if v == "" {
		return 0
	}
	id, err := strconv.ParseUint(v, 10, 32)
	if err != nil || id < tenant.FirstUID {
		*errs = append(*errs, fmt.Errorf("%s: want a user id of at least %d, not %q", key, tenant.FirstUID, v))
		return 0
	}
	return uint32(id)
}

func (c Config) withDefaults() Config {
	c = c.withFolders()
	if c.HeartbeatInterval == 0 {
		c.HeartbeatInterval = DefaultHeartbeatInterval
	}
	if c.TaskWait == 0 {
		c.TaskWait = DefaultTaskWait
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Recorder == nil {
		c.Recorder = LogRecorder{c.Log}
	}
	if reserve, ok := c.Recorder.(Reserve); ok && c.Reserve == nil {
		c.Reserve = reserve
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return c
}

// withFolders fills in where things lie. An agent with a folder of its own keeps everything in there.
func (c Config) withFolders() Config {
	if c.Dir == "" {
		c.Dir = DefaultDir
	}
	state, mirror := DefaultStateDir, DefaultMirrorDir
	if c.Dir != DefaultDir {
		state, mirror = filepath.Join(c.Dir, "state"), ""
	}
	if c.StateDir == "" {
		c.StateDir = state
	}
	if c.MirrorDir == "" {
		c.MirrorDir = mirror
	}
	if c.EnvFile == "" {
		c.EnvFile = filepath.Join(c.Dir, "agent.env")
	}
	return c
}

// logAttrs describes the configuration; secrets as presence.
func (c Config) logAttrs() []slog.Attr {
	token := "absent"
	if !c.Token.IsZero() {
		token = "present"
	}
	terminal := ""
	if c.TerminalURL != nil {
		terminal = c.TerminalURL.String()
	}
	return []slog.Attr{
		slog.String("version", c.Version), slog.String("node_id", c.NodeID), slog.String("api_url", c.APIURL.String()),
		slog.String("terminal_url", terminal), slog.String("dir", c.Dir), slog.String("enrollment_token", token),
		slog.String("environment_profile", c.Profile), slog.Bool("recovery_path", c.RecoveryURL != nil || c.RecoveryCA != ""),
		slog.Int("task_signing_keys", len(c.Verifiers)), slog.Duration("heartbeat_interval", c.HeartbeatInterval),
		slog.Duration("task_wait", c.TaskWait),
	}
}
