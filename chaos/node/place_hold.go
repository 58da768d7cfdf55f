//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// holdPlace is a full file system. The space is taken by unnamed files, so that any end of the process that holds
// them undoes the change.
type holdPlace struct {
	Location
	system *System
}

// hold is what this process holds on one file system.
type hold struct {
	at    holdPlace
	files []*os.File
}

// noteless: the undo needs no note.
type noteless struct{}

func (h *holdPlace) key() string { return fmt.Sprintf("%s/%s/%d", h.Run, h.Step, h.N) }

// maxInodes bounds how many files a process can hold; file systems with more free inodes are refused.
const maxInodes = 65_536

func (h *holdPlace) inspect(context.Context) (any, error) {
	var fs unix.Statfs_t
	c := h.Change.Hold
	if err := unix.Statfs(c.Dir, &fs); err != nil {
		return nil, wrap("statfs", c.Dir, err)
	}
	if c.Inodes && (fs.Files == 0 || fs.Ffree > maxInodes) {
		return nil, fmt.Errorf("%s has %d free inodes: too many to be held, or none to be counted", c.Dir, fs.Ffree)
	}
	if want, err := h.missing(); err != nil || want <= 0 {
		return nil, orText(err, "%s is that full already", c.Dir)
	}
	f, err := unnamed(c.Dir)
	if err != nil {
		return nil, err
	}
	return noteless{}, f.Close()
}

func unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, wrap("open unnamed", dir, err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// missing returns how many bytes, or inodes, still have to be taken.
func (h *holdPlace) missing() (int64, error) {
	var fs unix.Statfs_t
	c := h.Change.Hold
	if err := unix.Statfs(c.Dir, &fs); err != nil {
		return 0, wrap("statfs", c.Dir, err)
	}
	size := int64(fs.Bsize)
	switch {
	case c.Inodes:
		return int64(fs.Ffree), nil
	case c.Leave != nil:
		return int64(fs.Bfree)*size - *c.Leave, nil
	}
	used := int64(fs.Blocks - fs.Bfree)
	return (int64(fs.Blocks)*int64(c.Percent)+99)/100*size - used*size, nil
}

func (h *holdPlace) make(ctx context.Context) error {
	h.system.mu.Lock()
	defer h.system.mu.Unlock()
	if h.system.holds == nil {
		h.system.holds = map[string]*hold{}
	}
	kept := &hold{at: *h}
	h.system.holds[h.key()] = kept
	return kept.fill(ctx)
}

// smallest is the size of the last step when filling: a page, the allocation unit of most file systems.
const smallest = 4096

// fill takes the missing space, in steps that shrink if they do not fit, since some file systems allocate all or
// nothing.
func (k *hold) fill(ctx context.Context) error {
	if k.at.Change.Hold.Inodes {
		return k.fillInodes(ctx)
	}
	want, err := k.at.missing()
	if err != nil || want <= 0 {
		return err
	}
	if len(k.files) == 0 {
		f, err := unnamed(k.at.Change.Hold.Dir)
		if err != nil {
			return err
		}
		k.files = append(k.files, f)
	}
	f := k.files[0]
	size, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	for chunk := int64(1 << 30); want > 0 && chunk >= smallest && ctx.Err() == nil; {
		part := min(chunk, (want+smallest-1)/smallest*smallest)
		switch err := unix.Fallocate(int(f.Fd()), 0, size, part); {
		case err == nil:
			size, want = size+part, want-part
		case errors.Is(err, unix.ENOSPC):
			chunk = min(chunk, part) / 4
		case !errors.Is(err, unix.EINTR):
			return wrap("fallocate", k.at.Change.Hold.Dir, err)
		}
	}
	return ctx.Err()
}

func (k *hold) fillInodes(ctx context.Context) error {
	for ctx.Err() == nil && len(k.files) < maxInodes {
		f, err := unnamed(k.at.Change.Hold.Dir)
		if errors.Is(err, unix.ENOSPC) {
			return nil
		}
		if err != nil {
			return err
		}
		k.files = append(k.files, f)
	}
	return ctx.Err()
}

// TopUp takes space again that was freed since: logs are rotated, packages cleaned.
func (s *System) TopUp(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, k := range s.holds {
		errs = append(errs, k.fill(ctx))
	}
	return errors.Join(errs...)
}

func (h *holdPlace) compare(context.Context) (Observed, error) {
	h.system.mu.Lock()
	defer h.system.mu.Unlock()
	if h.system.holds[h.key()] == nil {
		return Observed{}, nil // the process that held it is dead, or never held it
	}
	return Observed{State: Injected}, nil
}

func (h *holdPlace) undo(context.Context) error {
	h.system.mu.Lock()
	defer h.system.mu.Unlock()
	var errs []error
	for _, f := range h.system.holds[h.key()].files {
		errs = append(errs, f.Close())
	}
	delete(h.system.holds, h.key())
	return errors.Join(errs...)
}
