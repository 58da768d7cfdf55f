package agent

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/gpu"
	"github.com/gpuaas/gpuaasctl/agent/tenant"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
)

// Run runs one agent until ctx is done, and returns once everything that it started has ended. It returns an error
// only if the agent could not start.
func Run(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if cfg.NodeID == "" || cfg.APIURL == nil {
		return fmt.Errorf("start the agent: %s and %s must be known", KeyNodeID, KeyAPIURL)
	}
	r := newRuntime(cfg)
	cfg.Log.LogAttrs(ctx, slog.LevelInfo, "agent starts", cfg.logAttrs()...)
	if len(cfg.Verifiers) == 0 {
		cfg.Log.Warn("no task signing key is known: every task will be refused", "key", KeyTaskPubkeys)
	}
	r.prepare()
	defer r.watchGPUs()()
	r.loop(ctx, State{
		NodeID: cfg.NodeID, Interval: cfg.HeartbeatInterval, Grace: cfg.grace, APIURL: cfg.APIURL.String(),
		Profile:   cfg.Profile,
		Verifiers: cfg.Verifiers, Hold: cfg.Boot.hold(), Ledger: r.ledger.load(time.Now()),
	})
	return nil
}

// watchGPUs watches this node's GPUs in the background, if that is configured. It returns a function that stops
// the watch.
func (r *runtime) watchGPUs() (stop func()) {
	if r.cfg.GPUProbe == "" || r.cfg.Boot == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		gpu.Run(ctx, gpu.Config{Probe: r.cfg.GPUProbe, KernelLog: r.cfg.KernelLog, Interval: r.cfg.GPUInterval,
			Out: r.cfg.Boot.out, Log: r.cfg.Log, Disk: durable.Dir{Root: filepath.Join(r.cfg.StateDir, "agent")}})
	})
	return func() { cancel(); wg.Wait() }
}

// runtime executes effects. Only loop uses timers; everything else runs in goroutines that wg counts.
type runtime struct {
	cfg      Config
	creds    credentials
	api      *api
	term     *http.Transport // for node streams: it follows no redirect, which would send the node's identity elsewhere
	node     identity
	ledger   ledgerFile
	sessions sessions // terminals that are open or being opened
	envSeen  string   // stamp of the environment file when the process was given its environment
	shown    string   // the metrics file's text as last written

	began  time.Time
	events chan What
	over   chan struct{} // closed once events are no longer read
	timers map[Timer]time.Time
	wg     sync.WaitGroup

	work, posts             context.Context // canceled by CancelWork; canceled only by Exit
	cancelWork, cancelPosts context.CancelFunc
}

// identity holds the values that do not change while the agent runs.
type identity struct{ instance, boot, host string }

func newRuntime(cfg Config) *runtime {
	creds := credentialsIn(cfg.Dir)
	node := identity{instance: firstLine("/etc/machine-id"), boot: firstLine("/proc/sys/kernel/random/boot_id")}
	r := &runtime{
		cfg: cfg, creds: creds, api: newAPI(cfg, creds, node.instance), node: node, envSeen: stamp(cfg.EnvFile),
		ledger: ledgerFile{dir: cfg.StateDir, mirror: cfg.MirrorDir},
		term:   dialer{creds: creds, bundle: creds.Path(fileBundle), dial: cfg.Dial}.transport(false),

		began: time.Now(), events: make(chan What), over: make(chan struct{}), timers: map[Timer]time.Time{},
	}
	r.node.host, _ = os.Hostname()
	r.work, r.cancelWork = context.WithCancel(context.Background())
	r.posts, r.cancelPosts = context.WithCancel(context.Background())
	return r
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// loop feeds events to Step and executes its effects until an Exit.
func (r *runtime) loop(ctx context.Context, s State) {
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	stop := ctx.Done()
	for what := What(Started{}); ; {
		exited := false
		s, exited = r.turn(s, what)
		if exited {
			break
		}
		alarm.Reset(r.untilNext())
		select {
		case what = <-r.events:
		case <-alarm.C:
			what = r.due()
		case <-stop:
			stop, what = nil, Shutdown{Why: context.Cause(ctx).Error()}
		}
	}
	close(r.over)
	r.cancelWork()
	r.cancelPosts()
	r.wg.Wait()
	r.ended()
	r.api.close()
}

// prepare brings the credentials into the layout that this build expects: it makes a first generation of plain
// files, and completes an interrupted switch. A failure is reported, and the agent continues with the existing
// files.
func (r *runtime) prepare() {
	if err := tenant.StopAllSessions(context.Background()); err != nil { // of an agent that was killed
		r.cfg.Log.Error("terminal sessions of an earlier agent may live on", "error", scrubbed(err))
	}
	if did, err := r.creds.Migrate(); err != nil {
		r.cfg.Log.Error("the credentials stay as they are", "error", scrubbed(err))
	} else if did {
		r.cfg.Log.Info("the credentials are generations now", "dir", r.cfg.Dir)
	}
	if name, err := r.creds.CompleteEnrollment(good(r.cfg.NodeID, time.Now())); err != nil {
		r.cfg.Log.Error("a credential generation could not be finished", "error", scrubbed(err))
	} else if name != "" {
		r.cfg.Log.Info("a credential generation was finished", "generation", name)
	}
}

// turn stamps one event, calls Step and executes its effects. A nil what is ignored.
func (r *runtime) turn(s State, what What) (State, bool) {
	if what == nil {
		return s, false
	}
	s, effects := Step(s, Event{At: time.Since(r.began), Wall: time.Now(), Roll: rand.Float64(),
		Files: fingerprint(r.cfg, r.creds), What: what})
	for _, e := range effects {
		if _, ok := e.(Exit); ok {
			return s, true
		}
		r.execute(e)
	}
	return s, false
}

func (r *runtime) untilNext() time.Duration {
	next := time.Now().Add(time.Hour)
	for _, at := range r.timers {
		if at.Before(next) {
			next = at
		}
	}
	return max(0, time.Until(next))
}

// due removes and returns one expired timer, or returns nil.
func (r *runtime) due() What {
	now := time.Now()
	for timer, at := range r.timers {
		if !at.After(now) {
			delete(r.timers, timer)
			return TimerFired{timer}
		}
	}
	return nil
}

// background runs f in a goroutine that loop waits for, and feeds its event back.
func (r *runtime) background(f func() What) {
	r.wg.Go(func() { r.feed(f()) })
}

func (r *runtime) feed(what What) {
	select {
	case r.events <- what:
	case <-r.over:
	}
}

func (r *runtime) execute(e Effect) {
	switch e := e.(type) {
	case SetTimer:
		r.timers[e.Timer] = time.Now().Add(e.In)
	case Record:
		r.publish(e.Decision)
		if err := r.cfg.Recorder.Record(e.Decision); err != nil {
			r.cfg.Log.Error("a decision could not be recorded", "reason", diag.RecRecordDegraded, "error", err)
		}
	case Log:
		r.cfg.Log.LogAttrs(r.work, e.Level, e.Message, e.Attrs...)
	case SaveLedger:
		reserve := r.cfg.Reserve
		if e.Counts {
			reserve = nil
		}
		if err := r.ledger.save(e.Ledger, reserve); err != nil {
			r.cfg.Log.Error("the recovery ledger could not be kept", "error", scrubbed(err))
		}
	case WriteMetrics:
		r.showMetrics(e)
	case CheckIdentity:
		r.background(func() What { return IdentityChecked{selfCheck(r.cfg, r.creds, r.token())} })
	case AskClock:
		r.background(func() What { return ClockAsked{r.askClock()} })
	case FallBack:
		r.background(func() What { return FellBack{r.fallBack()} })
	case Enroll:
		r.enroll(e)
	case SendHeartbeat:
		r.background(func() What {
			o, skew, w := r.api.heartbeat(r.work, r.heartbeat(e))
			r.answered(o, w)
			r.contact(o)
			return HeartbeatDone{Outcome: o, Skew: skew, Challenge: w.Challenge, EchoNow: w.EchoNow}
		})
	case WaitTask:
		r.background(func() What {
			o, task, more := r.api.wait(r.work, r.cfg.TaskWait, e.Most)
			r.observe(wire.ProbeTaskWait, o)
			return WaitDone{Outcome: o, Task: task, More: more}
		})
	case RunTask:
		r.wg.Go(func() { r.runTask(e.Task) })
	case PostResult:
		r.background(func() What { return ResultPosted{TaskID: e.TaskID, Outcome: r.api.result(r.posts, e)} })
	case EndSessions:
		r.sessions.endAll(e.Why)
	case CancelWork:
		r.cancelWork()
	}
}

// heartbeat builds the heartbeat request from the node's current state.
func (r *runtime) heartbeat(e SendHeartbeat) wire.HeartbeatRequest {
	_, meta, _ := r.creds.Current()
	h := wire.HeartbeatRequest{
		NodeInstanceID: r.node.instance, BootID: r.node.boot, AgentVersion: r.cfg.Version, APIURL: r.cfg.APIURL.String(),
		Generation: meta.Generation, Posture: e.Posture, Profile: e.Profile, Hostname: r.node.host, Addresses: addresses(),
		At: time.Now().UTC(), Counters: e.Counters, Record: r.recordSummary(),
		Boot: r.bootReport(), Challenge: e.Challenge,
	}
	if pair, err := r.creds.Pair(); err == nil {
		h.CertSerial = pair.Leaf.SerialNumber.Text(16)
		h.CertIssuer, _ = issuer(pair, r.creds.Path(fileBundle))
	}
	if r.cfg.TerminalURL != nil {
		h.TerminalURL = r.cfg.TerminalURL.String()
	}
	return h
}

// addresses returns this node's own addresses, without loopback and link-local ones. It returns none unless the
// agent is known to run in the machine's network namespace: another namespace has other addresses.
func addresses() []string {
	if !hostprobe.InMachinesNetwork() {
		return nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}
