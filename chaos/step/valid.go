package step

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

func (c Change) validate() error {
	kind := c.Kind()
	if kind == "" {
		return errors.New("want exactly one of block, file, mount, unit, pause, hold, run")
	}
	var errs []error
	for _, k := range c.kinds() {
		if k.set {
			if err := k.v.validate(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", kind, err))
			}
		}
	}
	for _, n := range c.Notify {
		if err := unitName(n.Unit); err != nil {
			errs = append(errs, fmt.Errorf("notify: %w", err))
		}
		if n.Verb != "reload" && n.Verb != "restart" {
			errs = append(errs, fmt.Errorf("notify: verb %q: want reload or restart", n.Verb))
		}
	}
	return errors.Join(errs...)
}

// maxText bounds one file's text, in bytes; the whole drill has its own bound.
const maxText = 64 << 10

// errSealed rejects a change that no machine could make.
var errSealed = errors.New("a digest without its text")

func (f *File) validate() error {
	if err := cleanPath(f.Path); err != nil {
		return err
	}
	ways := 0
	for _, set := range [...]bool{f.Text != "", f.Link != "", f.Absent} {
		if set {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("text, link and absent exclude each other")
	case f.Absent && (f.Mode != 0 || f.UID != nil || f.GID != nil):
		return errors.New("what is absent has no mode and no owner")
	case len(f.Text) > maxText:
		return fmt.Errorf("text is longer than %d bytes", maxText)
	case f.Mode&^0o7777 != 0:
		return fmt.Errorf("mode %o", f.Mode)
	case f.SHA256 != "":
		return errSealed
	}
	return nil
}

func (m *Mount) validate() error {
	if err := cleanPath(m.Target); err != nil {
		return err
	}
	ways := 0
	for _, set := range [...]bool{m.Text != "", m.Source != "", m.Tmpfs != nil} {
		if set {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("want exactly one of text, source, tmpfs")
	case m.Tmpfs != nil && (m.Tmpfs.Bytes < 4096 || m.Tmpfs.Inodes < 0):
		return fmt.Errorf("tmpfs of %d bytes and %d inodes", m.Tmpfs.Bytes, m.Tmpfs.Inodes)
	case len(m.Text) > maxText:
		return fmt.Errorf("text is longer than %d bytes", maxText)
	case m.SHA256 != "":
		return errSealed
	case m.Unit != "":
		return unitName(m.Unit)
	case m.Source != "":
		return cleanPath(m.Source)
	}
	return nil
}

func (u *Unit) validate() error {
	switch u.State {
	case Restarted:
		if u.DropIn == "" {
			return errors.New("a restart without a drop-in leaves nothing that could be undone")
		}
		return unitName(u.Unit)
	case Stopped, Frozen:
		return unitName(u.Unit)
	}
	return fmt.Errorf("state %q: want restarted, stopped or frozen", u.State)
}

func (p *Pause) validate() error { return unitName(p.Unit) }

func (h *Hold) validate() error {
	ways := 0
	for _, set := range [...]bool{h.Leave != nil, h.Percent != 0, h.Inodes} {
		if set {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("want exactly one of leave, percent, inodes")
	case h.Leave != nil && *h.Leave < 0:
		return errors.New("leave is negative")
	case h.Percent < 0 || h.Percent > 100:
		return fmt.Errorf("percent %d", h.Percent)
	}
	if h.Dir == "/" {
		return nil
	}
	return cleanPath(h.Dir)
}

func (r *Run) validate() error {
	if r.Place == "" {
		return errors.New("place is missing")
	}
	if r.Tier != TierBoot && r.Tier != TierPersistent {
		return fmt.Errorf("tier %q: want T2 or T3", r.Tier)
	}
	if r.Injected != strings.TrimSpace(r.Injected) {
		return errors.New("injected has white space around it")
	}
	return errors.Join(r.State.validate(), r.Do.validate(), r.Undo.validate())
}

func (e Exec) validate() error {
	if len(e.Argv) == 0 || !strings.HasPrefix(e.Argv[0], "/") {
		return fmt.Errorf("argv %q: want a program by its absolute path", e.Argv)
	}
	for _, a := range e.Argv {
		if strings.ContainsRune(a, 0) {
			return errors.New("argv has a zero byte")
		}
	}
	return nil
}

func cleanPath(p string) error {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/" || strings.ContainsAny(p, "\x00\n") {
		return fmt.Errorf("path %q: want an absolute one without dots and doubled slashes", p)
	}
	return nil
}

// unitName accepts names of services, sockets, timers, paths and targets.
func unitName(s string) error {
	dot := max(0, strings.LastIndexByte(s, '.'))
	stem, ext := s[:dot], strings.TrimPrefix(s[dot:], ".")
	switch ext {
	case "service", "socket", "timer", "path", "target":
	default:
		return fmt.Errorf("unit %q: want a service, socket, timer, path or target by its full name", s)
	}
	if stem == "" || strings.HasPrefix(stem, "gpuaasctl-") ||
		strings.Trim(stem, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.@\\") != "" {
		return fmt.Errorf("unit %q is not the name of a unit that may be changed", s)
	}
	return nil
}
