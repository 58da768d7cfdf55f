package hops

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

const (
	// loopRestarts is how many automatic restarts make a loop. One or two are a crash, a kill or a drill that systemd's
	// restart has repaired.
	loopRestarts = 3
	// usualOpenFiles is the limit of open files if none was set: a lower limit was set on purpose.
	usualOpenFiles = 1024
	// youngS is the uptime in seconds up to which a process may still crash again.
	youngS = 10
)

// judgeRestarts judges an agent that runs right now, and was restarted automatically since its last manual start. The
// restarts must be dated, by a second reading or by the journal: systemd's counter has no times. A loop that goes on is
// a failure. One that may have ended is a warning without a signal, since the agent runs.
func judgeRestarts(f *diag.Fact) *diag.Finding {
	u := f.Unit
	if u == nil || u.Restarts == nil || *u.Restarts == 0 || u.UptimeS == nil {
		return nil
	}
	total, seen := *u.Restarts, ""
	if l := u.Later; l != nil {
		switch {
		case l.Restarts != nil && *l.Restarts < total:
			return nil // it was just started manually
		case l.Restarts != nil && *l.Restarts > total:
			total = *l.Restarts
			seen = fmt.Sprintf("process %d was replaced by %d", u.PID, l.PID)
			if l.PID == 0 {
				seen = fmt.Sprintf("process %d ended", u.PID)
			}
			seen += fmt.Sprintf(" within %d ms of this walk", l.AfterMS)
		case l.Active == "activating" && l.Sub == "auto-restart":
			seen = fmt.Sprintf("process %d ended within %d ms of this walk", u.PID, l.AfterMS)
		}
	}
	history := fmt.Sprintf("restarted %d times by systemd since it was last started by hand", total)
	r := u.Recent
	if r != nil {
		history = fmt.Sprintf("restarted %d times by systemd in the last %d minutes", r.Count, r.WithinS/60)
		if r.EveryS != nil {
			history += fmt.Sprintf(", every %d s", *r.EveryS)
		}
	}
	looping := seen != "" && total >= loopRestarts
	recently := r != nil && r.Count >= loopRestarts && r.EveryS != nil
	if recently && *u.UptimeS <= 2*(*r.EveryS+1) { // it has not yet run for twice the time between two crashes
		looping = true
	}
	var out diag.Finding
	switch {
	case looping:
		out = reading.Fail(diag.SigProcessDown, f, "%s is in a crash loop: %s; up for %d s", f.Request.Target, history,
			*u.UptimeS)
		if seen != "" {
			out.Text += "; " + seen
		}
		out.Text += fewOpenFiles(u)
		out.Direct = true
	case recently, r == nil && u.Later != nil && total >= loopRestarts && *u.UptimeS <= youngS:
		out = reading.Warn("", f, "%s was %s; up for %d s now", f.Request.Target, history, *u.UptimeS)
	default:
		return nil
	}
	return &out
}

// fewOpenFiles names the limit of open files that the unit itself sets, if it is lower than usual: an agent that needs
// more exits at its start, and holds no files when it is probed.
func fewOpenFiles(u *diag.UnitFacts) string {
	if u.MaxOpenFiles == nil || *u.MaxOpenFiles >= usualOpenFiles {
		return ""
	}
	return fmt.Sprintf("; its unit allows it %d open files (LimitNOFILE)", *u.MaxOpenFiles)
}
