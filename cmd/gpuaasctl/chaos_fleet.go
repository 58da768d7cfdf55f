package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/profile"
)

// fleetOptions say which machines a command looks after. It needs a profile and its SSH keys, and nothing of the
// platform: no token, and no drill that is known here.
type fleetOptions struct {
	profile  profileFlags
	only     []string
	libexec  string
	deadline time.Duration
	output   string
}

func (o *fleetOptions) flags(a *app, cmd *cobra.Command, deadline time.Duration) {
	f := cmd.Flags()
	f.SortFlags = false
	o.profile.addName(a, cmd)
	f.StringSliceVar(&o.only, "node-id", nil, "only this `NODE`, or \"platform\"; may be given more than once (default: every machine of the profile)")
	f.DurationVar(&o.deadline, "deadline", deadline, "end after this `TIME`")
	f.StringVar(&o.libexec, "libexec", "", "`FOLDER` of gpuaas-fault, which is put on machines that lack it (default: beside this program)")
	formatFlag(cmd, &o.output, formatTable, formatTable, formatJSON)
	completeFunc(cmd, "node-id", func() []string { return append(a.nodeIDs(o.profile.name), chaos.Platform) })
}

// fleet is every machine of a profile.
type fleet struct {
	profile  string
	machines []chaos.Machine
	hands    hands
}

// fleet reads the profile; nothing is connected yet.
func (a *app) fleet(cmd *cobra.Command, o *fleetOptions) (*fleet, error) {
	p, _, err := o.profile.load(a, cmd)
	if err != nil {
		return nil, err
	}
	if err := checkDeadline(o.deadline); err != nil {
		return nil, &usageError{err: err, command: cmd.CommandPath()}
	}
	all := fleetOf(p)
	for _, id := range o.only {
		if !slices.ContainsFunc(all, func(m chaos.Machine) bool { return m.ID == id }) {
			return nil, usagef("--node-id: the profile has no machine %q (it has %s)", id, oneOf(profile.NearestOf(id, idsOf(all))))
		}
	}
	if len(o.only) > 0 {
		all = slices.DeleteFunc(all, func(m chaos.Machine) bool { return !slices.Contains(o.only, m.ID) })
	}
	if len(all) == 0 {
		return nil, usagef("profile %q has no machines: neither nodes nor platform_ssh.host", p.Name)
	}
	j := &job{libexec: o.libexec, profileArg: cmp.Or(o.profile.name, a.env(profile.EnvProfile))}
	j.Env.Profile = p.WithDefaults()
	return &fleet{profile: p.Name, machines: all, hands: j.hands(all)}, nil
}

// fleetOf lists a profile's machines, nodes first.
func fleetOf(p profile.Profile) []chaos.Machine {
	var all []chaos.Machine
	for _, id := range slices.Sorted(maps.Keys(p.Nodes)) {
		all = append(all, chaos.Machine{Role: chaos.RoleNode, ID: id, Host: p.Nodes[id].Host})
	}
	if p.PlatformSSH.Host != "" {
		all = append(all, chaos.Machine{Role: chaos.RolePlatform, ID: chaos.Platform, Host: p.PlatformSSH.Host})
	}
	return all
}

func idsOf(all []chaos.Machine) []string {
	ids := make([]string, len(all))
	for i, m := range all {
		ids[i] = m.ID
	}
	return ids
}

// fleetReport is the document of every command about all machines.
type fleetReport struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Profile    string         `json:"profile"`
	At         diag.Time      `json:"at"`
	Machines   []fleetMachine `json:"machines"`
}

// fleetMachine is what was found on one machine, and done there.
type fleetMachine struct {
	ID      string         `json:"id"`
	Role    chaos.Role     `json:"role"`
	Host    string         `json:"host"`
	Reached bool           `json:"reached"`
	Error   string         `json:"error,omitempty"` // why not, or what of it could not be had
	Drills  []fleetDrill   `json:"drills,omitempty"`
	Residue []step.Residue `json:"residue,omitempty"` // what bears this tool's name
	Clean   *bool          `json:"clean,omitempty"`   // absent: it was not looked at
}

// fleetDrill is one drill on one machine.
type fleetDrill struct {
	Run     string         `json:"run"`
	Status  *step.Status   `json:"status,omitempty"` // absent: it cannot be read
	Error   string         `json:"error,omitempty"`
	Residue []step.Residue `json:"residue,omitempty"` // differences from before that are not allowed
	Clean   *bool          `json:"clean,omitempty"`   // compared with before; absent: it was not
	Closed  bool           `json:"closed,omitempty"`  // its own traces are gone
	Left    string         `json:"left,omitempty"`    // why something of it is left, where it was to be undone
}

// fleetLeave is how long taking our program off a machine may take.
const (
	fleetLeave          = 5 * time.Second
	fleetLeaveCancelled = 500 * time.Millisecond
)

// fleetDo is what is done on one machine: it says what it found in m, and returns why the machine was not reached.
type fleetDo func(ctx context.Context, on *remote.Machine, m *fleetMachine) error

// everywhere does the same on every machine that o names, and writes the document of it.
func (a *app) everywhere(cmd *cobra.Command, o *fleetOptions, kind string, do fleetDo, table func(*fleetReport, int) string) error {
	doc, err := a.fleetReport(cmd, o, kind, do)
	if err != nil {
		return err
	}
	return a.finish(cmd, doc, o.output, table)
}

// fleetReport is what came of doing the same on every machine that o names, within o's deadline. The error is about the command line.
func (a *app) fleetReport(cmd *cobra.Command, o *fleetOptions, kind string, do fleetDo) (*fleetReport, error) {
	f, err := a.fleet(cmd, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.deadline)
	defer cancel()
	outlive()
	return f.each(ctx, kind, do), nil
}

// each does the same on every machine at once, takes away what was put there, and ends the connections.
func (f *fleet) each(ctx context.Context, kind string, do fleetDo) *fleetReport {
	doc := &fleetReport{APIVersion: diag.APIVersion, Kind: kind, Profile: f.profile, At: diag.At(time.Now()), Machines: make([]fleetMachine, len(f.machines))}
	var wg sync.WaitGroup
	for i, m := range f.machines {
		row := &doc.Machines[i]
		*row = fleetMachine{ID: m.ID, Role: m.Role, Host: m.Host}
		wg.Go(func() {
			on := f.hands[m.ID]
			if err := do(ctx, on, row); err != nil {
				row.Error = err.Error()
			} else {
				row.Reached = true
			}
			row.add(leave(ctx, on))
		})
	}
	wg.Wait()
	f.hands.close()
	return doc
}

// add notes what did not work on a machine that was reached.
func (m *fleetMachine) add(err error) {
	if err != nil && m.Reached {
		m.Error = strings.Trim(m.Error+"; "+err.Error(), "; ")
	}
}

func leave(ctx context.Context, on *remote.Machine) error {
	grace := fleetLeave
	if ctx.Err() != nil {
		grace = fleetLeaveCancelled
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return on.Leave(ctx)
}

// code is the exit code of the document: what is left on a machine wins over what could not be had.
func (d *fleetReport) code(ctx context.Context) int {
	code := exitPass
	for _, m := range d.Machines {
		for _, x := range m.Drills {
			if x.Left != "" {
				return exitResidue
			}
		}
		if m.Clean != nil && !*m.Clean {
			return exitResidue
		}
		if !m.Reached || m.Error != "" {
			code = exitInconclusive
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return exitInterrupted
	}
	return code
}

// finish writes the document and gives its exit code.
func (a *app) finish(cmd *cobra.Command, doc *fleetReport, output string, table func(*fleetReport, int) string) error {
	var err error
	if output == formatJSON {
		err = a.writeJSON(doc)
	} else {
		limit := width(a.stdout)
		err = a.write([]byte(wrapLines(table(doc, limit), limit)))
	}
	return a.ended(doc.code(cmd.Context()), err)
}

// unreached lists the machines that could not be asked, or not wholly.
func (d *fleetReport) unreached() string {
	var b strings.Builder
	for _, m := range d.Machines {
		switch {
		case !m.Reached:
			fmt.Fprintf(&b, "not reached: %s (%s): %s\n", m.ID, m.Host, m.Error)
		case m.Error != "":
			fmt.Fprintf(&b, "%s: %s\n", m.ID, m.Error)
		}
	}
	return b.String()
}

// wrapLines folds the lines that are no table's for a terminal that is limit wide; 0 for a pipe, which gets them whole.
func wrapLines(text string, limit int) string {
	if limit <= len(below) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) <= limit+1 { // with its end
			b.WriteString(line)
			continue
		}
		for i, part := range render.Wrap(line, limit-len(below)) {
			if i > 0 {
				b.WriteString(below)
			}
			b.WriteString(part + "\n")
		}
	}
	return b.String()
}
