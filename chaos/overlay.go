package chaos

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// overlay replaces a file's text as readers see it.
type overlay struct {
	path   string // as configured; links are followed
	text   string
	secret bool
}

// unitOverlay describes a unit's changes during a drill: overlays on its files, other variables, another program.
// It is one drop-in and one restart, so that one fault is one change of the unit.
type unitOverlay struct {
	unit     string
	overlays []overlay
	env      []string // KEY=VALUE
	unset    []string
	lines    []string // of [Service]
}

// dropIn returns the changes of o. Files that the drop-in refers to are in /run and are created before it, and
// therefore removed after it: an undo never starts a unit whose overlay has lost its source.
func (c *Case) dropIn(o unitOverlay) ([]step.Change, *step.Refusal) {
	if _, no := c.needUnit(o.unit); no != nil {
		return nil, no
	}
	var changes []step.Change
	service := []string{"[Service]"}
	for i, v := range o.overlays {
		f, no := c.needFile(v.path)
		if no != nil {
			return nil, no
		}
		source := c.runPath(fmt.Sprint(i))
		changes = append(changes,
			step.Change{File: &step.File{Path: source, Text: v.text, Mode: f.Mode, UID: &f.UID, GID: &f.GID,
				Secret: v.secret}})
		service = append(service, "BindReadOnlyPaths="+source+":"+f.Path)
	}
	if len(o.env) > 0 {
		file := c.runPath("env")
		changes = append(changes,
			step.Change{File: &step.File{Path: file, Text: strings.Join(o.env, "\n") + "\n", Mode: 0o600}})
		service = append(service, "EnvironmentFile="+file)
	}
	if len(o.unset) > 0 {
		service = append(service, "UnsetEnvironment="+strings.Join(o.unset, " "))
	}
	service = append(service, o.lines...)
	return append(changes, step.Change{
		Unit: &step.Unit{Unit: o.unit, DropIn: strings.Join(service, "\n") + "\n", State: step.Restarted},
	}), nil
}

// bind covers a file with a text as a unit's main process sees it, without a restart.
func (c *Case) bind(unit string, v overlay) (step.Change, *step.Refusal) {
	u, no := c.needUnit(unit)
	if no != nil {
		return step.Change{}, no
	}
	if !u.Private {
		return step.Change{}, step.Refuse(step.RefusedUnsupported,
			"%s has no mount namespace of its own on %s (PrivateMounts=yes gives it one)", unit, c.Machine.ID)
	}
	f, no := c.needFile(v.path)
	if no != nil {
		return step.Change{}, no
	}
	return step.Change{Mount: &step.Mount{Target: f.Path, Unit: unit, Text: v.text, Mode: f.Mode, Secret: v.secret}}, nil
}

// seen checks the text of a file as a unit sees it.
func (c *Case) seen(name, unit, path string, want ...string) step.Check {
	check := step.Check{Name: name, Unit: unit, Exec: step.Exec{Argv: []string{c.tool("cat"), path}}, Within: verifyWithin}
	if len(want) > 0 {
		check.Has = want[0]
	}
	return check
}

// verifyWithin bounds the time until a change has its effect, including the restart of a unit.
const verifyWithin step.Millis = 10_000
