// Package update decides which build of the agent runs on a node, and keeps that decision where a crash cannot undo it.
//
// Everything is in one journal (Journal), a value of which every step is a pure function: no clock, no network, no
// file. Keeper writes a step down before anything follows from it, in one atomic write together with the evidence of
// it, so that there is never a change without its reason nor a reason without its change. Launch, called at the start
// of the installed program before it does anything else, holds which build is to run.
//
// It mints nothing and relaxes nothing: what a self-update may touch is SelfUpdatePayload, and Boundary names whose the
// rest is. Its callers are package agent and cmd/gpuaas-agent.
package update

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// MaxCrashes is how many ends of its own a build gets before it has converged. A reboot and an orderly stop do not
// count.
const MaxCrashes = 3

// maxProbeFails is how many refusals in a row a probe of the soak may see while the platform answers.
const maxProbeFails = 3

// maxSkipped bounds the skip list; the oldest entry goes first.
const maxSkipped = 16

// Journal is what a node knows of its own builds. It is a value: a step gives the next one and leaves its receiver as
// it was. The installed program may be older than the build that wrote it, and rewrites it without what it does not
// know: a field that comes later must not be needed.
type Journal struct {
	Format  int        `json:"format"`
	ID      string     `json:"id"`                // of this journal, so that its notes cannot be taken for another's
	Package wire.Build `json:"package,omitzero"`  // what the operator installed, as it was last started
	Current *Trusted   `json:"current,omitempty"` // what runs in its place; nil: the package itself
	Rollout *Rollout   `json:"rollout,omitempty"` // the newest, also when it is over
	Skip    []Skipped  `json:"skip,omitempty"`
	Run     *Run       `json:"run,omitempty"`
	Noted   int        `json:"noted"`           // notes so far
	Notes   []Note     `json:"notes,omitempty"` // of the step that made this journal, not reported everywhere yet
}

// Trusted is a build that was not installed by an operator, with the signed task that permits it. The
// signature is verified again at every start.
type Trusted struct {
	wire.Build
	Task wire.Task `json:"task"`
}

// Rollout is a self-update with what only the node has to know of it.
type Rollout struct {
	wire.Rollout
	Task      wire.Task      `json:"task"`                 // the authority, as it was signed
	PriorTask *wire.Task     `json:"prior_task,omitempty"` // of the prior build; nil: it is the package
	PriorKeys wire.Verifiers `json:"prior_keys"`           // the verifier set in force before
	Condemned string         `json:"condemned,omitempty"`  // why the next start goes back
	HeldUnder string         `json:"held_under,omitempty"` // Host.Material when an operator had to be asked for
}

// Skipped is a build that was tried and did not hold.
type Skipped struct {
	wire.Build
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// Run is the process that was started last.
type Run struct {
	Boot    string `json:"boot"` // id of the host's boot
	SHA256  string `json:"sha256"`
	Orderly bool   `json:"orderly,omitempty"` // it announced its end
}

// Note is the evidence of one step: for the diagnostic record, and as an event for the platform.
type Note struct {
	Key         string            `json:"key"` // one per step
	At          time.Time         `json:"at"`
	Kind        string            `json:"kind"` // wire.Event*
	Reason      diag.RecordReason `json:"reason"`
	Decision    string            `json:"decision"`
	Text        string            `json:"text,omitempty"`
	TaskID      string            `json:"task_id,omitempty"`
	Correlation string            `json:"correlation_id,omitempty"`
	Rollout     *wire.Rollout     `json:"rollout,omitempty"`
	Facts       map[string]string `json:"facts,omitempty"`
}

// New gives the journal of a node that has none.
func New(id string) Journal { return Journal{Format: 1, ID: id} }

// clone shares nothing with j that a step changes.
func (j Journal) clone() Journal {
	if j.Rollout != nil {
		r := *j.Rollout
		r.Probes = maps.Clone(r.Probes)
		j.Rollout = &r
	}
	if j.Run != nil {
		j.Run = new(*j.Run)
	}
	j.Skip, j.Notes = slices.Clone(j.Skip), slices.Clone(j.Notes)
	return j
}

// Active returns the rollout in progress, or nil.
func (j Journal) Active() *Rollout {
	if j.Rollout == nil || wire.RolloutFinal(j.Rollout.State) {
		return nil
	}
	return j.Rollout
}

// Committed is the build that runs unless a rollout selects another.
func (j Journal) Committed() wire.Build {
	if j.Current != nil {
		return j.Current.Build
	}
	return j.Package
}

// Hold is why this node takes no work: its prior build is not trusted any more. "" where it may.
func (j Journal) Hold() string {
	if j.Rollout == nil || j.Rollout.State != wire.RolloutRebootstrap {
		return ""
	}
	return j.Rollout.Result
}

// Skipped reports why a build is not tried again, "" where it may be.
func (j Journal) Skipped(sha string) string {
	for _, s := range j.Skip {
		if s.SHA256 == sha {
			return s.Why
		}
	}
	return ""
}

// Report is what the first heartbeat of a process reports.
func (j Journal) Report(running wire.Build, nextSeq uint64) wire.BootReport {
	b := wire.BootReport{Running: running, Package: j.Package, NextSeq: nextSeq, Hold: j.Hold()}
	if j.Rollout != nil {
		b.Rollout = new(j.clone().Rollout.Rollout)
	}
	for _, s := range j.Skip {
		b.Skipped = append(b.Skipped, s.Build)
	}
	return b
}

// Keep names the builds whose files are still needed.
func (j Journal) Keep() []string {
	keep := []string{j.Package.SHA256, j.Committed().SHA256}
	if r := j.Rollout; r != nil {
		keep = append(keep, r.Prior.SHA256)
		if !wire.RolloutFinal(r.State) {
			keep = append(keep, r.Target.SHA256)
		}
	}
	return keep
}
