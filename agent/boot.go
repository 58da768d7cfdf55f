package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/outbox"
	"github.com/gpuaas/gpuaasctl/agent/update"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/wire"
)

// KeyLauncher names the installed program that has started a committed build; without it a process is that program.
const KeyLauncher = "GPUAAS_AGENT_LAUNCHER"

// Boot is what a process found when it started: which build it is, the journal that made it so, and the events that
// are not delivered yet.
type Boot struct {
	Running wire.Build
	Hold    string // why this node takes no work

	launcher string // path of the installed program
	boot     string // id of the host's boot
	envFile  string // the agent's environment
	envSeen  string // its stamp when this process was given its environment
	exec     func(path string, args, env []string) error
	keeper   *update.Keeper
	out      *outbox.Outbox
	packages update.Packages
	log      *slog.Logger
	recorder Recorder

	mu        sync.Mutex        // guards restart and env
	restart   string            // why the process ends only to start again
	env       map[string]string // what an update changed in the environment file
	working   sync.Mutex        // held while an update is carried out
	sending   sync.Mutex        // held while events are sent
	sendAfter time.Time         // when the platform takes events again; guarded by sending
	heard     atomic.Bool       // a heartbeat of this process was answered
}

// OpenBoot reads the journal and the outbox in the state folder and decides which build is to run. It returns in the
// process that is to be the agent: where that is another build, it has replaced this process by it. It never fails for
// want of a disk: the installed program runs, and reports what it could not keep.
func OpenBoot(cfg Config, getenv func(string) string) (*Boot, error) {
	cfg = cfg.withDefaults()
	d := durable.Dir{Root: filepath.Join(cfg.StateDir, "agent")}
	b := openBoot(d, cfg.Log, cfg.Recorder)
	b.envFile, b.envSeen = cfg.EnvFile, stamp(cfg.EnvFile)
	var err error
	if b.launcher = getenv(KeyLauncher); b.launcher != "" { // the launcher has hashed this build and written it down
		b.Running = wire.Build{Version: cfg.Version}
		if run := b.keeper.Journal().Run; run != nil {
			b.Running.SHA256 = run.SHA256
		}
		return b, nil
	}
	if b.launcher, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find the installed program: %w", err)
	}
	sha, err := update.Digest(b.launcher)
	if err != nil {
		return nil, err
	}
	b.launch(wire.Build{Version: cfg.Version, SHA256: sha}, cfg.Verifiers)
	return b, nil
}

// openBoot reads what lies on the disk.
func openBoot(d durable.Dir, log *slog.Logger, recorder Recorder) *Boot {
	b := &Boot{packages: update.Packages{Disk: d}, log: log, recorder: recorder, env: map[string]string{},
		boot: firstLine("/proc/sys/kernel/random/boot_id"), exec: syscall.Exec}
	var err error
	if b.out, err = outbox.Open(d); err != nil {
		b.degraded("events are kept in memory alone", err)
	}
	if b.keeper, err = update.Open(d, b.tell); err != nil {
		b.degraded("the update journal", err)
		if b.keeper == nil {
			b.keeper = update.Unreadable(err)
		}
	}
	return b
}

// launch starts the build that is to run, which is this process where that is the installed one.
func (b *Boot) launch(self wire.Build, keys wire.Verifiers) {
	host := update.Host{Boot: b.boot, Keys: keys, Material: keys.Version(), Check: b.packages.Check}
	if sha, err := update.Digest(b.envFile); err == nil { // a bundle always brings another token
		host.Material += " " + sha
	}
	b.Running = self
	for {
		var start update.Start
		_, err := b.keeper.Do(func(j update.Journal) update.Journal {
			j, start = update.Launch(j, self, host, time.Now())
			return j
		})
		if err != nil {
			b.degraded("the update journal", err)
		}
		if b.Hold = start.Hold; b.Hold != "" {
			b.log.Warn("no work is taken until this node is bootstrapped again", "why", b.Hold)
		}
		if start.Package || (start.Trial && err != nil) { // what cannot be counted must not be tried
			return
		}
		b.starting(start.Build)
		err = b.exec(b.packages.Path(start.Build.SHA256), os.Args, b.environ(map[string]string{KeyLauncher: b.launcher}))
		why := "build " + start.Build.Version + " cannot be started: " + err.Error() // for one, a folder mounted noexec
		b.degraded("the installed program runs on", errors.New(why))
		if !start.Trial {
			return
		}
		if _, err := b.keeper.Do(func(j update.Journal) update.Journal { return j.Condemn(why) }); err != nil {
			return // a step that cannot be written down is not taken
		}
	}
}

// Again replaces this process by a new start of the installed program when a self-update asked for it; otherwise it
// returns at once.
func (b *Boot) Again() error {
	if b.Restarting() == "" {
		return nil
	}
	err := b.exec(b.launcher, os.Args, b.environ(map[string]string{KeyLauncher: ""}))
	return fmt.Errorf("start the agent again: %w", err) // the unit's Restart= does it, then
}

// Restarting is why the process ends only to start again, "" when it does not.
func (b *Boot) Restarting() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.restart
}

// environ is this process's environment with set, what an update changed in the environment file, and the token as it
// is by now: the next process takes what it is given for what lies there. "" removes it.
func (b *Boot) environ(set map[string]string) []string {
	b.mu.Lock()
	maps.Copy(set, b.env)
	b.mu.Unlock()
	if token, changed := tokenIn(b.envFile, b.envSeen); changed {
		set[KeyToken] = token.Reveal()
	}
	var out []string
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		if _, other := set[key]; !other {
			out = append(out, kv)
		}
	}
	for key, v := range set {
		if v != "" {
			out = append(out, key+"="+v)
		}
	}
	return out
}

// tell keeps one note: in the diagnostic record, then as an event for the platform. It is called again with the same
// note when a crash came in between.
func (b *Boot) tell(n update.Note) error {
	if b.out.Has(n.Key) {
		return nil
	}
	errRecord := b.recorder.Record(Decision{Reason: n.Reason, About: "update", What: n.Decision, Detail: n.Text,
		TaskID: n.TaskID, Correlation: n.Correlation, Facts: n.Facts})
	detail, err := json.Marshal(wire.UpdateEvent{Key: n.Key, Decision: n.Decision, Text: n.Text, Rollout: n.Rollout,
		Facts: n.Facts})
	if err != nil {
		return err
	}
	errEvent := b.out.Add(wire.Event{At: n.At, Kind: n.Kind, CorrelationID: n.Correlation, Detail: detail})
	if errEvent != nil && errRecord != nil { // one source of evidence is enough to go on
		return errors.Join(errRecord, errEvent)
	}
	if err := errors.Join(errRecord, errEvent); err != nil {
		b.degraded("evidence of "+n.Decision, err)
	}
	return nil
}

// degraded reports what could not be kept.
func (b *Boot) degraded(what string, err error) {
	if err := b.recorder.Record(Decision{Reason: diag.RecRecordDegraded, About: "boot", What: "report",
		Detail: what + ": " + scrubbed(err)}); err != nil {
		b.log.Error("a decision could not be recorded", "error", err)
	}
}

// starting is the last that this process reports of itself.
func (b *Boot) starting(build wire.Build) {
	if err := b.recorder.Record(Decision{Reason: diag.RecBootRecovery, About: "boot", What: "start another build",
		Detail: build.Version, Facts: map[string]string{"sha256": build.SHA256}}); err != nil {
		b.log.Error("a decision could not be recorded", "error", err)
	}
}

// fileAlone is held by the one agent of a node; its text is that process's id.
const fileAlone = "agent.lock"

// Alone waits until this process is the only agent of its node, or until ctx is done, whose error it returns. Budget,
// journal and record have one writer: a second agent would enroll beside them, and one that hangs may still write.
// Where no lock can be kept nothing is waited for: a node whose disk takes nothing has an agent all the same.
func Alone(ctx context.Context, cfg Config) (release func(), err error) {
	cfg = cfg.withDefaults()
	dir := cmp.Or(cfg.MirrorDir, cfg.StateDir)
	_ = os.MkdirAll(dir, 0o755) // the next gives the reason
	f, err := os.OpenFile(filepath.Join(dir, fileAlone), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		cfg.Log.Warn("whether another agent runs is not known", "error", scrubbed(err))
		return func() {}, nil
	}
	said := false
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		if !said {
			said = true
			cfg.Log.Warn("another agent runs on this node; waiting for its end", "pid", firstLine(f.Name()))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // only returned to a caller that waits
	}
	return func() { _ = f.Close() }, nil
}
