package chaos

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// overlay is a text that is to be read in place of a file's own.
type overlay struct {
	path   string // as it is known; links are followed
	text   string
	secret bool
}

// unitOverlay is what a unit is started with while a drill runs: files laid over its own, other variables, another
// program. It is one drop-in and one restart, whatever is in it, so that one fault is one change of the unit.
type unitOverlay struct {
	unit     string
	overlays []overlay
	env      []string // KEY=VALUE
	unset    []string
	lines    []string // of [Service]
}

// dropIn makes the changes. Files that the drop-in names lie in /run and are made before it, so that they are removed
// after it: an undo never starts a unit whose overlay has no source.
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
			step.Change{File: &step.File{Path: source, Text: v.text, Mode: f.Mode, UID: owner(f.UID), GID: owner(f.GID),
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

// bind lays a text over a file as the main process of a unit sees it, while it runs on.
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

// owner is an id as a change has it.
func owner(id int) *int { return &id }

// seen asks for the text of a file as a unit sees it.
func (c *Case) seen(name, unit, path string, want ...string) step.Check {
	check := step.Check{Name: name, Unit: unit, Exec: step.Exec{Argv: []string{c.tool("cat"), path}}, Within: verifyWithin}
	if len(want) > 0 {
		check.Has = want[0]
	}
	return check
}

// verifyWithin is how long a change may take to have its effect: a unit is restarted in it.
const verifyWithin step.Millis = 10_000
