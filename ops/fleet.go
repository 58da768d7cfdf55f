package ops

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Fleet is the document of every command about all machines.
type Fleet struct {
	diag.Head

	Profile  string         `json:"profile"`
	At       diag.Time      `json:"at"`
	Machines []FleetMachine `json:"machines"`
}

// FleetMachine is what was found and done on one machine.
type FleetMachine struct {
	ID      string         `json:"id"`
	Role    chaos.Role     `json:"role"`
	Host    string         `json:"host"`
	Reached bool           `json:"reached"`
	Error   string         `json:"error,omitempty"` // why not, or which part could not be read
	Drills  []FleetDrill   `json:"drills,omitempty"`
	Residue []step.Residue `json:"residue,omitempty"` // items with this tool's names
	Clean   *bool          `json:"clean,omitempty"`   // absent: not checked
}

// FleetDrill is one drill on one machine.
type FleetDrill struct {
	Run     string         `json:"run"`
	Status  *step.Status   `json:"status,omitempty"` // absent: it cannot be read
	Error   string         `json:"error,omitempty"`
	Residue []step.Residue `json:"residue,omitempty"` // forbidden differences from the state before the drill
	Clean   *bool          `json:"clean,omitempty"`   // compared with the state before the drill; absent: not compared
	Closed  bool           `json:"closed,omitempty"`  // its own traces are gone
	Left    string         `json:"left,omitempty"`    // why something is left that was to be reverted
}

// Kinds of the document.
const (
	KindDrillStatus = "ChaosStatus"
	KindRevert      = "ChaosRevert"
	KindPanic       = "ChaosPanic"
	KindResidue     = "ChaosResidue"
)

// Machines lists a site's machines: nodes first, then the platform's host if the profile has it.
func (s *Site) Machines() []chaos.Machine {
	var all []chaos.Machine
	for _, id := range slices.Sorted(maps.Keys(s.Profile.Nodes)) {
		all = append(all, chaos.Machine{Role: chaos.RoleNode, ID: id, Host: s.Profile.Nodes[id].Host})
	}
	if s.Profile.PlatformSSH.Host != "" {
		all = append(all, chaos.Machine{Role: chaos.RolePlatform, ID: chaos.Platform, Host: s.Profile.PlatformSSH.Host})
	}
	return all
}

// leaveTime bounds the removal of our program from a machine.
const (
	leaveTime          = 5 * time.Second
	leaveTimeCancelled = 500 * time.Millisecond
)

// onMachine works on one machine: it stores its findings in m, and returns why the machine was not reached.
type onMachine func(ctx context.Context, on *remote.Machine, m *FleetMachine) error

// everywhere runs do on every machine at once, then removes what it installed, and closes the connections.
func (s *Site) everywhere(ctx context.Context, kind string, of []chaos.Machine, do onMachine) *Fleet {
	doc := &Fleet{Head: diag.NewHead(kind), Profile: s.Profile.Name, At: diag.At(time.Now()),
		Machines: make([]FleetMachine, len(of))}
	all := s.machines(of)
	defer all.close()
	AtOnce(len(of), 0, func(i int) {
		m, row := of[i], &doc.Machines[i]
		*row = FleetMachine{ID: m.ID, Role: m.Role, Host: m.Host}
		on := all[m.ID]
		if err := do(ctx, on, row); err != nil {
			row.Error = err.Error()
		} else {
			row.Reached = true
		}
		row.add(endRuns(ctx, on))
	})
	return doc
}

// add records an error on a machine that was reached.
func (m *FleetMachine) add(err error) {
	if err != nil && m.Reached {
		m.Error = strings.Trim(m.Error+"; "+err.Error(), "; ")
	}
}

func endRuns(ctx context.Context, on *remote.Machine) error {
	grace := leaveTime
	if ctx.Err() != nil {
		grace = leaveTimeCancelled
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return on.RemoveHelper(ctx)
}

// Drills counts them.
func (d *Fleet) Drills() int {
	n := 0
	for _, m := range d.Machines {
		n += len(m.Drills)
	}
	return n
}

// CleanMachines counts the machines that are known to be clean.
func (d *Fleet) CleanMachines() int {
	n := 0
	for _, m := range d.Machines {
		if m.Reached && m.Error == "" && m.Clean != nil && *m.Clean {
			n++
		}
	}
	return n
}
