// Package update decides which build of the agent runs on a node, and stores that decision crash-safely.
//
// All state is in one journal (Journal), a value whose steps are pure functions: no clock, no network, no file.
// Keeper writes each step before it takes effect, in one atomic write together with its evidence, so that there is
// never a change without its reason or a reason without its change. Launch, which the installed program calls
// before it does anything else, decides which build runs.
//
// The package creates no credentials and relaxes no check: SelfUpdatePayload lists what a self-update may change,
// and Boundary names the owner of everything else. Its callers are package agent and cmd/gpuaas-agent.
package update

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// MaxCrashes is how many crashes a build may have before it has converged. A reboot and an orderly stop do not
// count.
const MaxCrashes = 3

// maxProbeFails is how many consecutive refusals a probe of the soak may get while the platform answers.
const maxProbeFails = 3

// maxSkipped bounds the skip list; the oldest entry is dropped first.
const maxSkipped = 16

// Journal is what a node knows about its own builds. It is a value: a step returns the next journal and leaves its
// receiver unchanged. The installed program may be older than the build that wrote the journal, and drops fields
// that it does not know, so a newer field must not be required.
type Journal struct {
	Format  int        `json:"format"`
	ID      string     `json:"id"`                // of this journal, to distinguish its notes from another journal's
	Package wire.Build `json:"package,omitzero"`  // the operator's installed build, as last started
	Current *Trusted   `json:"current,omitempty"` // the build that runs instead; nil: the package itself
	Rollout *Rollout   `json:"rollout,omitempty"` // the newest one, even if it is over
	Skip    []Skipped  `json:"skip,omitempty"`
	Run     *Run       `json:"run,omitempty"`
	Noted   int        `json:"noted"`           // notes so far
	Notes   []Note     `json:"notes,omitempty"` // of the step that made this journal, not reported to all sinks yet
}

// Trusted is a build that no operator installed, with the signed task that permits it. The signature is verified
// at every start.
type Trusted struct {
	wire.Build
	Task wire.Task `json:"task"`
}

// Rollout is a self-update, with the fields that only the node needs.
type Rollout struct {
	wire.Rollout
	Task      wire.Task      `json:"task"`                 // the permission, as it was signed
	PriorTask *wire.Task     `json:"prior_task,omitempty"` // of the prior build; nil: that is the package
	PriorKeys wire.Verifiers `json:"prior_keys"`           // the previous verifier set
	Condemned string         `json:"condemned,omitempty"`  // why the next start reverts
	HeldUnder string         `json:"held_under,omitempty"` // Host.Material when an operator was needed
}

// Skipped is a build that was tried and failed.
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

// Note is the evidence of one step, for the diagnostic record and as an event for the platform.
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

// New returns the first journal of a node.
func New(id string) Journal { return Journal{Format: 1, ID: id} }

// clone returns a copy of j that shares nothing that a step changes.
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

// Committed returns the build that runs unless a rollout selects another one.
func (j Journal) Committed() wire.Build {
	if j.Current != nil {
		return j.Current.Build
	}
	return j.Package
}

// HoldReason returns why this node takes no work, "" if it does: its prior build is no longer trusted.
func (j Journal) HoldReason() string {
	if j.Rollout == nil || j.Rollout.State != wire.RolloutRebootstrap {
		return ""
	}
	return j.Rollout.Result
}

// Skipped returns why a build is not tried again, "" if it may be.
func (j Journal) Skipped(sha string) string {
	for _, s := range j.Skip {
		if s.SHA256 == sha {
			return s.Why
		}
	}
	return ""
}

// Report returns the boot report of a process's first heartbeat.
func (j Journal) Report(running wire.Build, nextSeq uint64) wire.BootReport {
	b := wire.BootReport{Running: running, Package: j.Package, NextSeq: nextSeq, Hold: j.HoldReason()}
	if j.Rollout != nil {
		b.Rollout = new(j.clone().Rollout.Rollout)
	}
	for _, s := range j.Skip {
		b.Skipped = append(b.Skipped, s.Build)
	}
	return b
}

// NeededDigests returns the digests of the builds whose files are still needed.
func (j Journal) NeededDigests() []string {
	keep := []string{j.Package.SHA256, j.Committed().SHA256}
	if r := j.Rollout; r != nil {
		keep = append(keep, r.Prior.SHA256)
		if !wire.RolloutFinal(r.State) {
			keep = append(keep, r.Target.SHA256)
		}
	}
	return keep
}
