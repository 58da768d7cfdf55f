package update

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// Host is what Launch has to know of its surroundings.
type Host struct {
	Boot     string
	Keys     wire.Verifiers
	Material string // changes when an operator put something else on this node: keys, token, endpoints
	// Check returns why a build's file cannot be started: missing, another digest, no program for this machine. The
	// package's own is never asked for.
	Check func(sha string) error
}

// Start is what is to run.
type Start struct {
	Build   wire.Build
	Package bool   // it is the installed program itself: stay
	Hold    string // run the package, and take no work: an operator has to bootstrap this node again
	Trial   bool   // a build that has not converged: it must not be started unless the journal is on the disk
}

// Launch decides which build runs. self is the installed program, which is what systemd starts and which calls this
// first: so a build that cannot even start cannot prevent its own rollback. The journal that it gives has to be on the
// disk before the start happens.
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

// installed takes the operator's word over anything that was committed before: a package that was replaced runs.
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
	l.j.note(l.now, diag.RecBootRecovery, "run the package", "another package was installed: "+self.Version)
}

func (l *launch) choose() Start {
	r := l.j.Rollout
	switch {
	case r != nil && r.State == wire.RolloutRebootstrap && r.HeldUnder == l.host.Material:
		return Start{Build: l.j.Package, Package: true, Hold: r.Result}
	case r != nil && r.State == wire.RolloutRebootstrap:
		r.State, r.Result, r.RollbackHint = wire.RolloutFailed, r.Result+"; an operator has acted since",
			"none: what the operator left here runs"
		l.j.note(l.now, diag.RecBootRecovery, "take work again",
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
		l.j.note(l.now, diag.RecSelfUpdateReverted, "run the package", fmt.Sprintf("build %s: %v", cur.Version, err))
		return Start{Build: l.j.Package, Package: true}
	}
	return Start{Build: cur.Build}
}

// trial starts the target of a rollout, or goes back.
func (l *launch) trial(r *Rollout) Start {
	if last := l.j.Run; last != nil && last.SHA256 == r.Target.SHA256 && last.Boot == l.host.Boot && !last.Orderly {
		r.Attempts++
		l.j.note(l.now, diag.RecBootRecovery, "count a crash",
			"the target ended without a word, "+strconv.Itoa(r.Attempts)+" of "+strconv.Itoa(MaxCrashes))
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

// revert goes back to the prior build, as long as its digest and its verifier set are still trusted.
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
		l.j.note(l.now, diag.RecSelfUpdateReverted, "stop", "the prior build is not trusted: rebootstrap this node")
		return Start{Build: l.j.Package, Package: true, Hold: r.Result}
	}
	r.State, r.Result, r.RollbackHint = wire.RolloutReverted, why, "done: the prior build runs"
	l.j.note(l.now, diag.RecSelfUpdateReverted, "revert", why)
	return Start{Build: r.Prior, Package: r.PriorTask == nil || r.Prior.SHA256 == l.j.Package.SHA256}
}

// trusted returns why a build must not be started: nil when its file is what was signed for, and the signature is by a
// key that is in force. What the operator installed needs no signature of the platform's.
func (l *launch) trusted(b wire.Build, task *wire.Task) error {
	if b.SHA256 == l.j.Package.SHA256 {
		return nil
	}
	if task == nil {
		return errors.New("the package that ran before is not installed any more")
	}
	if err := l.host.Keys.Verify(task); err != nil {
		return fmt.Errorf("nobody vouches for it: %w", err)
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
