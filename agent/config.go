package agent

import (
	"cmp"
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

	"github.com/gpuaas/gpuaasctl/agent/terminal"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
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
	keyTerminalMinUID    = "GPUAAS_TERMINAL_MIN_UID" // the older name of KeyTenantUIDMin
	KeyTerminalTasks     = "GPUAAS_TERMINAL_TASKS_MAX"
	KeyTerminalMemory    = "GPUAAS_TERMINAL_MEMORY_MAX"
	KeyTerminalCPU       = "GPUAAS_TERMINAL_CPU_WEIGHT"
	KeyGPUProbe          = "GPUAAS_GPU_PROBE"
	KeyGPUKernelLog      = "GPUAAS_GPU_KERNEL_LOG"
	KeyGPUInterval       = "GPUAAS_GPU_INTERVAL"
)

// Defaults are the catalogue's policy.
const (
	DefaultHeartbeatInterval = 15 * time.Second
	DefaultTaskWait          = 25 * time.Second
	DefaultDir               = "/etc/gpuaas"
	DefaultStateDir          = "/var/lib/gpuaas"
	DefaultMirrorDir         = "/run/gpuaas"
)

// Config is the agent's configuration. The zero value of an optional field means the default in its comment.
type Config struct {
	NodeID      string
	APIURL      *url.URL // https
	TerminalURL *url.URL // https; nil: terminal.open fails
	Token       diag.Secret
	Verifiers   wire.Verifiers // none: every task is refused

	TerminalLimits terminal.Limits // of each session's unit; default terminal.DefaultLimits

	// The recovery trust path: where the agent enrolls if the runtime's own endpoint or trust has drifted.
	RecoveryURL *url.URL // default: APIURL
	RecoveryCA  string   // PEM file; default: the runtime's trust bundle
	Profile     string   // environment profile; "": from the last enrollment

	Dir         string  // credentials; default /etc/gpuaas
	EnvFile     string  // from which a changed token is read again; default agent.env in Dir
	StateDir    string  // state that must survive a restart; default /var/lib/gpuaas, or the folder state in another Dir
	MirrorDir   string  // copy of that state for a full disk; default /run/gpuaas, none with another Dir
	GPUProbe    string  // path of gpuaas-gpu-probe; "": this node's GPUs and kernel log are not watched
	KernelLog   string  // where GPUs' errors are read; default /dev/kmsg
	MetricsFile string  // Prometheus text for node_exporter's textfile collector; "": none
	Reserve     Reserve // reserved disk space for a certificate on a full disk; default: the recorder's, if it has one

	// TenantUIDMin is the lowest user id of a tenant: a lower id gets no terminal, and 0 allows even root. A
	// cleanup never kills a process of an id under 1000, whatever this is.
	TenantUIDMin uint32

	HeartbeatInterval time.Duration // default 15 s
	TaskWait          time.Duration // default 25 s
	GPUInterval       time.Duration // between two samples of GPUs; default 15 s

	Version  string
	Log      *slog.Logger // default: nothing is logged
	Recorder Recorder     // default: the log
	Boot     *Boot        // journal of builds and outbox; nil: no self-update, and no events

	// Dial replaces the network dialer, for tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	grace time.Duration // how long a stop waits for work in progress, for tests; default stopGrace
}

const maxGPUInterval = 15 * time.Second

// FromEnv reads the agent's configuration. Its error names every invalid key, and never the value of a secret.
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
	c.GPUProbe, c.KernelLog = get(KeyGPUProbe), get(KeyGPUKernelLog)
	for _, f := range [...]struct{ key, path string }{{KeyGPUProbe, c.GPUProbe}, {KeyGPUKernelLog, c.KernelLog}} {
		if f.path != "" && !filepath.IsAbs(f.path) {
			errs = append(errs, fmt.Errorf("%s: want an absolute path", f.key))
		}
	}
	c.HeartbeatInterval = duration(get, KeyHeartbeatInterval, &errs)
	c.TaskWait = duration(get, KeyTaskWait, &errs)
	if c.GPUInterval = duration(get, KeyGPUInterval, &errs); c.GPUInterval > maxGPUInterval {
		errs = append(errs, fmt.Errorf("%s: want at most %s: a platform calls a GPU unknown that it hears of too seldom",
			KeyGPUInterval, maxGPUInterval))
	}
	c.TenantUIDMin = tenantUIDMin(get, &errs)
	c.TerminalLimits = terminalLimits(get, &errs)
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

// terminalLimits reads the limits of a session. It rejects a value that systemd would reject, since that would
// refuse every terminal.
func terminalLimits(get func(string) string, errs *[]error) terminal.Limits {
	limits := terminal.DefaultLimits()
	for _, k := range [...]struct {
		key, units string // that may follow the number
		most       uint64 // the number, by itself
		want       string
		into       *string
	}{
		{KeyTerminalTasks, "", 1 << 22, "a number of processes, like 4096, or infinity", &limits.TasksMax},
		{KeyTerminalMemory, "KMGT%", 1 << 50, "bytes, like 64G, a share of the memory, like 80%, or infinity",
			&limits.MemoryMax},
		{KeyTerminalCPU, "", 10000, "a weight from 1 to 10000", &limits.CPUWeight},
	} {
		v := get(k.key)
		number, unit := v, ""
		if n := len(v) - 1; n > 0 && strings.IndexByte(k.units, v[n]) >= 0 {
			number, unit = v[:n], v[n:]
		}
		n, err := strconv.ParseUint(number, 10, 64)
		counts := err == nil && 0 < n && n <= k.most && (unit != "%" || n <= 100)
		endless := v == "infinity" && k.key != KeyTerminalCPU
		switch {
		case v == "":
		case !counts && !endless:
			*errs = append(*errs, fmt.Errorf("%s: want %s, not %q", k.key, k.want, v))
		default:
			*k.into = v
		}
	}
	return limits
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

// tenantUIDMin reads the lowest user id of a tenant from its key and its older key. If both are set, the greater
// value wins: neither key may allow what the other denies.
func tenantUIDMin(get func(string) string, errs *[]error) uint32 {
	least, given := uint64(0), false
	for _, key := range [...]string{KeyTenantUIDMin, keyTerminalMinUID} {
		v := get(key)
		if v == "" {
			continue
		}
		id, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s: want a user id, like %d, not %q", key, host.FirstTenant, v))
		}
		least, given = max(least, id), true
	}
	if !given {
		return host.FirstTenant
	}
	return uint32(least)
}

func (c Config) withDefaults() Config {
	c = c.withFolders()
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, DefaultHeartbeatInterval)
	c.TaskWait = cmp.Or(c.TaskWait, DefaultTaskWait)
	c.grace = cmp.Or(c.grace, stopGrace)
	if c.TerminalLimits == (terminal.Limits{}) {
		c.TerminalLimits = terminal.DefaultLimits()
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
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

// withFolders fills in the default paths. An agent with a non-default Dir keeps everything below it.
func (c Config) withFolders() Config {
	c.Dir = cmp.Or(c.Dir, DefaultDir)
	state, mirror := DefaultStateDir, DefaultMirrorDir
	if c.Dir != DefaultDir {
		state, mirror = filepath.Join(c.Dir, "state"), ""
	}
	c.StateDir = cmp.Or(c.StateDir, state)
	c.MirrorDir = cmp.Or(c.MirrorDir, mirror)
	c.EnvFile = cmp.Or(c.EnvFile, filepath.Join(c.Dir, "agent.env"))
	return c
}

// logAttrs describes the configuration for the log. Of a secret it shows only whether it is set.
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
