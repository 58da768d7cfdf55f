//go:build linux

package inprocess

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/agent"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
)

const (
	nodeID = platformtest.NodeID
	alloc  = platformtest.AllocationID

	// heartbeatEvery is short, so that a world is soon ready; staleAfter tolerates a machine that is busy with
	// other tests.
	heartbeatEvery = "250ms"
	staleAfter     = 20
	// streamTimeout is the gateway's timeout, in seconds: it also tolerates a busy machine, and is shorter than a
	// walk's own. shortStream is for a world without a stream, whose session takes that long, however busy the machine.
	streamTimeout, shortStream = 20, 2
)

// options change a world before it starts; the zero value is a healthy world.
type options struct {
	platform func(*platformtest.Options)
	nodeEnv  func(w *world, env map[string]string) // of the agent's main process, as the probe reads it
	profile  func(*profile.Profile)
	yaml     string // appended to the profile's file
	osUser   string // default login
	ssh      sshtest.Config
	process  bool // the node's helper is a process, started by the login's shell, see helperHere
	noAgent  bool
	noStream bool   // no stream of the node comes
	front    *relay // between browsers and the terminal's edge
	back     *relay // between the node and its terminal listener
}

func (o options) streamTimeout() int64 {
	if o.noStream {
		return shortStream
	}
	return streamTimeout
}

// world is a platform, a node and a workload, and the operator's profile of them.
type world struct {
	t        testing.TB
	platform *platformtest.Platform
	redis    *miniredis.Miniredis
	ssh      *sshtest.Server
	dir      string // the agent's credentials, as /etc/gpuaas
	agent    unit
	helpers  string // the operator's folder of programs for nodes
	workload unit
	profile  string // path of the file
	cookie   string
	stop     func() // the agent

	agentLog, platformLog *logtest.Log
}

// start starts a world and waits until the platform has received a heartbeat. It ends with the test.
func start(t testing.TB, o options) *world {
	t.Helper()
	begin(t)
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	w := &world{t: t, redis: miniredis.RunT(t), dir: filepath.Join(t.TempDir(), "gpuaas"),
		cookie: "sid=canary-cookie-" + hex.EncodeToString(id), agentLog: &logtest.Log{}, platformLog: &logtest.Log{}}
	name := hex.EncodeToString(id)
	w.workload = unit{name: "gpuaas-app-" + name + ".service", program: "/usr/local/bin/workload",
		envFile: "/etc/workload.env", pid: os.Getpid()}
	w.workload.run(t, "active/running")
	w.startPlatform(o)
	if !o.process {
		o.ssh.Run = helperHere
	}
	w.ssh = sshtest.Start(t, o.ssh)
	w.startAgent(name, o)
	o.front.listen(t, w.platform.TerminalBase)
	w.writeProfile(o)
	if !o.noAgent {
		w.awaitHeartbeat()
	}
	return w
}

func (w *world) startPlatform(o options) {
	w.t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(rw, "workload")
	}))
	w.t.Cleanup(app.Close)
	addr := strings.TrimPrefix(app.URL, "http://")
	_, port, _ := strings.Cut(addr, ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		w.t.Fatal(err)
	}
	user := login
	if o.osUser != "" {
		user = o.osUser
	}
	opts := platformtest.Options{
		Redis: w.redis.Addr(), Log: w.platformLog, Workload: addr,
		Nodes: []platform.SeedNode{{ID: nodeID, Hostname: nodeID, PrivateIP: "127.0.0.1", ProviderClass: "test"}},
		Allocations: []platform.SeedAllocation{{ID: alloc, NodeID: nodeID, State: "active", OSUser: user, WorkflowID: "wf-01",
			App: platform.SeedApp{Kind: "service", Unit: w.workload.name, Port: number}}},
		Config: func(c *platform.Config) {
			c.Policy.HeartbeatStaleAfter, c.Policy.NodeStreamTimeout = staleAfter, o.streamTimeout()
			c.Endpoints.TerminalURL = o.back.listen(w.t, c.Endpoints.TerminalURL)
		},
	}
	if o.platform != nil {
		o.platform(&opts)
	}
	w.platform = platformtest.StartPlatform(w.t, opts)
}

// startAgent runs the real agent in this process, and adds its unit to the fake systemd.
func (w *world) startAgent(name string, o options) {
	w.t.Helper()
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	p := w.platform
	if err := os.WriteFile(filepath.Join(w.dir, "ca-bundle.crt"), []byte(p.CAPEM), 0o644); err != nil {
		w.t.Fatal(err)
	}
	env := map[string]string{
		agent.KeyAPIURL: p.NodeAPIURL, agent.KeyTerminalURL: o.back.to(p.NodeTerminalURL), agent.KeyNodeID: nodeID,
		agent.KeyToken: p.EnrollmentToken(nodeID).Reveal(), agent.KeyTaskPubkeys: p.TaskPubkeys,
		agent.KeyHeartbeatInterval: heartbeatEvery, agent.KeyTaskWait: "2s",
		agent.KeyTenantUIDMin: "0", // the made-up login has this process's own id
	}
	if !o.noAgent {
		w.runAgent(env)
	}
	if o.nodeEnv != nil {
		o.nodeEnv(w, env)
	}
	var lines []string
	for k, v := range env {
		lines = append(lines, k+"="+v)
	}
	envFile := filepath.Join(w.t.TempDir(), "agent.env")
	if err := os.WriteFile(envFile, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.helpers = w.t.TempDir()
	installAgent(w.t, w.helpers)
	w.agent = unit{name: "gpuaas-agent-" + name + ".service", program: installAgent(w.t, w.t.TempDir()), envFile: envFile,
		pid: mainProcess(w.t, lines)}
	w.agent.run(w.t, "active/running")
}

func (w *world) runAgent(env map[string]string) {
	w.t.Helper()
	cfg, err := agent.FromEnv(func(key string) string { return env[key] })
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.Dir, cfg.Version = w.dir, sshtest.Version
	cfg.Log = slog.New(slog.NewJSONHandler(w.agentLog, nil))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, cfg) }()
	w.stop = cancel
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the agent: %v", err)
		}
	})
}

// writeProfile writes what an operator knows of this world.
func (w *world) writeProfile(o options) {
	w.t.Helper()
	dir := w.t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
		return path
	}
	p := profile.Profile{
		Kind: profile.KindGPUaaS, APIBase: w.platform.APIBase, TerminalBase: o.front.to(w.platform.TerminalBase),
		NodeRuntimeAPIURL: w.platform.NodeAPIURL, NodeTerminalURL: o.back.to(w.platform.NodeTerminalURL),
		Nodes: map[string]profile.Node{nodeID: {Host: w.ssh.Host}}, SSH: w.ssh.Login(w.t),
		Auth:  profile.Auth{TokenFile: w.platform.OperatorTokenFile, EdgeCookieFile: write("cookie", w.cookie+"\n")},
		Trust: profile.Trust{OperatorCA: w.platform.CAFile, NodeCA: w.platform.CAFile},
		Agent: profile.Agent{Unit: w.agent.name, EnvFile: w.agent.envFile, Dir: w.dir, Binary: w.agent.program,
			Record: w.t.TempDir()},
		Policy: map[string]int64{profile.PolicyHeartbeatStaleAfter: staleAfter,
			profile.PolicyNodeStreamTimeout: o.streamTimeout()},
	}
	p.Budgets = patient()
	if o.profile != nil {
		o.profile(&p)
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	w.profile = write("world.yaml", string(text)+o.yaml)
}

// patient multiplies the budget of every hop: a walk shares its machine with its node, its platform and other
// worlds, whose late responses are not findings. A test that needs a timeout shortens it.
func patient() map[diag.HopID]time.Duration {
	all := map[diag.HopID]time.Duration{}
	for _, h := range hops.BuiltIn().List() {
		all[h.ID] = min(5*h.Budget, time.Minute)
	}
	return all
}

// awaitHeartbeat returns when the platform has received the agent's heartbeat, over mTLS with the enrolled
// certificate.
func (w *world) awaitHeartbeat() {
	w.t.Helper()
	if !await(w.t.Context(), time.Minute, func() bool {
		var n struct {
			Agent struct {
				LastSeenAt diag.Time `json:"last_seen_at"`
			} `json:"agent"`
		}
		w.platform.Do(http.MethodGet, "/v1/admin/nodes/"+nodeID, nil, &n)
		return !n.Agent.LastSeenAt.IsZero()
	}) {
		w.t.Fatalf("the platform never heard the agent:\n%s", w.agentLog)
	}
}

// loseRedis stops the session store: its port refuses.
func (w *world) loseRedis(t *testing.T) {
	t.Helper()
	at := w.redis.Addr()
	w.redis.Close()
	porttest.Keep(t, at)
}

// credential replaces the agent's credential.
func (w *world) credential(c platformtest.Credential) {
	w.t.Helper()
	for name, from := range map[string]string{"cert.pem": c.CertFile, "key.pem": c.KeyFile} {
		b, err := os.ReadFile(from)
		if err != nil {
			w.t.Fatal(err)
		}
		tmp := filepath.Join(w.dir, "."+name)
		if err := os.WriteFile(tmp, b, 0o600); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(w.dir, name)); err != nil {
			w.t.Fatal(err)
		}
	}
}
