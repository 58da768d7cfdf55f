package classify

import "github.com/gpuaas/gpuaasctl/diag"
import "slices"

// The rows of the workload: a completed observation is evidence, a missing one is only missing.

// workloadRuns reports whether the workload was last seen running: by a probe on its node, or by the platform's last
// completed check.
func workloadRuns(v *view) bool {
	return v.passes(diag.HopAppRuntimeLiveness) || slices.ContainsFunc(v.Probes, func(p Probed) bool {
		// the workload runs, but its credential is refused
		return p.Hop == diag.HopAppRuntimeLiveness && p.Signal == diag.SigAppCredentialFailing
	})
}

// passes reports whether a hop passed.
func (v *view) passes(id diag.HopID) bool { return passes(v.Probes, id) }

// fails reports whether a hop failed.
func (v *view) fails(id diag.HopID) bool {
	return slices.ContainsFunc(v.Probes, func(p Probed) bool { return p.Hop == id && p.Status == diag.StatusFail })
}

func passes(probes []Probed, id diag.HopID) bool {
	return slices.ContainsFunc(probes, func(p Probed) bool { return p.Hop == id && p.Status == diag.StatusPass })
}

// down reports whether the platform's status of the workload means that it does not run.
func (a *AppEvidence) down() bool {
	return slices.Contains([]string{"failed", "stopped", "exited", "unhealthy"}, a.Status)
}

// observed reports whether the platform's last check of the workload was completed: no later one went missing.
func (a *AppEvidence) observed() bool {
	return !a.ObservedAt.IsZero() && !a.ProbeFailedAt.After(a.ObservedAt)
}

func appStopped(v *view) []string {
	if v.App == nil || !v.App.down() || !v.App.observed() {
		return nil
	}
	return []string{"read model: a completed status probe says that the workload is " + v.App.Status}
}

// whileWorkloadRuns overrides older evidence: a workload that a probe now sees running is running.
func whileWorkloadRuns(v *view) string {
	if workloadRuns(v) {
		return "superseded: a probe on the node sees the workload running"
	}
	return ""
}

func observationStale(v *view) []string {
	switch {
	case v.App == nil:
	case v.App.down() && workloadRuns(v):
		return []string{"read model: the workload is called " + v.App.Status + ", and a probe on the node sees it running"}
	case v.App.down() && !v.App.observed():
		return []string{"read model: the workload is called " + v.App.Status + " without a completed status probe"}
	case v.App.ProbeFailedAt.After(v.App.ObservedAt):
		return []string{"read model: the last status probe of the workload gave no result; the status before it is kept"}
	}
	return nil
}

func credentialBad(v *view) []string {
	if v.App == nil || v.App.CredentialBad == nil || !*v.App.CredentialBad {
		return nil
	}
	return []string{"read model: the workload's credential is refused repeatedly"}
}

func cleanupStuck(v *view) []string {
	if v.App == nil || v.App.State != "release_failed" {
		return nil
	}
	return []string{"read model: the allocation is release_failed, occupancy " + orUntyped(v.App.Occupancy)}
}

// past explains why an entry does not describe the present: when it was written, and what happened later. Renderers
// turn it into a sentence.
type past struct {
	words string // text before the time of the entry; "": the entry does describe the present
	entry *diag.RecordEntry
	then  string            // text after the time of the entry
	later *diag.RecordEntry // entry whose time ends the sentence; nil: nothing happened later
}

const wroteIt = "superseded: the node wrote it at "

func (p past) String() string {
	text := append(appendStamp(append(make([]byte, 0, 192), p.words...), p.entry.At), p.then...)
	if p.later != nil {
		text = appendStamp(text, p.later.At)
	}
	return string(text)
}

// outdated explains why entry i, whose reason is code, does not describe the present. accepted describes the evidence
// that the node's certificate is now accepted, or is "".
func outdated(
	entries []*diag.RecordEntry,
	i int,
	code diag.ReasonCode,
	boot string,
	points [len(diag.Points)]diag.CheckPoint,
	accepted string,
) past {
	n := entries[i]
	if n.Reason == diag.RecClonedIdentity {
		for _, later := range entries[i+1:] {
			switch {
			case later.Reason == diag.RecRecoveryEnrolled:
				return past{wroteIt, n, ", and got a new identity at ", later}
			case Released(later):
				return past{wroteIt, n, ", and was accepted again at ", later}
			}
		}
		return past{}
	}
	if n.BootID != boot {
		return past{wroteIt, n, ", in an earlier boot", nil}
	}
	for _, later := range slices.Backward(entries[i+1:]) {
		switch {
		case contact(later) && (n.About != "task_result" || later.About == "task_result"):
			return past{wroteIt, n, ", and had good contact at ", later}
		case later.About == n.About && exchange(n) && later.Reason != n.Reason:
			return past{"superseded: the node wrote " + string(later.Reason) + " at ", later, "", nil}
		}
	}
	if begun := beganAgain(entries, i); begun != nil {
		return past{wroteIt, n, ", and has not again since its agent began again at ", begun}
	}
	if accepted != "" && (n.About == "identity" || identityReason(code)) {
		return past{wroteIt, n, ", and " + accepted, nil}
	}
	if p := denies[n.About]; p != "" {
		for _, c := range points {
			if c.ID == p && c.Status == diag.MarkPass {
				return past{wroteIt, n, ", and " + string(c.ID) + " passes: " + c.Text, nil}
			}
		}
	}
	return past{}
}

// asOf explains why an entry that outdated keeps is history nevertheless: the walk passes, or the entry is about a
// result that the node could not post, the node had good contact later, and the walk found no lost result. A cloned
// identity never becomes history here.
func asOf(e *Evidence, entries []*diag.RecordEntry, i int, code diag.ReasonCode) past {
	n := entries[i]
	switch {
	case code == diag.ReasonClonedIdentity:
	case e.Passed:
		return past{"as of ", n, ": this walk passes, and did not look at it again", nil}
	case n.About == "task_result" && len(e.Probes) > 0 && slices.ContainsFunc(entries[i+1:], contact):
		return past{"as of ", n, ": the node had good contact since, and this walk saw no result that was not taken",
			nil}
	}
	return past{}
}

// beganAgain returns the agent's start after entry i, if the record has no contact entries at all (they are pinned, so
// the ring alone lacks them). A condition that still holds is recorded again soon after a start.
func beganAgain(entries []*diag.RecordEntry, i int) *diag.RecordEntry {
	if slices.ContainsFunc(
		entries,
		func(e *diag.RecordEntry) bool { return contact(e) && e.Decision != DecisionDelivered },
	) {
		return nil
	}
	for k := len(entries) - 1; k > i; k-- {
		if e := entries[k]; e.Reason == diag.RecProcessAlive && e.Decision == "start" {
			return e
		}
	}
	return nil
}
