package hops

import (
	"fmt"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
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

// restartRows are about an agent that runs right now, and was restarted automatically since its last manual start. The
// restarts must be dated, by a second reading or by the journal: systemd's counter has no times. A loop that goes on is
// a failure. One that may have ended is a warning without a signal, since the agent runs.
var restartRows = rows{
	{
		when: func(j judged) bool {
			u := j.f.Unit
			return u == nil || u.Restarts == nil || *u.Restarts == 0 || u.UptimeS == nil
		},
	},
	{when: startedJustNow},
	{when: func(j judged) bool { return (restarts(j) >= loopRestarts && replaced(j) != "") || youngOfLoop(j) },
		then: fails(diag.SigProcessDown, "%s is in a crash loop: %s; up for %s s%s%s", target, restartHistory, uptime,
			replaced, func(j judged) string { return fewOpenFiles(j.f.Unit) }),
		direct: true},
	{when: func(j judged) bool { return loopedLately(j) || youngUndated(j) },
		then: warns("", "%s was %s; up for %s s now", target, restartHistory, uptime)},
}

func uptime(j judged) string { return strconv.FormatInt(*j.f.Unit.UptimeS, 10) }

// startedJustNow reports whether the agent was started manually during the walk: its counter began again.
func startedJustNow(j judged) bool {
	l := j.f.Unit.Later
	return l != nil && l.Restarts != nil && *l.Restarts < *j.f.Unit.Restarts
}

// restarts returns how often systemd restarted the agent, by the newest reading.
func restarts(j judged) int {
	if l := j.f.Unit.Later; l != nil && l.Restarts != nil {
		return *l.Restarts
	}
	return *j.f.Unit.Restarts
}

// replaced describes how the agent's process ended during the walk, "" if it did not.
func replaced(j judged) string {
	u, l := j.f.Unit, j.f.Unit.Later
	switch {
	case l == nil:
		return ""
	case restarts(j) > *u.Restarts && l.PID != 0:
		return fmt.Sprintf("; process %d was replaced by %d within %d ms of this walk", u.PID, l.PID, l.AfterMS)
	case restarts(j) > *u.Restarts, l.Active == "activating" && l.Sub == "auto-restart":
		return fmt.Sprintf("; process %d ended within %d ms of this walk", u.PID, l.AfterMS)
	}
	return ""
}

func restartHistory(j judged) string {
	r := j.f.Unit.Recent
	if r == nil {
		return fmt.Sprintf("restarted %d times by systemd since it was last started by hand", restarts(j))
	}
	text := fmt.Sprintf("restarted %d times by systemd in the last %d minutes", r.Count, r.WithinS/60)
	if r.EveryS != nil {
		text += fmt.Sprintf(", every %d s", *r.EveryS)
	}
	return text
}

// loopedLately reports whether the journal has a loop in its last minutes.
func loopedLately(j judged) bool {
	r := j.f.Unit.Recent
	return r != nil && r.Count >= loopRestarts && r.EveryS != nil
}

// youngOfLoop reports whether the agent has not yet run for twice the time between two crashes.
func youngOfLoop(j judged) bool {
	return loopedLately(j) && *j.f.Unit.UptimeS <= 2*(*j.f.Unit.Recent.EveryS+1)
}

// youngUndated reports whether an agent without a journal was restarted often, and may crash again.
func youngUndated(j judged) bool {
	u := j.f.Unit
	return u.Recent == nil && u.Later != nil && restarts(j) >= loopRestarts && *u.UptimeS <= youngS
}

// fewOpenFiles names the limit of open files that the unit itself sets, if it is lower than usual: an agent that needs
// more exits at its start, and holds no files when it is probed.
func fewOpenFiles(u *diag.UnitFacts) string {
	if u.MaxOpenFiles == nil || *u.MaxOpenFiles >= usualOpenFiles {
		return ""
	}
	return fmt.Sprintf("; its unit allows it %d open files (LimitNOFILE)", *u.MaxOpenFiles)
}
