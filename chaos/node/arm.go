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

// armNote is the part of the arming that closing needs.
type armNote struct {
	MadeFolder bool `json:"made_folder,omitempty"`
}

// guardBudget bounds the start of the watchdog.
const guardBudget = 10 * time.Second

// Arm prepares the machine for a drill: when it returns without an error, everything that an undo needs is on the
// disk, the reaper is installed for the next boot, and the watchdog runs. Nothing else on the machine is changed
// yet. If Arm fails, it leaves nothing behind.
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
	before, err := ReadFingerprint(ctx, d.Scope)
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

// armLock is held by a process that creates or removes drills.
func (h Host) armLock() string { return filepath.Join(filepath.Dir(h.Paths.State), ".drill.lock") }

// guards makes the checks that need no change.
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

// free refuses a machine with another active drill. A drill that is over is reverted if necessary, and its
// artifacts are removed, unless it has a conflict that an operator has to inspect.
func (h Host) free(ctx context.Context) error {
	ids, err := h.Runs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := h.Open(id)
		if errors.As(err, new(*step.Refusal)) || (err == nil && r.Journal.Ledger.Last == 0) {
			// the arming process died before it wrote the journal: otherwise it would hold the lock that we hold
			if err := h.discard(ctx, id); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := h.succeed(ctx, r); err != nil {
			return errors.Join(err, r.CloseFiles())
		}
		if err := r.CloseFiles(); err != nil {
			return err
		}
	}
	return nil
}

// succeed takes over the machine from a drill that is over.
func (h Host) succeed(ctx context.Context, r *Run) error {
	if l := &r.Journal.Ledger; l.Final() || l.Closed {
		r.awaitEnd(ctx)
	}
	if err := r.locked(ctx, func() error { return r.keeper(step.ByNextRun).Yield(ctx) }); err != nil {
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
		return nil, errors.Join(err, r.CloseFiles())
	}
	sealed, secrets := d.Seal()
	if err := h.keepSecrets(d.Run, secrets); err != nil {
		return nil, errors.Join(err, r.CloseFiles())
	}
	k := r.keeper(step.ByCLI)
	if err := k.Plan(ctx, sealed); err != nil {
		return nil, errors.Join(refusal(err), r.CloseFiles())
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
		return nil, errors.Join(err, r.CloseFiles())
	}
	return r, nil
}

// keepSecrets stores texts that must not be on a disk in a tmpfs, named by their digests.
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

// refusal converts the error of a place that cannot be changed to a refusal.
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

// copyProgram copies this program next to the journal, and runs it once: the file system may be noexec.
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

// startWatchdog starts the watchdog as its own service, outside the cgroup of the SSH session, and waits until the
// journal shows that it is running.
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
		"WatchdogSec=60", // longer than any wait for a lock; a stopped watchdog is killed and restarted
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

// discard removes a drill that was never armed, or never began a step.
func (h Host) discard(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBudget)
	defer cancel()
	made := false
	if r, err := h.Open(id); err == nil {
		made = r.madeFolder()
		if err := r.CloseFiles(); err != nil {
			return err
		}
	}
	return errors.Join(h.removeUnits(ctx, id, made), os.RemoveAll(h.secrets(id)), os.RemoveAll(h.folder(id)))
}

// madeFolder reports whether arming created the folder of the reaper's link.
func (r *Run) madeFolder() bool {
	var n armNote
	for _, e := range r.Journal.Entries {
		if e.Event == step.EventArmed && json.Unmarshal(e.Note, &n) == nil {
			return n.MadeFolder
		}
	}
	return false
}

// RemoveRemains removes remains on a machine without a drill, after an arming process died before it had created the
// drill's folder.
func (h Host) RemoveRemains() error {
	f, err := durable.TryLock(h.armLock())
	if errors.Is(err, os.ErrNotExist) || (err == nil && f == nil) {
		return nil // nothing is left, or another process is arming
	}
	if err != nil {
		return err
	}
	return errors.Join(h.tidy(), f.Close())
}

// tidy removes the parent folder of all drills if it is empty, together with the lock. A process that waits for
// the lock notices that.
func (h Host) tidy() error {
	ids, err := h.Runs()
	if err != nil || len(ids) > 0 {
		return err
	}
	if err := os.Remove(h.Paths.State); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // the folder is not empty: another process uses it
	}
	if err := os.Remove(h.armLock()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(h.Paths.State); strings.HasSuffix(parent, "gpuaasctl") && empty(parent) {
		return os.Remove(parent)
	}
	return nil
}
