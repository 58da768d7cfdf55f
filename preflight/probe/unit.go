//go:build linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	// goneLooks is how often systemd is asked about a main process that has ended: it learns of an end within
	// milliseconds.
	goneLooks = 3
	goneWait  = 50 * time.Millisecond
)

// unit measures Target, a systemd unit, and its main process. Words: unit_missing, unit_failed, unit_inactive,
// process_stopped (a process that systemd calls active but that cannot answer), unsupported (no systemd), timeout.
func (p *Prober) unit(ctx context.Context, req diag.Request, f *diag.Fact) {
	for look := 1; ; look++ {
		props, err := p.units.show(ctx, req.Target)
		if err != nil {
			fail(f, "systemctl", systemdWord(err), err)
			return
		}
		f.Unit = unitFacts(props)
		if word, why := unitWord(f.Unit); word != diag.OK {
			fail(f, "systemctl", word, errors.New(why))
		}
		if f.Unit.PID == 0 {
			return
		}
		gone := p.mainProcess(props, f)
		switch {
		case !gone:
			p.settled(ctx, req.Target, f.Unit)
			return
		case f.Failure != diag.OK:
			return
		case look == goneLooks:
			fail(f, "process", diag.ProcessStopped, fmt.Errorf("process %d is gone, and systemd calls the unit %s", f.Unit.PID, f.Unit.Active))
			return
		}
		if !wait(ctx, goneWait) {
			interrupted(ctx, f, "process")
			return
		}
	}
}

func unitFacts(props unitProps) *diag.UnitFacts {
	u := &diag.UnitFacts{
		Load: props["LoadState"], Active: props["ActiveState"], Sub: props["SubState"], Result: props["Result"],
		Restarts: props.number("NRestarts"), PID: props.pid(), Fragment: props["FragmentPath"],
		DropIns: strings.Fields(props["DropInPaths"]),
	}
	if code := props.number("ExecMainCode"); code != nil && *code != 0 { // 0: it has not ended
		u.ExecStatus = props.number("ExecMainStatus")
	}
	return u
}

// mainProcess measures the unit's main process; true when there is none of that number. (One that /proc hides from this
// login is there.)
func (p *Prober) mainProcess(props unitProps, f *diag.Fact) (gone bool) {
	u := f.Unit
	stat, err := readStat(u.PID)
	if err != nil {
		if errors.Is(unix.Kill(u.PID, 0), unix.ESRCH) {
			return true
		}
		f.Detail = joinDetail(f.Detail, "the main process: "+err.Error())
		return false
	}
	u.ProcessState, u.UptimeS, u.RSSBytes = stat.state, uptimeOf(stat), rssOf(u.PID)
	u.Listening = listening(u.PID, cgroupPIDs(u.PID, props["ControlGroup"]))
	if frozen(u.PID) {
		u.ProcessState = "frozen"
	}
	if why := stoppedWhy(u.ProcessState); why != "" && f.Failure == diag.OK {
		fail(f, "process", diag.ProcessStopped, fmt.Errorf("process %d %s", u.PID, why))
	}
	return false
}

// unitWord judges systemd's own states only as far as the words go: is it there, did it fail, does it run.
func unitWord(u *diag.UnitFacts) (diag.Failure, string) {
	last := "result " + u.Result
	switch {
	case u.ExecStatus == nil:
	case u.Result == "signal" || u.Result == "core-dump" || u.Result == "watchdog":
		last += fmt.Sprintf(" %d", *u.ExecStatus)
	default:
		last += fmt.Sprintf(", exit status %d", *u.ExecStatus)
	}
	switch {
	case u.Load == "not-found" && u.Active != "active":
		return diag.UnitMissing, "systemd has no such unit"
	case u.Active == "active" || u.Active == "reloading" || u.Active == "refreshing":
		return diag.OK, ""
	case u.Load == "masked":
		return diag.UnitInactive, "masked"
	case u.Active == "failed":
		return diag.UnitFailed, last
	case u.Load != "loaded":
		return diag.UnitFailed, "the unit's file: " + u.Load
	case u.Active == "activating" && u.Result != "success":
		return diag.UnitFailed, u.Sub + ": " + last
	case u.Result != "" && u.Result != "success":
		return diag.UnitInactive, u.Active + ": " + last
	}
	return diag.UnitInactive, u.Active + " (" + u.Sub + ")"
}

// stoppedWhy says why a process in this state does not answer; "" when it can.
func stoppedWhy(state string) string {
	switch state {
	case "T", "t":
		return "is stopped"
	case "frozen":
		return "is frozen by its control group"
	case "Z", "X":
		return "has ended and is not reaped"
	}
	return ""
}
