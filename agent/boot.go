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
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// KeyLauncher names the installed program that started this process as a committed build. It is empty in the
// installed program itself.
const KeyLauncher = "GPUAAS_AGENT_LAUNCHER"

// Boot is what a process finds at startup: which build it is, the journal that selected that build, and the events
// that are not delivered yet.
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
	restart   string            // why the process exits only to be restarted
	env       map[string]string // what an update changed in the environment file
	working   sync.Mutex        // held while an update is carried out
	sending   sync.Mutex        // held while events are sent
	sendAfter time.Time         // when the platform takes events again; guarded by sending
	answered  atomic.Bool       // a heartbeat of this process was answered
}

// OpenBoot reads the journal and the outbox in the state folder and decides which build runs. If that is another
// build, OpenBoot replaces this process by it and does not return. A broken disk is not an error: the installed
// program runs and reports what it could not store.
func OpenBoot(cfg Config, getenv func(string) string) (*Boot, error) {
	cfg = cfg.withDefaults()
	d := durable.Dir{Root: filepath.Join(cfg.StateDir, "agent")}
	b := openBoot(d, cfg.Log, cfg.Recorder)
	b.envFile, b.envSeen = cfg.EnvFile, stamp(cfg.EnvFile)
	var err error
	if b.launcher = getenv(KeyLauncher); b.launcher != "" { // the launcher has hashed this build and recorded the digest
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

// openBoot reads the outbox and the journal from the disk.
func openBoot(d durable.Dir, log *slog.Logger, recorder Recorder) *Boot {
	b := &Boot{packages: update.Packages{Disk: d}, log: log, recorder: recorder, env: map[string]string{},
		boot: firstLine("/proc/sys/kernel/random/boot_id"), exec: syscall.Exec}
	var err error
	if b.out, err = outbox.Open(d); err != nil {
		b.degraded("events are kept in memory alone", err)
	}
	if b.keeper, err = update.Open(d, b.storeNote); err != nil {
		b.degraded("the update journal", err)
		if b.keeper == nil {
			b.keeper = update.Unreadable(err)
		}
	}
	return b
}

// launch starts the selected build. It returns if that is the installed program, which is this process.
func (b *Boot) launch(self wire.Build, keys wire.Verifiers) {
	host := update.Host{Boot: b.boot, Keys: keys, Material: keys.Version(), Check: b.packages.Check}
	if sha, err := update.Digest(b.envFile); err == nil { // a new bundle always brings a new token
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
		if start.Package || (start.Trial && err != nil) { // a start that cannot be counted must not be tried
			return
		}
		b.record(Decision{Reason: diag.RecBootRecovery, About: "boot", What: "start another build",
			Detail: start.Build.Version, Facts: map[string]string{"sha256": start.Build.SHA256}})
		err = b.exec(b.packages.Path(start.Build.SHA256), os.Args, b.environ(map[string]string{KeyLauncher: b.launcher}))
		// for example from a folder mounted noexec
		why := "build " + start.Build.Version + " cannot be started: " + err.Error()
		b.degraded("the installed program runs on", errors.New(why))
		if !start.Trial {
			return
		}
		if _, err := b.keeper.Do(func(j update.Journal) update.Journal { return j.RevertOnStart(why) }); err != nil {
			return // a step that cannot be written is not taken
		}
	}
}

// Reexec replaces this process by a new start of the installed program if a self-update asked for it; otherwise it
// returns immediately.
func (b *Boot) Reexec() error {
	if b.Restarting() == "" {
		return nil
	}
	err := b.exec(b.launcher, os.Args, b.environ(map[string]string{KeyLauncher: ""}))
	return fmt.Errorf("start the agent again: %w", err) // the unit's Restart= takes over
}

// Restarting returns why the process exits only to be restarted, "" if it does not.
func (b *Boot) Restarting() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.restart
}

// environ returns this process's environment with set, with the update's changes to the environment file, and with
// the current token: the next process takes its environment for the file's content. An empty value removes a key.
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

// storeNote stores one note in the diagnostic record and as an event for the platform. After a crash it is called again
// with the same note.
func (b *Boot) storeNote(n update.Note) error {
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
	if errEvent != nil && errRecord != nil { // one of the two copies is enough to go on
		return errors.Join(errRecord, errEvent)
	}
	if err := errors.Join(errRecord, errEvent); err != nil {
		b.degraded("evidence of "+n.Decision, err)
	}
	return nil
}

// degraded reports what could not be stored.
func (b *Boot) degraded(what string, err error) {
	b.record(Decision{Reason: diag.RecRecordDegraded, About: "boot", What: "report", Detail: what + ": " + scrubbed(err)})
}

func (b *Boot) record(d Decision) {
	if err := b.recorder.Record(d); err != nil {
		b.log.Error("a decision could not be recorded", "error", err)
	}
}

// fileAlone is the lock file of the node's only running agent; it holds that process's id.
const fileAlone = "agent.lock"

// LockNode waits until this process is the only agent of its node, or until ctx is done, whose error it returns.
// Budget, journal and record have a single writer: a second agent would enroll a second time, and a hung one may
// still write. If no lock can be taken, LockNode does not wait: a node with a broken disk still gets an agent.
func LockNode(ctx context.Context, cfg Config) (release func(), err error) {
	cfg = cfg.withDefaults()
	dir := cmp.Or(cfg.MirrorDir, cfg.StateDir)
	_ = os.MkdirAll(dir, stateMode) // the next gives the reason
	path := filepath.Join(dir, fileAlone)
	for said := false; ; said = true {
		f, err := durable.TryLock(path)
		switch {
		case err != nil:
			cfg.Log.Warn("whether another agent runs is not known", "error", scrubbed(err))
			return func() {}, nil
		case f != nil:
			if err := f.Truncate(0); err == nil {
				_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // only returned to a caller that waits
			}
			return func() { _ = f.Close() }, nil
		case !said:
			cfg.Log.Warn("another agent runs on this node; waiting for its end", "pid", firstLine(path))
		}
		if !sleep.For(ctx, time.Second) {
			return nil, context.Cause(ctx)
		}
	}
}
