//go:build linux

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Longer than 300 lines: arming and disarming mirror each other, and are read together.

// armNote is what closing has to know of arming.
type armNote struct {
	MadeFolder bool `json:"made_folder,omitempty"`
}

// guardBudget is how long the watchdog may take to come up.
const guardBudget = 10 * time.Second

// Arm makes the machine ready for a drill: when it returns without an error, everything that an undo needs is on the
// disk, a reaper waits for the next boot, and a watchdog runs. Nothing of the machine is changed yet. When it refuses,
// it leaves nothing.
func (h Host) Arm(ctx context.Context, d step.Drill) (*Run, error) {
	if err := h.guards(d); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(h.Paths.State, 0o700); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, h.armLock(), lockWait)
	if err != nil {
		return nil, errors.Join(err, h.tidy())
	}
	defer unlock()
	if err := h.free(ctx); err != nil {
		return nil, errors.Join(err, h.tidy())
	}
	before, err := Take(ctx, d.Scope)
	if err != nil {
		return nil, errors.Join(err, h.tidy())
	}
	r, err := h.prepare(ctx, d, before)
	if err == nil {
		err = r.startWatchdog(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.discard(ctx, d.Run), h.tidy())
	}
	return r, nil
}

// armLock is taken by a process that makes or removes drills.
func (h Host) armLock() string { return filepath.Join(filepath.Dir(h.Paths.State), ".drill.lock") }

// guards are the refusals that only look.
func (h Host) guards(d step.Drill) error {
	if err := d.Validate(); err != nil {
		return step.Refuse(step.RefusedDrill, "%v", err)
	}
	consent, refused := readConsent(h.Paths.Consent)
	if refused == nil {
		refused = consent.Permits(d, h.Clock.Wall())
	}
	if refused == nil {
		refused = cuts(d, peers(d))
	}
	if refused == nil {
		refused = missing(d)
	}
	if refused != nil {
		return refused
	}
	return nil
}

// free refuses a machine that another drill is on. A drill that is over is reverted as far as that is not done yet, and
// its traces are removed, unless there is a conflict that an operator has to inspect.
func (h Host) free(ctx context.Context) error {
	ids, err := h.Runs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := h.Open(id)
		if errors.As(err, new(*step.Refusal)) || (err == nil && r.Journal.Ledger.Last == 0) {
			// no journal yet, or nothing in it: the process that armed it is dead, for the lock is ours
			if err := h.discard(ctx, id); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := h.succeed(ctx, r); err != nil {
			return errors.Join(err, r.Shut())
		}
		if err := r.Shut(); err != nil {
			return err
		}
	}
	return nil
}

// succeed takes the machine over from a drill that is over.
func (h Host) succeed(ctx context.Context, r *Run) error {
	if l := &r.Journal.Ledger; l.Over() || l.Closed {
		r.awaitEnd(ctx)
	}
	if err := r.locked(ctx, func() error { return r.keeper(step.ByNextRun).Cede(ctx) }); err != nil {
		return err
	}
	return r.remove(ctx)
}

// prepare writes everything that an undo needs.
func (h Host) prepare(ctx context.Context, d step.Drill, before Fingerprint) (*Run, error) {
	if err := os.Mkdir(h.folder(d.Run), 0o700); err != nil {
		return nil, err
	}
	if err := makeZeros(filepath.Join(h.folder(d.Run), "journal"), step.JournalSize); err != nil {
		return nil, fmt.Errorf("make the journal: %w", err)
	}
	r, err := h.Open(d.Run)
	if err != nil {
		return nil, err
	}
	baseline, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	err = errors.Join(makeZeros(r.path("lease"), step.BlockSize), makeZeros(r.path("lock"), step.BlockSize),
		makeZeros(r.path("watch"), step.BlockSize), writeSynced(r.path("baseline"), baseline), r.copyProgram(ctx))
	if err != nil {
		return nil, errors.Join(err, r.Shut())
	}
	sealed, secrets := d.Seal()
	if err := h.keepSecrets(d.Run, secrets); err != nil {
		return nil, errors.Join(err, r.Shut())
	}
	k := r.keeper(step.ByCLI)
	if err := k.Plan(ctx, sealed); err != nil {
		return nil, errors.Join(refusal(err), r.Shut())
	}
	made, err := h.installReaper(d.Run)
	if err == nil {
		err = errors.Join(syncFolder(r.path("journal")), syncFolder(h.folder(d.Run)), syncFolder(h.Paths.State))
	}
	if err == nil {
		note, _ := json.Marshal(armNote{made})
		err = k.write(step.Entry{Event: step.EventArmed, Note: note})
	}
	if err != nil {
		return nil, errors.Join(err, r.Shut())
	}
	return r, nil
}

// keepSecrets puts what may lie on no disk into memory, by its digest.
func (h Host) keepSecrets(id string, texts map[string]string) error {
	if len(texts) == 0 {
		return nil
	}
	if err := os.Mkdir(h.secrets(id), 0o700); err != nil {
		return err
	}
	var errs []error
	for sum, text := range texts {
		errs = append(errs, writeSynced(filepath.Join(h.secrets(id), sum), []byte(text)))
	}
	return errors.Join(errs...)
}

// refusal makes what a place has against its change a refusal.
func refusal(err error) error {
	if errors.As(err, new(*step.Refusal)) {
		return err
	}
	return step.Refuse(step.RefusedUnsupported, "%v", err)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// copyProgram puts this program beside the journal, and tries it: a file system may allow no programs.
func (r *Run) copyProgram(ctx context.Context) error {
	from, err := os.Open(r.host.Exe)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(r.path(step.Program), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Sync(), to.Close()); err != nil {
		return fmt.Errorf("copy this program beside the journal: %w", err)
	}
	if _, err := must(ctx, "", r.path(step.Program), "version"); err != nil {
		return step.Refuse(step.RefusedUnsupported,
			"programs do not run from %s, so nothing could undo the drill after a reboot: %v", r.host.Paths.State, err)
	}
	return nil
}

// startWatchdog starts it as a service of its own, outside the cgroup of the SSH session, and waits until it has
// reported in the journal that it keeps watch.
func (r *Run) startWatchdog(ctx context.Context) error {
	if err := r.lease.renew(r.host.Clock.Now()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, guardBudget)
	defer cancel()
	argv := []string{"systemd-run", "--quiet", "--collect", "--unit=" + watchName(r.ID), "--service-type=notify"}
	for _, p := range [...]string{
		"Description=Watchdog of drill " + r.ID, "NotifyAccess=main", "Restart=always", "RestartSec=100ms",
		"StartLimitIntervalSec=0",
		"WatchdogSec=60", // longer than any lock is waited for; a watchdog that was stopped is killed and started again
		"TimeoutStopSec=45", fmt.Sprintf("SuccessExitStatus=%d", ExitOver),
		fmt.Sprintf("RestartPreventExitStatus=%d", ExitOver), "OOMScoreAdjust=-1000",
		fmt.Sprintf("LimitNOFILE=%d", maxInodes+1024),
	} {
		argv = append(argv, "-p", p)
	}
	if _, err := must(ctx, "", append(argv, r.path(step.Program), "watch", "--run", r.ID)...); err != nil {
		return step.Refuse(step.RefusedGuard, "%v", err)
	}
	if err := r.Journal.Refresh(); err != nil {
		return err
	}
	if r.Journal.Ledger.Guards == 0 || !r.guarded() {
		return step.Refuse(step.RefusedGuard, "systemd started it, and it keeps no watch")
	}
	return nil
}

// discard removes a drill that never was armed, or that nothing was done of.
func (h Host) discard(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBudget)
	defer cancel()
	made := false
	if r, err := h.Open(id); err == nil {
		made = r.madeFolder()
		if err := r.Shut(); err != nil {
			return err
		}
	}
	return errors.Join(h.removeUnits(ctx, id, made), os.RemoveAll(h.secrets(id)), os.RemoveAll(h.folder(id)))
}

// madeFolder reports whether arming had to make the folder of the reaper's link.
func (r *Run) madeFolder() bool {
	var n armNote
	for _, e := range r.Journal.Entries {
		if e.Event == step.EventArmed && json.Unmarshal(e.Note, &n) == nil {
			return n.MadeFolder
		}
	}
	return false
}

// Tidy removes what is left where no drill is: the process that armed died before it had a folder of its own.
func (h Host) Tidy() error {
	f, err := durable.TryLock(h.armLock())
	if errors.Is(err, os.ErrNotExist) || (err == nil && f == nil) {
		return nil // nothing is left, or another process is arming now
	}
	if err != nil {
		return err
	}
	return errors.Join(h.tidy(), f.Close())
}

// tidy removes the folders of all drills when no drill is left in them. The lock goes with them: a process that waits
// for it finds out.
func (h Host) tidy() error {
	ids, err := h.Runs()
	if err != nil || len(ids) > 0 {
		return err
	}
	if err := os.Remove(h.Paths.State); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // another process keeps something there
	}
	if err := os.Remove(h.armLock()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(h.Paths.State); strings.HasSuffix(parent, "gpuaasctl") && empty(parent) {
		return os.Remove(parent)
	}
	return nil
}
