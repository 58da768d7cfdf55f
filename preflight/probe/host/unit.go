//go:build linux

package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

const (
	// goneLooks is how often systemd is queried about a main process that has ended: systemd notices the end within
	// milliseconds.
	goneLooks = 3
	goneWait  = 50 * time.Millisecond
	// startLooks is how often systemd is queried about a main process that is not yet the unit's program: only after
	// the exec does systemd know whether the program can be executed.
	startLooks = 24
)

// unit measures Target, a systemd unit, and its main process. Failures: unit_missing, unit_failed, unit_inactive,
// process_stopped (a process that systemd reports as active but that cannot answer), unsupported (no systemd), timeout.
func (p *Prober) unit(ctx context.Context, req diag.Request, f *diag.Fact) {
	for look := 1; ; look++ {
		props, err := p.units.show(ctx, req.Target)
		if err != nil {
			measure.Fail(f, "systemctl", systemdWord(err), err)
			return
		}
		f.Unit = unitFacts(props)
		if word, why := unitWord(f.Unit); word != diag.OK {
			measure.Fail(f, "systemctl", word, errors.New(why))
		}
		if f.Unit.PID == 0 {
			return
		}
		is := p.mainProcess(ctx, props, f)
		switch {
		case is == mainThere, is == mainStarts && (f.Failure != diag.OK || look >= startLooks):
			p.settled(ctx, req.Target, f.Unit)
			return
		case f.Failure != diag.OK:
			return
		case is == mainGone && look >= goneLooks:
			measure.Fail(f, "process", diag.ProcessStopped,
				fmt.Errorf("process %d is gone, and systemd calls the unit %s", f.Unit.PID, f.Unit.Active))
			return
		}
		if !sleep.For(ctx, goneWait) {
			measure.Interrupted(ctx, f, "process")
			return
		}
	}
}

func unitFacts(props host.Unit) *diag.UnitFacts {
	u := &diag.UnitFacts{
		Load: props["LoadState"], Active: props["ActiveState"], Sub: props["SubState"], Result: props["Result"],
		Restarts: number(props, "NRestarts"), PID: props.PID(), Fragment: props["FragmentPath"],
		DropIns: strings.Fields(props["DropInPaths"]), MaxOpenFiles: number(props, "LimitNOFILE"),
	}
	if code := number(props, "ExecMainCode"); code != nil && *code != 0 { // 0: it has not ended
		u.ExecStatus = number(props, "ExecMainStatus")
	}
	return u
}

// mainState is the state of a unit's main process. A process that /proc hides from this login counts as present.
type mainState int

const (
	mainThere  mainState = iota
	mainStarts           // a fork of systemd, which has not executed the unit's program yet
	mainGone
)

// mainProcess measures the unit's main process.
func (p *Prober) mainProcess(ctx context.Context, props host.Unit, f *diag.Fact) mainState {
	u := f.Unit
	stat, err := host.This.Stat(u.PID)
	if err != nil {
		if errors.Is(unix.Kill(u.PID, 0), unix.ESRCH) {
			return mainGone
		}
		f.Detail = measure.JoinDetail(f.Detail, "the main process: "+err.Error())
		return mainThere
	}
	u.ProcessState, u.UptimeS, u.RSSBytes = stat.State, uptimeOf(stat), rssOf(u.PID)
	u.Listening = listening(u.PID, withoutTenants(u.PID, cgroupPIDs(u.PID, props["ControlGroup"])))
	if frozen(u.PID) {
		u.ProcessState = "frozen"
	}
	u.Confined, u.Short = p.confinement(ctx, u.PID, props), unitShortage(u.PID, props)
	if why := stoppedWhy(u.ProcessState); why != "" && f.Failure == diag.OK {
		measure.Fail(f, "process", diag.ProcessStopped, fmt.Errorf("process %d %s", u.PID, why))
	}
	if strings.HasPrefix(stat.Name, "(") && strings.HasSuffix(stat.Name, ")") { // systemd's name for it until the exec
		return mainStarts
	}
	return mainThere
}

// unitWord judges systemd's states only as far as the failure words go: does the unit exist, did it fail, does it run.
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
		return diag.UnitMissing, cmp.Or(missingWords[u.Sub], "systemd has no such unit")
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

// stoppedWhy returns why a process in this state does not answer; "" if it can.
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

const (
	// restartWindow is how far back automatic restarts are counted. A process that has run for longer has settled.
	restartWindow = 10 * time.Minute
	// youngProcess is the uptime below which an automatically restarted unit is checked twice.
	youngProcess = 10 * time.Second
	// secondLook is the delay of the second check: one second is the usual RestartSec=, and systemd's default is
	// shorter.
	secondLook = 1200 * time.Millisecond
	// restartLines bounds how much of the journal is read: a unit that restarts every second has 600 lines.
	restartLines = 700
	// restartMessage is SD_MESSAGE_UNIT_RESTART_SCHEDULED: one entry for every automatic restart.
	restartMessage = "5eb03494b6584870a536b337290809b3"
)

// settled measures whether the unit stays up, if systemd has recently restarted it: its restarts by the journal, and a
// second check. NRestarts alone does not show when they happened, since it counts from the last manual start.
func (p *Prober) settled(ctx context.Context, unit string, u *diag.UnitFacts) {
	if u.Restarts == nil || *u.Restarts == 0 || u.UptimeS == nil || *u.UptimeS > int64(restartWindow.Seconds()) {
		return
	}
	u.Recent = recentRestarts(ctx, unit, *u.Restarts)
	if *u.UptimeS > int64(youngProcess.Seconds()) {
		return
	}
	within := secondLook
	if end, ok := ctx.Deadline(); ok { // leave time for the answer
		within = min(within, time.Until(end)/3)
	}
	began := time.Now()
	if within <= 0 || !sleep.For(ctx, within) {
		return
	}
	props, err := p.units.show(ctx, unit)
	if err != nil {
		return
	}
	u.Later = &diag.UnitLook{
		AfterMS: time.Since(began).Milliseconds(), Active: props["ActiveState"], Sub: props["SubState"], PID: props.PID(),
		Restarts: number(props, "NRestarts"),
	}
}

// recentRestarts counts the unit's automatic restarts since its last manual start, at most most, within restartWindow.
// Only entries of systemd itself count: every user that can log can send the other fields. It returns nil if the
// journal cannot be read, or has no restarts: then it is not this unit's journal, since there was one.
func recentRestarts(ctx context.Context, unit string, most int) *diag.UnitRestarts {
	since := strconv.FormatInt(time.Now().Add(-restartWindow).Unix(), 10)
	s, err := command(ctx, "journalctl", "_PID=1", "MESSAGE_ID="+restartMessage, "UNIT="+unit, "--since=@"+since,
		"--output=json", "--output-fields=UNIT", "--lines="+strconv.Itoa(restartLines), "--reverse", "--no-pager")
	if err != nil || s.Code != 0 {
		return nil
	}
	var at []int64 // microseconds since 1970, newest first
	for line := range bytes.Lines(s.Out) {
		var entry struct {
			At string `json:"__REALTIME_TIMESTAMP"`
		}
		if bounded.Unmarshal(line, &entry, bounded.Small()) != nil {
			continue
		}
		if us, err := strconv.ParseInt(entry.At, 10, 64); err == nil && len(at) < most {
			at = append(at, us)
		}
	}
	if len(at) == 0 {
		return nil
	}
	r := &diag.UnitRestarts{WithinS: int64(restartWindow.Seconds()), Count: len(at)}
	if n := len(at); n > 1 {
		r.EveryS = new(int64(math.Round(float64(at[0]-at[n-1]) / float64(n-1) / 1e6)))
	}
	return r
}
