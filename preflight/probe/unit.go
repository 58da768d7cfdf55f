//go:build linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// unit measures Target, a systemd unit, and its main process. Words: unit_missing, unit_failed, unit_inactive,
// process_stopped (a process that systemd calls active but that cannot answer), unsupported (no systemd), timeout.
func (p *Prober) unit(ctx context.Context, req diag.Request, f *diag.Fact) {
	props, err := p.units.show(ctx, req.Target)
	if err != nil {
		fail(f, "systemctl", systemdWord(err), err)
		return
	}
	u := &diag.UnitFacts{
		Load: props["LoadState"], Active: props["ActiveState"], Sub: props["SubState"], Result: props["Result"],
		Restarts: props.number("NRestarts"), PID: props.pid(), Fragment: props["FragmentPath"],
		DropIns: strings.Fields(props["DropInPaths"]),
	}
	f.Unit = u
	if code := props.number("ExecMainCode"); code != nil && *code != 0 { // 0: it has not ended
		u.ExecStatus = props.number("ExecMainStatus")
	}
	if word, why := unitWord(u); word != diag.OK {
		fail(f, "systemctl", word, errors.New(why))
	}
	if u.PID == 0 {
		return
	}
	stat, err := readStat(u.PID)
	if err != nil {
		f.Detail = joinDetail(f.Detail, "the main process: "+err.Error())
		return
	}
	u.ProcessState, u.UptimeS, u.RSSBytes = stat.state, uptimeOf(stat), rssOf(u.PID)
	u.Listening = listening(u.PID, cgroupPIDs(u.PID, props["ControlGroup"]))
	if frozen(u.PID) {
		u.ProcessState = "frozen"
	}
	if why := stoppedWhy(u.ProcessState); why != "" && f.Failure == diag.OK {
		fail(f, "process", diag.ProcessStopped, fmt.Errorf("process %d %s", u.PID, why))
	}
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
