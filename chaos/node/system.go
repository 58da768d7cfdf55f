//go:build linux

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// System makes changes on the machine that this process runs on.
type System struct {
	Dir     string // the drill's folder: holds the sources of overlays
	Secrets string // holds the secret ones

	mu    sync.Mutex
	holds map[string]*hold // what this process holds, by location; guarded by mu
}

// place is one kind of change at one location. Its methods are those of Machine.
type place interface {
	inspect(ctx context.Context) (any, error)
	make(ctx context.Context) error
	compare(ctx context.Context) (Observed, error)
	undo(ctx context.Context) error
}

// place returns the place for a location, with the location's note, if it has one.
func (s *System) place(at Location) (place, error) {
	var p place
	var note any
	c := at.Change
	switch {
	case c.Block != nil:
		b := &blockPlace{Location: at}
		p, note = b, &b.before
	case c.File != nil:
		f := &filePlace{Location: at, secrets: s.Secrets}
		p, note = f, &f.before
	case c.Mount != nil:
		m := &mountPlace{Location: at, dir: s.Dir, secrets: s.Secrets}
		p, note = m, &m.before
	case c.Unit != nil:
		u := &unitPlace{Location: at}
		p, note = u, &u.before
	case c.Pause != nil:
		u := &pausePlace{Location: at}
		p, note = u, &u.before
	case c.Hold != nil:
		return &holdPlace{Location: at, system: s}, nil
	case c.Run != nil:
		r := &runPlace{Location: at}
		p, note = r, &r.before
	default:
		return nil, errors.New("a change of no kind")
	}
	if at.Note != nil {
		if err := json.Unmarshal(at.Note, note); err != nil {
			return nil, fmt.Errorf("note of %s: %w", c.Place(), err)
		}
	}
	return p, nil
}

// reveal returns a change's text; it reads a secret one from dir by its digest.
func reveal(secrets, text, sum string) (string, error) {
	if sum == "" {
		return text, nil
	}
	b, err := os.ReadFile(filepath.Join(secrets, sum))
	return string(b), err
}

// Snapshot implements Machine.
func (s *System) Snapshot(ctx context.Context, at Location) (json.RawMessage, error) {
	at.Note = nil
	p, err := s.place(at)
	if err != nil {
		return nil, err
	}
	note, err := p.inspect(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(note)
}

// Make implements Machine.
func (s *System) Make(ctx context.Context, at Location) error {
	p, err := s.place(at)
	if err != nil {
		return err
	}
	return p.make(ctx)
}

// Compare implements Machine.
func (s *System) Compare(ctx context.Context, at Location) (Observed, error) {
	p, err := s.place(at)
	if err != nil {
		return Observed{}, err
	}
	return p.compare(ctx)
}

// Undo implements Machine.
func (s *System) Undo(ctx context.Context, at Location) error {
	p, err := s.place(at)
	if err != nil {
		return err
	}
	return p.undo(ctx)
}

// Notify implements Machine. A unit that is not running needs no notification: it reads the file when it starts.
func (s *System) Notify(ctx context.Context, n step.Notify) error {
	verb := "try-restart"
	if n.Verb == "reload" {
		verb = "try-reload-or-restart"
	}
	_, err := must(ctx, "", "systemctl", verb, n.Unit)
	return err
}

// HostClock is this machine's clock. CLOCK_BOOTTIME runs while a machine sleeps, and cannot be set.
func HostClock() (Clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Clock{}, fmt.Errorf("boot id: %w", err)
	}
	return Clock{
		Boot: strings.TrimSpace(string(boot)),
		Wall: time.Now,
		Now: func() int64 {
			var ts unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
				panic("CLOCK_BOOTTIME: " + err.Error()) // every Linux since 2.6.39 supports it
			}
			return ts.Nano()
		},
	}, nil
}

// inNamespace runs f, and the programs that f starts, in the mount namespace of a process.
func inNamespace(pid int, f func() error) error {
	ns, err := os.Open(host.This.Path(pid, "ns/mnt"))
	if err != nil {
		return err
	}
	defer ns.Close()
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // without it, setns gives EINVAL
			return wrap("unshare", ns.Name(), err)
		}
		return wrap("setns", ns.Name(), unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS))
	}, f)
}

// inEmptyNetwork runs f, and the programs that f starts, in a new network namespace, which ends with them.
func inEmptyNetwork(f func() error) error {
	return onThread(func() error { return wrap("unshare", "network", unix.Unshare(unix.CLONE_NEWNET)) }, f)
}

// onThread runs enter and then f on a separate thread that exits afterwards, since a thread that has changed its
// namespace cannot be reused. It is never the main thread, which would live as long as the process, with
// /proc/self showing its namespace.
func onThread(enter, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onThread(enter, f) // this is the main thread: use another one
			return
		}
		err := enter()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}
