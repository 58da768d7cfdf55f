//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Paths are the locations of a drill's files on a machine.
type Paths struct {
	State   string // a folder for each drill
	Memory  string // tmpfs, for a folder of each drill's secrets
	Units   string // of systemd units that survive a reboot
	Consent string
}

// HostPaths are the locations on a real machine.
func HostPaths() Paths {
	return Paths{State: step.StateDir, Memory: "/run", Units: "/etc/systemd/system", Consent: step.ConsentFile}
}

// Host is the machine that this process runs on.
type Host struct {
	Paths Paths
	Clock Clock
	Exe   string // this program's file
}

// Run is one drill of this machine, with its folder:
//
//	journal       what was done, and what undo needs
//	lease         when it was last renewed
//	lock, watch   locks of the process at work and of the running watchdog
//	baseline      the fingerprint from before the drill
//	gpuaas-fault  this program, for the watchdog and the reaper
//	source-*      sources of overlays
//
// Its secrets are in a separate folder in a tmpfs.
type Run struct {
	ID      string
	Journal *Journal

	host  Host
	file  *os.File
	lease lease
}

func (h Host) folder(id string) string { return filepath.Join(h.Paths.State, id) }

// secrets is the folder of a drill's secret texts, named by their digests, and of the sources of secret overlays.
// It exists from arming until everything is over: an undo recognizes a secret text by its digest.
func (h Host) secrets(id string) string { return filepath.Join(h.Paths.Memory, "gpuaasctl-"+id) }

func (r *Run) path(name string) string { return filepath.Join(r.host.folder(r.ID), name) }

// Runs returns the ids of the drills that have a folder here.
func (h Host) Runs() ([]string, error) {
	entries, err := os.ReadDir(h.Paths.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && step.ValidName(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, err
}

// Open opens a drill of this machine; an empty id means the only one.
func (h Host) Open(id string) (*Run, error) {
	if id == "" {
		ids, err := h.Runs()
		if err != nil {
			return nil, err
		}
		switch len(ids) {
		case 0:
			return nil, step.Refuse(step.RefusedNone, "there is no drill on this machine")
		case 1:
			id = ids[0]
		default:
			return nil, step.Refuse(step.RefusedNone, "there are several drills on this machine, name one: %s",
				strings.Join(ids, ", "))
		}
	}
	r := &Run{ID: id, host: h, lease: lease{filepath.Join(h.folder(id), "lease"), h.Clock.Boot}}
	f, err := os.OpenFile(r.path("journal"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrInvalid) {
		return nil, step.Refuse(step.RefusedNone, "there is no drill %s on this machine", id)
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil {
		r.file = f
		r.Journal, err = OpenJournal(f, fi.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// CloseFiles closes the drill's files.
func (r *Run) CloseFiles() error { return r.file.Close() }

// keeper returns a keeper for the process that by names.
func (r *Run) keeper(by string) *Keeper {
	k := &Keeper{
		Journal: r.Journal, Machine: &System{Dir: r.host.folder(r.ID), Secrets: r.host.secrets(r.ID)}, Clock: r.host.Clock,
		Lease: r.lease, By: by, PID: os.Getpid(),
	}
	if by != step.ByWatchdog {
		k.Guarded = r.guarded
	}
	return k
}

// guarded reports whether the watchdog is alive.
func (r *Run) guarded() bool { return durable.Locked(r.path("watch")) }

// locked runs f with the drill's lock and an up-to-date journal.
func (r *Run) locked(ctx context.Context, f func() error) error {
	unlock, err := lock(ctx, r.path("lock"), lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.Journal.Refresh(); err != nil {
		return err
	}
	return f()
}

// Status returns the journal's state, and the state of watchdog, reaper and clocks.
func (r *Run) Status(withJournal bool) (step.Status, error) {
	if err := r.Journal.Refresh(); err != nil {
		return step.Status{}, err
	}
	l := r.Journal.Ledger
	st := l.Status()
	st.Run, st.Torn = r.ID, r.Journal.Torn
	if l.Phase() == step.PhaseArmed {
		ttl, lease := l.Clocks(r.host.Clock.Now(), r.lease.Renewed())
		ttlLeft, leaseLeft := step.MillisOf(max(0, ttl)), step.MillisOf(max(0, lease))
		st.TTLLeft, st.LeaseLeft = &ttlLeft, &leaseLeft
	}
	if r.guarded() {
		st.Watchdog = l.Guard
	}
	_, err := os.Lstat(r.host.reaperUnit(r.ID))
	st.Reaper = err == nil
	if withJournal {
		st.Journal = step.RedactEntries(r.Journal.Entries)
	}
	return st, nil
}

// state returns the refusal of an action that the drill's state does not allow.
func (r *Run) state(format string, args ...any) *step.Refusal {
	l := r.Journal.Ledger
	text := fmt.Sprintf(format, args...) + ": drill " + r.ID + " is " + l.Phase()
	if l.Why != "" {
		text += " (" + l.Why + ")"
	}
	return step.Refuse(step.RefusedState, "%s", text)
}

// RemoveUnarmed removes the remains of a drill without a journal, or without its first entry: the arming process died
// before any change was possible.
func (h Host) RemoveUnarmed(ctx context.Context, id string) error {
	if _, err := os.Stat(h.folder(id)); err != nil {
		return step.Refuse(step.RefusedNone, "there is no drill %s on this machine", id)
	}
	unlock, err := lock(ctx, h.armLock(), lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := h.Open(id)
	switch {
	case err == nil && r.Journal.Ledger.Known:
		return errors.Join(step.Refuse(step.RefusedState, "drill %s is %s: it is reverted and closed, not abandoned", id,
			r.Journal.Ledger.Phase()), r.CloseFiles())
	case err == nil:
		err = r.CloseFiles()
	case errors.As(err, new(*step.Refusal)):
		err = nil
	}
	if err != nil {
		return fmt.Errorf("abandon drill %s: %w", id, err)
	}
	return errors.Join(h.discard(ctx, id), h.tidy())
}
