package update

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Accepted is a task that Accept has checked completely, so that it may be executed.
type Accepted struct {
	Task    wire.Task
	Payload wire.SelfUpdatePayload
	Keys    wire.Verifiers // the set in force when it was accepted
}

// Begin records an accepted task in state pending. It changes nothing else yet.
func (j Journal) Begin(a Accepted, now time.Time) Journal {
	j = j.clone()
	soak := cmp.Or(a.Payload.SoakSeconds, int64(wire.DefaultSoak/time.Second))
	r := &Rollout{Task: a.Task, PriorKeys: a.Keys, Rollout: wire.Rollout{
		ID: a.Task.ID, CorrelationID: a.Task.CorrelationID, State: wire.RolloutPending, Prior: j.Committed(),
		Target:      wire.Build{Version: a.Payload.Version, SHA256: a.Payload.SHA256},
		SoakSeconds: soak, VerifierSet: a.Keys.Version(), Token: "unchanged",
	}}
	if j.Current != nil {
		r.PriorTask = new(j.Current.Task)
	}
	if keys, err := wire.ParseVerifiers(a.Payload.Verifiers); err == nil && len(keys) > 0 {
		r.VerifierSet = keys.Version()
	}
	if a.Payload.RecoveryToken != "" {
		r.Token = "refreshed"
	}
	r.RollbackHint = "restart the prior build; if it or its verifier set is not trusted by then, rebootstrap the node"
	j.Rollout = r
	j.addEvidence(now, diag.RecSelfUpdateStarted, "accept", "")
	return j
}

// Verified notes that the package is on disk and verified.
func (j Journal) Verified(now time.Time) Journal {
	return j.forward(wire.RolloutVerified, now, diag.RecSelfUpdateStarted, "update",
		"the digest is right; the target is started next")
}

// Activating makes the target the build that the next start runs. Call it only after the notes of Verified were
// reported: the evidence has to precede the restart.
func (j Journal) Activating(now time.Time) Journal {
	return j.forward(wire.RolloutActivating, now, diag.RecSelfUpdateStarted, "activate", "")
}

// Handshake handles the handshake: a heartbeat's response names the build that the platform now attributes to this
// node. Only that commits a rollout.
func (j Journal) Handshake(known, running wire.Build, now time.Time) Journal {
	r := j.Active()
	if r == nil || r.State != wire.RolloutActivating || known.SHA256 != r.Target.SHA256 ||
		running.SHA256 != r.Target.SHA256 {
		return j
	}
	j = j.clone()
	r = j.Rollout
	r.State, r.SoakUntil = wire.RolloutSoaking, now.Add(time.Duration(r.SoakSeconds)*time.Second)
	r.Probes = map[string]wire.ProbeState{wire.ProbeHeartbeat: {Pass: true, At: now}}
	j.addEvidence(now, diag.RecSelfUpdateCommitted, "commit", "the platform names the new version")
	return j
}

// Observe handles a probe's result during the soak. A failure counts only while the heartbeat succeeds: an
// unreachable platform condemns no build.
func (j Journal) Observe(probe string, ok bool, why string, now time.Time) Journal {
	r := j.Active()
	if r == nil || r.State != wire.RolloutSoaking || r.Condemned != "" {
		return j
	}
	was, known := r.Probes[probe]
	if ok && known && was.Pass {
		return j.due(now)
	}
	if !ok && probe != wire.ProbeHeartbeat && !r.Probes[wire.ProbeHeartbeat].Pass {
		return j
	}
	if !ok && probe == wire.ProbeHeartbeat && known && !was.Pass {
		return j
	}
	j = j.clone()
	r = j.Rollout
	is := wire.ProbeState{Pass: ok, At: now}
	if !ok {
		is.Fails = was.Fails + 1
	}
	r.Probes[probe] = is
	if !known || was.Pass != ok {
		j.noteProbe(now, probe, ok, why)
	}
	return j.due(now)
}

// due ends the soak: with a revert if a probe was refused too often while the heartbeat succeeds, and with success
// once its time is over and all probes pass.
func (j Journal) due(now time.Time) Journal {
	r := j.Active()
	if r == nil || r.State != wire.RolloutSoaking || r.Condemned != "" {
		return j
	}
	for _, probe := range [...]string{wire.ProbeTaskWait, wire.ProbeNoop} {
		if n := r.Probes[probe].Fails; n >= maxProbeFails && r.Probes[wire.ProbeHeartbeat].Pass {
			return j.RevertOnStart("probe " + probe + " failed " + strconv.Itoa(n) + " times in a row")
		}
	}
	if now.Before(r.SoakUntil) {
		return j
	}
	for _, probe := range [...]string{wire.ProbeHeartbeat, wire.ProbeTaskWait, wire.ProbeNoop} {
		if !r.Probes[probe].Pass {
			return j
		}
	}
	j = j.clone()
	r = j.Rollout
	r.State, r.Result = wire.RolloutConverged, "all probes hold"
	j.Current = nil
	if r.Target.SHA256 != j.Package.SHA256 {
		j.Current = &Trusted{Build: r.Target, Task: r.Task}
	}
	j.Skip = slices.DeleteFunc(j.Skip, func(s Skipped) bool { return s.SHA256 == r.Target.SHA256 })
	j.addEvidence(now, diag.RecSelfUpdateCommitted, "converge", "")
	return j
}

// Fail ends a rollout whose target was never started.
func (j Journal) Fail(why string, now time.Time) Journal {
	if r := j.Active(); r == nil || (r.State != wire.RolloutPending && r.State != wire.RolloutVerified) {
		return j
	}
	j = j.clone()
	j.Rollout.State, j.Rollout.Result, j.Rollout.RollbackHint = wire.RolloutFailed, why,
		"none needed: the prior build runs on"
	j.addEvidence(now, diag.RecSelfUpdateReverted, "give up", why)
	return j
}

// Merge merges the platform's view of a rollout: a rollout that it has ended is over, and for each probe the newer
// result counts.
func (j Journal) Merge(said wire.Rollout, now time.Time) Journal {
	r := j.Active()
	if r == nil || said.ID != r.ID {
		return j
	}
	if wire.RolloutFinal(said.State) && said.State != wire.RolloutConverged {
		return j.Fail("the platform has ended it: "+said.Result, now)
	}
	if r.State != wire.RolloutSoaking {
		return j
	}
	out := j
	for probe, theirs := range said.Probes {
		if ours, ok := r.Probes[probe]; !ok || theirs.At.After(ours.At) {
			if out.Rollout == r {
				out = j.clone()
			}
			out.Rollout.Probes[probe] = theirs
		}
	}
	return out.due(now)
}

// Ended records that the running process exits in an orderly way, so that the exit does not count as a crash.
func (j Journal) Ended() Journal {
	if j.Run == nil || j.Run.Orderly {
		return j
	}
	j = j.clone()
	j.Run.Orderly = true
	return j
}

// Recovered records how this process found a rollout that a crash interrupted.
func (j Journal) Recovered(text string, now time.Time) Journal {
	j = j.clone()
	j.addEvidence(now, diag.RecBootRecovery, "recover", text)
	return j
}

// forward moves the active rollout to a later state; anything else leaves the journal as it is.
func (j Journal) forward(state string, now time.Time, reason diag.RecordReason, decision, text string) Journal {
	if r := j.Active(); r == nil || wire.RolloutRank(state) <= wire.RolloutRank(r.State) {
		return j
	}
	j = j.clone()
	j.Rollout.State = state
	j.addEvidence(now, reason, decision, text)
	return j
}

// addEvidence adds the evidence of this step. Each note has every field that must be on the disk before a restart: the
// request, the digest, the verifier set, the token's posture, the result so far, and how to go back.
func (j *Journal) addEvidence(now time.Time, reason diag.RecordReason, decision, text string) {
	n := Note{Key: j.ID + "-" + strconv.Itoa(j.Noted), At: now.UTC(), Kind: wire.EventSelfUpdate, Reason: reason,
		Decision: decision, Text: text}
	if reason == diag.RecBootRecovery {
		n.Kind = wire.EventBoot
	}
	if r := j.Rollout; r != nil {
		n.Rollout, n.TaskID, n.Correlation = new(j.clone().Rollout.Rollout), r.ID, r.CorrelationID
		n.Facts = map[string]string{
			"requested_version": r.Target.Version, "package_sha256": r.Target.SHA256, "verifier_set": r.VerifierSet,
			"token": r.Token, "state": r.State, "result": r.Result, "rollback_hint": r.RollbackHint,
			"prior_version": r.Prior.Version, "prior_sha256": r.Prior.SHA256,
		}
		n.Facts["result"] = cmp.Or(n.Facts["result"], "under way")
		if r.Attempts > 0 {
			n.Facts["crashes"] = strconv.Itoa(r.Attempts)
		}
	}
	j.Noted++
	j.Notes = append(j.Notes, n)
}

func (j *Journal) noteProbe(now time.Time, probe string, ok bool, why string) {
	decision := "probe passes"
	if !ok {
		decision = "probe fails"
	}
	j.addEvidence(now, diag.RecSelfUpdateCommitted, decision, why)
	j.Notes[len(j.Notes)-1].Facts["probe"] = probe
}

// RevertOnStart makes the next start revert. It has no effect on a rollout whose target was not started or that is
// over.
func (j Journal) RevertOnStart(why string) Journal {
	r := j.Active()
	if r == nil || r.Condemned != "" || wire.RolloutRank(r.State) < wire.RolloutRank(wire.RolloutActivating) {
		return j
	}
	j = j.clone()
	j.Rollout.Condemned = why
	return j
}
