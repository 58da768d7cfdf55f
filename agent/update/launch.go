package update

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Host is the environment that Launch depends on.
type Host struct {
	Boot     string
	Keys     wire.Verifiers
	Material string // changes when an operator installs other keys, another token or other endpoints
	// Check returns why a build's file cannot be started: it is missing, has another digest, or is not a program
	// for this machine. It is not called for the package's own file.
	Check func(sha string) error
}

// Start says which build to run.
type Start struct {
	Build   wire.Build
	Package bool   // it is the installed program: do not exec
	Hold    string // run the package and take no work until an operator bootstraps this node again
	Trial   bool   // a build that has not converged: start it only if the journal is on the disk
}

// Launch decides which build runs. self is the installed program, which systemd starts and which calls Launch
// first, so that a build that cannot start cannot prevent its own rollback. The caller must write the returned
// journal before the start.
func Launch(j Journal, self wire.Build, host Host, now time.Time) (Journal, Start) {
	l := launch{j: j.clone(), host: host, now: now}
	l.installed(self)
	start := l.choose()
	l.j.Run = &Run{Boot: host.Boot, SHA256: start.Build.SHA256}
	return l.j, start
}

type launch struct {
	j    Journal
	host Host
	now  time.Time
}

// installed lets a package that an operator replaced win over every committed build.
func (l *launch) installed(self wire.Build) {
	was := l.j.Package
	l.j.Package = self
	if was.SHA256 == "" || was.SHA256 == self.SHA256 {
		return
	}
	l.j.Current = nil
	if r := l.j.Rollout; r != nil && (!wire.RolloutFinal(r.State) || r.State == wire.RolloutRebootstrap) {
		r.State, r.Result, r.RollbackHint = wire.RolloutFailed, "an operator installed another package",
			"none: the operator's package runs"
	}
	l.j.addEvidence(l.now, diag.RecBootRecovery, "run the package", "another package was installed: "+self.Version)
}

func (l *launch) choose() Start {
	r := l.j.Rollout
	switch {
	case r != nil && r.State == wire.RolloutRebootstrap && r.HeldUnder == l.host.Material:
		return Start{Build: l.j.Package, Package: true, Hold: r.Result}
	case r != nil && r.State == wire.RolloutRebootstrap:
		r.State, r.Result, r.RollbackHint = wire.RolloutFailed, r.Result+"; an operator has acted since",
			"none: what the operator left here runs"
		l.j.addEvidence(l.now, diag.RecBootRecovery, "take work again",
			"keys, token or endpoints are others than when this node was put on hold")
	case r != nil && (r.State == wire.RolloutActivating || r.State == wire.RolloutSoaking):
		return l.trial(r)
	}
	cur := l.j.Current
	if cur == nil || cur.SHA256 == l.j.Package.SHA256 {
		return Start{Build: l.j.Package, Package: true}
	}
	if err := l.trusted(cur.Build, &cur.Task); err != nil {
		l.j.Current = nil
		l.j.addEvidence(l.now, diag.RecSelfUpdateReverted, "run the package", fmt.Sprintf("build %s: %v", cur.Version, err))
		return Start{Build: l.j.Package, Package: true}
	}
	return Start{Build: cur.Build}
}

// trial starts the target of a rollout, or reverts to the prior build.
func (l *launch) trial(r *Rollout) Start {
	if last := l.j.Run; last != nil && last.SHA256 == r.Target.SHA256 && last.Boot == l.host.Boot && !last.Orderly {
		r.Attempts++
		l.j.addEvidence(l.now, diag.RecBootRecovery, "count a crash",
			"the target crashed, "+strconv.Itoa(r.Attempts)+" of "+strconv.Itoa(MaxCrashes))
	}
	switch err := l.trusted(r.Target, &r.Task); {
	case r.Condemned != "":
		return l.revert(r.Condemned)
	case r.Attempts >= MaxCrashes:
		return l.revert("the target ended by itself " + strconv.Itoa(r.Attempts) + " times")
	case err != nil:
		return l.revert(err.Error())
	}
	return Start{Build: r.Target, Package: r.Target.SHA256 == l.j.Package.SHA256, Trial: true}
}

// revert reverts to the prior build, if its digest and its verifier set are still trusted.
func (l *launch) revert(why string) Start {
	r := l.j.Rollout
	if r.Target.SHA256 != r.Prior.SHA256 {
		l.j.Skip = append(l.j.Skip, Skipped{Build: r.Target, Why: why, At: l.now.UTC()})
		if n := len(l.j.Skip) - maxSkipped; n > 0 {
			l.j.Skip = l.j.Skip[n:]
		}
	}
	err := l.trusted(r.Prior, r.PriorTask)
	if err == nil && !share(r.PriorKeys, l.host.Keys) {
		err = errors.New("its verifier set is not trusted any more")
	}
	if err != nil {
		r.State, r.HeldUnder = wire.RolloutRebootstrap, l.host.Material
		r.Result, r.RollbackHint = why+"; and the prior build: "+err.Error(),
			"operator rebootstrap: install a package, or apply an audited bundle"
		l.j.addEvidence(l.now, diag.RecSelfUpdateReverted, "stop", "the prior build is not trusted: rebootstrap this node")
		return Start{Build: l.j.Package, Package: true, Hold: r.Result}
	}
	r.State, r.Result, r.RollbackHint = wire.RolloutReverted, why, "done: the prior build runs"
	l.j.addEvidence(l.now, diag.RecSelfUpdateReverted, "revert", why)
	return Start{Build: r.Prior, Package: r.PriorTask == nil || r.Prior.SHA256 == l.j.Package.SHA256}
}

// trusted returns why a build must not be started, nil if it may: its file is the signed one, and the signing key
// is in force. A build that the operator installed needs no signature from the platform.
func (l *launch) trusted(b wire.Build, task *wire.Task) error {
	if b.SHA256 == l.j.Package.SHA256 {
		return nil
	}
	if task == nil {
		return errors.New("the package that ran before is not installed any more")
	}
	if err := l.host.Keys.Verify(task); err != nil {
		return fmt.Errorf("no trusted key signed its task: %w", err)
	}
	return l.host.Check(b.SHA256)
}

// share reports whether two verifier sets have a key in common.
func share(a, b wire.Verifiers) bool {
	for id, key := range a {
		if key.Equal(b[id]) {
			return true
		}
	}
	return false
}
