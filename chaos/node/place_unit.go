//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// unitPlace is a unit with our drop-in, a state that we set, or both. The drop-in is a file in /run like any other
// file of a drill.
type unitPlace struct {
	Location
	before unitNote
}

type unitNote struct {
	Invocation string    `json:"invocation"`
	Needs      []string  `json:"needs,omitempty"` // units that were active, and without which this unit is stopped
	DropIn     *fileNote `json:"drop_in,omitempty"`
}

// dropIn returns the place of the drop-in's file; nil if the change has none.
func (u *unitPlace) dropIn() *filePlace {
	c := u.Change.Unit
	if c.DropIn == "" {
		return nil
	}
	at := u.Location
	at.Change = step.Change{File: &step.File{Path: step.DropInFolder(c.Unit) + "/" + step.DropInName(u.Run, u.Step),
		Text: c.DropIn, Mode: 0o644}}
	f := &filePlace{Location: at}
	if u.before.DropIn != nil {
		f.before = *u.before.DropIn
	}
	return f
}

func (u *unitPlace) inspect(ctx context.Context) (any, error) {
	c := u.Change.Unit
	now, err := loadedUnit(ctx, c.Unit)
	if err != nil {
		return nil, err
	}
	if now.Freezer != "running" && c.State == step.Frozen {
		return nil, fmt.Errorf("%s cannot be frozen: its freezer is %q", c.Unit, now.Freezer)
	}
	note := unitNote{Invocation: now.Invocation}
	if note.Needs, err = needs(ctx, c.Unit); err != nil {
		return nil, err
	}
	if c.DropIn != "" {
		file, err := u.dropIn().inspect(ctx)
		if err != nil {
			return nil, err
		}
		note.DropIn = new(file.(fileNote))
	}
	return note, nil
}

func (u *unitPlace) make(ctx context.Context) error {
	c := u.Change.Unit
	if f := u.dropIn(); f != nil {
		if err := f.make(ctx); err != nil {
			return err
		}
		if _, err := must(ctx, "", "systemctl", "daemon-reload"); err != nil {
			return err
		}
	}
	switch c.State {
	case step.Stopped:
		_, err := must(ctx, "", "systemctl", "stop", c.Unit)
		return err
	case step.Frozen:
		_, err := must(ctx, "", "systemctl", "freeze", c.Unit)
		return err
	}
	// Some drills make a unit unable to start, so the exit code proves nothing; the new invocation id does.
	if _, err := tool(ctx, "", "systemctl", "restart", c.Unit); err != nil {
		return err
	}
	now, err := showUnit(ctx, c.Unit)
	if err == nil && now.Invocation == u.before.Invocation && now.runs() {
		err = fmt.Errorf("%s was not restarted", c.Unit)
	}
	return err
}

func (u *unitPlace) compare(ctx context.Context) (Observed, error) {
	if u.Rebooted {
		return Observed{}, nil // drop-ins in /run and states do not survive a boot; and it is too early to start units
	}
	f, file := u.dropIn(), Observed{}
	if f != nil {
		found, err := f.compare(ctx)
		if err != nil || found.State == Foreign {
			return found, err
		}
		file = found
	}
	now, err := showUnit(ctx, u.Change.Unit.Unit)
	if err != nil {
		return Observed{}, err
	}
	if file.State != Injected && !u.keeps(now) {
		return Observed{}, nil
	}
	by, err := u.halted(ctx, now)
	switch {
	case err != nil || by == "":
		return Observed{State: Injected, Text: file.Text}, err
	case by == "stopped" && file.State == Before: // none of our changes is left, and no undo is going to start it
		return Observed{Text: "somebody has stopped " + u.Change.Unit.Unit}, nil
	}
	return Observed{Foreign, "somebody has " + by + " " + u.Change.Unit.Unit}, nil
}

// keeps reports whether the unit itself is in the changed state. A process that removed the drop-in may have died
// before it restarted the unit, which then still runs with it.
func (u *unitPlace) keeps(now unitState) bool {
	c := u.Change.Unit
	restarted := c.DropIn != "" && !u.Undone && now.Invocation != u.before.Invocation
	return restarted || (c.State == step.Stopped && !now.runs()) || (c.State == step.Frozen && now.Freezer == "frozen")
}

// halted returns how another process keeps a unit from running that an undo would start: "stopped", "masked", or
// "" if none does. An interrupted undo has stopped the unit itself; a shutdown, or a stopped dependency, has
// stopped it as well.
func (u *unitPlace) halted(ctx context.Context, now unitState) (string, error) {
	switch {
	case now.Load == "masked" && u.Change.Unit.State != step.Frozen:
		return "masked", nil
	case u.Change.Unit.State != step.Restarted || u.Change.Unit.Yields || u.Undoing || !now.stopped():
		return "", nil
	}
	if down, err := goingDown(ctx); down || err != nil {
		return "", err
	}
	if up, err := upOf(ctx, u.before.Needs); len(up) < len(u.before.Needs) || err != nil {
		return "", err
	}
	return "stopped", nil
}

func (u *unitPlace) undo(ctx context.Context) error {
	c := u.Change.Unit
	if f := u.dropIn(); f != nil {
		if found, err := f.compare(ctx); err != nil {
			return err
		} else if found.State == Injected {
			if err := f.undo(ctx); err != nil {
				return err
			}
		}
		if _, err := must(ctx, "", "systemctl", "daemon-reload"); err != nil {
			return err
		}
	}
	var errs []error
	switch c.State {
	case step.Frozen:
		if now, err := showUnit(ctx, c.Unit); err != nil || now.Freezer != "frozen" {
			return err
		}
		_, err := must(ctx, "", "systemctl", "thaw", c.Unit)
		return err
	case step.Stopped:
		if now, err := showUnit(ctx, c.Unit); err != nil || now.runs() {
			return err // another process started it: that is its earlier state
		}
	}
	// A unit that was made to fail may have reached its start limit.
	if now, err := showUnit(ctx, c.Unit); err == nil && now.Active == "failed" {
		_, err := must(ctx, "", "systemctl", "reset-failed", c.Unit)
		errs = append(errs, err)
	}
	verb := "restart"
	if c.State == step.Stopped {
		verb = "start"
	}
	_, err := must(ctx, "", "systemctl", verb, c.Unit)
	return errors.Join(append(errs, err)...)
}
