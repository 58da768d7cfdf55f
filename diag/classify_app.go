package diag

import "slices"

// The rows of the workload: a completed observation is evidence, a missing one is only missing.

// workloadRuns reports whether the workload was just seen running, by a probe on its node or by the platform's own
// last completed look.
func workloadRuns(v *view) bool {
	return v.passes(HopAppRuntimeLiveness) || slices.ContainsFunc(v.Probes, func(p Probed) bool {
		return p.Hop == HopAppRuntimeLiveness && p.Signal == SigAppCredentialFailing // it runs, and its credential is refused
	})
}

// passes reports whether a hop passed.
func (v *view) passes(id HopID) bool { return passes(v.Probes, id) }

func passes(probes []Probed, id HopID) bool {
	return slices.ContainsFunc(probes, func(p Probed) bool { return p.Hop == id && p.Status == StatusPass })
}

// down reports whether the platform's row calls the workload anything that means "does not run".
func (a *AppEvidence) down() bool {
	switch a.Status {
	case "failed", "stopped", "exited", "unhealthy":
		return true
	}
	return false
}

// observed reports whether the platform's last look at the workload was completed: no later one went missing.
func (a *AppEvidence) observed() bool {
	return !a.ObservedAt.IsZero() && !a.ProbeFailedAt.After(a.ObservedAt)
}

func appStopped(v *view) []string {
	if v.App == nil || !v.App.down() || !v.App.observed() {
		return nil
	}
	return []string{"read model: a completed status probe says that the workload is " + v.App.Status}
}

// whileWorkloadRuns: what a probe sees running is running, whatever was seen before.
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
		return []string{"read model: the last status probe of the workload expired; the status before it is kept"}
	}
	return nil
}

func credentialBad(v *view) []string {
	if v.App == nil || v.App.CredentialBad == nil || !*v.App.CredentialBad {
		return nil
	}
	return []string{"read model: the workload's credential is refused again and again"}
}

func cleanupStuck(v *view) []string {
	if v.App == nil || v.App.State != "release_failed" {
		return nil
	}
	return []string{"read model: the allocation is release_failed, occupancy " + orUntyped(v.App.Occupancy)}
}
